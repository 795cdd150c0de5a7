package kube

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// group is what is known of a group of pods.
type group struct {
	seen facts.Group
	// entered is what the world was told of it and of its parts, the group first;
	// empty: it does not know the group.
	entered []world.GroupAdded
	refusal string // why the world does not take what was seen; empty: it did
	first   time.Time
	told    why // what was last written to it about why it waits
	toldAt  time.Time
	done    bool // it was written that its pods are bound
}

// why names what keeps the world from knowing the group; empty: nothing.
func (g *group) why() string { return cmp.Or(g.seen.Why, g.refusal) }

// groupSeen takes in what the API server tells of a group.
func (b *books) groupSeen(seen facts.Group) {
	key := seen.Key()
	g := b.groups[key]
	if g != nil && g.seen.UID != seen.UID {
		b.groupGone(key)
		g = nil
	}
	if g == nil {
		g = &group{first: b.now, told: why{sentence: seen.Told}, done: seen.Scheduled}
		b.groups[key] = g
	}
	g.seen = seen
	if b.enterGroup(g) {
		b.retryGroups()
	}
}

// groupGone takes in that a group is deleted.
func (b *books) groupGone(key string) {
	if g := b.groups[key]; g != nil {
		b.forgetGroup(g)
		delete(b.groups, key)
		b.retryGroups()
	}
}

// retryGroups tells the world once more of groups that it did not take, those of a
// circle say: with another group changed, it may.
func (b *books) retryGroups() {
	for _, key := range slices.Sorted(maps.Keys(b.groups)) {
		if g := b.groups[key]; g.refusal != "" {
			b.enterGroup(g)
		}
	}
}

// enterGroup makes the world agree with what was seen of a group and of its parts, all
// of it or nothing. It says whether the world has changed.
func (b *books) enterGroup(g *group) bool {
	g.refusal = ""
	wanted := append([]world.GroupAdded{g.seen.Added}, g.seen.Parts...)
	switch {
	case g.seen.Why != "":
		return b.forgetGroup(g)
	case reflect.DeepEqual(wanted, g.entered):
		return false
	}
	// The last one first: parts go before what they are parts of.
	for i := len(g.entered) - 1; i >= 0; i-- {
		named := func(w world.GroupAdded) bool { return w.Name == g.entered[i].Name }
		if !slices.ContainsFunc(wanted, named) {
			b.must(world.GroupRemoved{Name: g.entered[i].Name})
			g.entered = slices.Delete(g.entered, i, i+1)
		}
	}
	for _, added := range wanted {
		if err := b.enterOne(g, added); err != nil {
			b.forgetGroup(g)
			g.refusal = "what cannot be: " + err.Error()
			b.log.Warn("a group is not taken in, and its pods wait", "group", g.seen.Key(), "because", err)
			return true
		}
	}
	b.stirred = true
	return true
}

// enterOne tells the world of a group or of one of its parts.
func (b *books) enterOne(g *group, added world.GroupAdded) error {
	i := slices.IndexFunc(g.entered, func(e world.GroupAdded) bool { return e.Name == added.Name })
	switch {
	case i < 0:
		if err := b.apply(added); err != nil {
			return err
		}
		g.entered = append(g.entered, added)
	case !reflect.DeepEqual(g.entered[i], added):
		if err := b.apply(added.Terms()); err != nil {
			return err
		}
		g.entered[i] = added
	}
	return nil
}

// forgetGroup takes a group and its parts out of the world. It says whether they were
// there.
func (b *books) forgetGroup(g *group) bool {
	known := len(g.entered) > 0
	for _, e := range slices.Backward(g.entered) {
		b.must(world.GroupRemoved{Name: e.Name})
	}
	g.entered = nil
	b.stirred = b.stirred || known
	return known
}

// mostAbove is how many groups are above each other at most.
const mostAbove = 8

// groupWhy says why the group of a pod, or one above it, is not placed at all.
func (b *books) groupWhy(p *pod) string {
	g := b.groups[p.seen.Group]
	for range mostAbove {
		if g == nil {
			break
		}
		if because := g.why(); because != "" {
			return because
		}
		g = b.groups[g.seen.Added.Parent]
	}
	return ""
}

// GroupRemark is a condition to be written on a group.
type GroupRemark struct {
	Kind            facts.GroupKind
	Namespace, Name string
	Generation      int64
	Scheduled       bool
}

// muster is what the pods of a group come to: one without parts, or one of its parts.
type muster struct {
	bound  int32
	leader string // of those that wait, the first by name
}

// musterAll counts the pods of all groups, by the names that the world has for them.
func (b *books) musterAll() map[string]muster {
	musters := make(map[string]muster, len(b.groups))
	for key, p := range b.pods { // order: numbers are added up, and the least name is kept
		name := p.seen.Added.Group
		if name == "" {
			continue
		}
		m := musters[name]
		switch {
		case p.footing == charged:
			m.bound++
		case p.footing == waiting && p.asOf > 0 && p.asOf == b.turnOf(p).cycle && (m.leader == "" || key < m.leader):
			m.leader = key
		}
		musters[name] = m
	}
	return musters
}

// assembly is what the pods of a tree of groups come to.
type assembly struct {
	muster
	whole bool // as many are bound as start together, in every part that is needed
	parts int  // sub-groups and groups below
}

// assemble adds up a tree of groups.
func (b *books) assemble(id cluster.GroupID, musters map[string]muster) assembly {
	v := b.world.View()
	g := v.Group(id)
	out := assembly{muster: musters[g.Name]}
	out.whole = g.Known && out.bound >= g.Minimum
	wholeParts := int32(0)
	for child := range v.Children(id) {
		part := b.assemble(child, musters)
		out.bound += part.bound
		out.parts += 1 + part.parts
		if part.leader != "" && (out.leader == "" || part.leader < out.leader) {
			out.leader = part.leader
		}
		if part.whole {
			wholeParts++
		}
	}
	out.whole = out.whole && wholeParts >= g.NeedsGroups()
	return out
}

// groupRemarks returns what is to be written on groups: once, that as many pods are
// bound as start together; before that why they wait, as it is written on pods.
func (b *books) groupRemarks() []Remark {
	if len(b.groups) == 0 {
		return nil
	}
	musters := b.musterAll()
	var out []Remark
	for _, key := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[key]
		if len(out) == tellMost || g.done || b.now.Sub(g.first) < b.tellAfter {
			continue
		}
		said, reason := b.groupSaid(g, musters)
		scheduled := reason == reasonScheduled
		if !scheduled && (said.sentence == "" || said.sentence == g.told.sentence || said.kind == g.told.kind && b.now.Sub(g.toldAt) < tellAgain) {
			continue
		}
		g.told, g.toldAt, g.done = said, b.now, scheduled
		out = append(out, Remark{Key: key, UID: g.seen.UID, Reason: reason, Message: said.sentence, Group: &GroupRemark{
			Kind: g.seen.Kind, Namespace: g.seen.Namespace, Name: g.seen.Name, Generation: g.seen.Generation, Scheduled: scheduled,
		}})
	}
	return out
}

// reasonScheduled is the reason of the condition of a group whose pods are bound,
// as kube-scheduler writes it.
const reasonScheduled = "Scheduled"

// groupSaid returns what is to be said of a group, with the reason word of its
// condition.
func (b *books) groupSaid(g *group, musters map[string]muster) (why, string) {
	if because := g.why(); because != "" {
		return unsupported(because), schedulingv1beta1.PodGroupReasonSchedulerError
	}
	id, known := b.world.Group(g.seen.Key())
	if !known {
		return why{}, ""
	}
	minimum, m := g.seen.Added.Minimum, b.assemble(id, musters)
	switch {
	case m.whole && m.parts > 0:
		return why{sentence: fmt.Sprintf("%d pods are bound, with those of %d sub-groups", m.bound, m.parts)}, reasonScheduled
	case m.whole:
		return why{sentence: fmt.Sprintf("%d pods are bound, of %d that start together", m.bound, minimum)}, reasonScheduled
	case m.leader != "":
		return b.pods[m.leader].why, schedulingv1beta1.PodGroupReasonUnschedulable
	case m.bound == 0 && minimum == 0:
		return why{kind: "no members", sentence: "no members have arrived"}, schedulingv1beta1.PodGroupReasonUnschedulable
	case m.bound == 0:
		return why{kind: "no members", sentence: fmt.Sprintf("0 of %d members have arrived", minimum)}, schedulingv1beta1.PodGroupReasonUnschedulable
	}
	return why{}, ""
}

func unsupported(what string) why {
	return why{kind: what, sentence: "asks for " + what + ", which Headrace does not place yet"}
}
