// Package quantity holds the units of everything that is counted, priced or
// scored, and the exact arithmetic on them.
//
// All units are int64. Products are compared in 128 bits, so that shares and
// prices are exact at any size. It leaves rounding for display to others.
package quantity

import (
	"math"
	"math/bits"
	"strconv"
)

// MilliGPU is a share of one device in thousandths: 1000 is a whole GPU.
type MilliGPU int64

// WholeGPU is the compute of one whole device.
const WholeGPU MilliGPU = 1000

// MilliCPU is CPU time in thousandths of a core.
type MilliCPU int64

// Bytes is an amount of memory or storage.
type Bytes int64

// MicroUSD is money in millionths of a US dollar.
type MicroUSD int64

// MilligramCO2 is carbon dioxide equivalent in thousandths of a gram.
type MilligramCO2 int64

// Milli is a plain ratio in thousandths: 1000 is one. Weights use it.
type Milli int64

// One is the ratio 1.
const One Milli = 1000

// Common multiples of a byte.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

func (m MilliGPU) String() string {
	if m%1000 == 0 {
		return strconv.FormatInt(int64(m)/1000, 10) + " GPU"
	}
	return strconv.FormatInt(int64(m), 10) + " milli-GPU"
}

func (m MilliCPU) String() string {
	if m%1000 == 0 {
		return strconv.FormatInt(int64(m)/1000, 10) + " CPU"
	}
	return strconv.FormatInt(int64(m), 10) + "m CPU"
}

// String prints the largest binary unit that divides b, or whole MiB above
// 10 GiB, where a reader no longer cares for the rest.
func (b Bytes) String() string {
	switch {
	case b >= 10*GiB && b%GiB != 0:
		return strconv.FormatInt(int64(b/MiB), 10) + " MiB"
	case b >= GiB && b%GiB == 0:
		return strconv.FormatInt(int64(b/GiB), 10) + " GiB"
	case b >= MiB && b%MiB == 0:
		return strconv.FormatInt(int64(b/MiB), 10) + " MiB"
	case b >= KiB && b%KiB == 0:
		return strconv.FormatInt(int64(b/KiB), 10) + " KiB"
	}
	return strconv.FormatInt(int64(b), 10) + " B"
}

// CompareProducts returns -1, 0 or 1 as a·b is less than, equal to or greater
// than c·d, exactly. It is how two shares a/d and c/b are compared without a
// division.
func CompareProducts(a, b, c, d int64) int {
	aNeg, ahi, alo := product(a, b)
	cNeg, chi, clo := product(c, d)
	if aNeg != cNeg {
		if aNeg {
			return -1
		}
		return 1
	}
	cmp := compare128(ahi, alo, chi, clo)
	if aNeg {
		return -cmp
	}
	return cmp
}

func product(a, b int64) (negative bool, hi, lo uint64) {
	hi, lo = bits.Mul64(magnitude(a), magnitude(b))
	return (a < 0) != (b < 0) && hi|lo != 0, hi, lo
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func compare128(ahi, alo, bhi, blo uint64) int {
	switch {
	case ahi != bhi:
		if ahi < bhi {
			return -1
		}
		return 1
	case alo != blo:
		if alo < blo {
			return -1
		}
		return 1
	}
	return 0
}

// MulDiv returns a·b/c rounded toward zero with a 128-bit intermediate. A
// result beyond int64 saturates; c = 0 saturates with the sign of a·b, and
// 0·b/0 is 0, so that a share of nothing is nothing.
func MulDiv(a, b, c int64) int64 {
	negative, hi, lo := product(a, b)
	if hi|lo == 0 {
		return 0
	}
	if c < 0 {
		negative = !negative
	}
	divisor := magnitude(c)
	if divisor == 0 || hi >= divisor {
		return saturated(negative)
	}
	quotient, _ := bits.Div64(hi, lo, divisor)
	if quotient > math.MaxInt64 {
		return saturated(negative)
	}
	if negative {
		return -int64(quotient)
	}
	return int64(quotient)
}

func saturated(negative bool) int64 {
	if negative {
		return math.MinInt64
	}
	return math.MaxInt64
}

// AddSaturating returns a+b, held at the ends of int64.
func AddSaturating(a, b int64) int64 {
	sum := a + b
	if a > 0 && b > 0 && sum < 0 {
		return math.MaxInt64
	}
	if a < 0 && b < 0 && sum >= 0 {
		return math.MinInt64
	}
	return sum
}
