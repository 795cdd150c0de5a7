package cluster

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Starts tells how long those waited of whom it was foretold: a correction of what is
// foretold, by the cells of package when.
type Starts struct {
	ByCell map[uint64]Correction
	Prior  Correction // where nothing of the like was foretold yet; zero: no correction
}

// Correction is, in thousandths of the wait that was foretold, what one of ten waited
// less than, one of two, and all but one of ten.
type Correction struct {
	Low, Likely, High quantity.Milli
	Runs              int32 // how many waits it rests on
}

// Of returns the correction of the cells that are known: as wide as they are together, with
// the likely one of the first. Where none is, it is the prior one; ok is false where there
// is none.
func (s *Starts) Of(cells ...uint64) (c Correction, ok bool) {
	if s == nil {
		return c, false
	}
	for _, cell := range cells {
		other, known := s.ByCell[cell]
		switch {
		case known && !ok:
			c, ok = other, true
		case known:
			c.Low, c.High = min(c.Low, other.Low), max(c.High, other.High)
		}
	}
	if !ok {
		return s.Prior, s.Prior.High > 0
	}
	return c, true
}

// Times is a wait in thousandths, at least one microsecond.
func Times(s moment.Span, by quantity.Milli) moment.Span { return times(s, by) }

func (s *Starts) check() error {
	for cell, c := range s.ByCell { // order: one that is wrong is enough
		if c.Low < 0 || c.Likely < c.Low || c.High < c.Likely || c.Runs < 0 {
			return fmt.Errorf("correction %016x: low %d, likely %d, high %d, %d runs: must not be negative, and in order", cell, c.Low, c.Likely, c.High, c.Runs)
		}
	}
	if c := s.Prior; c.Low < 0 || c.Likely < c.Low || c.High < c.Likely {
		return fmt.Errorf("prior correction: low %d, likely %d, high %d: must not be negative, and in order", c.Low, c.Likely, c.High)
	}
	return nil
}
