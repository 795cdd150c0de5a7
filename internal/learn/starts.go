package learn

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Starts follows how far foretold waits were off, by cells of waits that are alike: the
// quotients of true and foretold wait, by the day on which the wait was over. All days of
// the last month on which some were over count as much as each other, however many there
// were: those who wait in one burst share its fate, and a thousand of them teach little
// more than one (split conformal prediction, with the days as what is exchanged). The
// zero value has seen nothing.
type Starts struct {
	cells map[uint64]*quotients
	seen  int64
}

const (
	// daysKept is how long a day counts.
	daysKept = 30
	// leastWaits is how many waits of a cell have to be over before it says anything.
	leastWaits = 20
	// Logarithms of quotients are kept to a grain, and bounded: a quotient of more than a
	// thousand is as good as one.
	mostQuotient = 7.0
	grain        = 0.05
	grains       = int(2*mostQuotient/grain) + 1
)

// prior is what is thought of a wait before any was seen, as quantiles of the logarithm: a
// play knows nothing of who is still to come, and a burst is over before its first waits
// are.
var prior = [3]float64{-1.5, 0, 1.75}

// levels are the quantiles that are told.
var levels = [3]float64{0.1, 0.5, 0.9}

// quotients are those of one cell.
type quotients struct {
	days  []day // the oldest first, at most daysKept
	known cluster.Correction
	stale bool
}

// day is what was seen on one.
type day struct {
	number int64
	waits  int32
	count  [grains]int32
}

// Over takes in a wait that is over, after so much of what was foretold of it, in its
// cells.
func (s *Starts) Over(quotient float64, now moment.Instant, cells ...uint64) {
	at := math.Log(max(quotient, 1e-9))
	bin := int(math.Round((min(max(at, -mostQuotient), mostQuotient) + mostQuotient) / grain))
	number := int64(now) / int64(moment.Day)
	if s.cells == nil {
		s.cells = make(map[uint64]*quotients)
	}
	s.seen++
	for _, key := range cells {
		q := s.cells[key]
		if q == nil {
			q = new(quotients)
			s.cells[key] = q
		}
		if n := len(q.days); n == 0 || q.days[n-1].number < number {
			q.days = append(q.days, day{number: number})
		}
		d := &q.days[len(q.days)-1]
		d.waits++
		d.count[bin]++
		q.stale = true
	}
}

// Table returns the corrections of all cells of which enough is known.
func (s *Starts) Table(now moment.Instant) *cluster.Starts {
	out := &cluster.Starts{ByCell: make(map[uint64]cluster.Correction, len(s.cells)), Prior: correction(prior)}
	for key, q := range s.cells { // order: a map is filled
		q.forget(int64(now)/int64(moment.Day) - daysKept)
		if q.stale {
			q.known, q.stale = q.correction(), false
		}
		if q.known.Runs >= leastWaits {
			out.ByCell[key] = q.known
		}
	}
	return out
}

// forget drops the days up to one.
func (q *quotients) forget(last int64) {
	n := 0
	for n < len(q.days) && q.days[n].number <= last {
		n++
	}
	if n > 0 {
		q.days, q.stale = append(q.days[:0], q.days[n:]...), true
	}
}

// correction is where the levels of the mean of all days are.
func (q *quotients) correction() cluster.Correction {
	var sum [grains]float64
	waits := int32(0)
	for i := range q.days {
		d := &q.days[i]
		waits += d.waits
		for bin, n := range d.count {
			sum[bin] += float64(n) / float64(d.waits)
		}
	}
	at := prior
	passed, level := 0.0, 0
	for bin, weight := range sum {
		for passed += weight; level < len(levels) && weight > 0 && passed >= levels[level]*float64(len(q.days))-1e-9; level++ {
			at[level] = (float64(bin)+float64(level-1)/2)*grain - mostQuotient // outside at the ends
		}
	}
	out := correction(at)
	out.Runs = waits
	return out
}

func correction(at [3]float64) cluster.Correction {
	milli := func(k int) quantity.Milli { return quantity.Milli(math.Exp(at[k])*1000 + 0.5) }
	return cluster.Correction{Low: milli(0), Likely: milli(1), High: milli(2)}
}
