package learn

import (
	"math"
	"testing"
)

// TestExpAndLn: ours agree with the library's to twelve digits where they are
// used.
func TestExpAndLn(t *testing.T) {
	for x := -66.7; x < 66.7; x += 0.0137 {
		if got, want := exp(x), math.Exp(x); math.Abs(got/want-1) > 1e-12 {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
		if got := ln(math.Exp(x)); math.Abs(got-x) > 1e-12*max(1, math.Abs(x)) {
			t.Fatalf("ln(e^%v) = %v", x, got)
		}
	}
	if got := unlikely(-40); math.Abs(got/math.Exp(-40)-1) > 1e-12 || unlikely(-50) != got {
		t.Errorf("unlikely(-40) = %v, want e^-40 = %v, the same below", got, math.Exp(-40))
	}
}
