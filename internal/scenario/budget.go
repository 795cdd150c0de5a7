package scenario

import (
	"fmt"
	"math"

	"github.com/headrace-dev/headrace/internal/world"
)

func budgetStatements() []statement {
	return []statement{
		{"budget", form{usage: "NAME left=N", least: 1, most: 1, fields: []string{"left"}}, false, (*interp).setBudget},
	}
}

// setBudget says how many of the pods that count against a budget may be evicted.
func (in *interp) setBudget(c *call) ([]string, error) {
	if err := named("budget", c.args[0]); err != nil {
		return nil, err
	}
	r := c.reader("budget " + c.args[0])
	left := r.number("left", -1, 0, math.MaxInt32)
	if r.err != nil {
		return nil, r.err
	}
	if left < 0 {
		return nil, fmt.Errorf("budget %s: field left is missing", c.args[0])
	}
	return nil, in.apply(world.BudgetKnown{Name: c.args[0], Left: int32(left)})
}

// hasBudget says whether a budget is known; nothing always is.
func (in *interp) hasBudget(name string) bool {
	v := in.view()
	for i := range v.Budgets.Len() {
		if v.Budgets.At(int32(i)).Name == name {
			return true
		}
	}
	return name == ""
}

// spend lowers a budget by one, as the cluster does when it takes an eviction in.
func (in *interp) spend(name string) error {
	v := in.view()
	for i := range v.Budgets.Len() {
		if b := v.Budgets.At(int32(i)); name != "" && b.Name == name && b.Left > 0 {
			return in.apply(world.BudgetKnown{Name: name, Left: b.Left - 1})
		}
	}
	return nil
}
