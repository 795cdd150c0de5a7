package scenario

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const manual = "../../docs/scenario.md"

// examples cuts a page into its text and its examples, alternating.
func examples(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	rest := string(text)
	for {
		before, after, found := strings.Cut(rest, "```scenario\n")
		parts = append(parts, before)
		if !found {
			return parts
		}
		example, after, closed := strings.Cut(after, "```\n")
		if !closed {
			t.Fatalf("%s: an example is not closed", page)
		}
		parts, rest = append(parts, example), after
	}
}

// TestManual runs every example of the manual, and looks for one of every
// statement.
func TestManual(t *testing.T) {
	said := runExamples(t, manual)
	for _, name := range newInterp().names {
		if !said[name] {
			t.Errorf("the manual has no example of %s", name)
		}
	}
	text := strings.Join(examples(t, manual), "")
	for _, row := range newInterp().table {
		for _, field := range row.fields {
			if !strings.Contains(text, field+"=") {
				t.Errorf("the manual does not tell of field %s of %s", field, row.name)
			}
		}
		for _, flag := range row.flags {
			if !regexp.MustCompile(`[^a-z-]` + flag + `[^a-z-]`).MatchString(text) {
				t.Errorf("the manual does not tell of word %s of %s", flag, row.name)
			}
		}
	}
}

// TestPages runs the examples of the other pages.
func TestPages(t *testing.T) {
	for _, page := range []string{"../../docs/groups.md", "../../docs/queues.md", "../../docs/elastic.md"} {
		if len(runExamples(t, page)) == 0 {
			t.Errorf("%s has no examples", page)
		}
	}
}

// runExamples runs the examples of a page, and says which statements they have.
func runExamples(t *testing.T, page string) map[string]bool {
	t.Helper()
	parts := examples(t, page)
	said := make(map[string]bool)
	for i := 1; i < len(parts); i += 2 {
		report, err := Run(page, strings.NewReader(parts[i]))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range report.Steps {
			for _, st := range s.Statements {
				said[strings.Fields(st.Text)[0]] = true
				if st.Refused {
					t.Errorf("%s: %s: %s", report.Title, st.Text, st.Output)
				}
			}
		}
		now := report.Rewritten()
		if now != parts[i] && !*rewrite {
			t.Errorf("%s: an example differs:\n%s", page, difference(parts[i], now))
		}
		parts[i] = now
	}
	if !*rewrite {
		return said
	}
	var out strings.Builder
	for i, part := range parts {
		if i%2 == 1 {
			part = "```scenario\n" + part + "```\n"
		}
		out.WriteString(part)
	}
	if err := os.WriteFile(page, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return said
}
