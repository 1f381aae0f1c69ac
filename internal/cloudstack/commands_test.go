package cloudstack

import (
	"encoding/csv"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func commandNames() (names []string) {
	for _, c := range Commands() {
		names = append(names, c.Name)
	}
	return names
}

// The commands that stand in the code are those of the list.
func TestCommandsAreThoseInTheCode(t *testing.T) {
	files := must[[]string](t)(filepath.Glob("*.go"))
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(must[*ast.File](t)(parser.ParseFile(token.NewFileSet(), name, nil, 0)), func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) < 3 {
				return true
			}
			if method, is := call.Fun.(*ast.SelectorExpr); is && slices.Contains([]string{"read", "get", "post", "start", "startJob"}, method.Sel.Name) {
				if l, is := call.Args[1].(*ast.BasicLit); is {
					names = append(names, strings.Trim(l.Value, `"`))
				}
			}
			return true
		})
	}
	slices.Sort(names)
	if diff := cmp.Diff(commandNames(), slices.Compact(names)); diff != "" {
		t.Errorf("commands (-Commands +code):\n%s", diff)
	}
}

// The file is read as CloudStack's web interface does: lines, and columns at each comma.
func TestRoleCSV(t *testing.T) {
	rows := must[[][]string](t)(csv.NewReader(strings.NewReader(RoleCSV())).ReadAll())
	if diff := cmp.Diff([]string{"rule", "permission", "description"}, rows[0]); diff != "" {
		t.Error(diff)
	}
	var allowed []string
	for _, row := range rows[1 : len(rows)-1] {
		if row[1] != "allow" || row[2] == "" || strings.ContainsAny(row[2], `,"'$\`+"`") {
			t.Errorf("%q", row)
		}
		allowed = append(allowed, row[0])
	}
	want := slices.DeleteFunc(commandNames(), func(name string) bool { return name == "listConfigurations" })
	if diff := cmp.Diff(want, allowed); diff != "" {
		t.Errorf("allowed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"*", "deny"}, rows[len(rows)-1][:2]); diff != "" {
		t.Errorf("the last rule: %s", diff)
	}
}

// A shell makes of the calls one createRolePermission for each line of the file, in the same order.
func TestRoleCalls(t *testing.T) {
	var want strings.Builder
	for line := range strings.Lines(RoleCSV()) {
		if columns := strings.SplitN(strings.TrimSpace(line), ",", 3); columns[0] != "rule" {
			fmt.Fprintf(&want, "[create] [rolepermission] [roleid=id-1] [permission=%s] [rule=%s] [description=%s]\n", columns[1], columns[0], columns[2])
		}
	}
	text := RoleCalls("1.2.3")
	shell := exec.Command("sh", "-c", `cmk() { for a; do printf "[%s] " "$a"; done; echo; }
`+text)
	shell.Dir = t.TempDir()
	shell.Env = []string{"ROLE=id-1"}
	out := must[[]byte](t)(shell.Output())
	if diff := cmp.Diff(want.String(), strings.ReplaceAll(string(out), "] \n", "]\n")); diff != "" {
		t.Errorf("calls (-file +shell):\n%s", diff)
	}
	if !strings.HasPrefix(text, "# The API commands that trueup 1.2.3 uses") {
		t.Errorf("it does not name its version: %.60s", text)
	}
	shell = exec.Command("sh", "-c", text)
	shell.Env = []string{"PATH=/nowhere"}
	if out, err := shell.Output(); err == nil || len(out) > 0 {
		t.Errorf("without the role's id: %v: %s", err, out)
	}
}

// docs/access.md has one row for each command.
func TestCommandsAreExplained(t *testing.T) {
	var rows strings.Builder
	for _, c := range Commands() {
		needed := "-"
		switch {
		case c.Live && c.Offline:
			needed = "for each change"
		case c.Live:
			needed = "for a running cluster"
		case c.Cold:
			needed = "for the cold method"
		case c.Offline:
			needed = "for a Created or Stopped one"
		case c.Admin:
			needed = "- (not in the role)"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", c.Name, c.For, needed)
	}
	text := must[[]byte](t)(os.ReadFile("../../docs/access.md"))
	if !strings.Contains(string(text), "|---|---|---|\n"+rows.String()+"\n") {
		t.Errorf("docs/access.md must have these rows and no others:\n%s", rows.String())
	}
}
