package engine

import "github.com/headrace-dev/headrace/internal/core/rank"

// ClassBlind returns the policy without the order in which SLA classes give way: the
// priority band alone decides first. What never gives way stays all the same.
func (p *Policy) ClassBlind() *Policy {
	out := *p
	if p.Yields != nil {
		rules := *p.Yields
		rules.ClassBlind = true
		out.Yields = &rules
	}
	return &out
}

// Tiered returns the policy, under which others give way, with work set back when it
// has run for so long.
func (p *Policy) Tiered(tiers rank.Tiers) *Policy {
	out, rules := *p, *p.Yields
	rules.Tiers = tiers
	out.Yields = &rules
	return &out
}
