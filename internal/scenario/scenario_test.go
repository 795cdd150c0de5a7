package scenario

import (
	"flag"
	"io"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the output that scenario files and the manual have now")

// TestScenarios runs every scenario file of the repository. Each must say what
// it expects, in full.
func TestScenarios(t *testing.T) {
	files, err := Find("../../scenarios/...")
	if err != nil {
		t.Fatal(err)
	}
	const least = 30
	if len(files) < least {
		t.Fatalf("found %d scenario files, there were at least %d", len(files), least)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, "../../scenarios/"), func(t *testing.T) {
			var out strings.Builder
			ok, err := File(file, &out, *rewrite)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				t.Error(out.String())
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			report, err := Run(file, strings.NewReader(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			if now := report.Rewritten(); now != string(text) {
				t.Errorf("rewriting changes the file to\n%s", now)
			}
		})
	}
}

var _ = io.Discard
