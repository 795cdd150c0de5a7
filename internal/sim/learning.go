package sim

import (
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/learn"
	"github.com/headrace-dev/headrace/internal/world"
)

// learner follows what arrives, for policies that expect.
type learner struct {
	demand  learn.Demand
	version uint64
}

// learn tells the learner of an arrival, and the world of what was learned.
func (r *run) learn(pod string) error {
	if r.learner == nil {
		return nil
	}
	v := r.world.View()
	id, _ := r.world.Pod(pod)
	if !r.learner.demand.Observe(v, v.Pod(id).Spec.Shape) {
		return nil
	}
	r.learner.version++
	return r.apply(r.world.Now(), world.Learned{Beliefs: &cluster.Beliefs{
		Version: r.learner.version,
		Demand:  r.learner.demand.Table(),
		Worth:   learn.Worth(v, &r.learner.demand),
	}})
}
