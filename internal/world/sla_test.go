package world_test

import (
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/world"
)

// What an SLA class cannot be is refused, with the field, the value and what is allowed.
func TestSLARefusals(t *testing.T) {
	for name, c := range map[string]struct {
		event world.Event
		says  string
	}{
		"no name":       {world.SLADefined{}, "name: must not be empty"},
		"negative":      {world.SLADefined{Name: "x", SLATerms: cluster.SLATerms{Total: -1}}, "must not be negative"},
		"too long":      {world.SLADefined{Name: "x", SLATerms: cluster.SLATerms{PerRun: world.MostPerRun + 1}}, "at most 1000000"},
		"gives":         {world.SLADefined{Name: "x", SLATerms: cluster.SLATerms{Gives: 9}}, "gives 9: must be below 4"},
		"from alone":    {world.SLADefined{Name: "x", SLATerms: cluster.SLATerms{From: 3}}, "from priority 3: must be 0"},
		"unknown":       {world.SLARemoved{Name: "x"}, "must be one of always-on, batch, interactive, patient, standard"},
		"of a new job":  {world.JobAdded{Name: "j", JobFacts: world.JobFacts{SLA: "gold"}}, `SLA class "gold": must be one of always-on`},
		"of an old job": {world.JobChanged{Name: "old", JobFacts: world.JobFacts{SLA: "gold"}}, `SLA class "gold": must be one of always-on`},
		"in use":        {world.SLARemoved{Name: "batch"}, "job old is of it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New()
			if err := w.Apply(0, world.JobAdded{Name: "old", JobFacts: world.JobFacts{SLA: "batch"}}); err != nil {
				t.Fatal(err)
			}
			before := w.View().Digest()
			err := w.Apply(0, c.event)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if w.View().Digest() != before {
				t.Error("the refused event has changed the world")
			}
		})
	}
	w := world.New()
	for i := range 70 {
		err := w.Apply(0, world.SLADefined{Name: strings.Repeat("x", i+1)})
		if refused := err != nil; refused != (i >= 64-5) {
			t.Fatalf("class %d: %v", i, err)
		}
	}
}

// Whatever happens to classes, jobs and pods, in any order, the pods have what the class
// says that they are of: the audit recomputes it. Urgency is the part of the promise that
// is used up.
func TestSLAsReachPods(t *testing.T) {
	for seed := range int64(200) {
		w, s := world.New(), chance.New(seed)
		names := []string{"always-on", "patient", "batch", "a", "b", ""}
		name := func() string { return names[s.Below(int64(len(names)))] }
		number := func(n int64) int32 { return int32(s.Below(n)) }
		for i := range 60 {
			at := moment.Instant(i) * moment.Instant(moment.Minute)
			var e world.Event
			switch s.Below(6) {
			case 0:
				e = world.SLADefined{Name: name(), SLATerms: cluster.SLATerms{
					Total: moment.Span(number(3)) * moment.Hour, PerRun: quantity.Milli(number(3000)), Gives: cluster.Giving(number(4)), Keeps: number(2) == 0,
				}}
			case 1:
				e = world.SLADefined{Name: name(), SLATerms: cluster.SLATerms{ByPriority: true, From: number(4), Gives: cluster.Giving(number(4))}}
			case 2:
				e = world.SLARemoved{Name: name()}
			case 3:
				e = world.JobAdded{Name: string(rune('j' + s.Below(3))), JobFacts: world.JobFacts{SLA: name(), Priority: number(5), Expected: moment.Span(number(4)) * moment.Hour}}
			case 4:
				e = world.JobRemoved{Name: string(rune('j' + s.Below(3)))}
			case 5:
				e = world.PodAdded{Name: string(rune('A' + s.Below(26))), Job: []string{"", "j", "k", "l"}[s.Below(4)], Priority: number(4)}
			}
			_ = w.Apply(at, e) // much is refused
			if err := cluster.Audit(&w.Snapshot().View); err != nil {
				t.Fatalf("seed %d, after %+v: %v", seed, e, err)
			}
		}
		v := w.View()
		for i := range v.Pods.Len() {
			p := v.Pod(cluster.PodID(i))
			if p.Spec.SLA == 0 {
				continue
			}
			total := v.SLA(v.Symbols.Text(p.Spec.SLA)).PromiseTo(p.Spec.Expected)
			if total == 0 {
				continue
			}
			if got, want := rank.Urgency(p, p.Arrived.Add(total/4)), int64(decision.ScoreOne/4); got > want || got < want-1 {
				t.Errorf("seed %d: urgency after a quarter of %v is %d, want %d", seed, total, got, want)
			}
		}
	}
}

// The order of classes can be switched off alone: then who loses less goes first, and
// what never gives way stays all the same.
func TestClassBlind(t *testing.T) {
	victims := func(p *engine.Policy, patient string) (out []string) {
		w := world.New()
		apply := func(at moment.Instant, e world.Event) {
			t.Helper()
			if err := w.Apply(at, e); err != nil {
				t.Fatal(err)
			}
		}
		apply(0, world.NodeAdded{
			Name: "n", CPU: 9000, Memory: quantity.GiB, Pods: 9, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent,
			Devices: []world.Device{{Model: "A100", Memory: quantity.GiB}, {Model: "A100", Memory: quantity.GiB}},
		})
		gpu := world.Request{Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.WholeGPU}}}
		apply(0, world.JobAdded{Name: "p", JobFacts: world.JobFacts{SLA: patient}})
		apply(0, world.PodAdded{Name: "patient", Job: "p", Request: gpu})
		apply(0, world.PodFound{Name: "patient", Node: "n"})
		apply(0, world.Started{Name: "patient"})
		hour := moment.Instant(moment.Hour)
		apply(hour, world.PodAdded{Name: "young", Request: gpu})
		apply(hour, world.PodFound{Name: "young", Node: "n"})
		apply(hour, world.Started{Name: "young"})
		apply(2*hour, world.PodAdded{Name: "taker", Priority: 5, Request: gpu})
		s := w.Snapshot()
		plan := engine.Decide(s, decision.Cycle{Number: 1, Now: 2 * hour}, p, nil)
		for _, d := range plan.Decisions {
			if d.Action == cluster.ActionEvict {
				out = append(out, s.Pod(d.Pod).Spec.Name)
			}
		}
		return out
	}
	for _, c := range []struct {
		policy        *engine.Policy
		patient, want string
	}{
		{engine.Headrace(), "patient", "patient"},
		{engine.Headrace().ClassBlind(), "patient", "young"},
		{engine.Headrace(), "batch", "young"},
		{engine.Headrace().ClassBlind(), "always-on", "young"},
	} {
		if got := victims(c.policy, c.patient); len(got) != 1 || got[0] != c.want {
			t.Errorf("class %s, blind %v: evicted %v, want %s", c.patient, c.policy.Yields.ClassBlind, got, c.want)
		}
	}
}
