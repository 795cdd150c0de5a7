package kube

import (
	policyv1 "k8s.io/api/policy/v1"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// BudgetIs tells what a disruption budget is now.
func (t *Trial) BudgetIs(p *policyv1.PodDisruptionBudget) { t.books.budgetSeen(facts.BudgetOf(p)) }

// Evictions returns who would be evicted for whom since it was last asked.
func (t *Trial) Evictions() []Eviction { return t.books.takeEvictions() }

// Chosen returns where a pod was placed by this trial and what spoke for it; false
// for one that was not.
func (t *Trial) Chosen(key string) (string, explain.Chosen, bool) {
	p := t.books.pods[key]
	if p == nil || p.story.chosen == nil || p.footing != placing && p.footing != charged {
		return "", explain.Chosen{}, false
	}
	return p.node, *p.story.chosen, true
}
