package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const docs = "../../docs"

// helpOf is what a person sees who asks a command for help.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	p := &program{}
	a := newApp(Streams{In: strings.NewReader(""), Out: &p.out, Err: &p.err, Version: "1.2.3", Env: func(string) (string, bool) { return "", false }})
	if code := a.main(t.Context(), append(args, "--help")); code != ExitOK {
		t.Fatalf("%v --help: exit code %d: %s", args, code, p.err.String())
	}
	return p.out.String()
}

// commands are the commands, each followed by those below it, as they are called.
func commands() (out [][]string) {
	for _, c := range newApp(Streams{Version: "1.2.3"}).root().Commands() {
		out = append(out, []string{c.Name()})
		for _, below := range c.Commands() {
			out = append(out, []string{c.Name(), below.Name()})
		}
	}
	return out
}

func TestHelpFitsEightyColumns(t *testing.T) {
	for _, text := range append([]string{helpOf(t)}, helps(t)...) {
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func helps(t *testing.T) (texts []string) {
	t.Helper()
	for _, c := range commands() {
		texts = append(texts, helpOf(t, c...))
	}
	return texts
}

// TestCommandReference holds docs/commands.md equal to what the commands say of themselves.
func TestCommandReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nWritten by `go test ./internal/cli -update` from the program itself; a test holds it equal.\nThe exit codes are in [exit-codes.md](exit-codes.md).\n")
	fmt.Fprintf(&b, "\n## trueup\n\n```\n%s```\n", general(helpOf(t)))
	for _, c := range commands() {
		fmt.Fprintf(&b, "\n## trueup %s\n\n```\n%s```\n", strings.Join(c, " "), withoutGlobal(helpOf(t, c...)))
	}
	b.WriteString("\n`trueup completion bash|zsh|fish|powershell` prints a completion script for that shell.\n")
	goldenFile(t, filepath.Join(docs, "commands.md"), b.String())
}

// general is the root's help without the commands that cobra adds.
func general(help string) string {
	lines := regexp.MustCompile(`(?m)^  (completion|help) .*\n`)
	return lines.ReplaceAllString(help, "")
}

// withoutGlobal leaves out the flags that every command has: they are told once.
func withoutGlobal(help string) string {
	before, _, _ := strings.Cut(help, "\nGlobal Flags:\n")
	return before
}

// TestExitCodes holds the constants and the table that scripts are written by together.
func TestExitCodes(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var inCode, inDocs []string
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Exit") {
			inCode = append(inCode, v.Values[0].(*ast.BasicLit).Value)
		}
		return true
	})
	text, err := os.ReadFile(filepath.Join(docs, "exit-codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(text), -1) {
		inDocs = append(inDocs, m[1])
	}
	sort.Strings(inCode)
	sort.Strings(inDocs)
	if diff := cmp.Diff(inCode, inDocs); diff != "" || len(inCode) < 9 {
		t.Errorf("exit codes (-exit.go +docs/exit-codes.md):\n%s", diff)
	}
}

func TestWrongCalls(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for args, says := range map[string]string{
			"frobnicate":                              `unknown command "frobnicate"`,
			"status":                                  "accepts 1 arg(s), received 0; see `trueup status --help`",
			"status prod other":                       "accepts 1 arg(s), received 2",
			"clusters all":                            "unknown command",
			"status prod --wroker x":                  "unknown flag: --wroker; see `trueup status --help`",
			"status prod -o xml":                      `unknown output format "xml": it is one of table, wide, json, yaml`,
			"plan prod -o wide --worker big":          "it is one of text, json, yaml",
			"scale prod --worker big --settle soon":   "invalid argument",
			"scale prod --worker big --settle -1s":    "--settle -1s is negative",
			"scale prod":                              "no goal: name an offering with --offering, --worker, --control or --etcd",
			"plan prod":                               "no goal",
			"scale prod --resize-timeout 0":           "--resize-timeout 0s: it must be longer than nothing",
			"resume prod --access-timeout -5s":        "--access-timeout -5s",
			"reconcile prod --online-timeout 0":       "--online-timeout 0s",
			"abort prod --verify-timeout 0":           "--verify-timeout 0s",
			"abort prod --force":                      "--why",
			"abort":                                   "requires at least 1 arg(s)",
			"verify prod nosuchnode":                  `"nosuchnode" is no node of prod; there are: prod-control-18f3c0d2a1, prod-node-`,
			"status lab":                              `cluster "lab" is unknown; there are: prod (`,
			"plan prod --worker bug":                  `compute offering "bug" is unknown; there are: big (`,
			"plan prod --worker twin":                 `compute offering "twin" is ambiguous, give the id of one`,
			"plan prod --worker big --control larg":   `"larg" is unknown`,
			"status prod --profile p --cmk-config /x": "/x",
		} {
			s.trueup(t, args).want(t, ExitUsage).says(t, says).oneError(t)
		}
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}
