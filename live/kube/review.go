package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/headrace-dev/headrace/internal/core/decision"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

const (
	// mostDifferences bounds what one audit writes to the log and as events. One
	// fault often shows in many places.
	mostDifferences = 10
	// ledgerDiffers is the reason of the event.
	ledgerDiffers = "LedgerDiffers"
)

// units counts an amount as the ledger does.
func units(name corev1.ResourceName, q *resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return facts.Thousandths(q)
	}
	return facts.Units(q)
}

// auditor compares ledgers with what the informers' stores hold, and raises what
// differs. It runs beside the owner: a review hands it a ledger and goes on.
type auditor struct {
	*Scheduler
	nodes, pods cache.Store
	transit     map[string]string // of the audit before
	raised      map[Difference]bool
}

// auditAll audits the ledgers that come in until the context ends.
func (a *auditor) auditAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-a.ledgers:
			a.raise(ctx, a.compare(ctx, l))
		}
	}
}

// compare returns where a ledger differs from the stores, which are never behind
// it. What was on its way at the audit before and still is was not heard of.
func (a *auditor) compare(ctx context.Context, l *Ledger) []Difference {
	var nodes []*corev1.Node
	for _, object := range a.nodes.List() {
		if n, ok := object.(*corev1.Node); ok {
			nodes = append(nodes, n)
		}
	}
	var pods []*corev1.Pod
	for _, object := range a.pods.List() {
		if p, ok := object.(*corev1.Pod); ok {
			pods = append(pods, p)
		}
	}
	found, transit := auditLedger(l, nodes, pods, a.config.takes, a.config.GPU)
	late, binds := overdue(a.transit, transit)
	a.transit = transit
	return slices.Concat(found, late, a.unheard(ctx, l, binds))
}

// overdue lists what has been on the same way for the whole time between two
// audits, and apart from that the pods whose binds were carried out in that time
// without the informers having told. A bind in flight may take as long as the API
// server lets it.
func overdue(before, now map[string]string) (found []Difference, binds []string) {
	for what, way := range now { // order: raised one by one, each by itself
		if before[what] != way {
			continue
		}
		kind, name, _ := strings.Cut(what, " ")
		says := "the ledger has not followed from version " + way
		switch kind {
		case "node":
			found = append(found, Difference{Node: name, Says: says})
		case "pod":
			found = append(found, Difference{Pod: name, Says: says})
		default:
			if strings.HasPrefix(way, stateBound+" ") {
				binds = append(binds, strings.TrimPrefix(name, "of "))
			}
		}
	}
	slices.Sort(binds)
	return found, binds
}

// unheard asks for pods whose binds the informers have not told of: that is their
// delay, as long as the API server has the pods where the ledger does. Without an
// answer nothing is known.
func (a *auditor) unheard(ctx context.Context, l *Ledger, binds []string) []Difference {
	var out []Difference
	for _, key := range binds[:min(len(binds), mostDifferences)] {
		i, known := slices.BinarySearchFunc(l.Pods, key, func(e Entry, key string) int { return strings.Compare(e.Pod, key) })
		if !known {
			continue
		}
		namespace, name, _ := strings.Cut(key, "/")
		call, cancel := context.WithTimeout(ctx, callTimeout)
		p, err := a.config.Client.CoreV1().Pods(namespace).Get(call, name, metav1.GetOptions{})
		cancel()
		if e := &l.Pods[i]; err == nil && string(p.UID) == e.UID && p.Spec.NodeName != e.Node {
			out = append(out, Difference{Pod: key, Says: fmt.Sprintf("it is bound to %q, in the ledger its bind to %s was carried out", p.Spec.NodeName, e.Node)})
		}
	}
	return out
}

// raise counts an audit that found differences, and logs and writes as events
// those that the audit before had not.
func (a *auditor) raise(ctx context.Context, found []Difference) {
	if len(found) > 0 {
		a.config.Metrics.unbalanced()
	}
	raised := make(map[Difference]bool)
	told := 0
	for _, d := range found {
		raised[d] = true
		if a.raised[d] || told == mostDifferences {
			continue
		}
		told++
		a.config.Log.Error("the ledger is not what the API server says", "difference", d.String(), "in all", len(found))
		if err := a.tell(ctx, d); err != nil && ctx.Err() == nil {
			a.config.Log.Warn("an event was not written", "because", err)
		}
	}
	a.raised = raised
}

// tell writes a difference as an event about its node or pod.
func (a *auditor) tell(ctx context.Context, d Difference) error {
	about := corev1.ObjectReference{Kind: "Node", Name: d.Node, APIVersion: "v1"}
	if d.Pod != "" {
		about.Kind = "Pod"
		about.Namespace, about.Name, _ = strings.Cut(d.Pod, "/")
	}
	err := a.write(ctx, &event{
		regarding: about, kind: corev1.EventTypeWarning, action: "Audit", reason: ledgerDiffers, at: time.Now(),
		note: "Headrace's ledger is not what the API server says: " + d.Says,
	})
	if apierrors.IsNotFound(err) {
		return nil // its namespace is gone
	}
	return err
}

// review does what is due every ten seconds: think about everything, and have the
// books audited, from within and against the stores.
func (o *owner) review(now time.Time) {
	o.lastReview = now
	o.books.believeRuns()
	o.books.believeArrivals()
	o.books.believeStarts()
	o.think(decision.CycleReview)
	if err := o.books.audit(); err != nil {
		o.config.Log.Error("the books do not balance", "because", err)
		o.config.Metrics.unbalanced()
		o.tellOfSelf("BooksUnbalanced", "the ledger differs from its recomputation: "+err.Error())
	}
	o.fragments = o.books.fragmentation()
	select {
	case o.ledgers <- o.ledger():
	default: // the audit before is not done
	}
	o.lookAtQueues()
}
