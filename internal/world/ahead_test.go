package world_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// dock is a world in which jobs run for as long as they are meant to.
type dock struct {
	*town
	lasts  map[string]moment.Span // in truth
	ends   map[string]moment.Instant
	memo   engine.Memo
	policy *engine.Policy
	cycle  uint64
	passed int // binds in room that is reserved for later
	called int // of them, told to go
}

func newDock(t *rapid.T, mode engine.Reserve) *dock {
	y := &dock{
		town: &town{t: t, from: drawn{t}, w: world.New(), told: make(map[string]world.Event)}, lasts: make(map[string]moment.Span),
		ends: make(map[string]moment.Instant), policy: engine.Headrace().Staying().Reserving(mode),
	}
	for i := range 1 + y.from.below(4) {
		e := world.NodeAdded{Name: fmt.Sprintf("n%d", i), Authority: cluster.AuthorityDRA, Life: cluster.LifeReady, CPU: 64_000, Memory: 1 << 40, Pods: 100}
		for k := range 1 + y.from.below(4) {
			e.Devices = append(e.Devices, world.Device{Name: fmt.Sprint(k), Model: "A100", Memory: 80 << 30, Island: -1, NUMA: -1, Sharing: cluster.SharingSlices})
		}
		y.must(e)
	}
	return y
}

// arrive adds a job: one pod, or a group of pods. What is declared is the truth unless
// lies is drawn.
func (y *dock) arrive(queue string, lies, groups bool) {
	y.serial++
	name := fmt.Sprintf("j%d", y.serial)
	truth := moment.Span(1+y.from.below(12)) * 10 * moment.Minute
	said := truth
	if lies {
		said = moment.Span(y.from.below(12)) * 10 * moment.Minute // 0: nothing said
	}
	ask := world.Request{CPU: 1000, Memory: 1 << 30}
	switch n := y.from.below(6); {
	case n < 4:
		ask.Devices = []world.DeviceRequest{{Count: int32(1 + n), Milli: quantity.WholeGPU}}
	default:
		ask.Devices = []world.DeviceRequest{{Count: 1, Milli: quantity.MilliGPU(300 * (n - 3))}}
	}
	pods, group := 1, ""
	if groups && y.from.below(3) == 0 {
		pods, group = 2+y.from.below(3), name
		y.must(world.GroupAdded{Name: group, Minimum: int32(pods), Queue: queue})
	}
	for i := range pods {
		pod := fmt.Sprintf("%s-%d", name, i)
		y.must(world.PodAdded{Name: pod, Request: ask, Expected: said, Queue: queue, Group: group})
		y.lasts[pod], y.pods = truth, append(y.pods, pod)
	}
}

func (y *dock) decide() decision.Plan {
	y.cycle++
	return engine.Decide(y.w.Snapshot(), decision.Cycle{Number: y.cycle, Now: y.at, Seed: 7}, y.policy, &y.memo)
}

// commit carries a plan out at once; what starts ends after its time.
func (y *dock) commit(plan *decision.Plan) {
	y.t.Helper()
	for _, bundle := range plan.Bundles() {
		y.must(world.Acceptance(bundle))
		for i := range bundle {
			if d := &bundle[i]; d.Action == cluster.ActionEvict {
				name := y.w.View().Pod(d.Pod).Spec.Name
				y.must(world.Evicted{Name: name})
				delete(y.ends, name)
				y.called++
			}
		}
	}
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if d.Action != cluster.ActionBind {
			continue
		}
		name := y.w.View().Pod(d.Pod).Spec.Name
		if y.w.Holds(d) {
			y.must(world.Accepted{Decision: *d})
		}
		y.must(world.Bound{Name: name})
		y.must(world.Started{Name: name})
		y.ends[name] = y.at.Add(y.lasts[name])
		if d.GoneBy > 0 {
			y.passed++
		}
	}
	y.audit()
}

// elapse moves on to the next end, or by some minutes.
func (y *dock) elapse() {
	next := y.at.Add(moment.Span(1+y.from.below(30)) * moment.Minute)
	for _, name := range y.pods {
		if at, runs := y.ends[name]; runs {
			next = min(next, at)
		}
	}
	y.at = next
	for _, name := range slices.Clone(y.pods) {
		if at, runs := y.ends[name]; runs && at <= y.at {
			y.must(world.PodRemoved{Name: name})
			delete(y.ends, name)
			y.pods = slices.DeleteFunc(y.pods, func(p string) bool { return p == name })
		}
	}
}

// reserved is when room is reserved for pods, by name.
func reserved(v *cluster.View, plan *decision.Plan) map[string]moment.Instant {
	out := make(map[string]moment.Instant)
	for _, w := range plan.Waiting {
		if w.Reserved != nil {
			out[v.Pod(w.Pod).Spec.Name] = w.Reserved.At
		}
	}
	return out
}

// Where durations are true, the first in line starts no later than it was first told,
// whoever passes it.
func TestReservedStartIsKept(t *testing.T) {
	passed, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		y := newDock(t, engine.ReserveHead)
		promised := make(map[string]moment.Instant)
		for range 25 {
			if y.from.below(2) > 0 {
				y.arrive("", false, true)
			}
			plan := y.decide()
			y.commit(&plan)
			v := y.w.View()
			for name, at := range reserved(v, &plan) {
				if first, known := promised[name]; known && at > first {
					t.Fatalf("at %v: %s was to start at %v, and now is at %v", y.at, name, first, at)
				} else if !known {
					promised[name] = at
				}
			}
			for name, at := range promised {
				id, there := y.w.Pod(name)
				if there && v.Pod(id).Phase != cluster.PhaseWaiting {
					if v.Pod(id).Started > at {
						t.Fatalf("%s was to start by %v, and started at %v", name, at, v.Pod(id).Started)
					}
					delete(promised, name)
					kept++
				}
			}
			y.elapse()
		}
		passed += y.passed
	})
	if passed == 0 || kept == 0 {
		t.Errorf("%d passed a reservation, %d started by theirs: want some of both", passed, kept)
	}
}

// Whoever is placed after a reservation was made is not in its way: decided again with
// them in place, it is no later. That holds with queues, groups, wrong durations and
// reservations for all.
func TestPassersDelayNobody(t *testing.T) {
	passed, called := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		y := newDock(t, []engine.Reserve{engine.ReserveHead, engine.ReserveAll}[rapid.IntRange(0, 1).Draw(t, "mode")])
		queues := []string{"red", "blue", ""}
		y.must(world.QueueAdded{Name: "red"})
		y.must(world.QueueAdded{Name: "blue"})
		for range 15 {
			if y.from.below(3) > 0 {
				y.arrive(queues[y.from.below(3)], y.from.below(2) > 0, true)
			}
			plan := y.decide()
			before, called := reserved(y.w.View(), &plan), y.called
			y.commit(&plan)
			if y.called > called {
				y.elapse() // who is told to go is in line again, and may be before others
				continue
			}
			again := y.decide()
			after := reserved(y.w.View(), &again)
			for name, at := range before {
				if now, still := after[name]; still && now > at {
					t.Fatalf("at %v: %s is reserved for at %v, and at %v with those in place who passed", y.at, name, at, now)
				}
			}
			y.elapse()
		}
		passed, called = passed+y.passed, called+y.called
	})
	if passed == 0 || called == 0 {
		t.Errorf("%d passed a reservation, %d were told to go in time: want some of both", passed, called)
	}
}

// Where durations are true and nobody comes after, everybody starts when it was told.
func TestForetoldStartIsTrue(t *testing.T) {
	waited := 0
	rapid.Check(t, func(t *rapid.T) {
		y := newDock(t, engine.ReserveOff)
		y.policy = y.policy.Foretelling()
		for range 1 + y.from.below(20) {
			y.at = y.at.Add(moment.Second)
			y.arrive("", false, true)
		}
		told := make(map[string]moment.Instant)
		plan := y.decide()
		for _, w := range plan.Waiting {
			if w.Starts != nil {
				told[y.w.View().Pod(w.Pod).Spec.Name] = w.Starts.Likely
			}
		}
		for {
			y.commit(&plan)
			for i := range plan.Decisions {
				d := &plan.Decisions[i]
				name := y.w.View().Pod(d.Pod).Spec.Name
				if at, waits := told[name]; waits && at != y.at {
					t.Fatalf("%s was to start at %v, and started at %v", name, at, y.at)
				}
				if _, waits := told[name]; waits {
					delete(told, name)
					waited++
				}
			}
			if len(y.ends) == 0 {
				break
			}
			y.elapse()
			plan = y.decide()
		}
		for name, at := range told {
			if at != moment.Never {
				t.Fatalf("%s was to start at %v, and never does", name, at)
			}
		}
	})
	if waited == 0 {
		t.Error("nobody waited")
	}
}
