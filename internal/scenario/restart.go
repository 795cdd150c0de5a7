package scenario

import (
	"fmt"
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

// past is an event with its time.
type past struct {
	at    moment.Instant
	event world.Event
}

// restart drops all that the scheduler remembers by itself and builds the world
// anew from what was written down. It must come to the same state.
func (in *interp) restart(c *call) ([]string, error) {
	if c.args[0] != "scheduler" {
		return nil, fmt.Errorf("restart: what %q: want scheduler", c.args[0])
	}
	anew := world.New()
	for _, p := range in.past {
		if err := anew.Apply(p.at, p.event); err != nil {
			return nil, violated("a restart refuses %T at %v: %v", p.event, p.at, err)
		}
	}
	if a, b := in.view().Digest(), anew.View().Digest(); a != b {
		return nil, violated("a restart comes to digest %016x, it was %016x", b, a)
	}
	in.world, in.memo = anew, engine.Memo{}
	return nil, nil
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
