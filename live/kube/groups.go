package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// group is what is known of a group of pods.
type group struct {
	seen   facts.Group
	known  bool // to the world
	first  time.Time
	told   why // what was last written to it about why it waits
	toldAt time.Time
	done   bool // it was written that its pods are bound
}

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
	before := g.seen.Added
	g.seen = seen
	switch {
	case seen.Why != "":
		b.forgetGroup(key, g)
	case !g.known:
		b.must(seen.Added)
		g.known, b.stirred = true, true
	case !reflect.DeepEqual(before, seen.Added):
		b.must(seen.Added.Terms())
		b.stirred = true
	}
}

// groupGone takes in that a group is deleted.
func (b *books) groupGone(key string) {
	if g := b.groups[key]; g != nil {
		b.forgetGroup(key, g)
		delete(b.groups, key)
	}
}

func (b *books) forgetGroup(key string, g *group) {
	if g.known {
		b.must(world.GroupRemoved{Name: key})
		g.known, b.stirred = false, true
	}
}

// groupWhy says why the group of a pod is not placed at all.
func (b *books) groupWhy(p *pod) string {
	if g := b.groups[p.entered.Group]; g != nil {
		return g.seen.Why
	}
	return ""
}

// GroupRemark is a condition to be written on a group.
type GroupRemark struct {
	Own             bool
	Namespace, Name string
	Generation      int64
	Scheduled       bool
}

// muster is what the pods of a group come to.
type muster struct {
	bound  int32
	leader string // of those that wait, the first by name
}

// groupRemarks returns what is to be written on groups: once, that as many pods are
// bound as start together; before that why they wait, as it is written on pods.
func (b *books) groupRemarks() []Remark {
	if len(b.groups) == 0 {
		return nil
	}
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
	var out []Remark
	for _, key := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[key]
		if len(out) == tellMost || g.done || b.now.Sub(g.first) < tellAfter {
			continue
		}
		said, reason := b.groupSaid(g, musters[key])
		scheduled := reason == reasonScheduled
		if !scheduled && (said.sentence == "" || said.sentence == g.told.sentence || said.kind == g.told.kind && b.now.Sub(g.toldAt) < tellAgain) {
			continue
		}
		g.told, g.toldAt, g.done = said, b.now, scheduled
		out = append(out, Remark{Key: key, UID: g.seen.UID, Reason: reason, Message: said.sentence, Group: &GroupRemark{
			Own: g.seen.Own, Namespace: g.seen.Namespace, Name: g.seen.Name, Generation: g.seen.Generation, Scheduled: scheduled,
		}})
	}
	return out
}

// reasonScheduled is the reason of the condition of a group whose pods are bound,
// as kube-scheduler writes it.
const reasonScheduled = "Scheduled"

// groupSaid returns what is to be said of a group, with the reason word of its
// condition.
func (b *books) groupSaid(g *group, m muster) (why, string) {
	minimum := g.seen.Added.Minimum
	switch {
	case g.seen.Why != "":
		return unsupported(g.seen.Why), schedulingv1beta1.PodGroupReasonSchedulerError
	case m.bound >= minimum:
		return why{sentence: fmt.Sprintf("%d pods are bound, of %d that start together", m.bound, minimum)}, reasonScheduled
	case m.leader != "":
		return b.pods[m.leader].why, schedulingv1beta1.PodGroupReasonUnschedulable
	case m.bound == 0:
		return why{kind: "no members", sentence: fmt.Sprintf("0 of %d members have arrived", minimum)}, schedulingv1beta1.PodGroupReasonUnschedulable
	}
	return why{}, ""
}

func unsupported(what string) why {
	return why{kind: what, sentence: "asks for " + what + ", which Headrace does not place yet"}
}
