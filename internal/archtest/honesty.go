package archtest

import (
	"go/ast"
	"strconv"
	"strings"
)

// checkHonesty refuses tests that stay silent about not running, and tests that
// wait for the clock instead of for what they test.
func checkHonesty(t *tree) []finding {
	var found []finding
	for _, s := range t.sources {
		if !s.isTest {
			continue
		}
		clock := importName(s.syntax, "time")
		runners := testRunners(s.syntax)
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			line := t.line(call)
			if runners[x.Name] && skipsSilently(sel.Sel.Name, call.Args) {
				found = append(found, finding{
					s.at(line), "skips without a message", "a test that did not run looks like one that passed",
					"say in the message what is missing",
				})
			}
			if clock != "" && x.Name == clock && sel.Sel.Name == "Sleep" && !s.marked("sleep", line) {
				found = append(found, finding{
					s.at(line), "sleeps", "a slow machine fails such a test and a fast one wastes time in it",
					"inject the time, use testing/synctest, or give the reason in a comment `// sleep: ...`",
				})
			}
			return true
		})
	}
	return found
}

func skipsSilently(method string, args []ast.Expr) bool {
	switch method {
	case "SkipNow":
		return true
	case "Skip", "Skipf":
		if len(args) == 0 {
			return true
		}
		lit, ok := args[0].(*ast.BasicLit)
		if !ok || len(args) > 1 {
			return false
		}
		text, err := strconv.Unquote(lit.Value)
		return err == nil && strings.TrimSpace(text) == ""
	}
	return false
}

// importName is the name by which a file calls a package; "" if it does not.
func importName(f *ast.File, pkg string) string {
	for _, spec := range f.Imports {
		if spec.Path.Value != strconv.Quote(pkg) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return pkg[strings.LastIndex(pkg, "/")+1:]
	}
	return ""
}

// testRunners are the names that parameters of type *testing.T and its kin have
// in a file.
func testRunners(f *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		fn, ok := n.(*ast.FuncType)
		if !ok {
			return true
		}
		for _, p := range fn.Params.List {
			typ := p.Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			sel, ok := typ.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "testing" {
				continue
			}
			for _, name := range p.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}
