package archtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"path"
	"strings"
	"sync"
)

// stdImporter type-checks the standard library from its source, once per run.
var stdImporter = sync.OnceValue(func() types.Importer {
	return importer.ForCompiler(token.NewFileSet(), "source", nil)
})

// A typer type-checks packages of the module, each once.
type typer struct {
	t       *tree
	files   map[string][]*source // by directory
	context build.Context        // decides which files belong to the build
	done    map[string]*typed
}

// A typed is one package after type-checking.
type typed struct {
	pkg  *types.Package
	info *types.Info
	err  error // the first one
}

// checkPureTypes finds floats and orders of maps by type. It looks at core as it
// is built by default and with the invariants on.
func checkPureTypes(t *tree) []finding {
	var found []finding
	dirs, files := t.packages()
	for _, tags := range [][]string{nil, {"invariants"}} {
		context := build.Default
		context.BuildTags = tags
		context.JoinPath = path.Join
		context.OpenFile = func(name string) (io.ReadCloser, error) { return t.fsys.Open(name) }
		ty := &typer{t, files, context, map[string]*typed{}}
		for _, dir := range dirs {
			if inCore(dir) {
				found = append(found, ty.check(dir)...)
			}
		}
	}
	return found
}

func (ty *typer) check(dir string) []finding {
	var found []finding
	p := ty.load(dir)
	if p.err != nil {
		found = append(found, finding{
			dir, "cannot be type-checked: " + firstLine(p.err.Error()),
			"floats and ranges over maps show only by type", "make it compile first",
		})
	}
	for _, s := range ty.sources(dir) {
		found = append(found, pureValues(ty.t, s, p.info)...)
		found = append(found, orderedRanges(ty.t, s, p.info)...)
	}
	return found
}

// sources are the non-test files of a directory that the build takes.
func (ty *typer) sources(dir string) []*source {
	var list []*source
	for _, s := range ty.files[dir] {
		if s.isTest {
			continue
		}
		if ok, err := ty.context.MatchFile(dir, path.Base(s.path)); ok && err == nil {
			list = append(list, s)
		}
	}
	return list
}

func (ty *typer) load(dir string) *typed {
	if p := ty.done[dir]; p != nil {
		return p
	}
	p := &typed{info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
	}}
	ty.done[dir] = p // Before its imports, so that a cycle ends.
	var syntax []*ast.File
	for _, s := range ty.sources(dir) {
		syntax = append(syntax, s.syntax)
	}
	config := types.Config{
		Importer: ty,
		Error: func(err error) {
			if p.err == nil {
				p.err = err
			}
		},
	}
	p.pkg, _ = config.Check(path.Join(ty.t.module, dir), ty.t.fset, syntax, p.info)
	return p
}

// Import gives the type-checker the packages of the module and of the standard
// library; core has no others.
func (ty *typer) Import(name string) (*types.Package, error) {
	if dir, ok := ty.t.localDir(name); ok {
		if p := ty.load(dir); p.pkg != nil {
			return p.pkg, nil
		}
		return nil, fmt.Errorf("%s imports itself", name)
	}
	if host, _, _ := strings.Cut(name, "/"); strings.Contains(host, ".") {
		return nil, fmt.Errorf("%s is not of the standard library", name)
	}
	return stdImporter().Import(name)
}

// pureValues finds expressions of a float type, however they came by it.
func pureValues(t *tree, s *source, info *types.Info) []finding {
	var found []finding
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		expr, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		typ := info.TypeOf(expr)
		if typ == nil {
			return true
		}
		basic, ok := typ.Underlying().(*types.Basic)
		if ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0 {
			found = append(found, finding{s.at(t.line(expr)), "uses a float", whyFloat, fixFloat})
		}
		return true
	})
	return found
}

// orderedRanges finds ranges over maps, and calls that hand out the entries of a
// map as a sequence that is not sorted at once.
func orderedRanges(t *tree, s *source, info *types.Info) []finding {
	var found []finding
	add := func(n ast.Node, what string) {
		line := t.line(n)
		if s.marked("order", line) {
			return
		}
		found = append(found, finding{
			s.at(line), what, "a map has another order in each run",
			"sort the keys, or say in a comment `// order: ...` why order cannot matter",
		})
	}
	sorted := map[ast.Expr]bool{}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if isMap(info.TypeOf(n.X)) {
				add(n, "ranges over a map")
			}
		case *ast.CallExpr:
			pkg, name := callee(info, n)
			switch {
			case pkg == "slices" && sorts(name) && len(n.Args) > 0:
				sorted[n.Args[0]] = true
			case pkg == "maps" && (name == "All" || name == "Keys" || name == "Values") && !sorted[n]:
				add(n, "takes maps."+name+" as it comes")
			}
		}
		return true
	})
	return found
}

// callee names the package and the function that a call goes to, if it is a
// plain call of another package.
func callee(info *types.Info, call *ast.CallExpr) (pkg, name string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	obj := info.Uses[sel.Sel]
	if obj == nil || obj.Pkg() == nil {
		return "", ""
	}
	return obj.Pkg().Path(), obj.Name()
}

// isMap reports whether a value of the type may be a map.
func isMap(typ types.Type) bool {
	if typ == nil {
		return false
	}
	if param, ok := types.Unalias(typ).(*types.TypeParam); ok {
		return constraintIsMap(param.Constraint())
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}

func constraintIsMap(constraint types.Type) bool {
	iface, ok := constraint.Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for i := range iface.NumEmbeddeds() {
		union, ok := iface.EmbeddedType(i).(*types.Union)
		if !ok {
			if isMap(iface.EmbeddedType(i)) {
				return true
			}
			continue
		}
		for j := range union.Len() {
			if isMap(union.Term(j).Type()) {
				return true
			}
		}
	}
	return false
}
