package kube

import (
	"testing"
	"time"
	"unsafe"
)

// wallSet returns an instant as a clock shows it that was set by a whole number
// of seconds since: its wall time moves, its monotonic reading does not. Only the
// runtime makes such instants, so the words of the value are written directly.
func wallSet(t time.Time, seconds int64) time.Time {
	const secondsShift = 30 // below are nanoseconds, above seconds
	word := (*uint64)(unsafe.Pointer(&t))
	*word += uint64(seconds) << secondsShift
	return t
}

// A clock that is set back or ahead, and instants out of order, neither stop the
// books nor make them jump.
func TestClockIsSet(t *testing.T) {
	w := newTruth(t)
	start := time.Now()
	w.books.now = time.Time{}
	w.books.tick(start)
	w.putNode("n", 8, 4, "", true)
	w.createPod("p", DefaultName, 1, 1)
	w.tell()
	w.tell()
	if back := wallSet(start, -3600); back.Unix() != start.Unix()-3600 || back.Sub(start) != 0 {
		t.Fatalf("the clock set back shows %v after %v, and %v passed", back, start, back.Sub(start))
	}
	w.books.tick(wallSet(start.Add(time.Second), -3600))
	w.decide()
	w.land(0, true) // backs off for about a second
	w.books.tick(wallSet(start.Add(time.Second+pauseFirst+pauseFirst/4), -3600))
	w.books.tick(start) // out of order
	w.books.resume()
	if w.decide(); len(w.flying) != 1 {
		t.Fatalf("after the pause, the clock set back: %d binds, want 1", len(w.flying))
	}
	if got, want := w.books.now.Sub(start), time.Second+pauseFirst+pauseFirst/4; got != want {
		t.Errorf("%v have passed in the books, want %v", got, want)
	}
	w.books.tick(wallSet(start.Add(5*time.Second), 3600))
	if got, want := w.books.now.Sub(start), 5*time.Second; got != want {
		t.Errorf("the clock set ahead: %v have passed in the books, want %v", got, want)
	}
	if got := w.books.now.Unix() - start.Unix(); got < 5 || got > 6 {
		t.Errorf("the clock set ahead: the books show %d s after the start, want 5", got)
	}
}
