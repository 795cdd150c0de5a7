package world_test

import (
	"fmt"
	"slices"
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

func (c *town) job() string { return []string{"a", "b", "c", "d"}[c.from.below(4)] }

// employ tells something of a job, sound or not.
func (c *town) employ() {
	c.t.Helper()
	name, f := c.job(), world.JobFacts{Priority: int32(c.from.below(3))}
	for range c.from.below(3) {
		f.After = append(f.After, world.Dependency{Job: c.job(), When: cluster.DependencyKind(c.from.below(4))})
	}
	switch c.from.below(6) {
	case 0:
		c.may(world.JobRemoved{Name: name})
	case 1:
		c.may(world.JobChanged{Name: name, JobFacts: f})
	case 2, 3:
		c.may(world.JobEnded{Name: name, Failed: c.from.below(2) == 0})
	default:
		c.may(world.JobAdded{Name: name, JobFacts: f})
	}
}

// past is what a test keeps of a job beside the world: a second, plain account.
type past struct {
	after               []world.Dependency
	ended, worked, gone bool
}

// ready says whether all that a job comes after has come true, by that account and by
// whose pods have run: they may come before their job.
func ready(all map[string]*past, ran map[string]bool, name string) bool {
	if ran[name] {
		return true
	}
	for _, d := range all[name].after {
		b := all[d.Job]
		if b == nil {
			b = &past{}
		}
		met := b.ended && b.worked
		switch d.When {
		case cluster.AfterEnd:
			met = b.ended
		case cluster.AfterStart:
			met = met || ran[d.Job]
		}
		if !met {
			return false
		}
	}
	return true
}

// No pod of a job is bound before all that the job comes after has come true, whatever
// ends, fails, is removed and is submitted again; and all jobs whose turn has come get
// their places.
func TestNobodyStartsBeforeWhatItComesAfter(t *testing.T) {
	bound, held := 0, 0
	for seed := range int64(60) {
		from := chance.New(seed)
		k := &town{t: t, w: world.New()}
		k.must(world.DomainAdded{Name: "rack", Level: cluster.LevelRack})
		for i := range 3 {
			k.must(nodeKind(1, fmt.Sprintf("n%d", i)))
		}
		var memo engine.Memo
		all, ran := make(map[string]*past), make(map[string]bool)
		name := func(i int64) string { return fmt.Sprintf("j%d", i) }
		const jobs = 8
		submit := func(i int64) {
			p := &past{}
			for b := range i {
				if from.Below(3) == 0 {
					p.after = append(p.after, world.Dependency{Job: name(b), When: cluster.DependencyKind(from.Below(3))})
				}
			}
			k.must(world.JobAdded{Name: name(i), JobFacts: world.JobFacts{After: p.after}})
			all[name(i)] = p
		}
		for i := range int64(jobs) {
			grouped := from.Below(2) == 0
			if grouped {
				k.must(world.GroupAdded{Name: name(i), Minimum: 2, Job: name(i)})
			}
			for m := range 2 {
				e := world.PodAdded{Name: fmt.Sprintf("%s-%d", name(i), m), Job: name(i), Request: world.Request{CPU: 100, Memory: quantity.GiB}}
				if grouped {
					e.Group = name(i)
				}
				k.must(e)
			}
		}
		for i := range int64(jobs) {
			if from.Below(6) > 0 { // the others come later
				submit(i)
			}
		}
		for range 40 {
			k.at = k.at.Add(10 * moment.Second)
			i := from.Below(jobs)
			switch b := all[name(i)]; {
			case b == nil:
				submit(i)
			case !b.ended && from.Below(2) == 0:
				b.ended, b.worked = true, from.Below(3) > 0
				k.must(world.JobEnded{Name: name(i), Failed: !b.worked})
			case b.gone: // its pods start anew with it
				for m := range 2 {
					pod := fmt.Sprintf("%s-%d", name(i), m)
					if k.row(pod).Phase.Charged() {
						k.must(world.Lost{Name: pod})
					}
				}
				ran[name(i)] = false
				submit(i)
			case b.ended && from.Below(2) == 0:
				k.must(world.JobRemoved{Name: name(i)})
				b.gone = true
			}
			k.audit()
			s := k.w.Snapshot()
			plan := engine.Decide(s, decision.Cycle{Number: uint64(k.at), Now: k.at, Seed: seed}, engine.Headrace(), &memo)
			for _, w := range plan.Waiting {
				p := s.Pod(w.Pod)
				if job := s.Job(p.Spec.Job); job.Known && ready(all, ran, job.Name) {
					t.Fatalf("seed %d, at %v: %s waits (%s), its turn has come", seed, k.at, p.Spec.Name, w.Why.Describe(&s.View))
				}
				held++
			}
			for _, bundle := range plan.Bundles() {
				for _, d := range bundle {
					job := s.Job(s.Pod(d.Pod).Spec.Job).Name
					if b := all[job]; b != nil && !b.gone && !ready(all, ran, job) {
						t.Fatalf("seed %d, at %v: %s is bound, its job comes after %+v", seed, k.at, s.Pod(d.Pod).Spec.Name, b.after)
					}
					bound++
				}
				k.must(world.Acceptance(bundle))
				for _, d := range bundle {
					pod := s.Pod(d.Pod).Spec
					k.must(world.Bound{Name: pod.Name})
					k.must(world.Started{Name: pod.Name})
					ran[s.Job(pod.Job).Name] = true
				}
			}
		}
	}
	if bound < 700 || held < 1000 {
		t.Errorf("%d pods were bound and %d held back: that shows little", bound, held)
	}
}

// Of random changes those are refused, and only those, after which jobs would wait for
// each other; what is said names a way round that is one.
func TestCirclesAreRefusedByName(t *testing.T) {
	refused, taken := 0, 0
	for seed := range int64(300) {
		from := chance.New(seed)
		k := &town{t: t, w: world.New()}
		after := make(map[string][]string)
		jobs := 2 + from.Below(7)
		name := func(i int64) string { return fmt.Sprintf("j%d", i) }
		for range 20 {
			job := name(from.Below(jobs))
			var f world.JobFacts
			var names []string
			for b := range jobs {
				if other := name(b); other != job && from.Below(4) == 0 {
					f.After = append(f.After, world.Dependency{Job: other, When: cluster.DependencyKind(from.Below(3))})
					names = append(names, other)
				}
			}
			var e world.Event = world.JobChanged{Name: job, JobFacts: f}
			if _, known := after[job]; !known {
				e = world.JobAdded{Name: job, JobFacts: f}
			}
			old, known := after[job]
			after[job] = names
			before, circle := k.w.View().Digest(), reaches(after, names, job)
			err := k.w.Apply(k.at, e)
			k.audit()
			if (err != nil) != circle {
				t.Fatalf("seed %d: %s after %v, with %v: error %v, in a circle: %v", seed, job, names, after, err, circle)
			}
			if err == nil {
				taken++
				continue
			}
			refused++
			if k.w.View().Digest() != before {
				t.Fatalf("seed %d: refused, and changed the world", seed)
			}
			_, way, _ := strings.Cut(err.Error(), "they would wait for each other: ")
			round := strings.Split(way, " after ")
			for i := range round[1:] {
				if !slices.Contains(after[round[i]], round[i+1]) {
					t.Fatalf("seed %d: %v: %s does not come after %s in %v", seed, err, round[i], round[i+1], after)
				}
			}
			if len(round) < 3 || round[0] != job || round[len(round)-1] != job {
				t.Fatalf("seed %d: %v: that is no way from %s round to it", seed, err, job)
			}
			if after[job] = old; !known {
				delete(after, job)
			}
		}
	}
	if refused < 500 || taken < 500 {
		t.Errorf("%d refused and %d taken: that shows little", refused, taken)
	}
}

// reaches says whether a job is among others, or among those that they come after.
func reaches(after map[string][]string, from []string, job string) bool {
	return slices.ContainsFunc(from, func(other string) bool {
		if other == job {
			return true
		}
		seen := map[string][]string{}
		for name, names := range after { // order: a copy
			if name != other && name != job {
				seen[name] = names
			}
		}
		return reaches(seen, after[other], job)
	})
}

// What cannot be a dependency is refused by name and value, and changes nothing.
func TestDependencyRefusals(t *testing.T) {
	many := make([]world.Dependency, 1001)
	for i := range many {
		many[i].Job = fmt.Sprint(i)
	}
	on := func(after ...world.Dependency) world.Event {
		return world.JobAdded{Name: "k", JobFacts: world.JobFacts{After: after}}
	}
	for want, e := range map[string]world.Event{
		`job k: after job "", kind 0: must have a name, and be of success, end or start`:  on(world.Dependency{}),
		`job k: after job "j", kind 3: must have a name, and be of success, end or start`: on(world.Dependency{Job: "j", When: 3}),
		`job k: after job j: must be named once`:                                          on(world.Dependency{Job: "j"}, world.Dependency{Job: "j", When: cluster.AfterEnd}),
		`job k: after job k: a job cannot come after itself`:                              on(world.Dependency{Job: "k"}),
		`job k: after 1001 jobs: must be at most 1000`:                                    on(many...),
		`job "k": no such job`:                   world.JobEnded{Name: "k"},
		`job over: it has ended already, at 1us`: world.JobEnded{Name: "over"},
		`job j: began at 5s, ended at 2s, failed: false: must not be after now, 4s, and fail only by ending`: world.JobRecalled{Name: "j", Began: moment.Instant(5 * moment.Second), Ended: moment.Instant(2 * moment.Second)},
	} {
		w := world.New()
		for _, e := range []world.Event{world.JobAdded{Name: "j"}, world.JobAdded{Name: "over"}, world.JobEnded{Name: "over"}} {
			if err := w.Apply(0, e); err != nil {
				t.Fatal(err)
			}
		}
		before := w.View().Digest()
		if err := w.Apply(moment.Instant(4*moment.Second), e); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", e, err, want)
		}
		if w.View().Digest() != before {
			t.Errorf("%+v: refused, and changed the world", e)
		}
	}
}

// The world that remembers many jobs that ended forgets those that ended first.
func TestEndedJobsAreForgotten(t *testing.T) {
	w := world.New()
	const many = 10_003
	for i := range many {
		name := fmt.Sprintf("j%d", i)
		for _, e := range []world.Event{world.JobAdded{Name: name}, world.JobEnded{Name: name}, world.JobRemoved{Name: name}} {
			if err := w.Apply(moment.Instant(i)*moment.Instant(moment.Second), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, want := range map[int]bool{0: false, 2: false, 3: true, many - 1: true} {
		if _, known := w.Job(fmt.Sprintf("j%d", i)); known != want {
			t.Errorf("job %d of %d, each a second after the other: remembered: %v, want %v", i, many, known, want)
		}
	}
	if err := w.Apply(moment.Instant(moment.Day)+moment.Instant(9000*moment.Second), world.Interned{Text: "a day goes by"}); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]bool{8999: false, 9001: true} {
		if _, known := w.Job(fmt.Sprintf("j%d", i)); known != want {
			t.Errorf("job %d, a day after that of 9000s: remembered: %v, want %v", i, known, want)
		}
	}
	if err := cluster.Audit(w.View()); err != nil {
		t.Fatal(err)
	}
}
