package cluster

// Budget is how many of a set of pods may be evicted now, whoever asks for it: a
// disruption budget.
type Budget struct {
	Name string
	Key  uint64
	Left int32
}

// BudgetOf returns the budget that a pod's eviction counts against; nil without
// one.
func (v *View) BudgetOf(p *Pod) *Budget {
	if p.Budget < 0 || int(p.Budget) >= v.Budgets.Len() {
		return nil
	}
	return v.Budgets.At(int32(p.Budget))
}

// AddBudget adds a budget.
func (l *Ledger) AddBudget(b Budget) BudgetID { return BudgetID(l.Budgets.grow(l.owner, b)) }

// SetBudget says how much is left of a budget.
func (l *Ledger) SetBudget(id BudgetID, left int32) {
	l.Budgets.own(int32(id), l.owner, l.recording).Left = left
}
