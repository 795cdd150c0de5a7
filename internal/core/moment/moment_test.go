package moment_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
)

func TestString(t *testing.T) {
	for _, c := range []struct {
		in   fmt.Stringer
		want string
	}{
		{in: moment.Span(0), want: "0s"},
		{in: moment.Microsecond, want: "1us"},
		{in: 12 * moment.Millisecond, want: "12ms"},
		{in: 12*moment.Millisecond + 5, want: "12ms5us"},
		{in: 2*moment.Minute + 5*moment.Second, want: "2m5s"},
		{in: 90 * moment.Minute, want: "1h30m"},
		{in: moment.Hour + moment.Second, want: "1h"},
		{in: 3*moment.Day + 4*moment.Hour + moment.Minute, want: "3d4h"},
		{in: -5 * moment.Second, want: "-5s"},
		{in: moment.Span(math.MaxInt64), want: "106751991d4h"},
		{in: moment.Span(math.MinInt64), want: "-106751991d4h"},
		{in: moment.Instant(0), want: "0s"},
		{in: moment.Never, want: "never"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := c.in.String(); got != c.want {
				t.Errorf("%T(%d): got %q, want %q", c.in, c.in, got, c.want)
			}
		})
	}
}

func TestAddHoldsAtNever(t *testing.T) {
	for _, c := range []struct {
		at   moment.Instant
		by   moment.Span
		want moment.Instant
	}{
		{at: 0, by: 0, want: 0},
		{at: 5, by: 7, want: 12},
		{at: 5, by: -7, want: -2},
		{at: moment.Never, by: 1, want: moment.Never},
		{at: moment.Never, by: moment.Day, want: moment.Never},
		{at: moment.Never - 1, by: 1, want: moment.Never},
		{at: 1, by: math.MaxInt64, want: moment.Never},
		{at: -1, by: math.MaxInt64, want: moment.Never - 1},
	} {
		if got := c.at.Add(c.by); got != c.want {
			t.Errorf("Instant(%d).Add(%d): got %d, want %d", int64(c.at), int64(c.by), int64(got), int64(c.want))
		}
	}
}

func TestSinceUndoesAdd(t *testing.T) {
	for _, by := range []moment.Span{0, 1, -1, moment.Second, -moment.Day, 400 * moment.Day} {
		at := moment.Instant(1_700_000_000_000_000)
		if got := at.Add(by).Since(at); got != by {
			t.Errorf("%v.Add(%v).Since: got %v, want %v", at, by, got, by)
		}
	}
}

func TestMillisecondsCutTowardZero(t *testing.T) {
	for _, c := range []struct {
		in   moment.Span
		want int64
	}{
		{in: 0, want: 0},
		{in: 999, want: 0},
		{in: -999, want: 0},
		{in: moment.Second + 1, want: 1000},
		{in: -moment.Second - 1, want: -1000},
	} {
		if got := c.in.Milliseconds(); got != c.want {
			t.Errorf("Span(%d).Milliseconds: got %d, want %d", int64(c.in), got, c.want)
		}
	}
}
