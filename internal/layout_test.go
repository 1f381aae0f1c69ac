// Package internal_test holds the rule of who may import whom.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/cks-trueup/trueup/internal/"

// allowed lists, by package, the packages of ours that it may import. What is not listed may import nothing of ours.
func allowed() map[string][]string {
	ports := []string{"capacity", "rollout"}
	return map[string][]string{
		"capacity":           {},
		"rollout":            {"capacity"},
		"cloudstack":         append(ports, "spelling"),
		"cloudstack/standin": {},
		"guest":              ports,
		"kube":               ports,
		"history":            ports,
		"preflight":          ports,
		"spelling":           {},
		"survey":             ports,
		"doctor":             ports,
		"mutants":            {}, // a tool for developers: it knows the others as text
		"world":              {"capacity", "rollout", "cloudstack", "cloudstack/standin"},
		"server/access":      {},
		"server/config":      {"guest", "history", "spelling", "server/notice"},
		"server/fleet":       {"capacity", "rollout", "survey", "preflight", "server/logs", "server/metrics", "server/notice"},
		"server/graceful":    {},
		"server/logs":        ports,
		"server/metrics":     {"capacity", "rollout", "server/graceful"},
		"server/notice":      {},
		"server/store":       {"history", "server/notice"},
		"server/trace":       ports,
		"server/web":         {"server/access", "server/graceful", "capacity", "rollout", "survey", "preflight", "history"},
		"cli":                {"capacity", "rollout", "cloudstack", "guest", "kube", "history", "preflight", "survey", "doctor", "server/config"},
	}
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		seen[pkg] = true
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		may, known := allowed()[pkg]
		if !known {
			t.Errorf("package %s is not in the table of layers", pkg)
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if ours, is := strings.CutPrefix(name, module); is && !slices.Contains(may, ours) {
				t.Errorf("%s imports internal/%s; package %s may import %v", path, ours, pkg, may)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed() {
		if !seen[pkg] {
			t.Errorf("the table of layers names package %s, which does not exist", pkg)
		}
	}
}
