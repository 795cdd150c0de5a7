package world_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"
	"github.com/headrace-dev/headrace/internal/world"
	"pgregory.net/rapid"
)

// A hood is a town whose pods have relations to each other. It remembers in plain
// words what the world was told, for an oracle that counts from scratch.
type hood struct {
	*town
	told       map[string]*world.PodAdded
	namespaces map[string]map[string]string
}

func newHood(t fatal, from source) *hood {
	h := &hood{town: newTown(t, from), told: make(map[string]*world.PodAdded), namespaces: make(map[string]map[string]string)}
	for range 2 + from.below(5) {
		h.addPlace()
	}
	for range 1 + from.below(8) {
		h.addFriend()
	}
	return h
}

// pick draws one of some words.
func (h *hood) pick(words ...string) string { return words[h.from.below(len(words))] }

// addPlace adds a node that is in a zone, or in none.
func (h *hood) addPlace() {
	h.serial++
	e := nodeKind(h.from.below(4), fmt.Sprintf("node-%d", h.serial))
	if zone := h.pick("z1", "z2", "z3", ""); zone != "" {
		e.Labels["zone"] = zone
	}
	h.must(e)
	h.nodes = append(h.nodes, e.Name)
}

func (h *hood) drawLabels() map[string]string {
	out := make(map[string]string)
	if app := h.pick("a", "b", ""); app != "" {
		out["app"] = app
	}
	if tier := h.pick("x", "", ""); tier != "" {
		out["tier"] = tier
	}
	return out
}

func (h *hood) drawConditions() []world.Requirement {
	all := []world.Requirement{
		{Key: "app", Op: cluster.OpIn, Values: []string{"a"}},
		{Key: "app", Op: cluster.OpIn, Values: []string{"a", "b"}},
		{Key: "app", Op: cluster.OpNotIn, Values: []string{"b"}},
		{Key: "tier", Op: cluster.OpExists},
		{Key: "tier", Op: cluster.OpAbsent},
	}
	var out []world.Requirement
	for range h.from.below(3) {
		out = append(out, all[h.from.below(len(all))])
	}
	return out
}

func (h *hood) drawTerms() []world.PodTerm {
	var out []world.PodTerm
	for range max(0, h.from.below(5)-2) {
		of := world.PodSelector{Labels: h.drawConditions(), Nobody: h.from.below(12) == 0}
		switch h.from.below(5) {
		case 0:
			of.Namespaces = []string{"n1", "n2"}
		case 1:
			of.ByLabels = true
		case 2:
			of.ByLabels, of.Where = true, []world.Requirement{{Key: "team", Op: cluster.OpIn, Values: []string{"t"}}}
		}
		out = append(out, world.PodTerm{Topology: h.pick("zone", "kubernetes.io/hostname"), Of: of})
	}
	return out
}

// addFriend adds a pod with relations to others.
func (h *hood) addFriend() {
	h.serial++
	e := world.PodAdded{
		Name: fmt.Sprintf("pod-%d", h.serial), Request: requests[h.pickRequest()], Priority: int32(h.from.below(3)),
		Namespace: h.pick("n1", "n1", "n2"), Labels: h.drawLabels(), Group: h.pick("", "", "", "", "few", "many"),
	}
	flavour := h.pick("all", "spread", "labels")
	if flavour == "all" {
		e.Near, e.Apart = h.drawTerms(), h.drawTerms()
	}
	if flavour == "all" && h.from.below(3) == 0 {
		e.Ports = append(e.Ports, world.Port{IP: h.pick("", "0.0.0.0", "10.0.0.1", "10.0.0.2"), Protocol: h.pick("", "TCP", "UDP"), Number: int32(80 + h.from.below(2))})
	}
	spreads := 0
	switch flavour {
	case "all":
		spreads = max(0, h.from.below(4)-2)
	case "spread":
		spreads = 1 + h.from.below(2)
	}
	for range spreads {
		e.Spread = append(e.Spread, world.Spread{
			Topology: h.pick("zone", "kubernetes.io/hostname"), MaxSkew: int32(1 + h.from.below(2)), MinDomains: int32(h.from.below(5)),
			Labels: append(h.drawConditions(), world.Requirement{Key: "app", Op: cluster.OpExists}), Nobody: h.from.below(12) == 0, AllNodes: h.from.below(3) == 0, Taints: h.from.below(3) == 0,
		})
	}
	h.must(e)
	h.pods = append(h.pods, e.Name)
	h.told[e.Name] = &e
}

// pickRequest draws a small request, one with a selector, or one with tolerations.
func (h *hood) pickRequest() int { return []int{0, 0, 5, 9, 12, 4}[h.from.below(6)] }

// live draws one event, about relations more often than not.
func (h *hood) live() {
	h.t.Helper()
	switch h.from.below(10) {
	case 0, 1, 2:
		if len(h.pods) < 60 {
			h.addFriend()
		}
	case 3:
		if len(h.nodes) < 12 {
			h.addPlace()
		}
	case 4:
		name, labels := h.pod(), h.drawLabels()
		if h.may(world.PodLabelled{Name: name, Labels: labels}) {
			told := *h.spec(name)
			told.Labels = labels
			h.told[name] = &told
		}
	case 5:
		h.may(world.Leaving{Name: h.pod()})
	case 6:
		name := h.pick("n1", "n2")
		if h.from.below(3) == 0 {
			h.must(world.NamespaceGone{Name: name})
			delete(h.namespaces, name)
			return
		}
		labels := map[string]string{"team": h.pick("t", "u")}
		h.must(world.NamespaceKnown{Name: name, Labels: labels})
		h.namespaces[name] = labels
	default:
		h.step()
	}
}

func (h *hood) spec(name string) *world.PodAdded {
	if told := h.told[name]; told != nil {
		return told
	}
	return new(world.PodAdded)
}

// meets says whether labels meet all conditions.
func meets(list []world.Requirement, labels map[string]string) bool {
	return !slices.ContainsFunc(list, func(r world.Requirement) bool {
		value, has := labels[r.Key]
		switch r.Op {
		case cluster.OpIn:
			return !has || !slices.Contains(r.Values, value)
		case cluster.OpNotIn:
			return has && slices.Contains(r.Values, value)
		case cluster.OpExists:
			return !has
		}
		return has
	})
}

// means says whether a term of a pod in one namespace picks another pod. In doubt
// about a namespace it does when it would keep the pod away.
func (h *hood) means(term *world.PodTerm, owner string, other *world.PodAdded, inDoubt bool) bool {
	of := &term.Of
	named := slices.Contains(of.Namespaces, other.Namespace) || len(of.Namespaces) == 0 && !of.ByLabels && owner == other.Namespace
	if of.ByLabels && !named {
		labels, known := h.namespaces[other.Namespace]
		named = len(of.Where) == 0 || known && meets(of.Where, labels) || !known && inDoubt
	}
	return !of.Nobody && named && meets(of.Labels, other.Labels)
}

func (h *hood) meansAll(e, other *world.PodAdded) bool {
	return !slices.ContainsFunc(e.Near, func(term world.PodTerm) bool { return !h.means(&term, e.Namespace, other, false) })
}

// A placed is a pod that holds a place.
type placed struct {
	*world.PodAdded
	node    cluster.NodeID
	leaving bool
	coming  bool // its room is only reserved
}

func (h *hood) placed(v *cluster.View) []placed {
	var out []placed
	for i := range v.Pods.Len() {
		if p := v.Pod(cluster.PodID(i)); p.Phase.Charged() {
			out = append(out, placed{PodAdded: h.spec(p.Spec.Name), node: p.Placement.Node, leaving: p.Phase == cluster.PhaseTerminating, coming: p.Reserved})
		}
	}
	return out
}

func labelsOf(v *cluster.View, node cluster.NodeID) map[string]string {
	out := make(map[string]string)
	for _, l := range v.Node(node).Spec.Labels {
		out[v.Symbols.Text(l.Key)] = v.Symbols.Text(l.Value)
	}
	return out
}

// allowed says whether relations allow a pod on a node: Kubernetes' rules, read
// off the list of all placed pods.
func (h *hood) allowed(v *cluster.View, pod cluster.PodID, node cluster.NodeID) bool {
	e, all, here := h.spec(v.Pod(pod).Spec.Name), h.placed(v), labelsOf(v, node)
	return h.apartAllowed(v, pod, node) && h.nearAllowed(v, e, all, here) && h.spreadAllowed(v, v.Pod(pod).Spec.Shape, e, all, here)
}

// sharing says whether a node is in the same domain as labels.
func sharing(v *cluster.View, here map[string]string) func(cluster.NodeID, string) bool {
	return func(other cluster.NodeID, topology string) bool {
		theirs, has := labelsOf(v, other)[topology]
		ours, have := here[topology]
		return has && have && theirs == ours
	}
}

// apartAllowed is the part of allowed that does not depend on the order in which
// pods are placed: ports, and anti-affinity both ways.
func (h *hood) apartAllowed(v *cluster.View, pod cluster.PodID, node cluster.NodeID) bool {
	e, all := h.spec(v.Pod(pod).Spec.Name), h.placed(v)
	shares := sharing(v, labelsOf(v, node))
	for _, p := range all {
		if p.node == node && slices.ContainsFunc(e.Ports, func(a world.Port) bool {
			return slices.ContainsFunc(p.Ports, func(b world.Port) bool { return clash(a, b) })
		}) {
			return false
		}
		for _, term := range e.Apart {
			if h.means(&term, e.Namespace, p.PodAdded, true) && shares(p.node, term.Topology) {
				return false
			}
		}
		for _, term := range p.Apart {
			if h.means(&term, p.Namespace, e, true) && shares(p.node, term.Topology) {
				return false
			}
		}
	}
	return true
}

func clash(a, b world.Port) bool {
	anywhere := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	tcp := func(p string) bool { return p == "" || p == "TCP" }
	return a.Number == b.Number && (a.Protocol == b.Protocol || tcp(a.Protocol) && tcp(b.Protocol)) && (a.IP == b.IP || anywhere(a.IP) || anywhere(b.IP))
}

func (h *hood) nearAllowed(v *cluster.View, e *world.PodAdded, all []placed, here map[string]string) bool {
	shares, met, anywhere := sharing(v, here), true, false
	for _, term := range e.Near {
		if _, has := here[term.Topology]; !has {
			return false
		}
		found := false
		for _, p := range all {
			if p.coming || !h.meansAll(e, p.PodAdded) {
				continue
			}
			_, has := labelsOf(v, p.node)[term.Topology]
			anywhere = anywhere || has
			found = found || shares(p.node, term.Topology)
		}
		met = met && found
	}
	return met || !anywhere && h.meansAll(e, e)
}

func (h *hood) spreadAllowed(v *cluster.View, shape cluster.ShapeID, e *world.PodAdded, all []placed, here map[string]string) bool {
	for _, rule := range e.Spread {
		if _, has := here[rule.Topology]; !has {
			return false
		}
		counts := make(map[string]int)
		for i := range v.Nodes.Len() {
			node, labels := cluster.NodeID(i), labelsOf(v, cluster.NodeID(i))
			if !h.counts(v, shape, e, &rule, node, labels) {
				continue
			}
			counts[labels[rule.Topology]] += 0
			for _, p := range all {
				if p.node == node && !p.leaving && len(rule.Labels) > 0 && !rule.Nobody && p.Namespace == e.Namespace && meets(rule.Labels, p.Labels) {
					counts[labels[rule.Topology]]++
				}
			}
		}
		fewest := 0
		if len(counts) >= max(int(rule.MinDomains), 1) {
			fewest = slices.Min(slices.Collect(maps.Values(counts)))
		}
		skew := counts[here[rule.Topology]] - fewest
		if !rule.Nobody && meets(rule.Labels, e.Labels) {
			skew++
		}
		if skew > int(rule.MaxSkew) {
			return false
		}
	}
	return true
}

// counts says whether a node is among those that a spread looks at.
func (h *hood) counts(v *cluster.View, shape cluster.ShapeID, e *world.PodAdded, rule *world.Spread, node cluster.NodeID, labels map[string]string) bool {
	life := v.Node(node).Life
	if life != cluster.LifeReady && life != cluster.LifeDraining && life != cluster.LifeReclaimed {
		return false
	}
	for _, other := range e.Spread {
		if _, has := labels[other.Topology]; !has {
			return false
		}
	}
	s := v.Shape(shape)
	if !rule.AllNodes && len(s.Selector) > 0 && !slices.Contains([]string{"node-1", "node-3", "node-9"}, v.Node(node).Spec.Name) {
		return false // the one selector there is among the requests
	}
	if rule.Taints && len(v.Node(node).Spec.Taints) > 0 {
		return slices.ContainsFunc(s.Tolerations, func(t cluster.Toleration) bool { return v.Symbols.Text(t.Key) == "gpu" })
	}
	return true
}

// judges holds the judge against the oracle for every waiting pod and every node.
func (h *hood) judges(v *cluster.View, when string) {
	h.t.Helper()
	for _, pod := range v.AppendWaiting(nil) {
		for i := range v.Nodes.Len() {
			node, shape := cluster.NodeID(i), v.Pod(pod).Spec.Shape
			if v.Node(node).Life == cluster.LifeOff {
				continue
			}
			alone, why := fit.Check(v, shape, node).None(), fit.CheckPod(v, pod, shape, node)
			if want := alone && h.allowed(v, pod, node); why.None() != want {
				h.t.Fatalf("%s: %+v\non %s %v: judged %q, the oracle says %v", when, h.spec(v.Pod(pod).Spec.Name), v.Node(node).Spec.Name, labelsOf(v, node), why.Describe(v), want)
			}
		}
	}
}

// Whatever happened, the judge of relations agrees with a count from scratch over
// all pods, also within a transaction and after it is rolled back; the plan keeps
// every relation, leaves no pod waiting for one that is kept, and is the same
// whatever the memo.
func TestRelationsAreThoseOfACountFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := drawn{t: t}
		h := newHood(t, from)
		kept := new(engine.Memo)
		all := append(policies(), (&engine.Policy{Name: "packed", Score: packed}).Preempting())
		policy := all[from.below(len(all))]
		for number := range uint64(2 + from.below(5)) {
			for range from.below(8) {
				h.live()
				h.audit()
			}
			h.judges(h.w.View(), "between cycles")
			h.tryOut(h.w.Snapshot())
			now := think(h.w.Snapshot(), decision.Cycle{Number: number, Now: h.at, Seed: 1}, policy)
			now.again(t, new(engine.Memo), "fresh")
			now.again(t, kept, "kept")
			now.again(t, kept, "kept from the same snapshot")
			h.follow(&now)
		}
	})
}

// tryOut places and evicts at random in a transaction, and rolls back.
func (h *hood) tryOut(s *cluster.Snapshot) {
	h.t.Helper()
	txn := cluster.Begin(s)
	before := txn.View().Digest()
	mark := txn.Mark()
	var bonds []*fit.Bonds
	ids := s.AppendWaiting(nil)
	for _, pod := range ids {
		if kin := s.Ties(pod); kin != 0 {
			bonds = append(bonds, fit.NewBonds(txn.View(), kin, s.Pod(pod).Spec.Shape))
		}
	}
	for range h.from.below(6) {
		pod := cluster.PodID(h.from.below(s.Pods.Len()))
		if s.Pod(pod).Phase == cluster.PhaseGone || s.Pod(pod).Spec.Group != cluster.None {
			continue // a part of a group is no sound state
		}
		if h.from.below(2) == 0 {
			_ = txn.Evict(pod) // of one that holds nothing, it is refused
			continue
		}
		node, shape := cluster.NodeID(h.from.below(s.Nodes.Len())), s.Pod(pod).Spec.Shape
		if txn.View().Pod(pod).Phase != cluster.PhaseWaiting || !fit.CheckPod(txn.View(), pod, shape, node).None() {
			continue
		}
		if grants, ok := fit.Grants(txn.View(), txn.View().Shape(shape), txn.View().Node(node)); ok {
			_ = txn.Place(pod, cluster.Placement{Node: node, Shape: shape, Grants: grants}) // refused at a queue's limit
		}
	}
	if err := cluster.Audit(txn.View()); err != nil {
		h.t.Fatalf("in a transaction: %v", err)
	}
	h.judges(txn.View(), "in a transaction")
	h.agree(txn.View(), bonds, ids)
	txn.Rollback(mark)
	if after := txn.View().Digest(); after != before {
		h.t.Fatalf("rolled back to digest %#x, it was %#x", after, before)
	}
	h.agree(txn.View(), bonds, ids)
}

// agree holds bonds that followed the nodes against new ones.
func (h *hood) agree(v *cluster.View, bonds []*fit.Bonds, pods []cluster.PodID) {
	h.t.Helper()
	for _, pod := range pods {
		kin := v.Ties(pod)
		if kin == 0 {
			continue
		}
		followed := bonds[0]
		bonds = bonds[1:]
		followed.FollowAll(v)
		anew := fit.NewBonds(v, kin, v.Pod(pod).Spec.Shape)
		for i := range v.Nodes.Len() {
			if got, want := followed.Check(v, cluster.NodeID(i)), anew.Check(v, cluster.NodeID(i)); got != want {
				h.t.Fatalf("%s on %s: followed %+v, anew %+v", v.Pod(pod).Spec.Name, v.Node(cluster.NodeID(i)).Spec.Name, got, want)
			}
		}
	}
}

// follow carries a plan out step by step: each bind keeps the relations, as of the
// steps before it, and who is left waiting has no place.
func (h *hood) follow(now *thought) {
	h.t.Helper()
	txn := cluster.Begin(now.snapshot)
	v, evicted := txn.View(), false
	var open []*decision.Decision
	bundled := false // binds of a group stand together, not in the order in which they were found
	for i := range now.plan.Decisions {
		d := &now.plan.Decisions[i]
		if d.Action == cluster.ActionEvict {
			evicted = true
			if err := txn.Evict(d.Pod); err != nil {
				h.t.Fatalf("%v", err)
			}
			continue
		}
		if d.Action == cluster.ActionResize {
			evicted = true // room is left, or taken, as by those who go
			err := error(nil)
			if d.Place.Lease != nil {
				err = txn.Lend(d.Pod, d.Place.Lease.Since, d.Place.Lease.Until)
			} else {
				err = txn.Restore(d.Pod, h.at)
			}
			if err != nil {
				h.t.Fatalf("%v", err)
			}
			continue
		}
		open, bundled = append(open, d), bundled || d.Together != 0
	}
	for len(open) > 0 {
		var refused []*decision.Decision
		for _, d := range open {
			if bundled && !h.apartAllowed(v, d.Pod, d.Place.Node) || !bundled && !h.allowed(v, d.Pod, d.Place.Node) {
				refused = append(refused, d)
			} else if err := txn.Place(d.Pod, d.Place); err != nil {
				h.t.Fatalf("%v", err)
			}
		}
		if len(refused) == len(open) {
			d := open[0]
			h.t.Fatalf("policy %s: %s breaks a relation: %+v on %v", now.policy.Name, d.Line(v), h.spec(v.Pod(d.Pod).Spec.Name), labelsOf(v, d.Place.Node))
		}
		open = refused
	}
	for _, w := range now.plan.Waiting {
		if evicted || v.Pod(w.Pod).Spec.Group != cluster.None {
			continue // what evictions free is seen by the next cycle; a group waits for all of it
		}
		shape := v.Pod(w.Pod).Spec.Shape
		for i := range v.Nodes.Len() {
			node := cluster.NodeID(i)
			if w.Why.Code < decision.QueueLimit && v.Node(node).Life != cluster.LifeOff && fit.Check(v, shape, node).None() && h.allowed(v, w.Pod, node) {
				h.t.Fatalf("policy %s: %s waits (%s), yet %s takes it", now.policy.Name, v.Pod(w.Pod).Spec.Name, w.Why.Describe(v), v.Node(node).Spec.Name)
			}
		}
	}
	h.carry(&now.plan)
}
