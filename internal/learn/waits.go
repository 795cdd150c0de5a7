package learn

import (
	"cmp"
	"fmt"
	"slices"
)

// CellWaits are the waits of a cell that are over, by day, as values that can be kept and
// brought back.
type CellWaits struct {
	Cell uint64
	Days []DayWaits // the oldest first
}

// DayWaits are those of one day: how many fell into each grain of the quotient of true and
// foretold wait.
type DayWaits struct {
	Day    int64
	Grains []int32 // with Count in step
	Count  []int32
}

// Seen is how many waits were taken in by this Starts, in all cells.
func (s *Starts) Seen() int64 { return s.seen }

// Cells returns what was seen, of no more than so many cells: those with most waits.
func (s *Starts) Cells(most int) []CellWaits {
	waits := make(map[uint64]int64)
	var out []CellWaits
	for key, q := range s.cells { // order: sorted below
		c := CellWaits{Cell: key}
		for i := range q.days {
			d := DayWaits{Day: q.days[i].number}
			for grain, n := range q.days[i].count {
				if n > 0 {
					d.Grains, d.Count = append(d.Grains, int32(grain)), append(d.Count, n)
				}
			}
			waits[key] += int64(q.days[i].waits)
			c.Days = append(c.Days, d)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b CellWaits) int {
		return cmp.Or(-cmp.Compare(waits[a.Cell], waits[b.Cell]), cmp.Compare(a.Cell, b.Cell))
	})
	return out[:min(len(out), most)]
}

// StartsFrom brings back what was seen. It refuses what no Starts can have come to.
func StartsFrom(cells []CellWaits) (Starts, error) {
	s := Starts{cells: make(map[uint64]*quotients)}
	for _, c := range cells {
		if s.cells[c.Cell] != nil || len(c.Days) > daysKept+1 {
			return Starts{}, fmt.Errorf("cell %x: %d days: must be there once, with at most %d", c.Cell, len(c.Days), daysKept+1)
		}
		q := &quotients{stale: true}
		for _, d := range c.Days {
			one := day{number: d.Day}
			if n := len(q.days); d.Day < 0 || n > 0 && q.days[n-1].number >= d.Day || len(d.Grains) != len(d.Count) {
				return Starts{}, fmt.Errorf("cell %x, day %d: %d grains and %d counts: must be after the day before, and as many", c.Cell, d.Day, len(d.Grains), len(d.Count))
			}
			for i, grain := range d.Grains {
				if grain < 0 || int(grain) >= grains || d.Count[i] <= 0 || d.Count[i] > mostWaits-one.waits || one.count[grain] > 0 {
					return Starts{}, fmt.Errorf("cell %x, day %d: %d waits in grain %d: must be a grain below %d, once, and at most %d waits in all", c.Cell, d.Day, d.Count[i], grain, grains, mostWaits)
				}
				one.count[grain] = d.Count[i]
				one.waits += d.Count[i]
			}
			if one.waits == 0 {
				return Starts{}, fmt.Errorf("cell %x, day %d: no waits", c.Cell, d.Day)
			}
			q.days = append(q.days, one)
		}
		s.cells[c.Cell] = q
	}
	return s, nil
}

// mostWaits bounds the waits of a day that come from outside.
const mostWaits int32 = 1 << 30
