package journal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/world"
)

// Writer records. It keeps the first error; Close returns it.
type Writer struct {
	out   *bufio.Writer
	names map[reflect.Type]string
	err   error
}

// NewWriter returns a writer of journals to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 1<<16), names: names()}
}

// Begin writes the head: the policy and what it was given.
func (w *Writer) Begin(policy string, side rivals.Side) {
	w.line(Head{Journal: Version, Policy: policy, Side: side})
}

// Event records an event that the world has taken in.
func (w *Writer) Event(at moment.Instant, e world.Event) {
	name, known := w.names[reflect.TypeOf(e)]
	if !known {
		panic(fmt.Sprintf("journal: no name for the event %T", e))
	}
	w.line(entry{At: at, Event: name, Data: e})
}

// Cycle records a cycle and the digest of its plan.
func (w *Writer) Cycle(c decision.Cycle, digest uint64) {
	w.line(entry{Cycle: &c, Digest: digestText(digest)})
}

func digestText(digest uint64) string { return fmt.Sprintf("%016x", digest) }

func (w *Writer) line(x any) {
	if w.err != nil {
		return
	}
	text, err := json.Marshal(x)
	if err == nil {
		_, err = w.out.Write(append(text, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("write journal: %w", err)
	}
}

// Close writes what is buffered.
func (w *Writer) Close() error {
	if w.err == nil {
		if err := w.out.Flush(); err != nil {
			w.err = fmt.Errorf("write journal: %w", err)
		}
	}
	return w.err
}
