package kube

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/fit"

	"github.com/headrace-dev/headrace/api/v1alpha1"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// answer works out what there is to say about a pod.
func (q *inquiry) answer() explain.Pod {
	p := &q.pod
	out := explain.Pod{
		Schema: explain.Schema, At: q.now, UID: p.seen.UID, Verdict: verdictOf(p, &q.said),
		WaitedSeconds: q.now.Sub(p.first).Seconds(), History: p.story.past,
	}
	if out.Namespace, out.Name = split(q.key); p.ours() {
		out.Profile, out.Policy = q.turn.Name, q.turn.Policy.Name
	}
	if q.inWorld {
		if id := q.view.Pod(q.id).Spec.Queue; id != cluster.None {
			out.Queues = pathOf(q.queues.tenants(), q.view.Queue(id).Name)
		}
	}
	if out.Deadline = p.late; q.inWorld {
		out.SLAClass = q.view.Symbols.Text(q.view.Pod(q.id).Spec.SLA)
	}
	if out.Verdict != explain.Placed {
		out.Starts, out.Reserved = p.starts, p.reserved
	}
	switch {
	case out.Verdict == explain.Placed:
		out.Place = q.place()
		if p.story.chosen != nil {
			out.WaitedSeconds = p.story.chosen.At.Sub(p.first).Seconds()
		} else {
			out.WaitedSeconds = 0
		}
	case p.footing == waiting && q.held().None():
		q.judge(&out)
	default:
		q.standing(&out)
	}
	return out
}

// judge says why a pod in line has no place.
func (q *inquiry) judge(out *explain.Pod) {
	spec := q.view.Pod(q.id).Spec
	// Of the shapes it would take, the one that comes closest speaks for it.
	shape, survey := spec.Shape, fit.AskPod(q.view, q.id, spec.Shape)
	for i := 1; ; i++ {
		other, more := spec.Asks(i)
		if !more {
			break
		}
		if s := fit.AskPod(q.view, q.id, other); s.Fits > survey.Fits || s.Fits == survey.Fits && s.Reason.Code > survey.Reason.Code {
			shape, survey = other, s
		}
	}
	for i := range survey.Classes {
		out.Classes = append(out.Classes, classOf(q.view, &survey.Classes[i]))
	}
	switch said := q.said.reason; {
	case said != nil && (survey.Fits == 0 || said.Of == 0 || said.Members > 0):
		// What the last cycle said: it knows of more than single nodes.
		if said.Code != survey.Reason.Code {
			survey.Closest = nil
		}
		survey.Reason = *said
	case survey.Fits > 0:
		out.Reason, out.Verdict = &explain.Reason{Code: "Fits", Kind: "fits", Says: "there is room, the next cycle decides"}, explain.Waiting
	default:
		out.Verdict = verdictOf(&q.pod, &why{reason: &survey.Reason})
	}
	if out.Reason == nil {
		r := reasonOf(q.view, &survey.Reason)
		out.Reason, out.Help = &r, fit.Remedies(q.view, shape, &survey)
	}
	line := engine.Line(q.view, q.cycle, q.turn.Policy)
	out.Turn, out.Line = slices.Index(line, q.id)+1, len(line)
}

// held is why a pod is not in line that the world knows: it backs off, or holds room.
func (q *inquiry) held() decision.Reason {
	if !q.inWorld {
		return decision.Reason{}
	}
	return engine.HeldBack(q.view, q.id, q.cycle.Now)
}

// standing says why a pod is not in line.
func (q *inquiry) standing(out *explain.Pod) {
	p, held := &q.pod, q.held()
	r := explain.Reason{Code: "NotInLine", Kind: q.said.kind, Says: q.said.sentence}
	switch {
	case p.footing == holding:
		r = explain.Reason{Code: "Reserved", Kind: "others give way", Says: "it holds room on " + p.node + ", until others have left"}
		if !held.None() {
			r.Says = "it holds room on " + p.node + " and " + held.Tell(q.view, onTheClock)
		}
		out.Help = []string{"the end of the pods that are evicted for it"}
	case p.seen.Gated:
		r = explain.Reason{Code: "Gated", Kind: "scheduling gate", Says: "a scheduling gate holds the pod"}
		out.Help = []string{"its scheduling gates removed, by whoever set them"}
	case p.seen.Standing == facts.Held:
		r.Code = "NotJudged"
		out.Help = []string{"a pod that does not ask for it"}
	case p.seen.Standing == facts.Waiting && p.unordered != "":
		r.Code = "AfterRefused"
		out.Help = []string{"another value of the annotation " + facts.AfterWork + ", of this pod or of those that it names"}
	case p.seen.Standing == facts.Waiting && p.lineless != "":
		r.Code = "NoQueue"
		out.Help = []string{"queue " + p.seen.Queue + " in force, or another value of the label " + v1alpha1.QueueLabel}
	case held.Code == decision.SetAside:
		r = reasonOf(q.view, &held)
		r.Says += ": " + p.refusal
		out.Help, out.Verdict = []string{"a change of the pod, or of the node that refused it last"}, explain.AfterChange
	case held.Code == decision.BackingOff:
		r = explain.Reason{Code: "BindRefused", Kind: refusedKind, Says: "the bind was refused: " + p.refusal}
		out.Help = []string{"it is tried again at " + onTheClock(held.Until)}
	case !held.None():
		r = reasonOf(q.view, &held)
		if out.Help = []string{"what it waits for, come true"}; held.Code == decision.GroupBackingOff {
			out.Help = []string{"its group is tried again at " + onTheClock(held.Until)}
		}
		out.Verdict = verdictOf(p, &why{reason: &held})
	case p.seen.Standing == facts.Charged:
		r = explain.Reason{Code: "NodeUnknown", Kind: "node unknown", Says: "it is bound to " + p.seen.Node + ", a node that is not there"}
	}
	out.Reason = &r
}

// place says where a pod is and what spoke for it.
func (q *inquiry) place() *explain.Place {
	p := &q.pod
	out := &explain.Place{Node: p.node, Binding: p.footing == placing, Chosen: p.story.chosen}
	if !q.inWorld {
		return out
	}
	v := q.view
	row := v.Pod(q.id)
	if !row.Placement.Placed() {
		return out
	}
	n := v.Node(row.Placement.Node)
	for i := range row.Placement.Grants {
		g := &row.Placement.Grants[i]
		d := v.Device(g.Device)
		out.Devices = append(out.Devices, explain.Device{
			Index: int32(g.Device - n.Spec.FirstDevice), Name: d.Spec.Name, Model: v.Symbols.Text(d.Spec.Model),
			Milli: int64(g.Milli), Memory: int64(g.Memory), Profile: v.Symbols.Text(g.Profile),
		})
	}
	if len(out.Devices) > 0 {
		out.Identity = identityNames[row.Placement.Identity]
	}
	return out
}

var identityNames = [...]string{"decided", "presumed", "observed"} // const: names of the identities

func classOf(v *cluster.View, c *fit.ClassSurvey) explain.Class {
	out := explain.Class{Name: className(v, c.Class), Nodes: c.Nodes, Fits: c.Fits}
	for i := range c.Reasons {
		out.Reasons = append(out.Reasons, reasonOf(v, &c.Reasons[i]))
	}
	return out
}

func className(v *cluster.View, id cluster.ClassID) string {
	if id == cluster.None {
		return ""
	}
	return v.Classes.At(int32(id)).Name
}

// ours says whether this scheduler decides, or decided, about the pod.
func (p *pod) ours() bool { return p.seen.Standing != facts.Charged || p.story.chosen != nil }

// answer puts the line in order.
func (q *lineup) answer(limit int) explain.Queue {
	out := explain.Queue{Schema: explain.Schema, At: q.now, Total: len(q.pods), Pods: []explain.Queued{}}
	add := func(key string, turn int) {
		p := q.pods[key]
		entry := explain.Queued{
			Turn: turn, Profile: p.profile, Priority: p.priority, WaitedSeconds: q.now.Sub(p.first).Seconds(),
			Verdict: p.verdict, Kind: p.said.kind, Says: p.said.sentence, Starts: p.starts,
		}
		entry.Namespace, entry.Name = split(key)
		out.Pods = append(out.Pods, entry)
	}
	for i, key := range q.inOrder() {
		if len(out.Pods) == limit {
			return out
		}
		add(key, i+1)
	}
	var aside []string
	for key, p := range q.pods { // order: sorted below
		if !p.inLine {
			aside = append(aside, key)
		}
	}
	slices.Sort(aside)
	for _, key := range aside[:min(len(aside), limit-len(out.Pods))] {
		add(key, 0)
	}
	return out
}

// glance gathers the cluster at a glance.
func glance(v *cluster.View, f *Figures, turns []Profile, limit int) explain.Top {
	out := explain.Top{
		Schema: explain.Schema, At: f.At, Nodes: f.Nodes, NodesReady: f.NodesReady, GPUs: f.GPUs, GPUsHeld: f.GPUsHeld, Models: f.Models,
		Pods:      explain.PodCounts{Waiting: f.Waiting, Paused: f.Paused, Held: f.Held, Binding: f.Placing, Bound: f.Bound},
		Work:      explain.WorkDone{Cycles: f.Cycles, Decisions: f.Decisions, Refused: f.Refused, PerSecond: f.PerSecond},
		Fragments: f.Fragmentation,
	}
	for _, t := range turns {
		out.Profiles = append(out.Profiles, explain.ProfileOf{Name: t.Name, Policy: t.Policy.Name})
	}
	for _, r := range f.Reasons {
		out.Reasons = append(out.Reasons, explain.Reasons{Kind: r.Kind, Count: r.Count, Says: r.Says})
	}
	classes := make(map[cluster.ClassID]*explain.Supply)
	for i := range v.Nodes.Len() {
		n := v.Node(cluster.NodeID(i))
		if n.Life == cluster.LifeOff {
			continue
		}
		row := nodeRow(v, n)
		out.NodeList = append(out.NodeList, row)
		c := classes[n.Spec.Class]
		if c == nil {
			c = &explain.Supply{Name: row.Class}
			classes[n.Spec.Class] = c
		}
		c.Nodes++
		c.GPUs += row.GPUs
		c.Held += row.Held
	}
	for _, c := range classes { // order: sorted below
		out.Classes = append(out.Classes, *c)
	}
	slices.SortFunc(out.Classes, func(a, b explain.Supply) int {
		return cmp.Or(-cmp.Compare(a.GPUs, b.GPUs), strings.Compare(a.Name, b.Name), cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Held, b.Held))
	})
	slices.SortFunc(out.NodeList, func(a, b explain.Node) int { return strings.Compare(a.Name, b.Name) })
	out.NodeList = out.NodeList[:min(len(out.NodeList), limit)]
	return out
}

func nodeRow(v *cluster.View, n *cluster.Node) explain.Node {
	row := explain.Node{
		Name: n.Spec.Name, Class: className(v, n.Spec.Class), Life: n.Life.String(), GPUs: int(n.Spec.DeviceCount), Pods: len(n.Pods),
		CPU: n.Free.At(cluster.DimCPU), Memory: n.Free.At(cluster.DimMemory),
	}
	for k := range n.Spec.DeviceCount {
		if v.DeviceOf(n, k).Holders > 0 {
			row.Held++
		}
	}
	return row
}
