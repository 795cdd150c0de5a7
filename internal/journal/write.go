package journal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/warm"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/world"
)

// Writer records. It keeps the first error; Flush and Close return it.
type Writer struct {
	out     *bufio.Writer
	names   map[reflect.Type]string
	written int64
	limit   int64 // 0: none
	full    bool
	err     error
}

// NewWriter returns a writer of journals to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 1<<16), names: names()}
}

// Limit bounds the journal to so many bytes of text: before the line that would
// pass it, the journal says that it ends here, and nothing follows.
func (w *Writer) Limit(bytes int64) { w.limit = bytes }

// Full says whether the limit was met.
func (w *Writer) Full() bool { return w.full }

// Begin writes the head: the policy and what it was given.
func (w *Writer) Begin(p *engine.Policy, side rivals.Side) {
	head := Head{Journal: Version, Policy: p.Name, Side: side, Preemption: p.Yields != nil, Reserve: p.Reserve, Foretells: p.Foretells, InReviews: p.InReviews, Tidies: p.Tidies}
	if p.Yields != nil {
		head.Tiers = p.Yields.Tiers
	}
	if p.Warms != nil && *p.Warms != warm.Default() {
		head.Warms = p.Warms
	}
	w.line(head)
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

// endRoom is kept free below the limit for the line that says that it was met.
const endRoom = 100

func (w *Writer) line(x any) {
	if w.err != nil || w.full {
		return
	}
	text, err := json.Marshal(x)
	if err == nil && w.limit > 0 && w.written+int64(len(text)) > w.limit-endRoom {
		w.full = true
		text, err = json.Marshal(entry{End: fmt.Sprintf("the limit of %d bytes", w.limit)})
	}
	if err == nil {
		w.written += int64(len(text)) + 1
		_, err = w.out.Write(append(text, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("write journal: %w", err)
	}
}

// Flush hands on what is buffered.
func (w *Writer) Flush() error {
	if w.err == nil {
		if err := w.out.Flush(); err != nil {
			w.err = fmt.Errorf("write journal: %w", err)
		}
	}
	return w.err
}

// Close writes what is buffered.
func (w *Writer) Close() error { return w.Flush() }
