package devcluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube/dra"
)

// creators bounds how many nodes are created at the same time.
const creators = 16

// createNodes creates the nodes; those that are there already stay as they are.
func createNodes(ctx context.Context, client kubernetes.Interface, nodes []trace.Node, o *Options) error {
	shared := o.DRA || o.Parts
	if shared {
		if err := createClass(ctx, client); err != nil {
			return err
		}
	}
	group, until := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range nodes {
		if until.Err() != nil {
			break
		}
		group.Go(func() error { return createNode(until, client, &nodes[i], o) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// createNode creates one node, and tells of its cards where a driver of Dynamic
// Resource Allocation offers them.
func createNode(ctx context.Context, client kubernetes.Interface, n *trace.Node, o *Options) error {
	node, slices := inventory.NodeOf(n), []*resourceapi.ResourceSlice(nil)
	switch {
	case o.Parts:
		node, slices = inventory.PartsNodeOf(n)
	case o.DRA:
		var slice *resourceapi.ResourceSlice
		if node, slice = inventory.DRANodeOf(n); slice != nil {
			slices = append(slices, slice)
		}
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node %s: %w", n.Name, err)
	}
	for _, slice := range slices {
		if _, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the resource slice %s of node %s: %w", slice.Name, n.Name, err)
		}
	}
	return nil
}

// createClass creates the classes of the cards and of their parts.
func createClass(ctx context.Context, client kubernetes.Interface) error {
	for _, class := range []*resourceapi.DeviceClass{dra.ClassOf(""), dra.PartClassOf()} {
		if _, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the device class %s: %w", class.Name, err)
		}
	}
	return nil
}
