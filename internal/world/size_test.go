package world_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// seeded draws from a seed.
type seeded struct{ *chance.Source }

func (s seeded) below(n int) int { return int(s.Below(int64(n))) }

// mill is a world of elastic and rigid jobs, in which evictions take their time where
// it is slow.
type mill struct {
	*town
	seed   int64
	policy *engine.Policy
	memo   engine.Memo
	stale  engine.Memo // sees one cycle of three
	cycle  uint64
	slow   bool
	jobs   []string
	gone   []string            // told to go, and not gone yet
	held   []decision.Decision // binds that wait for them
	hurt   map[string]bool     // jobs that lost workers from outside, and have not got their minimum
	lost   map[string]bool     // jobs that lost workers, and were not resized since
	why    map[decision.SizeCause]int
	scaled map[string]int // since the clock stood still
	last   map[string]decision.SizeCause
}

func newMill(t *testing.T, seed int64, slow, shares bool) *mill {
	t.Helper()
	m := &mill{
		town: &town{t: t, from: seeded{chance.New(seed)}, w: world.New(), told: make(map[string]world.Event)}, seed: seed, slow: slow,
		policy: engine.Headrace().Sizing(engine.DefaultSizes()), hurt: make(map[string]bool), lost: make(map[string]bool), why: make(map[decision.SizeCause]int), scaled: make(map[string]int), last: make(map[string]decision.SizeCause),
	}
	m.must(world.DomainAdded{Name: "zone", Level: cluster.LevelZone})
	m.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack, Parent: "zone"})
	for i := range 2 + m.from.below(4) {
		e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), CPU: 64_000, Memory: 1 << 40, Pods: 100, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
		if m.from.below(3) == 0 {
			e.Authority = cluster.AuthorityPlugin
		}
		model := models[m.from.below(2)]
		for range 2 + m.from.below(7) {
			e.Devices = append(e.Devices, world.Device{Model: model, Memory: 80 * quantity.GiB, Island: -1, NUMA: -1, Sharing: cluster.SharingSlices})
		}
		m.nodes = append(m.nodes, e.Name)
		m.must(e)
	}
	root, team := world.QueueAdded{Name: "root", LimitMilli: 20000}, world.QueueAdded{Name: "team", Parent: "root", LimitMilli: 9000}
	if shares {
		root.DeservedMilli, team.Parent, team.DeservedMilli = 8000, "", 8000
	}
	m.must(root)
	m.must(team)
	m.must(world.BudgetKnown{Name: "budget", Left: int32(1 + m.from.below(3))})
	return m
}

func (m *mill) queue() string { return []string{"root", "team"}[m.from.below(2)] }

// arrive adds an elastic job, a rigid group, or a pod.
func (m *mill) arrive() {
	m.serial++
	name, queue := fmt.Sprintf("j%d", m.serial), m.queue()
	f := world.JobFacts{Queue: queue, Priority: int32(50 * m.from.below(3)), Unpreemptible: m.from.below(8) == 0, Expected: moment.Span(1+m.from.below(20)) * 30 * moment.Minute}
	if m.seed%3 == 0 && m.from.below(4) == 0 { // elsewhere there are restarts, which tell what was told first
		f.Disruptions = int32(1 + m.from.below(3))
	}
	if m.from.below(3) == 0 {
		f.Checkpoint = world.Checkpoint{Write: moment.Span(m.from.below(2)) * moment.Minute, Period: 30 * moment.Minute, Restart: moment.Span(m.from.below(10)) * moment.Minute}
	}
	pods, least, each := 1, 0, int32(1+m.from.below(3)/2)
	switch m.from.below(4) {
	case 0:
	case 1:
		pods = 2 + m.from.below(3)
		least = pods - m.from.below(2)
	default:
		least = 1 + m.from.below(3)
		pods = least + m.from.below(6)
		f.Configurations = m.configurations(least, pods)
	}
	m.must(world.JobAdded{Name: name, JobFacts: f})
	m.jobs = append(m.jobs, name)
	guarded := m.from.below(4) == 0
	group := ""
	if least > 0 {
		group = name
		m.must(world.GroupAdded{Name: name, Minimum: int32(least), Queue: queue})
	}
	for i := range pods {
		e := world.PodAdded{Name: fmt.Sprintf("%s-%d", name, i), Job: name, Group: group, Queue: queue, Request: gpuRequest(each, quantity.WholeGPU)}
		if len(f.Configurations) == 0 && m.from.below(3) == 0 {
			e.Request.Devices[0].Models = []string{models[m.from.below(2)]}
		}
		m.pods = append(m.pods, e.Name)
		m.must(e)
		if guarded {
			m.must(world.Guarded{Name: e.Name, Budget: "budget"})
		}
	}
}

// configurations are some ways to run, each with less for a worker than smaller ones.
func (m *mill) configurations(least, most int) (out []world.Configuration) {
	for _, model := range models[:2] {
		speed := int64(500 + 500*m.from.below(4))
		for n := least; n <= most; n++ {
			if n > least && m.from.below(3) == 0 {
				continue
			}
			c := world.Configuration{Model: model, Workers: int32(n), Rate: speed * int64(n) * int64(100-3*n-m.from.below(10)) / 100}
			if m.from.below(4) == 0 {
				c.Spread = int32(1 + m.from.below(2))
			}
			out = append(out, c)
		}
		if m.from.below(3) == 0 {
			break
		}
	}
	return out
}

// live lets something happen.
func (m *mill) live() {
	v := m.w.View()
	switch m.from.below(10) {
	case 0, 1, 2, 3:
		m.arrive()
	case 4, 5: // a job ends
		if len(m.jobs) == 0 {
			return
		}
		name := m.jobs[m.from.below(len(m.jobs))]
		for i := range v.Pods.Len() {
			p := v.Pod(cluster.PodID(i))
			if p.Phase != cluster.PhaseGone && p.Spec.Job != cluster.None && v.Job(p.Spec.Job).Name == name {
				pod := p.Spec.Name
				m.gone = slices.DeleteFunc(m.gone, func(other string) bool { return other == pod })
				m.pods = slices.DeleteFunc(m.pods, func(other string) bool { return other == pod })
				m.must(world.PodRemoved{Name: pod})
				delete(m.told, "pod "+pod)
				delete(m.told, "guard "+pod)
			}
		}
		if _, grouped := m.w.Group(name); grouped {
			m.must(world.GroupRemoved{Name: name})
		}
		m.must(world.JobRemoved{Name: name})
		m.jobs = slices.DeleteFunc(m.jobs, func(other string) bool { return other == name })
	case 6: // a worker is lost
		if len(m.pods) == 0 {
			return
		}
		name := m.pods[m.from.below(len(m.pods))]
		if p := m.row(name); (p.Phase == cluster.PhaseBound || p.Phase == cluster.PhaseRunning) && p.Spec.Job != cluster.None {
			m.hurt[v.Job(p.Spec.Job).Name], m.lost[v.Job(p.Spec.Job).Name] = true, true
			m.must(world.Lost{Name: name})
			m.last[v.Job(p.Spec.Job).Name] = decision.SizeTaken
		}
	default:
		m.measure()
	}
}

// measure tells readings of a job, several times over.
func (m *mill) measure() {
	v := m.w.View()
	if len(m.jobs) == 0 {
		return
	}
	e := world.JobMeasured{Name: m.jobs[m.from.below(len(m.jobs))], Sync: int32(m.from.below(9)) * 50}
	id, _ := m.w.Job(e.Name)
	if !v.Job(id).Elastic() {
		return
	}
	for _, name := range m.pods {
		if p := m.row(name); p.Spec.Job == id {
			busy := 600 + int32(m.from.below(30))
			if m.from.below(8) == 0 {
				busy += 300
			}
			e.Busy = append(e.Busy, world.WorkerBusy{Pod: name, Busy: busy})
		}
	}
	for range 1 + m.from.below(8) {
		m.must(e)
	}
}

func (m *mill) row(name string) *cluster.Pod {
	id, _ := m.w.Pod(name)
	return m.w.View().Pod(id)
}

// decide runs a cycle, with every kind of memo, and carries the plan out.
func (m *mill) decide(kind decision.CycleKind) *decision.Plan {
	m.t.Helper()
	m.lapse()
	m.cycle++
	now := think(m.w.Snapshot(), decision.Cycle{Number: m.cycle, Now: m.at, Kind: kind, Seed: m.seed}, m.policy)
	now.again(m.t, new(engine.Memo), "fresh")
	now.again(m.t, &m.memo, "kept")
	if m.cycle%3 == 0 {
		now.again(m.t, &m.stale, "stale")
	}
	m.check(&now)
	m.carry(&now.plan)
	m.sound()
	return &now.plan
}

// check holds a plan against what it may do.
func (m *mill) check(now *thought) {
	m.t.Helper()
	v := &now.snapshot.View
	spent := v.Outstanding()
	for i := range now.plan.Decisions {
		d := &now.plan.Decisions[i]
		switch d.Action {
		case cluster.ActionScale:
			j := v.Job(d.Scale.Job)
			m.why[d.Scale.Why]++
			m.last[j.Name] = d.Scale.Why
			delete(m.lost, j.Name)
			if d.Scale.Why != decision.SizeStart {
				if m.scaled[j.Name]++; m.scaled[j.Name] > 1 && d.Scale.Why != decision.SizeTaken && d.Scale.Why != decision.SizeKept {
					m.t.Fatalf("seed %d: %s, the second change while nothing happened", m.seed, d.Line(v))
				}
			}
			if d.Scale.Why != decision.SizeStart && d.Scale.Why != decision.SizeKept && d.Scale.Why != decision.SizeTaken && j.Sizing.Resized > 0 &&
				j.Sizing.Resized.Add(m.policy.Sizes.Calm) > m.at && d.Scale.Why != decision.SizeShare {
				m.t.Fatalf("seed %d, at %v: %s, it was resized at %v", m.seed, m.at, d.Line(v), j.Sizing.Resized)
			}
		case cluster.ActionEvict:
			p := v.Pod(d.Pod)
			if p.Spec.Protected {
				m.t.Fatalf("seed %d: %s, which is protected", m.seed, d.Line(v))
			}
			if b := v.BudgetOf(p); b != nil {
				if spent[p.Budget]++; spent[p.Budget] > b.Left {
					m.t.Fatalf("seed %d: %s, the eviction %d against a budget of %d", m.seed, d.Line(v), spent[p.Budget], b.Left)
				}
			}
			if d.Because.For == "" {
				continue
			}
			if !slices.ContainsFunc(now.plan.Decisions, func(b decision.Decision) bool {
				return b.Action == cluster.ActionBind && v.Pod(b.Pod).Spec.Name == d.Because.For
			}) {
				m.t.Fatalf("seed %d: %s is for %s, which is not bound", m.seed, d.Line(v), d.Because.For)
			}
		}
	}
}

// carry accepts a plan, and lets it happen.
func (m *mill) carry(plan *decision.Plan) {
	m.t.Helper()
	for _, bundle := range plan.Bundles() {
		m.must(world.Acceptance(bundle))
		switch d := &bundle[0]; d.Action {
		case cluster.ActionEvict:
			m.gone = append(m.gone, m.w.View().Pod(d.Pod).Spec.Name)
		case cluster.ActionResize:
			m.must(world.Resized{Name: m.w.View().Pod(d.Pod).Spec.Name})
		case cluster.ActionBind:
			if m.w.Holds(d) {
				m.held = append(m.held, bundle...)
			} else {
				m.begin(bundle)
			}
		}
	}
	if !m.slow || m.from.below(3) == 0 {
		m.leave()
	}
}

func (m *mill) begin(bundle []decision.Decision) {
	for i := range bundle {
		name := m.w.View().Pod(bundle[i].Pod).Spec.Name
		m.must(world.Bound{Name: name})
		m.must(world.Started{Name: name})
	}
}

// lapse ends the holds whose time is over.
func (m *mill) lapse() {
	for _, name := range m.w.Lapsed(m.at) {
		m.must(world.HoldDropped{Name: name})
	}
}

// leave lets those go that were told to, and those come that waited for it.
func (m *mill) leave() {
	m.t.Helper()
	for _, name := range m.gone {
		m.must(world.Evicted{Name: name})
	}
	m.must(world.BudgetKnown{Name: "budget", Left: int32(m.from.below(4))})
	m.gone = nil
	m.lapse()
	plan := decision.Plan{Decisions: m.held}
	m.held = nil
	for _, bundle := range plan.Bundles() {
		if !m.w.Holds(&bundle[0]) {
			continue
		}
		if m.w.Apply(m.at, world.Acceptance(bundle)) != nil {
			m.must(world.HoldDropped{Name: m.w.View().Pod(bundle[0].Pod).Spec.Name})
			continue
		}
		m.begin(bundle)
	}
}

// sound says what always holds of elastic jobs.
func (m *mill) sound() {
	m.t.Helper()
	m.audit()
	v := m.w.View()
	for _, name := range m.jobs {
		id, _ := m.w.Job(name)
		group, grouped := m.w.Group(name)
		j := v.Job(id)
		if !grouped || !j.Elastic() {
			continue
		}
		g := v.Group(group)
		if g.Placed == 0 || g.Placed >= g.Minimum {
			delete(m.hurt, name)
		} else if !m.hurt[name] {
			m.t.Fatalf("seed %d, at %v: job %s runs with %d workers, at least %d", m.seed, m.at, name, g.Placed, g.Minimum)
		}
		size, nodes := j.Sizing.Size, map[cluster.NodeID]bool{}
		for pod := range v.Members(group) {
			p := v.Pod(pod)
			if !p.Phase.Charged() || p.Phase == cluster.PhaseTerminating {
				continue
			}
			nodes[p.Placement.Node] = true
			if model := v.DeviceOf(v.Node(p.Placement.Node), 0).Spec.Model; model != size.Model {
				m.t.Fatalf("seed %d, at %v: %s is on %s, its job on %s", m.seed, m.at, p.Spec.Name, v.Symbols.Text(model), v.Symbols.Text(size.Model))
			}
		}
		if !m.slow && !m.lost[name] && g.Placed > 0 && g.Placed != size.Workers {
			m.t.Fatalf("seed %d, at %v: job %s runs with %d workers, its size says %d", m.seed, m.at, name, g.Placed, size.Workers)
		}
		if g.Placed > size.Workers && g.Placed > 0 {
			m.t.Fatalf("seed %d, at %v: job %s runs with %d workers, %d were chosen", m.seed, m.at, name, g.Placed, size.Workers)
		}
		for _, c := range j.Configurations {
			if c.Model == size.Model && c.Workers == g.Placed && c.Spread > 0 && len(nodes) > int(c.Spread) && g.Placed == size.Workers && m.last[name] <= decision.SizeMove {
				m.t.Fatalf("seed %d, at %v: job %s runs with %d workers on %d nodes, %d are allowed", m.seed, m.at, name, g.Placed, len(nodes), c.Spread)
			}
		}
	}
}

// settle decides until nothing changes while the clock stands still.
func (m *mill) settle() {
	m.t.Helper()
	m.leave()
	slow := m.slow
	m.slow = false
	if slow { // holds may have lapsed
		for _, name := range m.jobs {
			m.lost[name] = true
		}
	}
	m.scaled = make(map[string]int)
	for round := 0; len(m.decide(decision.CycleReview).Decisions) > 0; round++ {
		if round == mostRounds {
			m.t.Fatalf("seed %d, at %v: not quiet after %d rounds", m.seed, m.at, round)
		}
	}
	m.slow, m.scaled = slow, make(map[string]int)
}

// Elastic jobs never run below their minimum, nor above the size that was chosen, all
// workers on GPUs of one model; limits hold; a plan is the same with any memo; nobody is
// told to go for one who is not bound; while nothing happens it becomes quiet, and no job
// is resized twice.
func TestElasticJobs(t *testing.T) {
	seeds := int64(60)
	if long() {
		seeds = 600
	}
	why := make(map[decision.SizeCause]int)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			grind(t, seed, why)
		})
	}
	t.Log(why)
	for _, cause := range []decision.SizeCause{
		decision.SizeStart, decision.SizeGain, decision.SizeMove, decision.SizeYields, decision.SizeShare, decision.SizeCrowded, decision.SizeLag, decision.SizeTaken,
	} {
		if why[cause] == 0 {
			t.Errorf("no job was ever resized because %v", cause)
		}
	}
}

// grind lets things happen to a world of elastic jobs.
func grind(t *testing.T, seed int64, why map[decision.SizeCause]int) {
	t.Helper()
	m := newMill(t, seed, seed%2 == 1, seed%3 == 0)
	m.why = why
	switch seed % 5 {
	case 3:
		m.policy = m.policy.Reserving(engine.ReserveHead)
	case 4:
		m.policy = m.policy.Staying()
	}
	for range 25 {
		m.at = m.at.Add(moment.Span(1+m.from.below(10)) * moment.Minute)
		m.scaled = make(map[string]int)
		for range 1 + m.from.below(3) {
			m.live()
		}
		m.decide(decision.CycleKind(m.from.below(2)))
		if m.slow && m.from.below(2) == 0 {
			m.leave()
			m.sound()
		}
		switch m.from.below(6) {
		case 0:
			m.settle()
		case 1:
			if seed%3 != 0 && len(m.held) == 0 {
				m.restart()
				m.memo, m.stale = engine.Memo{}, engine.Memo{}
			}
		}
	}
}
