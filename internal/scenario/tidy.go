package scenario

import "github.com/headrace-dev/headrace/internal/core/tidy"

// tidyRules reads by which rules pods are moved; nil: none are.
func tidyRules(r *reader) *tidy.Rules {
	kinds := []string{"waiting", "demand", "nodes", "all"}
	kind := r.oneOf("tidy", "waiting", kinds)
	rules := tidy.Default()
	rules.For = [...]tidy.Gains{tidy.Waiting, tidy.Demand, tidy.Nodes, tidy.Waiting | tidy.Demand | tidy.Nodes}[kind]
	rules.AtOnce = int32(r.number("moves", int64(rules.AtOnce), 1, maxCount))
	rules.PerHour = int32(r.number("moves-per-hour", int64(rules.PerHour), 0, maxCount))
	const most = 1_000_000_000_000
	rules.Price = r.number("move-price", rules.Price, 0, most)
	heirRules(r, &rules)
	if r.has("tidy") {
		return &rules
	}
	for _, name := range append(heirFields(), "moves", "moves-per-hour", "move-price") {
		if r.has(name) {
			r.fail(name, r.text(name, ""), "nothing: it goes with tidy")
		}
	}
	return nil
}
