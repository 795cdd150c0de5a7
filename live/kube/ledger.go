package kube

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// Ledger is what the books say at one instant, for whoever compares it with the
// truth of the API server.
type Ledger struct {
	Nodes []Account `json:"nodes"` // by name
	Pods  []Entry   `json:"pods"`  // by name
	// heard are the versions of all objects as last told by the informers.
	heard versions
}

// Account is what the books say about a node.
type Account struct {
	Node string `json:"node"`
	// Free is what is left, below zero where facts overdrew the node: cpu in
	// thousandths, memory in bytes, else in units.
	// Cards are listed where the kubelet picks them.
	Free map[corev1.ResourceName]int64 `json:"free"`
}

// Entry is what the books say about a pod.
type Entry struct {
	Pod   string `json:"pod"` // namespace/name
	UID   string `json:"uid"`
	State string `json:"state"`
	// Node is where it is charged.
	Node string `json:"node,omitempty"`
	// Reason says why a waiting pod waits, as of the last cycle.
	Reason string `json:"reason,omitempty"`
	// ahead says that the books know of a bind that the informers have not told of.
	ahead bool
}

// The states of a pod in the books.
const (
	stateWaiting = "waiting" // in line
	statePaused  = "paused"  // its bind was refused a moment ago
	stateHeld    = "held"    // it asks for what is not placed yet, or something keeps it away
	stateBinding = "binding" // charged, the bind is in flight
	stateBound   = "bound"   // charged
	// charged to the node that others are to leave for it
	stateReserved = "reserved"
	stateNowhere  = "nowhere" // bound to a node that is not there
	stateLost     = "lost"    // none of these: a fault
)

// versions are the resource versions of objects, by key.
type versions struct{ nodes, pods map[string]string }

func newVersions() versions {
	return versions{nodes: make(map[string]string), pods: make(map[string]string)}
}

// hear notes what an informer told.
func (v *versions) hear(m *message) {
	switch {
	case m.node != nil:
		v.nodes[m.node.Added.Name] = m.version
	case m.nodeGone != "":
		delete(v.nodes, m.nodeGone)
	case m.pod != nil:
		v.pods[m.podKey] = m.version
	case m.podKey != "":
		delete(v.pods, m.podKey)
	}
}

func (v *versions) copied() versions {
	return versions{nodes: maps.Clone(v.nodes), pods: maps.Clone(v.pods)}
}

// ledger lists the books. It reads every row, so it is for reviews and readers.
func (b *books) ledger(gpu corev1.ResourceName) *Ledger {
	v := b.world.View()
	l := &Ledger{Nodes: make([]Account, 0, len(b.nodes)), Pods: make([]Entry, 0, len(b.pods))}
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		id, known := b.world.Node(name)
		if !known {
			continue
		}
		l.Nodes = append(l.Nodes, Account{Node: name, Free: free(v, id, gpu)})
	}
	for _, key := range slices.Sorted(maps.Keys(b.pods)) {
		p := b.pods[key]
		said, _ := b.said(p)
		l.Pods = append(l.Pods, Entry{
			Pod: key, UID: p.seen.UID, State: b.state(p), Node: p.node, Reason: said.sentence,
			ahead: p.footing == placing || p.footing == charged && p.seen.Node == "",
		})
	}
	return l
}

// free lists what pods leave of a node. What is kept for those to come is free still.
func free(v *cluster.View, id cluster.NodeID, gpu corev1.ResourceName) map[corev1.ResourceName]int64 {
	n := v.Node(id)
	left, kept := n.Free, quantity.MilliGPU(0)
	for i := range v.Legacies() {
		if g := &v.Legacies()[i]; g.Heir == cluster.None && g.Place.Node == id {
			left, kept = left.Plus(&v.Shape(g.Place.Shape).Need), kept+g.Place.Milli()
		}
	}
	out := map[corev1.ResourceName]int64{
		corev1.ResourceCPU: left.At(cluster.DimCPU), corev1.ResourceMemory: left.At(cluster.DimMemory), corev1.ResourcePods: left.At(cluster.DimPods),
	}
	for d := cluster.DimEphemeral; d < cluster.DimExtended; d++ {
		if n.Spec.Allocatable.At(d) != 0 || left.At(d) != 0 {
			out[corev1.ResourceName(v.DimName(d))] = left.At(d)
		}
	}
	for i, name := range v.Extended {
		out[corev1.ResourceName(v.Symbols.Text(name))] = left.At(cluster.DimExtended + cluster.Dim(i))
	}
	if n.Spec.Authority == cluster.AuthorityPlugin {
		milli := kept
		for k := range n.Spec.DeviceCount {
			milli += v.DeviceOf(n, k).FreeMilli
		}
		out[gpu] = int64(milli / quantity.WholeGPU)
	}
	return out
}

// state says how a pod stands.
func (b *books) state(p *pod) string {
	switch {
	case p.footing == placing:
		return stateBinding
	case p.footing == charged:
		return stateBound
	case p.footing == holding:
		return stateReserved
	case p.footing == waiting && !b.backsOff(p).None():
		return statePaused
	case p.footing == waiting:
		return stateWaiting
	case p.seen.Standing == facts.Held || p.aside():
		return stateHeld
	case p.seen.Standing == facts.Charged:
		return stateNowhere
	}
	return stateLost
}

// errNotRunning says that nobody owns the books now.
var errNotRunning = errors.New("the scheduler does not run")

// Ledger asks the owner for what the books say now.
func (s *Scheduler) Ledger(ctx context.Context) (*Ledger, error) {
	if !s.Ready() {
		return nil, errNotRunning
	}
	var l *Ledger
	if err := s.ask(ctx, func(o *owner) { l = o.ledger() }); err != nil {
		return nil, errNotRunning
	}
	return l, nil
}

// ledger lists the books together with what was heard last.
func (o *owner) ledger() *Ledger {
	l := o.books.ledger(o.config.GPU)
	l.heard = o.heard.copied()
	return l
}

// LedgerHandler serves the ledger as JSON to callers from this very machine: it
// names pods, which others need not know.
func (s *Scheduler) LedgerHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		host, _, _ := net.SplitHostPort(q.RemoteAddr)
		if !net.ParseIP(host).IsLoopback() {
			http.Error(w, "the ledger is served to this machine only", http.StatusForbidden)
			return
		}
		ctx, cancel := context.WithTimeout(q.Context(), answerWithin)
		defer cancel()
		l, err := s.Ledger(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(l)
	})
}
