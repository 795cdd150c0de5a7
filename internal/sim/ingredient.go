package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/rank"
	"github.com/headrace-dev/headrace/internal/core/warm"
)

// An Ingredient is a part of our own policy that a run can leave out, to see what it
// gives.
type Ingredient struct {
	Name, About string
	leaveOut    func(r *run)
}

// Ingredients lists what Config.Without can name.
func Ingredients() []Ingredient {
	return []Ingredient{
		{"sharing", "several pods on one card: every share takes a whole card", func(r *run) { r.whole = true }},
		{"need", "shares charged by what their kind needs: they are charged with what they ask for", func(r *run) { r.learner.needs.Charge = 0 }},
		{"slices", "quarters lent before anybody is evicted", func(r *run) { r.decider.Lends = false }},
		{"topology", "devices of one NUMA node preferred", func(r *run) {
			w := rank.DefaultWeights()
			w.Affinity = 0
			plain := engine.HeadraceWith(w)
			r.decider.Scarce, r.decider.Affinity = plain.Scarce, plain.Affinity
		}},
		{"caches", "pods placed where what they need is cached", func(r *run) { r.warms(func(w *warm.Rules) { w.Second = 0 }) }},
		{"prefetch", "images and weights fetched beside the pod's own pulls and ahead of them", func(r *run) {
			r.warms(func(w *warm.Rules) { w.Beside, w.Ahead = false, false })
		}},
		{"fetch-first", "pods that wait without a place while what they lack is fetched", func(r *run) {
			r.warms(func(w *warm.Rules) { w.First = false })
		}},
	}
}

// label names the policy of a run in results.
func (c *Config) label() string {
	if len(c.Without) == 0 {
		return c.Policy
	}
	return c.Policy + " without " + strings.Join(c.Without, ", ")
}

// warms changes the rules of warm starts.
func (r *run) warms(change func(*warm.Rules)) {
	rules := *r.decider.Warms
	change(&rules)
	r.decider = r.decider.Warming(&rules)
}

// leaveOut takes out of our own policy what the run is to do without.
func (r *run) leaveOut() error {
	for _, name := range r.Without {
		all := Ingredients()
		i := slices.IndexFunc(all, func(g Ingredient) bool { return g.Name == name })
		switch {
		case i < 0:
			return fmt.Errorf("without %q: no such ingredient", name)
		case r.learner == nil:
			continue // policies of others have none of them
		}
		all[i].leaveOut(r)
	}
	return nil
}
