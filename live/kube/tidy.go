package kube

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/tidy"
)

// tidyOff moves nobody.
const tidyOff = "off"

// TidyModes lists what pods may be moved for.
func TidyModes() []string { return []string{tidyOff, "waiting", "nodes", "demand", "all"} }

// TidyNamed returns the rules by which pods are moved, by the name of the mode; nil for
// none. Only pods move that others come for: a pod without an owner does not come back.
// Surge says that Deployments which allow it may be scaled for that.
func TidyNamed(mode string, surge bool) (*tidy.Rules, error) {
	rules := tidy.Default()
	rules.Owned, rules.Surge = true, surge
	switch slices.Index(TidyModes(), mode) {
	case 0:
		return nil, nil
	case 1:
		rules.For = tidy.Waiting
	case 2:
		rules.For = tidy.Nodes
	case 3:
		rules.For = tidy.Demand
	case 4:
		rules.For = tidy.Waiting | tidy.Nodes | tidy.Demand
	default:
		return nil, fmt.Errorf("%q: must be %s", mode, strings.Join(TidyModes(), ", "))
	}
	return &rules, nil
}

// evicts says whether anybody may be told to go.
func (c *Config) evicts() bool { return c.Preemption || c.Tidy != nil }

// tidied returns a policy under which pods move as the configuration says.
func (c *Config) tidied(p *engine.Policy) *engine.Policy {
	if c.Tidy == nil || p.Round != nil {
		return p // nobody moves, or it decides whole rounds
	}
	return p.Tidying(c.Tidy)
}
