package archtest

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var rewrite = flag.Bool("rewrite", false, "write what the checks find into the files of testdata")

// A check is a rule of the house: a pure function from a tree to findings.
type check struct {
	name string
	run  func(*tree) []finding
}

var checks = []check{
	{"syntax", func(t *tree) []finding { return t.broken }},
	{"layers", checkLayers},
	{"purity", checkPurity},
	{"comments", checkComments},
	{"rooms", checkRooms},
	{"size", checkSize},
	{"scenarios", checkScenarios},
	{"gomod", checkGoMod},
	{"honesty", checkHonesty},
}

// TestHouse holds this repository to all rules.
func TestHouse(t *testing.T) {
	house, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if dirs, _ := house.packages(); !slices.Contains(dirs, "internal/archtest") {
		t.Fatalf("the walk did not find this package, only %v", dirs)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range c.run(house) {
				t.Error(f)
			}
		})
	}
}

// TestChecks runs each check over the trees in testdata/<check>*.txt and
// compares what it finds. Rewrite the expectations with -rewrite, then read the
// diff.
func TestChecks(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	bites := map[string]bool{}
	passes := map[string]bool{}
	for _, name := range names {
		stem := strings.TrimSuffix(filepath.Base(name), ".txt")
		word, _, _ := strings.Cut(stem, "_")
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == word })
		if i < 0 {
			t.Errorf("%s: there is no check %q", name, word)
			continue
		}
		t.Run(stem, func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			fsys, head, want := unpack(t, string(text))
			got := findings(t, checks[i], fsys)
			bites[word] = bites[word] || got != ""
			passes[word] = passes[word] || got == ""
			if *rewrite {
				out := head + wantMark + got
				if err := os.WriteFile(name, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("%s:\ngot:\n%swant:\n%s", name, got, want)
			}
		})
	}
	for _, c := range checks {
		if !bites[c.name] || !passes[c.name] {
			t.Errorf("check %s is hollow: testdata needs a tree that breaks it and one that keeps it", c.name)
		}
	}
}

func findings(t *testing.T, c check, fsys fs.FS) string {
	t.Helper()
	house, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range c.run(house) {
		lines = append(lines, f.String()+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// wantMark divides the files of a tree from what the check must find.
const wantMark = "-- want --\n"

// unpack reads a test file: a sentence, then files, each after a line
// `-- path --`, then the expected findings. A line `@repeat N TEXT` in a file
// stands for N lines TEXT. Each tree has a go.mod, without being told.
func unpack(t *testing.T, text string) (fsys fs.FS, head, want string) {
	t.Helper()
	head, want, ok := strings.Cut(text, wantMark)
	if !ok {
		t.Fatalf("no line %q", strings.TrimSpace(wantMark))
	}
	if !opensWithSentence(head) {
		t.Fatal("does not open with a comment that says what it shows")
	}
	files := fstest.MapFS{"go.mod": {Data: []byte("module example.org/mill\n\ngo 1.26\n")}}
	var data *bytes.Buffer
	var name string
	flush := func() {
		if data != nil {
			files[name] = &fstest.MapFile{Data: data.Bytes()}
		}
	}
	for line := range strings.Lines(head) {
		if path, ok := strings.CutPrefix(line, "-- "); ok {
			flush()
			name, data = strings.TrimSuffix(path, " --\n"), new(bytes.Buffer)
			continue
		}
		if data == nil {
			continue // The opening comment.
		}
		if rest, ok := strings.CutPrefix(line, "@repeat "); ok {
			var n int
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			_, line, _ = strings.Cut(rest, " ")
			line = strings.Repeat(line, n)
		}
		data.WriteString(line)
	}
	flush()
	return files, head, want
}
