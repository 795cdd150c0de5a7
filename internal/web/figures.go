package web

import (
	"math"
	"strconv"
	"strings"
)

// nbsp keeps a number and its unit on one line.
const nbsp = "\u00a0"

// number is a float as the scripts may read it: at most three decimals, and
// null where it is not finite, which JSON cannot say.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if !finite(v) {
		return []byte("null"), nil
	}
	const thousandths = 1000
	if math.Abs(v) < 1e12 {
		v = math.Round(v*thousandths) / thousandths
	}
	if v == 0 {
		return []byte("0"), nil // never -0
	}
	return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// figure prints a number for people, a dash where there is none.
func figure(v float64, decimals int) string {
	if !finite(v) {
		return "–"
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-") // never -0.0
	}
	return text
}

// spread sums up one quantity over seeds.
type spread struct {
	n                  int // values that were finite
	mean, sd, low, top float64
}

// spreadOf skips what is not finite. The deviation is the sample's (n − 1); it
// is zero below two values.
func spreadOf(values []float64) spread {
	var s spread
	for _, v := range values {
		if !finite(v) {
			continue
		}
		if s.n == 0 || v < s.low {
			s.low = v
		}
		if s.n == 0 || v > s.top {
			s.top = v
		}
		s.n++
		s.mean += (v - s.mean) / float64(s.n)
	}
	if s.n < 2 {
		return s
	}
	for _, v := range values {
		if finite(v) {
			s.sd += (v - s.mean) * (v - s.mean)
		}
	}
	s.sd = math.Sqrt(s.sd / float64(s.n-1))
	return s
}

// timeUnit is a unit of time for people.
type timeUnit struct {
	name    string
	seconds float64
}

// timeUnitFor picks the unit in which a time reads best: 90 s stay seconds,
// 90 min stay minutes, anything above two hours is hours.
func timeUnitFor(seconds float64) timeUnit {
	switch {
	case seconds >= 2*3600:
		return timeUnit{"h", 3600}
	case seconds >= 2*60:
		return timeUnit{"min", 60}
	}
	return timeUnit{"s", 1}
}

// duration prints a time in the unit in which it reads best.
func duration(seconds float64) string {
	u := timeUnitFor(seconds)
	v := seconds / u.seconds
	return figure(v, decimalsFor(v)) + nbsp + u.name
}

// decimalsFor keeps about three digits.
func decimalsFor(v float64) int {
	switch {
	case v >= 100:
		return 0
	case v >= 10:
		return 1
	}
	return 2
}
