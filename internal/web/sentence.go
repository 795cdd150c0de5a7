package web

import (
	"fmt"
	"math"
	"strconv"

	"github.com/headrace-dev/headrace/internal/meter"
)

// entry is one policy in a comparison.
type entry struct {
	policy string
	spread
}

// contest is a measure over the policies that know it, with the words to tell
// the outcome. The first entry is the reference.
type contest struct {
	entries []entry
	aim     aim
	has     string                           // "allocates"
	wins    string                           // "allocates most"
	say     func(v float64) string           // "93.1 % of the GPU capacity"
	gap     func(best, other float64) string // "2.4 points more than"; empty when none shows
}

// sentence tells the outcome of a study in one line or two.
func sentence(s study) string {
	if s.mode == static {
		return staticSentence(s)
	}
	return timedSentence(s)
}

func staticSentence(s study) string {
	at := s.reach()
	entries := s.entries(allocatedAt(at, ""))
	if at == 0 || len(entries) == 0 {
		return placedSentence(s)
	}
	c := contest{
		entries: entries, aim: high,
		has:  "allocates",
		wins: "allocates most",
		say:  func(v float64) string { return figure(v, 1) + nbsp + "% of the GPU capacity" },
		gap: func(best, other float64) string {
			if d := figure(best-other, 1); d != "0.0" {
				return d + " points more than"
			}
			return ""
		},
	}
	return fmt.Sprintf("At %d%s%% arrived demand, %s", at, nbsp, c.tell())
}

func timedSentence(s study) string {
	for _, try := range []struct {
		name string
		of   func(*meter.Result) *float64
	}{
		{"p99 completion time", func(r *meter.Result) *float64 { return r.JCTP99S }},
		{"mean completion time", func(r *meter.Result) *float64 { return r.JCTMeanS }},
		{"p99 waiting time", func(r *meter.Result) *float64 { return r.WaitP99S }},
		{"mean waiting time", func(r *meter.Result) *float64 { return r.WaitMeanS }},
	} {
		m := measure{try.name, seconds, low, func(r *meter.Result) float64 { return known(try.of(r)) }}
		if entries := s.entries(m); len(entries) > 0 {
			c := contest{
				entries: entries, aim: low,
				has:  "has a " + try.name + " of",
				wins: "has the lowest " + try.name,
				say:  duration,
				gap:  percentBelow,
			}
			return s.opening() + c.tell() + s.leftOver(c)
		}
	}
	return placedSentence(s)
}

func percentBelow(best, other float64) string {
	if other <= 0 {
		return ""
	}
	if d := figure((other-best)/other*100, 1); d != "0.0" {
		return d + nbsp + "% below"
	}
	return ""
}

func placedSentence(s study) string {
	c := contest{
		entries: s.entries(measure{"Placed", pods, high, placed}), aim: high,
		has:  "places",
		wins: "places most",
		say:  func(v float64) string { return count(v) + " pods" },
		gap: func(best, other float64) string {
			if d := count(best - other); d != "0" {
				return d + " more than"
			}
			return ""
		},
	}
	return s.opening() + c.tell()
}

// opening starts a sentence, so that none starts with a policy's name, which
// has no capital.
func (s study) opening() string {
	if s.load != "" {
		return fmt.Sprintf("At %s%s%% offered load, ", s.load, nbsp)
	}
	seeds := 0
	for _, g := range s.groups {
		seeds = max(seeds, len(g.runs))
	}
	if seeds > 1 {
		return fmt.Sprintf("Over %d seeds, ", seeds)
	}
	return "In this run, "
}

func count(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// entries lists the policies that know the measure.
func (s study) entries(m measure) []entry {
	var out []entry
	for _, g := range s.groups {
		if sp := m.over(g); sp.n > 0 {
			out = append(out, entry{g.policy, sp})
		}
	}
	return out
}

// pair returns the winner and whom it is measured against: the first policy,
// or the runner-up where the first policy won. Equal figures keep the order.
func (c contest) pair() (best, other entry) {
	at := 0
	for i, e := range c.entries {
		if c.aim.prefers(e.mean, c.entries[at].mean) {
			at = i
		}
	}
	if at > 0 && c.gap(c.entries[at].mean, c.entries[0].mean) == "" {
		at = 0 // no difference that shows
	}
	best = c.entries[at]
	if at > 0 {
		return best, c.entries[0]
	}
	other = c.entries[1]
	for _, e := range c.entries[2:] {
		if c.aim.prefers(e.mean, other.mean) {
			other = e
		}
	}
	return best, other
}

func (c contest) tell() string {
	first := c.entries[0]
	if len(c.entries) == 1 {
		return fmt.Sprintf("%s %s %s.", first.policy, c.has, c.say(first.mean))
	}
	if c.level() {
		return fmt.Sprintf("all %d policies are level: each %s %s.", len(c.entries), c.has, c.say(first.mean))
	}
	best, other := c.pair()
	role := "the first policy"
	if best.policy == first.policy {
		role = "the next best"
	}
	gap := c.gap(best.mean, other.mean)
	if gap == "" {
		gap = "level with"
	}
	text := fmt.Sprintf("%s %s: %s, %s %s, %s.", best.policy, c.wins, c.say(best.mean), gap, other.policy, role)
	if best.n > 1 && other.n > 1 && math.Abs(best.mean-other.mean) <= math.Hypot(best.sd, other.sd) {
		text += " That difference is within the spread over seeds."
	}
	return text
}

// level reports whether no two policies differ by anything that shows.
func (c contest) level() bool {
	lowest, top := c.entries[0].mean, c.entries[0].mean
	for _, e := range c.entries {
		lowest, top = min(lowest, e.mean), max(top, e.mean)
	}
	if c.aim == low {
		return c.gap(lowest, top) == ""
	}
	return c.gap(top, lowest) == ""
}

// leftOver warns where the winner looks good because it left more pods behind:
// a pod that never finished has no completion time.
func (s study) leftOver(c contest) string {
	if len(c.entries) < 2 || c.level() {
		return ""
	}
	behind := func(policy string) float64 {
		for _, g := range s.groups {
			if g.policy == policy {
				m := measure{of: func(r *meter.Result) float64 { return float64(r.Failed + r.Unfinished) }}
				return m.over(g).mean
			}
		}
		return 0
	}
	best, other := c.pair()
	mine, theirs := behind(best.policy), behind(other.policy)
	if count(mine) == count(theirs) || mine < theirs {
		return ""
	}
	return fmt.Sprintf(" But it leaves %s pods failed or unfinished, against %s under %s; those are not in the figure.",
		count(mine), count(theirs), other.policy)
}
