package scenario

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

func restartStatements() []statement {
	return []statement{
		{"restart", form{usage: "scheduler", least: 1, most: 1}, false, (*interp).restart},
	}
}

// restart throws the world away and builds it anew, as a scheduler that starts does: the
// cluster tells what there is, what was decided and promised is read back, and beliefs
// come out of the last checkpoint. The first two must be what they were.
func (in *interp) restart(c *call) ([]string, error) {
	if c.args[0] != "scheduler" {
		return nil, fmt.Errorf("restart: what %q: want scheduler", c.args[0])
	}
	anew, old := world.New(), in.world
	for _, e := range slices.Concat(in.facts(), old.Commitments(), in.believed()) {
		if err := anew.Apply(in.now, e); err != nil {
			return nil, violated("a restart refuses %T: %v", e, err)
		}
	}
	if b := old.View().Beliefs; b != nil && (b.Durations != nil || b.Needs != nil) {
		if err := anew.Apply(in.now, world.Learned{Beliefs: &cluster.Beliefs{Version: b.Version, Durations: b.Durations, Needs: b.Needs}}); err != nil {
			return nil, violated("a restart refuses what is expected: %v", err)
		}
	}
	if a, b := old.View().Committed(), anew.View().Committed(); a != b {
		return nil, violated("a restart comes to digest %016x, it was %016x: %s", b, a, apart(old, anew))
	}
	before := in.held
	in.world, in.memo, in.held = anew, engine.Memo{}, nil
	for i := range before {
		in.regain(old.View(), &before[i])
	}
	return nil, in.tellFacts()
}

// apart names what a restart has not brought back.
func apart(old, anew *world.World) string {
	was, is := old.Commitments(), anew.Commitments()
	for i := range was {
		if i >= len(is) || !reflect.DeepEqual(was[i], is[i]) {
			other := "nothing"
			if i < len(is) {
				other = fmt.Sprintf("%+v", is[i])
			}
			return fmt.Sprintf("%+v became %s", was[i], other)
		}
	}
	return "a fact differs"
}

// regain writes a bind that comes after others by the ids that things have now.
func (in *interp) regain(old *cluster.View, d *decision.Decision) {
	id, ok := in.world.Pod(old.Pod(d.Pod).Spec.Name)
	if !ok {
		return
	}
	v := in.view()
	p := v.Pod(id)
	if p.Key != d.Subject || p.Intent == cluster.None {
		return
	}
	under, place := v.Intents.At(int32(p.Intent)), &p.Placement
	if under.ID != d.ID {
		if under.Target == nil || under.Target.Bind != d.ID {
			return
		}
		place = &under.Target.Place // it is still to leave where it is
	}
	again := *d
	again.Pod, again.Row, again.Place = id, cluster.Ref{ID: int32(id), Generation: p.Generation}, *place
	again.Host = cluster.Ref{ID: int32(place.Node), Generation: v.Node(place.Node).Generation}
	in.held = append(in.held, again)
}

// believed is the last checkpoint, of queues that are still there.
func (in *interp) believed() []world.Event {
	return slices.DeleteFunc(slices.Clone(in.kept), func(e world.Event) bool {
		_, known := in.queue(e.(world.QueueUsage).Name)
		return !known
	})
}

// facts are what the cluster tells a scheduler that starts: what there is, and where
// pods were found.
func (in *interp) facts() []world.Event {
	v := in.view()
	var out []world.Event
	for _, text := range v.Symbols.All() { // the policy goes by them
		out = append(out, world.Interned{Text: text})
	}
	for i := range v.Domains.Len() {
		d := v.Domains.At(int32(i))
		e := world.DomainAdded{Name: d.Name, Level: d.Level}
		if d.Parent != cluster.None {
			e.Parent = v.Domains.At(int32(d.Parent)).Name
		}
		out = append(out, e)
	}
	for _, name := range slices.Sorted(maps.Keys(in.spaces)) {
		out = append(out, in.spaces[name])
	}
	out = append(out, in.artifactFacts()...)
	out = append(out, in.nodeFacts()...)
	out = append(out, in.cacheFacts()...)
	out = append(out, in.slaFacts()...)
	out = append(out, in.tenantFacts()...)
	// A pod has the job of its group where that came first.
	early, late := in.podFacts()
	out = append(out, early...)
	out = append(out, in.groupFacts()...)
	return append(append(out, late...), in.foundFacts()...)
}

func (in *interp) nodeFacts() []world.Event {
	v := in.view()
	var out []world.Event
	for _, id := range in.liveNodes() {
		n := v.Node(id)
		e := in.machines[n.Spec.Name]
		e.Life = n.Life
		out = append(out, e)
		for i := range n.Spec.DeviceCount {
			if health := v.DeviceOf(n, i).Health; health != cluster.Healthy {
				out = append(out, world.DeviceHealth{Node: n.Spec.Name, Device: i, Health: health})
			}
		}
	}
	return out
}

// tenantFacts are queues, parents first, jobs and budgets.
func (in *interp) tenantFacts() []world.Event {
	v := in.view()
	depth := func(name string) int {
		n := 0
		for id, _ := in.queue(name); id != cluster.None; id = v.Queue(id).Parent {
			n++
		}
		return n
	}
	names := in.queueNames()
	slices.SortStableFunc(names, func(a, b string) int { return depth(a) - depth(b) })
	var out []world.Event
	for _, name := range names {
		id, _ := in.queue(name)
		out = append(out, in.termsOf(id))
	}
	for _, name := range in.jobNames() {
		id, _ := in.world.Job(name)
		out = append(out, world.JobAdded{Name: name, JobFacts: in.factsOf(id)})
	}
	for i := range v.Budgets.Len() {
		b := v.Budgets.At(int32(i))
		out = append(out, world.BudgetKnown{Name: b.Name, Left: b.Left})
	}
	return out
}

func (in *interp) groupFacts() []world.Event {
	v := in.view()
	var out []world.Event
	for i := range v.Groups.Len() {
		g := v.Group(cluster.GroupID(i))
		if id, named := in.world.Group(g.Name); !g.Known || !named || int(id) != i {
			continue
		}
		e := world.GroupAdded{
			Name: g.Name, Minimum: g.Minimum, Wished: g.Wished, Hold: g.Hold, Groups: g.Groups, Topology: g.Topology, Comm: g.Comm,
		}
		if g.Queue != cluster.None {
			e.Queue = v.Queue(g.Queue).Name
		}
		if g.Job != cluster.None {
			e.Job = v.Job(g.Job).Name
		}
		if g.Parent != cluster.None {
			e.Parent = v.Group(g.Parent).Name
		}
		out = append(out, e)
	}
	return out
}

// podFacts are the pods as they were written: those that came before the job of their
// group, and the others.
func (in *interp) podFacts() (early, late []world.Event) {
	v := in.view()
	for _, id := range in.livePods() {
		spec := v.Pod(id).Spec
		e := in.specs[spec.Name]
		if e.Job = ""; spec.Job != cluster.None {
			e.Job = v.Job(spec.Job).Name
		}
		told := []world.Event{e}
		if budget := in.guards[spec.Name]; budget != "" {
			told = append(told, world.Guarded{Name: spec.Name, Budget: budget})
		}
		if e.Job == "" && e.Group != "" {
			early = append(early, told...)
		} else {
			late = append(late, told...)
		}
	}
	return early, late
}

// foundFacts are where pods were found, and how they were.
func (in *interp) foundFacts() []world.Event {
	v := in.view()
	var out []world.Event
	for _, id := range in.livePods() {
		p := v.Pod(id)
		if p.Phase < cluster.PhaseBound {
			continue
		}
		out = append(out, world.PodFound{Name: p.Spec.Name, Node: v.Node(p.Placement.Node).Spec.Name})
		if p.Started != 0 && p.Started >= p.Bound {
			out = append(out, world.Started{Name: p.Spec.Name})
		}
		if p.Phase == cluster.PhaseTerminating {
			out = append(out, world.Leaving{Name: p.Spec.Name})
		}
	}
	return out
}

// eviction is one that was decided.
type eviction struct {
	pod, job, taker string
	outcome         string
	at              moment.Instant
}

// noteEvictions writes down who is evicted for whom.
func (in *interp) noteEvictions(v *cluster.View, bundle []decision.Decision, plan *decision.Plan) {
	for i := range bundle {
		d := &bundle[i]
		if d.Action != cluster.ActionEvict {
			continue
		}
		e := eviction{pod: v.Pod(d.Pod).Spec.Name, job: in.jobName(v.Pod(d.Pod).Spec.Job), taker: "-", at: in.now, outcome: "under way"}
		for k := range plan.Decisions {
			taker := &plan.Decisions[k]
			if !slices.Contains(taker.After, d.ID) || e.taker != "-" && !shareDevice(taker, d) {
				continue
			}
			e.taker = v.Pod(taker.Pod).Spec.Name
			if shareDevice(taker, d) {
				break
			}
		}
		in.evicted = append(in.evicted, e)
	}
}

// shareDevice says whether two decisions are about the same card.
func shareDevice(a, b *decision.Decision) bool {
	return slices.ContainsFunc(a.Place.Grants, func(g cluster.Grant) bool {
		return slices.ContainsFunc(b.Place.Grants, func(h cluster.Grant) bool { return g.Device == h.Device })
	})
}

// endEviction writes down what came of the eviction of a pod.
func (in *interp) endEviction(pod, outcome string) {
	for i := len(in.evicted) - 1; i >= 0; i-- {
		if e := &in.evicted[i]; e.pod == pod && e.outcome == "under way" {
			e.outcome = outcome
			return
		}
	}
}

// evictedTwice names a pod that was, from the given place of the list on.
func (in *interp) evictedTwice(from int) string {
	seen := make(map[string]bool)
	for _, e := range in.evicted[from:] {
		if e.outcome == "refused" {
			continue
		}
		if seen[e.pod] {
			return e.pod
		}
		seen[e.pod] = true
	}
	return ""
}

func (in *interp) showEvictions() []string {
	times := make(map[string]int)
	for _, e := range in.evicted {
		times[e.pod]++
	}
	var rows [][]string
	for i, e := range in.evicted {
		nth := 0
		for _, other := range in.evicted[:i+1] {
			if other.pod == e.pod {
				nth++
			}
		}
		rows = append(rows, []string{e.pod, e.job, fmt.Sprintf("%d of %d", nth, times[e.pod]), e.at.String(), e.taker, e.outcome})
	}
	return table("pod|job|time|at|for|outcome", rows)
}

func (in *interp) jobName(id cluster.JobID) string {
	if id == cluster.None {
		return "-"
	}
	return in.view().Job(id).Name
}
