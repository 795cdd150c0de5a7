package world_test

import (
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"
)

// scattered is a cluster in pieces: pods came, ran for a while, and many have gone.
type scattered struct {
	t      *testing.T
	w      *world.World
	from   *chance.Source
	at     moment.Instant
	serial int
	// What is believed of those who come, where anything is.
	expects bool
	demand  learn.Demand
	beliefs cluster.Beliefs
}

func (c *scattered) apply(e world.Event) {
	c.t.Helper()
	if err := c.w.Apply(c.at, e); err != nil {
		c.t.Fatal(err)
	}
}

func newScattered(t *testing.T, seed int64) *scattered {
	c := &scattered{t: t, w: world.New(), from: chance.New(seed)}
	for i := range 5 + c.from.Below(5) {
		e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), CPU: 32000, Memory: 64 * quantity.GiB, Pods: 20, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		for range 4 {
			e.Devices = append(e.Devices, world.Device{Model: "H100", Memory: 80 * quantity.GiB, Island: cluster.None, NUMA: cluster.None, Sharing: cluster.SharingSlices})
		}
		c.apply(e)
	}
	c.apply(world.BudgetKnown{Name: "web", Left: int32(c.from.Below(3))})
	return c
}

func (c *scattered) wave() {
	large := c.from.Below(2) == 0 // who comes needs whole nodes, or nearly
	for range 2 + c.from.Below(14) {
		if c.serial++; large && c.from.Below(2) == 0 {
			continue
		}
		name := fmt.Sprintf("j%d", c.serial)
		f := world.JobFacts{Unpreemptible: c.from.Below(8) == 0, Expected: moment.Span(c.from.Below(12)) * moment.Hour}
		if c.from.Below(2) == 0 {
			f.Checkpoint = world.Checkpoint{Period: 10 * moment.Minute, Restart: moment.Span(c.from.Below(6)) * moment.Minute}
			if c.from.Below(2) == 0 {
				f.Checkpoint.Write = moment.Minute
			}
		}
		c.apply(world.JobAdded{Name: name, JobFacts: f})
		r := world.Request{CPU: quantity.MilliCPU(500 + 500*c.from.Below(4)), Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: int32(1 + c.from.Below(4)), Milli: quantity.WholeGPU}}}
		if large {
			r.Devices[0].Count = int32(3 + c.from.Below(2))
		} else if c.from.Below(3) == 0 {
			r.Devices[0] = world.DeviceRequest{Count: 1, Milli: 400, Memory: 8 * quantity.GiB}
		}
		pods, group := int64(1), ""
		if c.from.Below(4) == 0 {
			pods, group = 2+c.from.Below(2), name
			c.apply(world.GroupAdded{Name: group, Minimum: int32(pods), Job: name})
		}
		for k := range pods {
			pod := fmt.Sprintf("%s-%d", name, k)
			c.apply(world.PodAdded{Name: pod, Job: name, Group: group, Request: r})
			c.learn(pod)
			if c.from.Below(6) == 0 {
				c.apply(world.Guarded{Name: pod, Budget: "web"})
			}
		}
	}
}

// learn lets the beliefs follow what comes.
func (c *scattered) learn(pod string) {
	id, _ := c.w.Pod(pod)
	if !c.expects || !c.demand.Observe(c.w.View().Pod(id).Spec.Shape) {
		return
	}
	c.beliefs.Version++
	beliefs := c.beliefs
	beliefs.Demand, beliefs.Worth = c.demand.Table(), learn.Worth(c.w.View(), &c.demand)
	c.apply(world.Learned{Beliefs: &beliefs})
}

// pass lets what is bound start, some of it end, and time go by.
func (c *scattered) pass(span moment.Span) {
	v := c.w.View()
	var bound, gone []string
	for i := range v.Pods.Len() {
		switch p := v.Pod(cluster.PodID(i)); {
		case p.Phase == cluster.PhaseWaiting:
			gone = append(gone, p.Spec.Name)
		case p.Phase == cluster.PhaseBound:
			bound = append(bound, p.Spec.Name)
		case p.Phase == cluster.PhaseRunning && c.from.Below(5) < 3:
			gone = append(gone, p.Spec.Name)
		}
	}
	for _, name := range bound {
		c.apply(world.Started{Name: name})
	}
	c.at = c.at.Add(span)
	for _, name := range gone {
		c.apply(world.PodRemoved{Name: name})
	}
	for i := range v.Jobs.Len() {
		if j := v.Job(cluster.JobID(i)); j.Known && j.Checkpoint.Period > 0 && c.from.Below(4) > 0 {
			c.apply(world.JobCheckpointed{Name: j.Name, At: c.at})
		}
	}
	c.apply(world.Interned{Text: "later"})
}

// costOf is what it costs to move a pod, worked out anew: the time that it loses, and
// what that and the move itself come to.
func costOf(s *cluster.Snapshot, p *cluster.Pod, at moment.Instant, rules *tidy.Rules) (lost moment.Span, price int64) {
	j := s.Job(p.Spec.Job)
	if p.Phase == cluster.PhaseRunning {
		lost = at.Since(max(p.Started, j.Checkpoint.Last))
	}
	if j.Checkpoint.Write > 0 {
		lost = min(lost, j.Checkpoint.Write)
	}
	lost += j.Checkpoint.Restart
	return lost, int64(p.Placement.Milli())*int64(lost)/int64(moment.Second) + rules.Price
}

// Each move is worth more than it costs, by figures worked out anew; costs its job no more
// than a twentieth of what is left of it; is of a pod that may move, to room that was
// free; no pod moves twice while nothing happens, nobody is lost, no hour has more moves
// than it may, and an end comes.
func TestMovesPay(t *testing.T) {
	moves, unlocked, emptied, improved, alone, capped := 0, 0, 0, 0, 0, 0
	for seed := range int64(300) {
		c := newScattered(t, seed)
		rules := tidy.Default()
		rules.For, rules.PerHour = tidy.Waiting|tidy.Nodes, int32(1+c.from.Below(6))
		if seed%2 > 0 {
			c.expects, rules.For = true, rules.For|tidy.Demand
		}
		policy := engine.Headrace().Staying().Tidying(&rules)
		for range 4 {
			c.wave()
			var memo engine.Memo
			moved := map[cluster.PodID]bool{}
			for round := 0; ; round++ {
				if round == mostRounds {
					t.Fatalf("seed %d: not quiet after %d rounds", seed, round)
				}
				s := c.w.Snapshot()
				plan := engine.Decide(s, decision.Cycle{Number: uint64(round) + uint64(c.at), Now: c.at, Kind: decision.CycleReview, Seed: 1}, policy, &memo)
				if len(plan.Decisions) == 0 {
					break
				}
				checkMoves(t, seed, s, &plan, &rules, moved, &alone)
				before := len(moved)
				for i := range plan.Decisions {
					if d := &plan.Decisions[i]; d.Action == cluster.ActionEvict {
						moves++
						moved[d.Pod] = true
						switch m := d.Because.Move; {
						case m.Node != "":
							emptied++
						case m.For != "":
							unlocked++
						default:
							improved++
						}
					}
				}
				carryOut(t, c.w, c.at, &plan)
				if err := cluster.Audit(c.w.View()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for pod := range moved { // order: each is looked at alone
					if p := c.w.View().Pod(pod); p.Phase != cluster.PhaseBound || p.Reserved {
						t.Fatalf("seed %d: %s moved, and is %v", seed, p.Spec.Name, p.Phase)
					}
				}
				if n := c.w.View().MovedSince(c.at, moment.Hour); n > rules.PerHour || int(n) < len(moved)-before {
					t.Fatalf("seed %d: %d moves within an hour, %d allowed, %d in this round", seed, n, rules.PerHour, len(moved)-before)
				} else if n == rules.PerHour {
					capped++
				}
			}
			c.pass(moment.Span(1+c.from.Below(60)) * moment.Minute)
		}
	}
	t.Logf("%d moves, %d for who waits, %d to empty nodes, %d for who is expected, %d of them alone; %d rounds reached the cap", moves, unlocked, emptied, improved, alone, capped)
	if unlocked == 0 || alone == 0 || emptied == 0 || capped == 0 {
		t.Error("some of that never happened")
	}
}

// worthMore is by how much a move leaves better room for those who are expected.
func worthMore(t *testing.T, s *cluster.Snapshot, d *decision.Decision, rules *tidy.Rules) int64 {
	t.Helper()
	txn := cluster.Begin(s)
	if err := txn.Evict(d.Pod); err != nil {
		t.Fatal(err)
	}
	v, shape, have := txn.View(), d.Target.Place.Shape, rank.Counts{}
	for i := range v.Nodes.Len() {
		none, offers := rank.Offers{}, rank.OffersOf(v, cluster.NodeID(i))
		have.Replace(&none, &offers)
	}
	prices := rank.PricesOf(v, &have)
	loss := func(node cluster.NodeID) int64 {
		l := rank.LossOf(v, shape, node)
		return l.Worth + prices.Of(l.Takes)
	}
	return (loss(d.Place.Node) - loss(d.Target.Place.Node)) * int64(rules.Horizon/moment.Second) / 1000
}

func checkMoves(t *testing.T, seed int64, s *cluster.Snapshot, plan *decision.Plan, rules *tidy.Rules, moved map[cluster.PodID]bool, alone *int) {
	t.Helper()
	at := plan.Cycle.Now
	price, gain, budget := map[string]int64{}, map[string]int64{}, int32(0)
	bound := map[cluster.PodID]*decision.Decision{}
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action == cluster.ActionBind {
			bound[d.Pod] = d
		}
	}
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		p := s.Pod(d.Pod)
		if d.Action != cluster.ActionEvict {
			continue
		}
		m := d.Because.Move
		if m == nil || moved[d.Pod] {
			t.Fatalf("seed %d: %s is evicted, moved before: %v, because %+v", seed, p.Spec.Name, moved[d.Pod], d.Because)
		}
		if b := bound[d.Pod]; b == nil || d.Target == nil || d.Target.Bind != b.ID || b.Place.Node == d.Place.Node {
			t.Fatalf("seed %d: %s has no other place", seed, p.Spec.Name)
		}
		n, need := s.Node(d.Target.Place.Node), s.Shape(d.Target.Place.Shape).Need
		if _, short := n.Free.ShortOf(&need); short {
			t.Fatalf("seed %d: %s moves to %s, which is not free", seed, p.Spec.Name, n.Spec.Name)
		}
		j := s.Job(p.Spec.Job)
		if !j.Preemptible || p.Spec.Group != cluster.None {
			t.Fatalf("seed %d: %s moves, and must not", seed, p.Spec.Name)
		}
		if p.Budget != cluster.None {
			budget++
		}
		lost, own := costOf(s, p, at, rules)
		left := s.ExpectedRun(p).Likely - p.RanFor(at)
		if lost > 0 && 20*lost > left {
			t.Fatalf("seed %d: %s loses %v of %v by a move", seed, p.Spec.Name, lost, left)
		}
		of := "node " + m.Node
		switch {
		case m.For != "":
			of = m.For
		case m.Node == "":
			of = "those like " + p.Spec.Name
			if gain[of] = m.Gain; len(plan.Decisions) == 2 { // it alone: all is as in the snapshot
				gain[of] = worthMore(t, s, d, rules)
				*alone++
			}
		}
		price[of] += own
		if m.Node != "" {
			gain[of] = 4 * 1000 * 3600
			for _, id := range s.Node(d.Place.Node).Pods {
				if b := bound[id]; b == nil || b.Place.Node == d.Place.Node {
					t.Fatalf("seed %d: %s stays on %s", seed, s.Pod(id).Spec.Name, m.Node)
				}
			}
		}
	}
	if b := s.Budgets.At(0); budget > b.Left {
		t.Fatalf("seed %d: %d moves, the budget bears %d", seed, budget, b.Left)
	}
	for pod, d := range bound { // order: sums
		if p := s.Pod(pod); d.Because.Move == nil {
			of := p.Spec.Name
			if p.Spec.Group != cluster.None {
				of = s.Group(p.Spec.Group).Name
			}
			lasts := moment.Hour
			if run := s.ExpectedRun(p).Likely; run > 0 {
				lasts = min(lasts, max(run-p.RanFor(at), 0))
			}
			gain[of] += int64(s.Shape(p.Spec.Shape).Milli()) * int64(lasts) / int64(moment.Second)
		}
	}
	for of, p := range price { // order: one that does not pay is enough
		if gain[of] < p {
			t.Fatalf("seed %d: the moves for %s cost %d and gain %d", seed, of, p, gain[of])
		}
	}
}
