package scenario

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// FuzzRun holds that no text makes the interpreter panic or break an invariant,
// and that a file that was rewritten says what it does.
func FuzzRun(f *testing.F) {
	for i, file := range find(f) {
		if testing.Short() && i%8 > 0 {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	const rows, longest = 24, 2000
	run := func(text string) (Report, error) {
		in := newInterp()
		in.rows = rows
		return in.runText("x.txt", text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > longest {
			return
		}
		report, err := run(text)
		if broken := new(Violation); errors.As(err, &broken) {
			t.Fatal(err)
		}
		if err != nil || len(report.Steps) == 0 {
			return
		}
		written := report.Rewritten()
		again, err := run(written)
		if err != nil || !again.OK() {
			var out strings.Builder
			_ = again.Print(&out)
			t.Fatalf("rewritten\n%q\nis not as expected (%v):\n%s", written, err, out.String())
		}
	})
}
