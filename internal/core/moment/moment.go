// Package moment holds instants and spans of time as integers.
//
// The core never reads a clock: an instant is an argument. Simulated runs count
// from zero, live ones from the Unix epoch.
package moment

import "strconv"

// Instant is a point in time in microseconds.
type Instant int64

// Span is a length of time in microseconds.
type Span int64

// Spans of common length.
const (
	Microsecond Span = 1
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
	Minute           = 60 * Second
	Hour             = 60 * Minute
	Day              = 24 * Hour
)

// Never is later than every instant that occurs.
const Never Instant = 1<<63 - 1

// Add returns the instant s after i, held at Never.
func (i Instant) Add(s Span) Instant {
	sum := i + Instant(s)
	if s > 0 && sum < i {
		return Never
	}
	return sum
}

// Since returns the span from earlier to i.
func (i Instant) Since(earlier Instant) Span { return Span(i - earlier) }

func (i Instant) String() string {
	if i == Never {
		return "never"
	}
	return Span(i).String()
}

// Milliseconds returns s in whole milliseconds, cut toward zero.
func (s Span) Milliseconds() int64 { return int64(s / Millisecond) }

// String prints the two largest units that matter: "1h30m", "2m5s", "12ms".
func (s Span) String() string {
	if s < 0 {
		// The least Span has no positive counterpart; one microsecond does not show.
		return "-" + max(-s, -(s+1)).String()
	}
	units := [...]struct {
		name string
		span Span
	}{{"d", Day}, {"h", Hour}, {"m", Minute}, {"s", Second}, {"ms", Millisecond}, {"us", Microsecond}}
	for i, u := range units {
		if s < u.span {
			continue
		}
		out := strconv.FormatInt(int64(s/u.span), 10) + u.name
		if i+1 < len(units) {
			next := units[i+1]
			if rest := (s % u.span) / next.span; rest > 0 {
				out += strconv.FormatInt(int64(rest), 10) + next.name
			}
		}
		return out
	}
	return "0s"
}
