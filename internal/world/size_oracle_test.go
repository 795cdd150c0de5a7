package world_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// lone is an elastic job alone on a node of eight GPUs.
type lone struct {
	*town
	ways []world.Configuration
	f    world.JobFacts
}

func newLone(t *testing.T, seed int64) *lone {
	l := &lone{town: &town{t: t, from: seeded{chance.New(seed)}, w: world.New()}}
	e := world.NodeAdded{Name: "n", CPU: 64_000, Memory: 1 << 40, Pods: 100, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
	for range 8 {
		e.Devices = append(e.Devices, world.Device{Model: "A100", Memory: 80 * quantity.GiB, Island: -1, NUMA: -1})
	}
	l.must(e)
	least := 1 + l.from.below(3)
	for n := least; n <= 8; n++ {
		if n == least || l.from.below(2) == 0 {
			l.ways = append(l.ways, world.Configuration{Model: "A100", Workers: int32(n), Rate: int64(n) * int64(1000-30*n-l.from.below(400))})
		}
	}
	l.f = world.JobFacts{
		Expected: moment.Span(1+l.from.below(20)) * 10 * moment.Minute, Configurations: l.ways,
		Checkpoint: world.Checkpoint{Restart: moment.Span(1+l.from.below(8)) * 30 * moment.Second},
	}
	l.must(world.JobAdded{Name: "j", JobFacts: l.f})
	l.must(world.GroupAdded{Name: "j", Minimum: int32(least), Job: "j"})
	for i := range 8 {
		l.must(world.PodAdded{Name: fmt.Sprint("w", i), Job: "j", Group: "j", Request: gpuRequest(1, quantity.WholeGPU)})
	}
	return l
}

// decide runs a cycle, and returns the number of workers that were chosen.
func (l *lone) decide(kind decision.CycleKind) int32 {
	l.t.Helper()
	plan := engine.Decide(l.w.Snapshot(), decision.Cycle{Number: uint64(l.at) + uint64(kind), Now: l.at, Kind: kind}, engine.Headrace().Sizing(engine.DefaultSizes()), nil)
	for _, bundle := range plan.Bundles() {
		l.must(world.Acceptance(bundle))
		for i := range bundle {
			if d := &bundle[i]; d.Action == cluster.ActionBind {
				name := l.w.View().Pod(d.Pod).Spec.Name
				l.must(world.Bound{Name: name})
				l.must(world.Started{Name: name})
			}
		}
	}
	id, _ := l.w.Job("j")
	return l.w.View().Job(id).Sizing.Size.Workers
}

// worth is what so many workers are worth to the job, by the rule of docs/adr/0010 in
// plain numbers; now is the way in force, or nil where it starts.
func (l *lone) worth(c, now *world.Configuration, ran moment.Span) float64 {
	rules := engine.DefaultSizes().Rules
	rate := float64(c.Rate)
	if now != nil && c.Workers != now.Workers {
		left := float64(l.f.Expected.Milliseconds())*float64(l.ways[0].Rate)/1000 - float64(ran.Milliseconds())*float64(now.Rate)/1000
		span := min(float64(rules.Horizon), max(float64(ran.Milliseconds())*float64(rules.Patience)/1000, 60_000), max(left, 0)*1000/rate)
		rate *= span / (span + float64(l.f.Checkpoint.Restart.Milliseconds()))
		if c.Workers > now.Workers && float64(c.Rate) < float64(now.Rate)*(1+float64(rules.Margin)/1000) {
			rate = min(rate, float64(now.Rate)*0.999)
		}
	}
	// One job for eight GPUs pays the root of a half of what one for every four would.
	price := (float64(rules.Thrift) + float64(rules.Crowd)/8*math.Sqrt(0.5)) / 1e6
	speed := 0.0
	for _, way := range l.ways {
		speed = max(speed, float64(way.Rate)/(1+price*float64(way.Workers)))
	}
	return rate - speed*price*float64(c.Workers)
}

// A job that is alone gets the size of most worth: when it starts, and later, when the
// restart, what is left and how long it ran count, too.
func TestAloneAJobGetsTheSizeOfMostWorth(t *testing.T) {
	grew, stayed := 0, 0
	for seed := range int64(400) {
		l := newLone(t, seed)
		now := (*world.Configuration)(nil)
		ran := moment.Span(0)
		kind := decision.CycleReview
		if seed%2 == 1 { // it has started with its fewest workers
			l.decide(decision.CycleArrival)
			now, ran = &l.ways[0], moment.Span(1+l.from.below(60))*moment.Minute
			l.at = l.at.Add(ran)
		}
		got := l.decide(kind)
		best, has := math.Inf(-1), math.Inf(-1)
		for i := range l.ways {
			worth := l.worth(&l.ways[i], now, ran)
			if best = max(best, worth); l.ways[i].Workers == got {
				has = worth
			}
		}
		if has < best-2 { // the engine rounds
			t.Errorf("seed %d: %d workers, worth %.1f; the best is worth %.1f of %+v, now %+v", seed, got, has, best, l.ways, now)
		}
		if now != nil {
			if got > now.Workers {
				grew++
			} else {
				stayed++
			}
		}
	}
	if grew < 40 || stayed < 20 {
		t.Errorf("%d jobs grew and %d stayed: that shows little", grew, stayed)
	}
}

// What cannot be about a job is named, and changes nothing.
func TestConfigurationsAndReadingsAreChecked(t *testing.T) {
	l := newLone(t, 1)
	l.must(world.JobAdded{Name: "rigid"})
	l.must(world.PodAdded{Name: "other", Request: gpuRequest(1, quantity.WholeGPU)})
	job := func(c ...world.Configuration) world.Event {
		return world.JobChanged{Name: "j", JobFacts: world.JobFacts{Configurations: c}}
	}
	for want, e := range map[string]world.Event{
		`job j: configuration of 2 workers: model "": must be named`:               job(world.Configuration{Workers: 2, Rate: 1}),
		`job j: configuration on A100: workers 0: must be 1 to 100000`:             job(world.Configuration{Model: "A100", Rate: 1}),
		`job j: configuration 2xA100: rate 0: must be 1 to 1000000000 thousandths`: job(world.Configuration{Model: "A100", Workers: 2}),
		`job j: configuration 2xA100: nodes -1: must not be negative`:              job(world.Configuration{Model: "A100", Workers: 2, Rate: 1, Spread: -1}),
		`job j: configuration 2xA100: must be there once`:                          job(world.Configuration{Model: "A100", Workers: 2, Rate: 1}, world.Configuration{Model: "A100", Workers: 2, Rate: 3}),
		`job j: 257 configurations: must be at most 256`:                           job(make([]world.Configuration, 257)...),
		`job "nobody": no such job`:                                                world.JobMeasured{Name: "nobody"},
		`job rigid: it has no configurations, so that nothing is measured for it`:  world.JobMeasured{Name: "rigid"},
		`job j: sync 1001, progress 0: must be 0 to 1000 thousandths`:              world.JobMeasured{Name: "j", Sync: 1001},
		`job j: sync 0, progress 1001: must be 0 to 1000 thousandths`:              world.JobMeasured{Name: "j", Progress: 1001},
		`job j: worker "other": no such pod of it`:                                 world.JobMeasured{Name: "j", Busy: []world.WorkerBusy{{Pod: "other"}}},
		`job j: worker w1: busy 1001: must be 0 to 1000 thousandths`:               world.JobMeasured{Name: "j", Busy: []world.WorkerBusy{{Pod: "w1", Busy: 1001}}},
		`job rigid: size 2xA100: it has no configurations`:                         world.JobRecalled{Name: "rigid", Sizing: &world.Sizing{Model: "A100", Workers: 2}},
		`job j: size 2x, resized 0 times, at 0s, progress 0: a size has both`:      world.JobRecalled{Name: "j", Sizing: &world.Sizing{Workers: 2}},
		`accept scale: it names no job`:                                            world.Accepted{Decision: decision.Decision{Action: cluster.ActionScale}},
		`accept scale: the job it was decided for is gone`:                         world.Accepted{Decision: decision.Decision{Action: cluster.ActionScale, Scale: &decision.Scale{}}},
	} {
		if l.may(e) {
			t.Errorf("%+v was accepted, want: %s", e, want)
		} else if err := l.w.Apply(l.at, e); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: got %q, want %q", e, err, want)
		}
	}
	// A decision that the world has outrun is refused.
	s := l.w.Snapshot()
	plan := engine.Decide(s, decision.Cycle{Number: 1, Kind: decision.CycleReview}, engine.Headrace().Sizing(engine.DefaultSizes()), nil)
	if d := plan.Decisions[0]; d.Action != cluster.ActionScale || !l.may(world.Accepted{Decision: d}) || l.may(world.Accepted{Decision: d}) {
		t.Errorf("%s: must be accepted once, and not again", d.Line(&s.View))
	}
}
