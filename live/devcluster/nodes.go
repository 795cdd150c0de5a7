package devcluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/inventory"
)

// creators bounds how many nodes are created at the same time.
const creators = 16

// createNodes creates the nodes; those that are there already stay as they are.
func createNodes(ctx context.Context, client kubernetes.Interface, nodes []trace.Node) error {
	var (
		group sync.WaitGroup
		next  = make(chan *corev1.Node)
		errs  = make(chan error, creators)
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range creators {
		// Ends when next is closed, or with its first error.
		group.Go(func() {
			for node := range next {
				_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					errs <- fmt.Errorf("create node %s: %w", node.Name, err)
					cancel()
					return
				}
			}
		})
	}
	for i := range nodes {
		select {
		case next <- inventory.NodeOf(&nodes[i]):
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	group.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return context.Cause(ctx)
	}
}
