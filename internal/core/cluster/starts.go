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
}

// Correction is, in thousandths of the wait that was foretold, what one of ten waited
// less than, one of two, and all but one of ten.
type Correction struct {
	Low, Likely, High quantity.Milli
	Runs              int32 // how many waits it rests on
}

// enoughWaits is how many waits a correction has to rest on.
const enoughWaits = 30

// Of returns the correction of the first cell that rests on enough; ok is false where
// none does.
func (s *Starts) Of(cells ...uint64) (c Correction, ok bool) {
	if s == nil {
		return c, false
	}
	for _, cell := range cells {
		if c := s.ByCell[cell]; c.Runs >= enoughWaits {
			return c, true
		}
	}
	return c, false
}

// Times is a wait in thousandths, at least one microsecond.
func Times(s moment.Span, by quantity.Milli) moment.Span { return times(s, by) }

func (s *Starts) check() error {
	for cell, c := range s.ByCell { // order: one that is wrong is enough
		if c.Low < 0 || c.Likely < c.Low || c.High < c.Likely || c.Runs < 0 {
			return fmt.Errorf("correction %016x: low %d, likely %d, high %d, %d runs: must not be negative, and in order", cell, c.Low, c.Likely, c.High, c.Runs)
		}
	}
	return nil
}
