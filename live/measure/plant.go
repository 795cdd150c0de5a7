package measure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/live/devcluster"
	"github.com/headrace-dev/headrace/live/kube"
)

const (
	// gpusPerNode is what a node offers.
	gpusPerNode = 8
	// writers create and delete at the same time.
	writers = 32
	// namespace is where all pods are.
	namespace = metav1.NamespaceDefault
)

// plant is a cluster with idle nodes.
type plant struct {
	dir        string
	kubeconfig string
	client     kubernetes.Interface
	// server is the process of the API server, with etcd and the controllers in it;
	// nil when the cluster is someone else's.
	server *process
	nodes  int
}

// newPlant starts a cluster and gives it nodes.
func newPlant(ctx context.Context, dir string, nodes int) (*plant, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	output, input := io.Pipe()
	server, err := start(roleCluster, dir, input, "--bare", "--until-eof", "--dir", filepath.Join(dir, "cluster"))
	if err != nil {
		return nil, err
	}
	p := &plant{dir: dir, server: server, nodes: nodes}
	ready := make(chan string, 1)
	go func() { // ends with the process, whose end closes the pipe
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if path, found := strings.CutPrefix(lines.Text(), devcluster.ReadyWord); found {
				ready <- path
			}
		}
	}()
	go func() { // ends with the process
		<-server.done
		input.Close()
	}()
	select {
	case p.kubeconfig = <-ready:
	case <-server.done:
		return nil, server.failure()
	case <-ctx.Done():
		p.stop()
		return nil, ctx.Err()
	}
	if p.client, err = kube.Connect(p.kubeconfig); err == nil {
		err = p.createNodes(ctx)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *plant) stop() {
	if p.server != nil {
		p.server.stop()
	}
}

// createNodes creates ready nodes. Nobody plays them: they stay ready, because
// nobody says otherwise. It waits until there is a service account for pods.
func (p *plant) createNodes(ctx context.Context) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("110"), kube.DefaultGPU: *resource.NewQuantity(gpusPerNode, resource.DecimalSI),
	}
	err := each(ctx, p.nodes, func(i int) error {
		name := fmt.Sprintf("measured-%05d", i)
		_, err := p.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{
				Capacity: capacity, Allocatable: capacity,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create node %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		_, err := p.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("look for the service account of pods: %w", err)
		}
		return err == nil, nil
	})
}
