package scenario

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// Report is what a file did.
type Report struct {
	Name  string
	Title string // the first comment, without its mark
	Steps []Step
	tail  []string
}

// Step is some statements with the output of them all.
type Step struct {
	Statements []Statement
	// Checked says that the file states the output it wants, in Want. Without,
	// the step is as it should be unless a statement was refused.
	Checked   bool
	Want, Got string
	head      []string
}

// Statement is one statement with its output.
type Statement struct {
	Line    int
	Text    string // with its indented lines
	Output  string
	Refused bool
}

// OK says whether the step printed what it should.
func (s *Step) OK() bool {
	if s.Checked {
		return s.Want == s.Got
	}
	for i := range s.Statements {
		if s.Statements[i].Refused {
			return false
		}
	}
	return true
}

// OK says whether all steps printed what they should.
func (r *Report) OK() bool {
	for i := range r.Steps {
		if !r.Steps[i].OK() {
			return false
		}
	}
	return true
}

// Rewritten returns the file with the output that it has now.
func (r *Report) Rewritten() string {
	var b strings.Builder
	for i := range r.Steps {
		s := &r.Steps[i]
		head := s.head
		for !s.Checked && len(head) > 0 && strings.TrimSpace(head[len(head)-1]) == "" {
			head = head[:len(head)-1]
		}
		b.WriteString(joined(head) + mark + "\n" + s.Got)
	}
	b.WriteString(joined(r.tail))
	return b.String()
}

// nothing is what a step prints whose statements print nothing.
const nothing = "ok\n"

// Run runs a text to its end. The error is a text without structure, or a
// *Violation; a statement that is refused or an output that differs is in the
// report.
func Run(name string, text io.Reader) (Report, error) {
	data, err := io.ReadAll(io.LimitReader(text, maxBytes+1))
	if err != nil {
		return Report{Name: name}, fmt.Errorf("read %s: %w", name, err)
	}
	return newInterp().runText(name, string(data))
}

func (in *interp) runText(name, text string) (Report, error) {
	report := Report{Name: name, Title: title(text)}
	steps, tail, err := parse(name, text)
	if err != nil {
		return report, err
	}
	report.tail = tail
	for i := range steps {
		out, err := in.runStep(name, &steps[i])
		report.Steps = append(report.Steps, out)
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// title is the comment that a file opens with.
func title(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		words, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		out = append(out, strings.TrimSpace(words))
	}
	return strings.TrimSpace(strings.Join(out, " "))
}

func (in *interp) runStep(name string, s *step) (Step, error) {
	out := Step{Checked: s.checked, Want: s.want, head: s.head}
	for _, st := range s.statements {
		done := Statement{Line: st.line, Text: st.text}
		for _, b := range st.block {
			done.Text += "\n  " + b.text
		}
		lines, err := in.checked(st)
		if broken := new(Violation); errors.As(err, &broken) {
			out.Statements = append(out.Statements, done)
			return out, fmt.Errorf("%s:%d: %s: %w", name, st.line, st.text, err)
		}
		if err != nil {
			lines, done.Refused = []string{"error: " + strings.ReplaceAll(err.Error(), "\n", " ")}, true
		}
		done.Output = joined(lines)
		out.Got += done.Output
		out.Statements = append(out.Statements, done)
	}
	if out.Got == "" {
		out.Got = nothing
	}
	return out, nil
}

// checked runs one statement and then looks at the invariants. A panic is a
// violation: the file and line that lead to it are what its finder needs.
func (in *interp) checked(s *stmt) (lines []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Violation{What: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	lines, refusal := in.do(s)
	if broken := new(Violation); errors.As(refusal, &broken) {
		return nil, refusal
	}
	if err := in.settled(); err != nil {
		return nil, err
	}
	return append(lines, in.tellSaid()...), refusal
}
