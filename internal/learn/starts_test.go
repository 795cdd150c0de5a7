package learn

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
)

// Whatever quotients are like, eight of ten fall between the low and the high one, and as
// many are below the likely one as above; also where they come in bursts of a hundred
// alike.
func TestStartsHold(t *testing.T) {
	from := chance.New(1)
	uniform := func() float64 { return float64(from.Below(1_000_000)+1) / 1_000_001 }
	burst := 0.0
	for name, draw := range map[string]func(i int) float64{
		"level":      func(int) float64 { return uniform() },
		"heavy tail": func(int) float64 { return math.Pow(uniform(), -2) },
		"two kinds":  func(i int) float64 { return []float64{0.01, 100, 100}[i%3] * (0.5 + uniform()) },
		"bursts": func(i int) float64 {
			if i%100 == 0 {
				burst = math.Exp(4*uniform() - 2)
			}
			return burst * (0.95 + 0.1*uniform())
		},
	} {
		var s Starts
		held, below, n := 0, 0, 40_000
		for i := range n {
			now := moment.Instant(i) * moment.Instant(moment.Day) / 100
			q := draw(i)
			if c, known := s.Table(now).ByCell[1]; known {
				if milli := 1000 * q; milli >= float64(c.Low) && milli <= float64(c.High) {
					held++
				}
				if 1000*q <= float64(c.Likely) {
					below++
				}
			}
			if i%100 == 99 { // what was foretold on a day is over in the evening
				for k := i - 99; k <= i; k++ {
					s.Over(q, now, 1, 2)
				}
			} else if name != "bursts" {
				s.Over(q, now, 1, 2)
			}
		}
		if share := float64(held) / float64(n); share < 0.72 || share > 0.88 {
			t.Errorf("%s: %.3f within, want 0.72 to 0.88", name, share)
		}
		if share := float64(below) / float64(n); share < 0.4 || share > 0.6 {
			t.Errorf("%s: %.3f below the likely one, want half", name, share)
		}
	}
}

// A day counts as much as another, whatever came on it; nothing is said of few waits, and
// days of a month ago are forgotten.
func TestStartsGoByDays(t *testing.T) {
	var s Starts
	for range leastWaits - 1 {
		s.Over(1, 0, 1)
	}
	if _, known := s.Table(0).ByCell[1]; known {
		t.Errorf("something is said after %d waits", leastWaits-1)
	}
	for range 1000 {
		s.Over(1, 0, 1)
	}
	s.Over(math.E, moment.Instant(moment.Day), 1)
	c := s.Table(moment.Instant(moment.Day)).ByCell[1]
	if c.Low != 975 || c.Likely != 1000 || c.High < 2750 || c.High > 2850 {
		t.Errorf("a day of a thousand waits as foretold and one of a single longer one: %+v, want 1000, 1000 and e", c)
	}
	if c, known := s.Table(moment.Instant(moment.Day) * (daysKept + 1)).ByCell[1]; known {
		t.Errorf("a month later: %+v, want nothing", c)
	}
}

// What is kept and brought back says the same; what no Starts can have come to is refused.
func TestStartsAreBroughtBack(t *testing.T) {
	var a Starts
	from, day := chance.New(7), moment.Instant(moment.Day)
	for i := range 900 {
		a.Over(float64(from.Below(3000)+1)/1000, moment.Instant(i)*day/30, uint64(1+i%2), 9)
	}
	last := 30 * day
	b, err := StartsFrom(a.Cells(10))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a.Table(last), b.Table(last)); diff != "" || len(b.Table(last).ByCell) != 3 {
		t.Errorf("brought back, - as it was, + as it came back:\n%s", diff)
	}
	if most := a.Cells(1); len(most) != 1 || most[0].Cell != 9 {
		t.Errorf("the cell with most waits: %+v, want 9", most)
	}
	good := DayWaits{Day: 3, Grains: []int32{4}, Count: []int32{5}}
	for name, bad := range map[string][]CellWaits{
		"twice":     {{Cell: 1, Days: []DayWaits{good}}, {Cell: 1, Days: []DayWaits{good}}},
		"order":     {{Cell: 1, Days: []DayWaits{good, good}}},
		"early":     {{Cell: 1, Days: []DayWaits{{Day: -1, Grains: []int32{4}, Count: []int32{5}}}}},
		"grain":     {{Cell: 1, Days: []DayWaits{{Day: 3, Grains: []int32{int32(grains)}, Count: []int32{5}}}}},
		"count":     {{Cell: 1, Days: []DayWaits{{Day: 3, Grains: []int32{4}, Count: []int32{0}}}}},
		"overflow":  {{Cell: 1, Days: []DayWaits{{Day: 3, Grains: []int32{4, 5}, Count: []int32{mostWaits, 1}}}}},
		"step":      {{Cell: 1, Days: []DayWaits{{Day: 3, Grains: []int32{4}}}}},
		"no waits":  {{Cell: 1, Days: []DayWaits{{Day: 3}}}},
		"many days": {{Cell: 1, Days: make([]DayWaits, daysKept+2)}},
	} {
		if _, err := StartsFrom(bad); err == nil {
			t.Errorf("%s: %+v is not refused", name, bad)
		}
	}
}
