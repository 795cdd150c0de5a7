package archtest

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// coreDir holds the pure code.
const coreDir = "internal/core"

func inCore(dir string) bool { return matches(coreDir+"/...", dir) }

// The reasons behind the purity of core, as findings give them.
const (
	whySame  = "the same snapshot must give the same plan, on every machine and in every run"
	whyFloat = "sums of floats depend on their order, and NaN compares with nothing"
	whyState = "what core remembers between calls, a replay cannot know"

	fixAround = "let the rooms around core do it and pass the values in"
	fixFloat  = "count in integers with a unit, such as quantity.MilliGPU or thousandths"
)

// checkPurity holds the non-test files of core to plain values: no concurrency,
// no floats, no state, no order of a map.
func checkPurity(t *tree) []finding {
	var found []finding
	for _, s := range t.sources {
		if inCore(s.dir) && !s.isTest {
			found = append(found, pureSyntax(t, s)...)
			found = append(found, pureDecls(t, s)...)
		}
	}
	found = append(found, checkPureTypes(t)...)
	// Syntax and types may see the same thing.
	slices.SortFunc(found, func(a, b finding) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(found)
}

// pureSyntax finds what shows without types.
func pureSyntax(t *tree, s *source) []finding {
	var found []finding
	add := func(n ast.Node, what, why, fix string) {
		found = append(found, finding{s.at(t.line(n)), what, why, fix})
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "starts a goroutine", whySame, fixAround)
		case *ast.SelectStmt:
			add(n, "selects", whySame, fixAround)
		case *ast.ChanType:
			add(n, "has a channel", whySame, fixAround)
		case *ast.Ident:
			switch n.Name {
			case "float32", "float64", "complex64", "complex128":
				add(n, "uses a float", whyFloat, fixFloat)
			}
		case *ast.BasicLit:
			if n.Kind == token.FLOAT || n.Kind == token.IMAG {
				add(n, "uses a float", whyFloat, fixFloat)
			}
		}
		return true
	})
	return found
}

// pureDecls finds package variables without a `// const:` mark, and init.
func pureDecls(t *tree, s *source) []finding {
	var found []finding
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			found = append(found, finding{
				s.at(t.line(f)), "has an init function", whyState, "build the value where it is used, or write it as a literal",
			})
		}
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR || s.marked("const", t.line(g)) {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec) // Of a var declaration.
			end := t.fset.Position(v.End()).Line
			if s.marked("const", t.line(v)) || s.marked("const", end) {
				continue
			}
			for _, name := range v.Names {
				if name.Name != "_" {
					found = append(found, finding{
						s.at(t.line(name)), "has the package variable " + name.Name, whyState,
						"make it a constant, a function or an argument; if it never changes, say so in a comment `// const: ...`",
					})
				}
			}
		}
	}
	return found
}

// sorts are the functions of package slices that give a sequence an order.
func sorts(name string) bool { return strings.HasPrefix(name, "Sorted") }
