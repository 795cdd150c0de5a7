package learn

import (
	"math"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
)

// Whatever quotients are like, and though that changes, eight of ten fall between the
// low and the high one, and as many are below the likely one as above.
func TestStartsHold(t *testing.T) {
	from := chance.New(1)
	uniform := func() float64 { return float64(from.Below(1_000_000)+1) / 1_000_001 }
	for name, draw := range map[string]func(i int) float64{
		"level":      func(int) float64 { return uniform() },
		"heavy tail": func(int) float64 { return math.Pow(uniform(), -2) },
		"drifting":   func(i int) float64 { return uniform() * math.Exp(5*math.Sin(float64(i)/3000)) },
		"two kinds":  func(i int) float64 { return []float64{0.01, 100}[i/1000%2] * (0.5 + uniform()) },
	} {
		var s Starts
		held, below, n := 0, 0, 20_000
		for i := range n {
			w := s.Foretold(1, 2, false)
			q := draw(i)
			c := s.Table().ByCell[1]
			if milli := 1000 * q; milli >= float64(c.Low) && milli <= float64(c.High) {
				held++
			}
			if 1000*q <= float64(c.Likely) {
				below++
			}
			w.Lasts(q / 2)
			w.Over(q)
		}
		if share := float64(held) / float64(n); share < 0.75 || share > 0.85 {
			t.Errorf("%s: %.3f within, want 0.75 to 0.85", name, share)
		}
		if share := float64(below) / float64(n); share < 0.45 || share > 0.55 {
			t.Errorf("%s: %.3f below the likely one, want half", name, share)
		}
	}
}

// A wait that lasts teaches before it is over, and each of its lessons once.
func TestStartsLast(t *testing.T) {
	var s Starts
	w := s.Foretold(1, 2, false)
	before := s.Table().ByCell[1]
	if more := w.Lasts(0.01); !more || s.Table().ByCell[1] != before {
		t.Error("a wait that has just begun taught something, or has nothing more to teach")
	}
	if more := w.Lasts(100); more {
		t.Error("a wait of a hundred times what was foretold has more to teach")
	}
	after := s.Table().ByCell[1]
	if after.Low <= before.Low || after.Likely <= before.Likely || after.High <= before.High {
		t.Errorf("after a wait that lasts: %+v, before: %+v", after, before)
	}
	w.Lasts(200)
	if w.Over(300); s.Table().ByCell[1].High != after.High || s.Table().ByCell[1].Runs != 1 {
		t.Errorf("at its end: %+v, want %+v and one run", s.Table().ByCell[1], after)
	}
}
