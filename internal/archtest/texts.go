package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// checkScenarios asks each scenario file to say first what it shows.
func checkScenarios(t *tree) []finding {
	var found []finding
	err := fs.WalkDir(t.fsys, "scenarios", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || path.Ext(name) != ".txt" {
			return nil
		}
		data, err := fs.ReadFile(t.fsys, name)
		if err != nil {
			return err
		}
		if !opensWithSentence(string(data)) {
			found = append(found, finding{
				name + ":1", "does not start with a comment that holds a sentence",
				"whoever sees the scenario fail must learn from its top what it shows",
				"start with `# ` and a sentence that ends with a full stop",
			})
		}
		return nil
	})
	if err != nil {
		if _, missing := fs.Stat(t.fsys, "scenarios"); missing != nil {
			return nil // No scenarios yet.
		}
		found = append(found, finding{"scenarios", err.Error(), "unread scenarios are unchecked", "make it readable"})
	}
	return found
}

// opensWithSentence reports whether a text starts with `# `, words, and a full
// stop at the end of one of the first comment lines.
func opensWithSentence(text string) bool {
	for line := range strings.Lines(text) {
		words, ok := strings.CutPrefix(line, "# ")
		if words = strings.TrimSpace(words); !ok || words == "" {
			return false
		}
		if strings.HasSuffix(words, ".") {
			return strings.Trim(words, ". ") != ""
		}
	}
	return false
}

// checkGoMod keeps the root module installable by `go install`, and small.
func checkGoMod(t *tree) []finding {
	data, err := fs.ReadFile(t.fsys, "go.mod")
	if err != nil {
		return []finding{{"go.mod", err.Error(), "it is what is checked", "bring it back"}}
	}
	var found []finding
	block, n := "", 0
	for line := range strings.Lines(string(data)) {
		n++
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == ")" {
			block = ""
			continue
		}
		directive := block
		if block == "" {
			directive = words[0]
			words = words[1:]
		}
		if len(words) > 0 && words[0] == "(" {
			block = directive
			continue
		}
		where := fmt.Sprintf("go.mod:%d", n)
		switch {
		case directive == "replace":
			found = append(found, finding{
				where, "has a replace", "`go install` refuses a module with replaces",
				"require a released version, or do it in live/go.mod",
			})
		case directive == "require" && len(words) > 0 && isKubernetes(words[0]):
			found = append(found, finding{
				where, "requires " + words[0], "the simulator starts in seconds because Kubernetes is not in it",
				"move the code that needs it to live/",
			})
		}
	}
	return found
}

func isKubernetes(module string) bool {
	host, _, _ := strings.Cut(module, "/")
	return host == "k8s.io" || host == "sigs.k8s.io"
}
