package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of size, in lines. A function fits on a screen and a half; a file holds
// one idea. Tests are lists of cases and may be longer.
const (
	maxFuncLines     = 100
	maxFileLines     = 600
	maxTestFileLines = 800

	exceptionsFile = "internal/archtest/exceptions.txt"
)

// checkComments asks for a package comment in each package.
func checkComments(t *tree) []finding {
	var found []finding
	dirs, files := t.packages()
	for _, dir := range dirs {
		inTests := !slices.ContainsFunc(files[dir], func(s *source) bool { return !s.isTest })
		want, ok := "", false
		for _, s := range files[dir] {
			if s.isTest != inTests {
				continue
			}
			want = "Package " + s.syntax.Name.Name + " "
			if s.syntax.Name.Name == "main" {
				want = "Command " + path.Base(dir) + " "
			}
			ok = ok || strings.HasPrefix(s.syntax.Doc.Text(), want)
		}
		if !ok {
			found = append(found, finding{
				dir, "has no package comment that starts with " + strconv.Quote(want),
				"a reader enters a room by its comment", "say what it is for, how it is used and what it leaves to others",
			})
		}
	}
	return found
}

// junkRooms are names that say nothing, so that everything ends up there.
var junkRooms = []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "base", "manager", "pkg"}

// checkRooms refuses junk rooms, by directory and by package name.
func checkRooms(t *tree) []finding {
	var found []finding
	dirs, files := t.packages()
	for _, dir := range dirs {
		names := strings.Split(dir, "/")
		for _, s := range files[dir] {
			names = append(names, strings.TrimSuffix(s.syntax.Name.Name, "_test"))
		}
		for _, junk := range junkRooms {
			if slices.Contains(names, junk) {
				found = append(found, finding{
					dir, fmt.Sprintf("is a room named %q", junk), "such a name says nothing about what is inside",
					"name it after the idea it holds, or move each part to the room that uses it",
				})
			}
		}
	}
	return found
}

// An exception allows one file or function to be larger than the limit.
type exception struct {
	line int // in exceptions.txt
	size int
}

// exceptionRE is a line of exceptions.txt: path or path:function, size, reason.
var exceptionRE = regexp.MustCompile(`^(\S+)\s+(\d+)\s+(\S.*)$`)

func readExceptions(text string) (map[string]exception, []finding) {
	list := map[string]exception{}
	var bad []finding
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := exceptionRE.FindStringSubmatch(line)
		if m == nil {
			bad = append(bad, finding{
				fmt.Sprintf("%s:%d", exceptionsFile, n), "is not `path[:function] size reason`",
				"an exception without its reason lasts for ever", "write all three",
			})
			continue
		}
		size, _ := strconv.Atoi(m[2]) // Only digits match.
		list[m[1]] = exception{n, size}
	}
	return list, bad
}

// checkSize holds functions and files to their limits, save for the exceptions,
// and the exceptions to what is really there.
func checkSize(t *tree) []finding {
	text, _ := fs.ReadFile(t.fsys, exceptionsFile) // Absent means none.
	exceptions, found := readExceptions(string(text))
	needed := map[string]int{} // name in exceptions.txt -> lines there are

	measure := func(name, where, noun string, size, limit int) {
		if size <= limit {
			return
		}
		needed[name] = size
		if e, ok := exceptions[name]; !ok {
			found = append(found, finding{
				where, fmt.Sprintf("%s has %d lines, %d are allowed", noun, size, limit),
				"what does not fit in one view is not read as a whole",
				"split it by idea, or list " + name + " in " + exceptionsFile + " with a reason",
			})
		} else if size > e.size {
			found = append(found, finding{
				where, fmt.Sprintf("%s has grown from %d to %d lines", noun, e.size, size),
				"exceptions may only shrink", "move the new part out",
			})
		}
	}
	for _, s := range t.sources {
		switch {
		case s.generated:
		case s.isTest:
			measure(s.path, s.path, "the file", len(s.lines), maxTestFileLines)
		default:
			measure(s.path, s.path, "the file", len(s.lines), maxFileLines)
			for _, d := range s.syntax.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					size := t.fset.Position(f.End()).Line - t.line(f) + 1
					measure(s.path+":"+funcName(f), s.at(t.line(f)), funcName(f), size, maxFuncLines)
				}
			}
		}
	}
	return append(found, staleExceptions(exceptions, needed)...)
}

func staleExceptions(exceptions map[string]exception, needed map[string]int) []finding {
	var found []finding
	for name, e := range exceptions {
		where := fmt.Sprintf("%s:%d", exceptionsFile, e.line)
		size, ok := needed[name]
		if !ok {
			found = append(found, finding{
				where, name + " needs no exception any more", "exceptions may only shrink", "delete the line",
			})
		} else if size < e.size {
			found = append(found, finding{
				where, fmt.Sprintf("%s is down to %d lines, %d are written", name, size, e.size),
				"exceptions may only shrink", fmt.Sprintf("write %d", size),
			})
		}
	}
	return found
}

// funcName names a function as exceptions.txt does: Name or Type.Name.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}
