package measure

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/live/kube"
)

const (
	// binders is how many binds are under way at the same time.
	binders = 32
	// queued bounds the pods that wait for a bind: more than any measurement has.
	queued = 1 << 17
)

// bindsCommand binds pods to nodes in turn, without a thought: as fast as the
// API server takes it.
func bindsCommand() *cobra.Command {
	var kubeconfig, name string
	c := &cobra.Command{
		Use: "binds", SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := kube.Connect(kubeconfig)
			if err != nil {
				return err
			}
			return bindInTurn(c.Context(), client, name)
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "the kubeconfig")
	c.Flags().StringVar(&name, "scheduler-name", "", "bind the pods with this schedulerName")
	return c
}

func bindInTurn(ctx context.Context, client kubernetes.Interface, name string) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("there are no nodes to bind to")
	}
	waiting := metav1.ListOptions{FieldSelector: "spec.nodeName=,spec.schedulerName=" + name}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, waiting)
	if err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	var (
		group sync.WaitGroup
		turn  atomic.Int64
		todo  = make(chan string, queued)
		errs  = make(chan error, binders+1)
	)
	ctx, cancel := context.WithCancel(ctx)
	defer group.Wait()
	defer cancel()
	for range binders {
		// Ends with ctx, or with its first error.
		group.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case pod := <-todo:
					node := nodes.Items[turn.Add(1)%int64(len(nodes.Items))].Name
					if err := bind(ctx, client, pod, node); err != nil && ctx.Err() == nil {
						errs <- err
						return
					}
				}
			}
		})
	}
	for i := range pods.Items {
		todo <- pods.Items[i].Name
	}
	w, err := follow(ctx, client, waiting.FieldSelector, pods.ResourceVersion)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-errs:
			return err
		case e, open := <-w.ResultChan():
			if !open {
				return fmt.Errorf("watch the pods: it cannot go on")
			}
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Added {
				todo <- p.Name
			}
		}
	}
}

func bind(ctx context.Context, client kubernetes.Interface, pod, node string) error {
	err := client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("bind %s to %s: %w", pod, node, err)
	}
	return nil
}
