package world_test

import (
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// What a pod says of itself comes before what its job says, whichever comes first.
func TestPodsInheritFromTheirJob(t *testing.T) {
	facts := world.JobFacts{Kind: "llm", Queue: "tenants", Priority: 7, Expected: moment.Hour, Unpreemptible: true}
	for name, before := range map[string]bool{"job first": true, "pod first": false} {
		t.Run(name, func(t *testing.T) {
			w := world.New()
			apply := func(e world.Event) {
				t.Helper()
				if err := w.Apply(0, e); err != nil {
					t.Fatal(err)
				}
			}
			apply(world.QueueAdded{Name: "tenants", Weight: quantity.One})
			if before {
				apply(world.JobAdded{Name: "j", JobFacts: facts})
			}
			apply(world.PodAdded{Name: "plain", Job: "j"})
			apply(world.PodAdded{Name: "own", Job: "j", Priority: 3, Kind: "cnn", Expected: moment.Minute})
			if !before {
				apply(world.JobAdded{Name: "j", JobFacts: facts})
			}
			check := func(name string, priority int32, kind string, expected moment.Span, queued, protected bool) {
				t.Helper()
				v := w.View()
				id, _ := w.Pod(name)
				s := v.Pod(id).Spec
				if s.Priority != priority || v.Symbols.Text(s.Kind) != kind || s.Expected != expected || (s.Queue != cluster.None) != queued || s.Protected != protected {
					t.Errorf("%s: priority %d, kind %q, expected %v, queue %d, protected %v", name, s.Priority, v.Symbols.Text(s.Kind), s.Expected, s.Queue, s.Protected)
				}
				if err := cluster.Audit(v); err != nil {
					t.Error(err)
				}
			}
			check("plain", 7, "llm", moment.Hour, true, true)
			check("own", 3, "cnn", moment.Minute, true, true)
			apply(world.JobRemoved{Name: "j"})
			check("plain", 0, "", 0, false, false)
			check("own", 3, "cnn", moment.Minute, false, false)
			apply(world.PodRemoved{Name: "plain"})
			apply(world.PodRemoved{Name: "own"})
			if _, known := w.Job("j"); known {
				t.Error("a job that nobody names any more is still there")
			}
		})
	}
}

// Bad facts are refused by name and value, and change nothing.
func TestJobRefusals(t *testing.T) {
	for want, e := range map[string]world.Event{
		`job: name "": must be new and not empty`:                                                 world.JobAdded{},
		`job: name "j": must be new and not empty`:                                                world.JobAdded{Name: "j"},
		`job k: queue "q": no such queue`:                                                         world.JobAdded{Name: "k", JobFacts: world.JobFacts{Queue: "q"}},
		`job k: workers 3 to 2: must not be negative, the least not more than the most`:           world.JobAdded{Name: "k", JobFacts: world.JobFacts{MinWorkers: 3, MaxWorkers: 2}},
		`job k: disruptions -2: must not be negative`:                                             world.JobAdded{Name: "k", JobFacts: world.JobFacts{Disruptions: -2}},
		`job k: checkpoint at 1m: it is only 1s`:                                                  world.JobAdded{Name: "k", JobFacts: world.JobFacts{Checkpoint: world.Checkpoint{Last: moment.Instant(moment.Minute)}}},
		`job j: checkpoint at 1m: must be from 0s to now, 1s`:                                     world.JobCheckpointed{Name: "j", At: moment.Instant(moment.Minute)},
		`job "k": no such job`:                                                                    world.JobRemoved{Name: "k"},
		`job j: SLA -1us, expected 0s, deadline 0s: must not be negative`:                         world.JobChanged{Name: "j", JobFacts: world.JobFacts{SLATotal: -1}},
		`job j: checkpoint at 0s, every 0s, written in -1us, restart in 0s: must not be negative`: world.JobChanged{Name: "j", JobFacts: world.JobFacts{Checkpoint: world.Checkpoint{Write: -1}}},
	} {
		w := world.New()
		if err := w.Apply(0, world.JobAdded{Name: "j"}); err != nil {
			t.Fatal(err)
		}
		before := w.View().Digest()
		if err := w.Apply(moment.Instant(moment.Second), e); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", e, err, want)
		}
		if w.View().Digest() != before {
			t.Errorf("%+v: refused, and changed the world", e)
		}
	}
}
