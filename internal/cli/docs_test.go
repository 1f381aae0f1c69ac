package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources parses the files of a package of ours, without its tests.
func sources(t *testing.T, folder string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// constants are the values of the package's text constants whose name begins so.
func constants(t *testing.T, folder, prefix string) (values []string) {
	t.Helper()
	for _, f := range sources(t, folder) {
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && strings.HasPrefix(v.Names[0].Name, prefix) {
				values = append(values, texts(v.Values[0])...)
			}
			return true
		})
	}
	return values
}

// texts is the value of a text literal; none for anything else.
func texts(e ast.Expr) []string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return nil
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return nil
	}
	return []string{s}
}

// summaries are what the engine's faults say: the texts that are given to a fault's Summary, itself or through the functions that make faults.
func summaries(t *testing.T) (out []string) {
	t.Helper()
	argument := map[string]int{"stop": 2, "stopCheck": 1, "nextFailed": 3}
	for _, f := range sources(t, "rollout") {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Summary" {
					out = append(out, texts(n.Value)...)
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if to, ok := left.(*ast.SelectorExpr); ok && to.Sel.Name == "Summary" && n.Tok == token.ASSIGN && len(n.Lhs) == len(n.Rhs) {
						out = append(out, texts(n.Rhs[i])...)
					}
				}
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.Ident); ok {
					if i, makes := argument[name.Name]; makes && i < len(n.Args) {
						out = append(out, texts(n.Args[i])...)
					}
				}
			}
			return true
		})
	}
	return out
}

// TestEveryFaultIsExplained: each layer and each phase has an entry in docs/faults.md, and each fault's own words stand there.
func TestEveryFaultIsExplained(t *testing.T) {
	text := read(t, filepath.Join(docs, "faults.md"))
	layers, phases, said := constants(t, "capacity", "Layer"), constants(t, "rollout", "Phase"), summaries(t)
	if len(layers) < 10 || len(phases) < 2 || len(said) < 15 {
		t.Fatalf("not all were found: %d layers, %d phases, %d summaries", len(layers), len(phases), len(said))
	}
	for _, layer := range layers {
		if !strings.Contains(text, "\n## "+layer+"\n") || !strings.Contains(text, "| ["+layer+"](#"+layer+") |") {
			t.Errorf("layer %s has no entry", layer)
		}
	}
	for _, phase := range phases {
		if !strings.Contains(text, "\n### "+phase+"\n") {
			t.Errorf("phase %s has no entry", phase)
		}
	}
	unfolded := strings.Join(strings.Fields(text), " ")
	for _, s := range said {
		if !strings.Contains(unfolded, `"`+s+`"`) {
			t.Errorf("a fault says %q, which is not explained", s)
		}
	}
}

// TestEveryCheckIsExplained: what a wait waits for becomes the fault when its bound passes.
func TestEveryCheckIsExplained(t *testing.T) {
	text := strings.Join(strings.Fields(read(t, filepath.Join(docs, "faults.md"))), " ")
	n := 0
	for _, f := range sources(t, "capacity") {
		ast.Inspect(f, func(node ast.Node) bool {
			kv, ok := node.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "What" {
				return true
			}
			for _, what := range texts(kv.Value) {
				n++
				if !strings.Contains(text, `"`+what) {
					t.Errorf("check %q is not explained", what)
				}
			}
			return true
		})
	}
	if n < 10 {
		t.Errorf("only %d checks were found", n)
	}
}

// TestLinksLead somewhere: to a file, and where it is a page of ours to a heading of it.
func TestLinksLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil || len(pages) < 8 {
		t.Fatalf("%v: %v", pages, err)
	}
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if m[2] != "" && !slices.Contains(anchors(read(t, target)), m[2]) {
				t.Errorf("%s: no heading %s in %s", page, m[2], target)
			}
		}
	}
}

// anchors are the headings of a page, as links name them.
func anchors(text string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		out = append(out, "#"+strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"))
	}
	return out
}

// TestTestsThatDocsName exist.
func TestTestsThatDocsName(t *testing.T) {
	code := map[string]bool{}
	for _, pattern := range []string{"../*/*_test.go", "../*/*/*_test.go", "../../lab/*/*_test.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, name), -1) {
				code[m[1]] = true
			}
		}
	}
	for _, page := range []string{"third-parties.md", "testing.md"} {
		for _, m := range regexp.MustCompile("`(Test\\w+)").FindAllStringSubmatch(read(t, filepath.Join(docs, page)), -1) {
			if !code[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}
