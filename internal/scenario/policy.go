package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/rivals"
)

// policyRow is a policy that a file can name.
type policyRow struct {
	name  string
	whole bool
	build func(typical []rivals.Typical) *engine.Policy
}

// policies lists ours first, then those of others.
func policies() []policyRow {
	rows := []policyRow{{name: "headrace", build: func([]rivals.Typical) *engine.Policy { return engine.Headrace() }}}
	for _, r := range rivals.All() {
		rows = append(rows, policyRow{name: r.Name, whole: r.WholeCards, build: func(typical []rivals.Typical) *engine.Policy {
			return r.Policy(rivals.Side{Typical: typical})
		}})
	}
	return rows
}

func policyStatements() []statement {
	return []statement{
		{"policy", form{
			usage: "NAME [seed=N] [preempt|stay] [lend] [reserve=off|head|all] [foretell] [sizes] [warm=off|place,beside,ahead] [tidy[=waiting|demand|nodes|all]] [moves=N] [moves-per-hour=N] [move-price=N] [heirs=first|after] …", least: 1, most: 1,
			fields: append(heirFields(), "seed", "reserve", "warm", "tidy", "moves", "moves-per-hour", "move-price"),
			flags:  []string{"preempt", "stay", "lend", "foretell", "tidy", "sizes"},
		}, true, (*interp).setPolicy},
	}
}

// setPolicy changes the policy. Indented lines name the pods that fgd expects.
func (in *interp) setPolicy(c *call) ([]string, error) {
	name := c.args[0]
	i := slices.IndexFunc(in.policies, func(p policyRow) bool { return p.name == name })
	if i < 0 {
		var names []string
		for _, p := range in.policies {
			names = append(names, p.name)
		}
		return nil, fmt.Errorf("policy %q: no such policy%s", name, suggest(name, names))
	}
	row := &in.policies[i]
	if row.whole != in.whole && in.nodes+in.pods > 0 {
		return nil, fmt.Errorf("policy %s: whole cards and shares do not mix: name it before the first node and pod", name)
	}
	r := c.reader("policy " + name)
	seed := r.number("seed", 0, math.MinInt64, math.MaxInt64)
	modes := []string{"off", "head", "all"}
	mode := r.oneOf("reserve", "off", modes)
	tidies := tidyRules(r)
	preempts, stays, lends, foretells := r.has("preempt"), r.has("stay"), r.has("lend"), r.has("foretell")
	if r.err != nil {
		return nil, r.err
	}
	typical, err := in.typical(c.block)
	if err != nil {
		return nil, err
	}
	in.policy, in.whole, in.seed = row.build(typical), row.whole, seed
	switch {
	case preempts && stays:
		return nil, fmt.Errorf("policy %s: either preempt or stay", name)
	case preempts:
		in.policy = in.policy.Preempting()
	case stays:
		in.policy = in.policy.Staying()
	}
	if lends {
		in.policy = in.policy.Lending()
	}
	if tidies != nil && in.policy.Round != nil {
		return nil, fmt.Errorf("policy %s: tidy: it decides whole rounds, and moves pods by itself or not at all", name)
	}
	in.policy = in.policy.Tidying(tidies)
	if foretells {
		in.policy = in.policy.Foretelling()
	}
	if r.has("sizes") {
		if in.policy.Round != nil {
			return nil, fmt.Errorf("policy %s: sizes: it decides whole rounds, and chooses no sizes", name)
		}
		in.policy = in.policy.Sizing(engine.DefaultSizes())
	}
	if mode > 0 {
		if in.policy.Round != nil {
			return nil, fmt.Errorf("policy %s: reserve=%s: it decides whole rounds, and reserves nothing", name, modes[mode])
		}
		in.policy = in.policy.Reserving(engine.Reserve(mode))
	}
	return nil, in.warmly(r.list("warm"))
}

// typical reads lines "typical [count=N] [cpu=] [gpus=] [share=] [model=]".
func (in *interp) typical(block []blockLine) ([]rivals.Typical, error) {
	var asks []rivals.Ask
	for _, line := range block {
		w := split(line.text)
		if w.name != "typical" {
			return nil, fmt.Errorf("policy: indented line %q: want typical …", line.text)
		}
		if err := w.conform(&form{fields: []string{"count", "cpu", "gpus", "share", "model"}}); err != nil {
			return nil, err
		}
		r := &reader{of: "typical", w: &w}
		ask := rivals.Ask{
			CPU: r.cpu("cpu", 0), Count: int(r.number("gpus", 0, 0, maxGPUs)),
			Milli: quantity.MilliGPU(r.number("share", int64(quantity.WholeGPU), 1, int64(quantity.WholeGPU))), Models: r.list("model"),
		}
		if r.has("share") && !r.has("gpus") {
			ask.Count = 1
		}
		for _, model := range ask.Models {
			if strings.Contains(model, "|") {
				r.fail("model", model, "names without |")
			}
		}
		count := r.number("count", 1, 1, maxCount)
		if r.err != nil {
			return nil, r.err
		}
		for range count {
			asks = append(asks, ask)
		}
	}
	return rivals.TypicalPods(asks, in.world.Symbol), nil
}
