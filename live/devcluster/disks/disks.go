// Package disks lets simulated nodes say which images they have, as kubelets do.
//
//	err := disks.Simulate(ctx, client)
//
// KWOK starts pods without images: they take no time to come here, but they are on the node
// then, and what was used longest ago goes when its disk is nearly full. Playing the nodes
// and pods themselves is left to KWOK.
package disks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

const (
	// tellImages is how often nodes tell of their images, as kubelets do when they changed.
	tellImages = time.Second
	// A kubelet drops images that no pod needs when so many hundredths of its disk are
	// taken, what was used longest ago first, until so many are.
	dropFrom, dropUntil = 85, 80
	// plainSize is that of an image of which no pod says it.
	plainSize = 1 << 30
)

// disks are those of the simulated nodes.
type disks struct {
	client kubernetes.Interface
	sizes  map[string]int64 // of images, as pods have said
	nodes  map[string]*disk
}

// disk is what a node holds.
type disk struct {
	room  int64
	held  []string               // images, what was used longest ago first
	pods  map[types.UID][]string // what those on the node need
	stale bool                   // the node has not told of it
}

// stay is what a pod that starts or ends on a node means for its images.
type stay struct {
	node  string
	pod   types.UID
	needs []string
	sizes map[string]int64
	ends  bool
}

// Simulate lets simulated nodes say which images they have. It ends with the context.
func Simulate(ctx context.Context, client kubernetes.Interface) error {
	all := informers.NewSharedInformerFactory(client, 0)
	uses := make(chan stay)
	send := func(object any, ends bool) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		p, ok := object.(*corev1.Pod)
		if !ok || p.Spec.NodeName == "" || !ends && p.Status.Phase == corev1.PodPending {
			return
		}
		ends = ends || p.Status.Phase != corev1.PodRunning
		select {
		case uses <- stay{node: p.Spec.NodeName, pod: p.UID, needs: facts.ImagesOf(p), sizes: inventory.ImageSizesOf(p), ends: ends}:
		case <-ctx.Done():
		}
	}
	_, err := all.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send(object, false) },
		UpdateFunc: func(_, object any) { send(object, false) },
		DeleteFunc: func(object any) { send(object, true) },
	})
	if err != nil {
		return fmt.Errorf("watch the pods of simulated nodes: %w", err)
	}
	d := disks{client: client, sizes: make(map[string]int64), nodes: make(map[string]*disk)}
	all.StartWithContext(ctx) // what it starts ends with ctx
	// Ends with ctx.
	go d.keep(ctx, uses)
	return nil
}

// keep follows what pods use, and tells of it now and then.
func (d *disks) keep(ctx context.Context, uses <-chan stay) {
	ticker := time.NewTicker(tellImages)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case u := <-uses:
			if err := d.use(ctx, &u); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "The images of a simulated node are not known", "node", u.node)
			}
		case <-ticker.C:
			for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
				if err := d.tell(ctx, name); err != nil && ctx.Err() == nil {
					klog.ErrorS(err, "A simulated node does not tell of its images", "node", name)
				}
			}
		}
	}
}

// use takes in that a pod starts on a node, or ends.
func (d *disks) use(ctx context.Context, u *stay) error {
	maps.Copy(d.sizes, u.sizes)
	n := d.nodes[u.node]
	if n == nil {
		object, err := d.client.CoreV1().Nodes().Get(ctx, u.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n = d.read(object)
		d.nodes[u.node] = n
	}
	_, runs := n.pods[u.pod]
	switch {
	case n.room == 0 || u.ends != runs:
		return nil // not ours, or known already
	case u.ends:
		delete(n.pods, u.pod)
	default:
		n.pods[u.pod] = u.needs
	}
	for _, image := range u.needs {
		at := slices.Index(n.held, image)
		n.stale = n.stale || at < 0
		if at >= 0 {
			n.held = slices.Delete(n.held, at, at+1)
		}
		n.held = append(n.held, image)
	}
	d.collect(n)
	return nil
}

// read is what a node held when the cluster was started again; without room for one that is
// not simulated.
func (d *disks) read(object *corev1.Node) *disk {
	n := &disk{pods: make(map[types.UID][]string)}
	if object.Annotations[inventory.Simulated] != inventory.SimulatedBy {
		return n
	}
	n.room = object.Status.Capacity.StorageEphemeral().Value()
	for i := range object.Status.Images {
		if one := &object.Status.Images[i]; len(one.Names) > 0 {
			n.held = append(n.held, one.Names[0])
			d.sizes[one.Names[0]] = one.SizeBytes
		}
	}
	return n
}

// collect drops what no pod needs, where too much of the disk is taken.
func (d *disks) collect(n *disk) {
	taken, used := int64(0), make(map[string]bool)
	for _, image := range n.held {
		taken += d.size(image)
	}
	if taken <= n.room/100*dropFrom {
		return
	}
	for _, needs := range n.pods { // order: a set is filled
		for _, image := range needs {
			used[image] = true
		}
	}
	n.held = slices.DeleteFunc(n.held, func(image string) bool {
		if used[image] || taken <= n.room/100*dropUntil {
			return false
		}
		taken -= d.size(image)
		n.stale = true
		return true
	})
}

func (d *disks) size(image string) int64 {
	if size := d.sizes[image]; size > 0 {
		return size
	}
	return plainSize
}

// tell writes a node's images to its status, the largest first, as kubelets do.
func (d *disks) tell(ctx context.Context, name string) error {
	n := d.nodes[name]
	if !n.stale {
		return nil
	}
	list := make([]corev1.ContainerImage, 0, len(n.held))
	for _, image := range n.held {
		list = append(list, corev1.ContainerImage{Names: []string{image}, SizeBytes: d.size(image)})
	}
	slices.SortStableFunc(list, func(a, b corev1.ContainerImage) int { return int(min(max(b.SizeBytes-a.SizeBytes, -1), 1)) })
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"images": list[:min(len(list), facts.ListedImages)]}})
	if err != nil {
		return err
	}
	if _, err = d.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); apierrors.IsNotFound(err) {
		delete(d.nodes, name)
		return nil
	} else if err != nil {
		return err
	}
	n.stale = false
	return nil
}
