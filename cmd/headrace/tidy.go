package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/internal/core/tidy"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim"
)

// tidyFlags say whether pods are moved.
type tidyFlags struct {
	on    bool
	moves int64
	least []int64
}

func (f *tidyFlags) flags(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.on, "tidy", false, "move running pods where that makes room: in static mode beside a run without, once for each --tidy-least")
	fl.Int64Var(&f.moves, "tidy-moves", 20, "static mode with --tidy: the most moves, in thousandths of the pods placed so far")
	fl.Int64SliceVar(&f.least, "tidy-least", []int64{1000, 500, 250, 1}, "static mode with --tidy: milli-GPU that each move has to place at least, separated by commas")
}

// check refuses what goes with nothing.
func (f *tidyFlags) check(mode string) error {
	const most = 1_000_000
	if f.moves < 0 || f.moves > 1000 {
		return usagef("--tidy-moves %d: must be 0 to 1000", f.moves)
	}
	for _, milli := range f.least {
		if milli < 1 || milli > most {
			return usagef("--tidy-least %d: must be 1 to %d", milli, most)
		}
	}
	if f.on && mode == sim.Static && len(f.least) == 0 {
		return usagef("--tidy-least: name at least one")
	}
	return nil
}

// apply makes of one run what is asked for: itself, and in static mode one for each
// threshold beside it.
func (f *tidyFlags) apply(c sim.Config) []sim.Config {
	if !f.on {
		return []sim.Config{c}
	}
	if c.Mode == sim.Timed {
		rules := tidy.Default()
		c.Tidy = &rules
		return []sim.Config{c}
	}
	out := []sim.Config{c}
	for _, milli := range f.least {
		tidied := c
		tidied.Tidy, tidied.TidyMoves = sim.LeastRules(milli), f.moves
		out = append(out, tidied)
	}
	return out
}

// apartTidied keeps runs with moves apart from the others.
func apartTidied(results []meter.Result) (plain, tidied []meter.Result) {
	for _, r := range results {
		if r.Tidied != nil {
			tidied = append(tidied, r)
		} else {
			plain = append(plain, r)
		}
	}
	return plain, tidied
}

// writeTidied prints what moves came to, one line for each policy and threshold: means
// over the seeds.
func writeTidied(w io.Writer, plain, tidied []meter.Result) error {
	if len(tidied) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nWith pods moved where a move places so much at least\n\n")
	rows := [][]string{{"policy", "at least", "moves", "‰ of placed", "unlocked", "milli per move", "alloc@100 %", "@130 %", "more"}}
	order, before := group(plain)
	_, by := group(tidied)
	for _, policy := range order {
		base := meanOf(before[policy], at(130, allocation))
		var least []int64
		of := make(map[int64][]*meter.Result)
		for _, r := range by[policy] {
			if milli := r.Tidied.LeastMilli; of[milli] == nil {
				least = append(least, milli)
			}
			of[r.Tidied.LeastMilli] = append(of[r.Tidied.LeastMilli], r)
		}
		for _, milli := range least {
			cell := func(digits int, value func(*meter.Result) float64) string {
				return strconv.FormatFloat(meanOf(of[milli], value), 'f', digits, 64)
			}
			moves, unlocked := 0, int64(0)
			for _, r := range of[milli] {
				moves, unlocked = moves+r.Tidied.Moves, unlocked+r.Tidied.MilliUnlocked
			}
			each := "-"
			if moves > 0 {
				each = strconv.FormatFloat(float64(unlocked)/float64(moves), 'f', 0, 64)
			}
			rows = append(rows, []string{
				policy, strconv.FormatInt(milli, 10),
				cell(1, func(r *meter.Result) float64 { return float64(r.Tidied.Moves) }),
				cell(2, func(r *meter.Result) float64 { return r.Tidied.MovesPermille }),
				cell(1, func(r *meter.Result) float64 { return float64(r.Tidied.PodsUnlocked) }),
				each, cell(2, at(100, allocation)), cell(2, at(130, allocation)),
				strconv.FormatFloat(meanOf(of[milli], at(130, allocation))-base, 'f', 3, 64),
			})
		}
	}
	return align(w, rows)
}
