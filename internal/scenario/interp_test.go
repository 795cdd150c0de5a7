package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/rivals"
)

// TestStructure shows which texts are no scenarios at all, and where.
func TestStructure(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"mark without a statement", "# Title.\n\n----\nok\n", "x.txt:3: ---- without a statement above it"},
		{"indented line alone", "# Title.\n  or gpus=1\n", "x.txt:2: an indented line belongs to a statement above it: there is none"},
		{"too long", strings.Repeat("#\n", maxLines+1), "x.txt: 20001 lines: at most 20000"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run("x.txt", strings.NewReader(c.text))
			got := "nil"
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestViolation plants policies that break what must always hold. Each must end
// the run with the line that showed it.
func TestViolation(t *testing.T) {
	calls := int64(0)
	cases := []struct {
		name   string
		policy engine.Policy
		want   string
	}{
		{"unsteady score", engine.Policy{Name: "bad", Score: func(_ *cluster.View, _ cluster.ShapeID, node cluster.NodeID) int64 {
			calls++
			return int64(chance.Mix(uint64(calls)) >> 1)
		}}, "a fresh memo gives another plan"},
		{"refuses what fits", engine.Policy{Name: "bad", Grants: noGrants}, "pod a waits although nothing binds it"},
		{"panic", engine.Policy{Name: "bad", Score: func(*cluster.View, cluster.ShapeID, cluster.NodeID) int64 { panic("lost") }}, "panic: lost"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := newInterp()
			in.policies = append(in.policies, policyRow{name: "bad", build: func([]rivals.Typical) *engine.Policy { return &c.policy }})
			_, err := in.runText("x.txt", "policy bad\nnode n1 cpu=1\nnode n2 cpu=2\nnode n3 cpu=3\npod a\ndecide\npod b\ndecide\n")
			broken := new(Violation)
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "x.txt:") {
				t.Errorf("got %v, want a violation with %q at x.txt:LINE", err, c.want)
			}
		})
	}
}

// TestFile goes through the door that the command uses: differing, rewriting,
// then quiet.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# One card, one pod.\nnode n1 gpus=1xA100\npod a gpus=1\ndecide\n----\nbind a on n2 gpu0\n\nnod n3\n----\nok\n\n# The end.\n")
	var out strings.Builder
	ok, err := File(path, &out, false)
	if ok || err != nil {
		t.Fatalf("got %v, %v, want a difference", ok, err)
	}
	for _, want := range []string{
		"One card, one pod.", "- bind a on n2 gpu0\n+ bind a on n1 gpu0\n",
		path + `:8: error: statement "nod": no such statement; did you mean node?`, "2 of 2 steps not as expected",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant in it\n%s", out.String(), want)
		}
	}
	if ok, err = File(path, &out, true); !ok || err != nil {
		t.Fatalf("rewrite: got %v, %v", ok, err)
	}
	if ok, err = File(path, &out, false); !ok || err != nil {
		t.Errorf("after rewriting: got %v, %v", ok, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(text), "did you mean node?\n\n# The end.\n") {
		t.Errorf("got %q (%v), want the rest of the file kept", text, err)
	}
}

// TestUnchecked says what a step without the mark is: shown, and right unless
// something is refused.
func TestUnchecked(t *testing.T) {
	for text, want := range map[string]bool{"node n1\nshow nodes\n": true, "node n1\nremove-node n2\n": false} {
		report, err := Run("x.txt", strings.NewReader(text))
		if err != nil || report.OK() != want {
			t.Errorf("%q: got %v (%v), want %v", text, report.OK(), err, want)
		}
	}
}

func noGrants(*cluster.View, decision.Cycle, cluster.PodID, cluster.ShapeID, cluster.NodeID) ([]cluster.Grant, bool) {
	return nil, false
}
