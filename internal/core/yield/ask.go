package yield

import "github.com/headrace-dev/headrace/internal/core/cluster"

// Evictable says whether a pod may be evicted for anybody, and its disruption budget bears
// it; what was spent before by Spend counts.
func (s *Search) Evictable(id cluster.PodID) bool {
	p := s.base.Pod(id)
	return s.evictable(p) && s.bears(p, map[cluster.BudgetID]int32{})
}

// Spend counts the eviction of a pod against its disruption budget; n is -1 for one that
// does not come about.
func (s *Search) Spend(id cluster.PodID, n int32) {
	if p := s.base.Pod(id); s.base.BudgetOf(p) != nil {
		s.spent[p.Budget] += n
	}
}
