package cluster

// Budget is how many of a set of pods may be evicted now, whoever asks for it: a
// disruption budget.
type Budget struct {
	Name string
	Key  uint64
	Left int32
	// Told counts how often that was said. Evictions accepted since then are not in it.
	Told uint32
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
	b := l.Budgets.own(int32(id), l.owner, l.recording)
	b.Left = left
	b.Told++
}

// Outstanding counts, by budget, the evictions under way that what is left of it does
// not count yet.
func (v *View) Outstanding() map[BudgetID]int32 {
	out := make(map[BudgetID]int32)
	for i := range v.Intents.Len() {
		if in := v.Intents.At(int32(i)); in.ID != 0 && v.outstanding(in) {
			out[in.Budget]++
		}
	}
	return out
}

func (v *View) outstanding(in *Intent) bool {
	return in.Action == ActionEvict && in.Budget != None && in.Told == v.Budgets.At(int32(in.Budget)).Told
}
