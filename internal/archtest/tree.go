package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// A finding is one broken rule at one place.
type finding struct {
	where string // path, or path:line
	what  string
	why   string
	fix   string
}

func (f finding) String() string {
	return fmt.Sprintf("%s: %s; %s; %s", f.where, f.what, f.why, f.fix)
}

// A source is one Go file of the module.
type source struct {
	path      string // slash-separated, from the root
	dir       string // its package's directory, "." at the root
	isTest    bool
	generated bool
	lines     []string
	syntax    *ast.File
	marks     map[string]map[int]bool // see markRE: word -> lines it covers
}

// A tree is the module as the checks see it.
type tree struct {
	fsys    fs.FS
	module  string // module path, from go.mod
	fset    *token.FileSet
	sources []*source
	broken  []finding // files that do not parse
}

// otherModules are top-level directories with a go.mod of their own.
var otherModules = []string{"live", "api", "tools"}

// load parses every Go file of the module at the root of fsys.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, fset: token.NewFileSet()}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			t.module = strings.TrimSpace(name)
		}
	}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if foreign(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		return t.add(name)
	})
	return t, err
}

// foreign reports whether a directory is none of the module's business.
func foreign(fsys fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base == "testdata" || base == "vendor" || base == "node_modules" ||
		strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
		slices.Contains(otherModules, dir) {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (t *tree) add(name string) error {
	data, err := fs.ReadFile(t.fsys, name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.broken = append(t.broken, finding{
			name, "does not parse: " + firstLine(err.Error()),
			"no rule can be checked on it", "make it compile first",
		})
		return nil
	}
	s := &source{
		path:      name,
		dir:       path.Dir(name),
		isTest:    strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(syntax),
		lines:     strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"),
		syntax:    syntax,
	}
	s.findMarks(t.fset)
	t.sources = append(t.sources, s)
	return nil
}

// packages returns the directories that hold Go files, sorted, with their files.
func (t *tree) packages() ([]string, map[string][]*source) {
	byDir := map[string][]*source{}
	for _, s := range t.sources {
		byDir[s.dir] = append(byDir[s.dir], s)
	}
	dirs := make([]string, 0, len(byDir))
	for dir := range byDir {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	return dirs, byDir
}

// localDir maps an import path to a directory of the module.
func (t *tree) localDir(importPath string) (dir string, ok bool) {
	if importPath == t.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.module+"/")
}

func (t *tree) line(n ast.Node) int { return t.fset.Position(n.Pos()).Line }

func (s *source) at(line int) string { return fmt.Sprintf("%s:%d", s.path, line) }

// markRE is a mark: a word, a colon and a reason. It excuses the code on its own
// line, or, when it stands alone, the code right below. gofumpt puts a space
// before the word, so both spellings count.
var markRE = regexp.MustCompile(`^//\s?(order|const|sleep):\s*\S`)

func (s *source) findMarks(fset *token.FileSet) {
	s.marks = map[string]map[int]bool{}
	for _, group := range s.syntax.Comments {
		first, last := fset.Position(group.Pos()), fset.Position(group.End()).Line
		trailing := strings.TrimSpace(s.lines[first.Line-1][:first.Column-1]) != ""
		for _, c := range group.List {
			m := markRE.FindStringSubmatch(c.Text)
			if m == nil {
				continue
			}
			if s.marks[m[1]] == nil {
				s.marks[m[1]] = map[int]bool{}
			}
			if trailing {
				s.marks[m[1]][first.Line] = true
			} else {
				s.marks[m[1]][last+1] = true
			}
		}
	}
}

// marked reports whether a mark with the word covers the line.
func (s *source) marked(word string, line int) bool { return s.marks[word][line] }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
