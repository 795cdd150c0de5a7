package scenario

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File runs one file and prints what happened: every statement with its output
// and, where the output differs from the expected one, the difference. With
// rewrite, the file is given the output that it has now. ok says that all is as
// expected; the error is a file that cannot be read, or a *Violation.
func File(path string, w io.Writer, rewrite bool) (ok bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	report, err := Run(path, bytes.NewReader(text))
	if printErr := report.Print(w); err == nil {
		err = printErr
	}
	if err != nil {
		return false, err
	}
	if !rewrite {
		return report.OK(), nil
	}
	if now := report.Rewritten(); now != string(text) {
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			return false, fmt.Errorf("rewrite: %w", err)
		}
	}
	return true, nil
}

// Find lists the scenario files that arguments name: a file stands for itself,
// a directory, with or without "/...", for all *.txt files below it.
func Find(args ...string) ([]string, error) {
	var out []string
	for _, arg := range args {
		root := strings.TrimSuffix(strings.TrimSuffix(arg, "..."), "/")
		if root == "" {
			root = "."
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (path == arg || filepath.Ext(path) == ".txt") {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Print writes the report for a reader.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Name, r.Title)
	differ := 0
	for i := range r.Steps {
		s := &r.Steps[i]
		for k := range s.Statements {
			st := &s.Statements[k]
			b.WriteString(indented(st.Text, "  "))
			b.WriteString(indented(st.Output, "      "))
		}
		if s.OK() {
			continue
		}
		differ++
		for k := range s.Statements {
			if st := &s.Statements[k]; st.Refused && !strings.Contains(s.Want, st.Output) {
				fmt.Fprintf(&b, "%s:%d: %s", r.Name, st.Line, st.Output)
			}
		}
		if s.Checked {
			fmt.Fprintf(&b, "%s:%d: the output differs, - is what the file expects, + what there is:\n", r.Name, s.Statements[len(s.Statements)-1].Line)
			b.WriteString(difference(s.Want, s.Got))
		}
	}
	if differ == 0 {
		fmt.Fprintf(&b, "ok, %s\n", counted(len(r.Steps), "step"))
	} else {
		fmt.Fprintf(&b, "%d of %s not as expected\n", differ, counted(len(r.Steps), "step"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func indented(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// diffCells bounds the work of a difference; longer texts are shown whole.
const diffCells = 1 << 20

// difference prints what has to go from want and what comes instead, line by
// line, around what is common.
func difference(want, got string) string {
	a, b := lines(want), lines(got)
	if len(a)*len(b) > diffCells {
		return indented(want, "- ") + indented(got, "+ ")
	}
	// common[i][j] is how many lines a[i:] and b[j:] have in common, in order.
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out.WriteString("  " + a[i] + "\n")
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			out.WriteString("- " + a[i] + "\n")
			i++
		default:
			out.WriteString("+ " + b[j] + "\n")
			j++
		}
	}
	return out.String()
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
