package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// Difference is one point in which the ledger is not what the API server says.
type Difference struct {
	Pod  string // namespace/name, when it is about a pod
	Node string // when it is about a node
	Says string
}

func (d Difference) String() string {
	if d.Pod != "" {
		return fmt.Sprintf("pod %s: %s", d.Pod, d.Says)
	}
	return fmt.Sprintf("node %s: %s", d.Node, d.Says)
}

// audit compares one ledger with objects as the API server has them. It works
// from the objects alone: neither facts nor books have a part in what it expects.
//
// An object of which the informers have told another version than the one at
// hand is on its way. It is left out, with the sums of its node, and noted in
// transit: what is still on the same way at the next audit is a difference too.
type audit struct {
	ledger *Ledger
	takes  func(*corev1.Pod) bool // whether a pod is ours to place
	gpu    corev1.ResourceName

	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod
	entries  map[string]*Entry
	accounts map[string]*Account

	blurred map[string]bool // nodes whose sums cannot be judged now
	holds   map[string][]string
	found   []Difference
	transit map[string]string // what is on its way: a name, and between which versions
}

// auditLedger returns where a ledger differs from nodes and pods, and what could
// not be judged because it is on its way.
func auditLedger(l *Ledger, nodes []*corev1.Node, pods []*corev1.Pod, takes func(*corev1.Pod) bool, gpu corev1.ResourceName) ([]Difference, map[string]string) {
	a := audit{
		ledger: l, takes: takes, gpu: gpu,
		nodes: make(map[string]*corev1.Node, len(nodes)), pods: make(map[string]*corev1.Pod, len(pods)),
		entries: make(map[string]*Entry, len(l.Pods)), accounts: make(map[string]*Account, len(l.Nodes)),
		blurred: make(map[string]bool), holds: make(map[string][]string), transit: make(map[string]string),
	}
	for _, n := range nodes {
		a.nodes[n.Name] = n
	}
	for _, p := range pods {
		a.pods[facts.Key(p)] = p
	}
	for i := range l.Pods {
		a.entries[l.Pods[i].Pod] = &l.Pods[i]
	}
	for i := range l.Nodes {
		a.accounts[l.Nodes[i].Node] = &l.Nodes[i]
	}
	a.judgeNodes()
	a.judgePods()
	a.judgeSums()
	slices.SortFunc(a.found, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Pod, y.Pod), cmp.Compare(x.Says, y.Says))
	})
	return a.found, a.transit
}

// settled says whether the books have been told of the version of an object that
// is at hand. For one that is neither at hand nor told of, they have.
func (a *audit) settled(kind, name, told, has string) bool {
	if told == has {
		return true
	}
	a.transit[kind+" "+name] = told + " to " + has
	return false
}

func (a *audit) judgeNodes() {
	for name, n := range a.nodes { // order: found is sorted
		if !a.settled("node", name, a.ledger.heard.nodes[name], n.ResourceVersion) {
			a.blurred[name] = true
		} else if a.accounts[name] == nil {
			a.found = append(a.found, Difference{Node: name, Says: "it is not in the ledger"})
		}
	}
	for name := range a.ledger.heard.nodes { // order: sums up
		if a.nodes[name] == nil {
			a.settled("node", name, a.ledger.heard.nodes[name], "")
			a.blurred[name] = true
		}
	}
	for name := range a.accounts { // order: found is sorted
		if a.nodes[name] == nil && !a.blurred[name] {
			a.found = append(a.found, Difference{Node: name, Says: "it is in the ledger and gone"})
		}
	}
}

func (a *audit) judgePods() {
	for key, p := range a.pods { // order: found is sorted
		e := a.entries[key]
		if !a.settled("pod", key, a.ledger.heard.pods[key], p.ResourceVersion) {
			a.blur(p.Spec.NodeName, e)
			continue
		}
		if says := a.judgePod(p, e); says != "" {
			a.found = append(a.found, Difference{Pod: key, Says: says})
		}
	}
	for key, told := range a.ledger.heard.pods { // order: sums up
		if a.pods[key] == nil {
			a.settled("pod", key, told, "")
			a.blur("", a.entries[key])
		}
	}
	for key, e := range a.entries { // order: found is sorted
		if _, told := a.ledger.heard.pods[key]; a.pods[key] == nil && !told {
			a.found = append(a.found, Difference{Pod: key, Says: "it is in the ledger as " + e.State + " and gone"})
		}
		if e.State == stateBinding || e.State == stateBound || e.State == stateReserved {
			a.holds[e.Node] = append(a.holds[e.Node], key)
		}
	}
}

// blur leaves out the sums of the nodes where a pod may be.
func (a *audit) blur(node string, e *Entry) {
	if node != "" {
		a.blurred[node] = true
	}
	if e != nil && e.Node != "" {
		a.blurred[e.Node] = true
	}
}

// judgePod says in which way the books are wrong about a pod; empty when they are
// right.
func (a *audit) judgePod(p *corev1.Pod, e *Entry) string {
	at, ours := p.Spec.NodeName, a.takes(p) && p.DeletionTimestamp == nil
	finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	switch {
	case finished && e == nil, at == "" && !ours && e == nil:
		return ""
	case e == nil:
		return "it is not in the ledger"
	case e.UID != string(p.UID):
		return fmt.Sprintf("its UID is %s, in the ledger %s", p.UID, e.UID)
	case e.State == stateLost:
		return "it neither waits nor holds anything in the ledger"
	case finished:
		return "it has finished, in the ledger it is " + e.State
	case at == "" && e.ahead:
		a.transit["bind of "+facts.Key(p)] = e.State + " at " + e.Node + " since " + p.ResourceVersion
		return ""
	case at == "" && e.Node != "" && e.State != stateReserved:
		return "it is bound nowhere, in the ledger to " + e.Node
	case at == "" && !ours:
		return "it does not wait for this scheduler, in the ledger it is " + e.State
	case at == "" || a.blurred[at]:
		return ""
	case a.nodes[at] == nil && e.Node != "":
		return fmt.Sprintf("its node %s is gone, in the ledger it is at %s", at, e.Node)
	case a.nodes[at] != nil && (e.Node != at || e.State != stateBound):
		return fmt.Sprintf("it is bound to %s, in the ledger it is %s at %q", at, e.State, e.Node)
	}
	return ""
}

// judgeSums recomputes what every node has left.
func (a *audit) judgeSums() {
	for name, account := range a.accounts { // order: found is sorted
		n := a.nodes[name]
		if n == nil || a.blurred[name] {
			continue
		}
		want := make(map[corev1.ResourceName]int64)
		for resource, amount := range n.Status.Allocatable { // order: each has a place of its own
			want[resource] = units(resource, &amount)
		}
		cards := min(want[a.gpu], facts.MaxDevices)
		want[a.gpu] = cards
		beyond := false // a pod asks for more cards than there are; then it is charged with all there are
		for _, key := range a.holds[name] {
			p := a.pods[key]
			if p == nil {
				continue // told as a difference already
			}
			want[corev1.ResourcePods]--
			requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{
				UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
			})
			asked := requests[a.gpu]
			beyond = beyond || units(a.gpu, &asked) > cards
			for resource, amount := range requests { // order: sums
				if resource != corev1.ResourcePods {
					want[resource] -= units(resource, &amount)
				}
			}
		}
		if _, listed := account.Free[a.gpu]; !listed || beyond {
			delete(want, a.gpu)
		}
		for _, resource := range slices.Sorted(maps.Keys(want)) {
			if got := account.Free[resource]; got != want[resource] {
				a.found = append(a.found, Difference{Node: name, Says: fmt.Sprintf("free %s is %d, in the ledger %d", resource, want[resource], got)})
			}
		}
	}
}
