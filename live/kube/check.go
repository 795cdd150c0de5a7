package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// Checker is asked last, before each bind, and about what the books cannot judge:
// volumes. It has one owner, the owner of the books, and is told what they are
// told.
type Checker interface {
	// NodeIs and PodIs take in what a node or a pod is; nil for one that is gone.
	NodeIs(name string, n *corev1.Node)
	PodIs(key string, p *corev1.Pod)
	// Barred returns the nodes that the volumes of a pod rule out and, when these
	// are all there are, why.
	Barred(key string) (nodes []string, why string)
	// Reserve charges a pod to a node or says why it must not go there. What it
	// returns makes ready what the pod needs there before its bind, beside the
	// owner; nil when that is nothing.
	Reserve(key, node string) (prepare func(context.Context) error, err error)
	// Release takes back what was reserved for a pod that was not bound.
	Release(key string)
}

// Around is what a Checker may use of the cluster.
type Around struct {
	Client kubernetes.Interface
	// Informers are started by the scheduler, which waits for all of them. Those of
	// nodes and pods are its own.
	Informers informers.SharedInformerFactory
	// Stirred is to be called when something that the answers depend on has
	// changed, apart from nodes and pods. It does not wait.
	Stirred func()
}

// errNotChecked stands before what the checker says.
var errNotChecked = errors.New("the last check refuses")

// tell passes on what an informer told.
func tell(c Checker, m *message) {
	switch {
	case m.node != nil:
		c.NodeIs(m.rawNode.Name, m.rawNode)
	case m.nodeGone != "":
		c.NodeIs(m.nodeGone, nil)
	case m.podKey != "":
		c.PodIs(m.podKey, m.rawPod)
	}
}

// vet returns the binds that the checker agrees to. The others are taken back, and with
// them those of groups that would start without enough members. A bind may need another
// one of the same cycle, so the order is left open.
func (o *owner) vet(binds []Bind) []Bind {
	if o.checker == nil {
		return binds
	}
	var agreed []Bind
	broken := make(map[uint64]bool)
	for len(binds) > 0 {
		var refused []Bind
		whys := make(map[string]error)
		for _, b := range binds {
			started := time.Now()
			prepare, err := o.checker.Reserve(b.Key, b.Node)
			o.config.Metrics.checked(time.Since(started))
			if err != nil {
				refused, whys[b.Key] = append(refused, b), err
				continue
			}
			b.prepare = prepare
			agreed = append(agreed, b)
		}
		if len(refused) == len(binds) {
			for i := range refused {
				b := &refused[i]
				why := fmt.Errorf("%w: %w", errNotChecked, whys[b.Key])
				o.config.Log.Warn("a bind was not tried", "pod", b.Key, "node", b.Node, "because", why)
				o.config.Metrics.vetoed()
				o.books.veto(b, why)
				if b.bundle != 0 {
					broken[b.bundle] = true
				}
			}
			return o.books.takeBackMates(agreed, broken, o.checker.Release)
		}
		binds = refused
	}
	return agreed
}
