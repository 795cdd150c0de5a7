package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"
)

// maxLine bounds a line: beliefs about a large cluster are some megabytes.
const maxLine = 256 << 20

// Outcome is what a replay came to.
type Outcome struct {
	Policy string `json:"policy"`
	Events int    `json:"events"`
	Cycles int    `json:"cycles"`
	// Differing counts the cycles whose plan has another digest than recorded;
	// First is the first of them.
	Differing int         `json:"differing"`
	First     *Difference `json:"first,omitempty"`
	// End says why the journal ends before the run did; Torn, that its last line
	// was cut off and left out.
	End  string `json:"end,omitempty"`
	Torn bool   `json:"torn,omitempty"`
}

// Difference is a cycle that went otherwise.
type Difference struct {
	Line     int            `json:"line"`
	Cycle    uint64         `json:"cycle"`
	At       moment.Instant `json:"at_us"`
	Recorded string         `json:"recorded"`
	Got      string         `json:"got"`
}

// Replay plays a journal back. policy makes the policy that the head names. A line
// that cannot be read, or an event that the world refuses, is an error with its
// line; what came before it was played. A last line that was cut off, as by a
// writer that was killed, is left out.
func Replay(name string, in io.Reader, policy func(Head) (*engine.Policy, error)) (Outcome, error) {
	r := replay{world: world.New(), kinds: kinds()}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	whole := true // the line had its end
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		whole = bytes.IndexByte(data, '\n') >= 0
		return bufio.ScanLines(data, atEOF)
	})
	for lines.Scan() {
		r.line++
		var err error
		switch {
		case r.line == 1:
			err = r.begin(lines.Bytes(), policy)
		case !whole && !json.Valid(lines.Bytes()):
			r.out.Torn = true
		default:
			err = r.play(lines.Bytes())
		}
		if err != nil {
			return r.out, fmt.Errorf("%s:%d: %w", name, r.line, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, io.ErrUnexpectedEOF): // a compressed journal that was cut off
		r.out.Torn = true
	case errors.Is(err, bufio.ErrTooLong):
		return r.out, fmt.Errorf("%s:%d: the line is longer than %d bytes", name, r.line+1, maxLine)
	case err != nil:
		return r.out, fmt.Errorf("read journal %s: %w", name, err)
	case r.line == 0:
		return r.out, fmt.Errorf("%s: the file is empty; want a journal", name)
	}
	return r.out, nil
}

// replay is one in progress.
type replay struct {
	world  *world.World
	kinds  map[string]world.Event
	policy *engine.Policy
	memo   engine.Memo
	line   int
	out    Outcome
}

func (r *replay) begin(text []byte, policy func(Head) (*engine.Policy, error)) error {
	var head Head
	if err := strict(text, &head); err != nil {
		return fmt.Errorf("not the head of a journal: %w", err)
	}
	if head.Journal != Version {
		return fmt.Errorf("headrace_journal is %d: this reader knows version %d", head.Journal, Version)
	}
	p, err := policy(head)
	if err != nil {
		return err
	}
	if head.Preemption {
		p = p.Preempting().Tiered(head.Tiers)
	} else {
		p = p.Staying()
	}
	if head.Reserve > engine.ReserveAll {
		return fmt.Errorf("reserve is %d: must be 0 to %d", head.Reserve, engine.ReserveAll)
	}
	if head.Reserve != engine.ReserveOff {
		p = p.Reserving(head.Reserve)
	}
	if head.Tidies != nil {
		p = p.Tidying(head.Tidies)
	}
	switch {
	case head.InReviews:
		p = p.ForetellingInReviews()
	case head.Foretells:
		p = p.Foretelling()
	}
	if head.Warms != nil {
		p = p.Warming(head.Warms)
	}
	r.policy, r.out.Policy = p, head.Policy
	return nil
}

// strict decodes one value, refusing unknown fields and trailing text.
func strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one value on the line")
	}
	return nil
}

func (r *replay) play(text []byte) error {
	var data json.RawMessage
	e := entry{Data: &data}
	if err := strict(text, &e); err != nil {
		return err
	}
	switch {
	case r.out.End != "":
		return fmt.Errorf("a line after the end of the journal (%s)", r.out.End)
	case e.End != "":
		r.out.End = e.End
		return nil
	case e.Cycle != nil:
		r.decide(*e.Cycle, e.Digest)
		return nil
	case e.Event == "":
		return errors.New("neither an event nor a cycle nor the end")
	}
	kind, known := r.kinds[e.Event]
	if !known {
		return fmt.Errorf("event %q: no such event", e.Event)
	}
	event := reflect.New(reflect.TypeOf(kind))
	if err := strict(data, event.Interface()); err != nil {
		return fmt.Errorf("event %s: %w", e.Event, err)
	}
	r.out.Events++
	return r.world.Apply(e.At, event.Elem().Interface().(world.Event))
}

// decide thinks again and compares.
func (r *replay) decide(c decision.Cycle, recorded string) {
	snapshot := r.world.Snapshot()
	plan := engine.Decide(snapshot, c, r.policy, &r.memo)
	r.out.Cycles++
	got := digestText(plan.Digest(&snapshot.View))
	if got == recorded {
		return
	}
	r.out.Differing++
	if r.out.First == nil {
		r.out.First = &Difference{Line: r.line, Cycle: c.Number, At: c.Now, Recorded: recorded, Got: got}
	}
}
