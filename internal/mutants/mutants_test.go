package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const checkout = "../.."

// Whoever changes a line that a mutant names learns it here, not when somebody next runs all mutants.
func TestEveryMutantApplies(t *testing.T) {
	if err := applicable(all(), checkout); err != nil {
		t.Error(err)
	}
}

func TestEveryMutantSaysWhatItBreaks(t *testing.T) {
	names, texts := map[string]bool{}, map[string]bool{}
	for _, m := range all() {
		change := m.file + m.was + "\x00" + m.becomes
		switch {
		case m.name == "" || m.promise == "" || m.was == "" || m.was == m.becomes:
			t.Errorf("%q is incomplete", m.name)
		case strings.ContainsAny(m.name+m.promise, "|\n"):
			t.Errorf("%q does not fit into a table", m.name)
		case names[m.name] || texts[change]:
			t.Errorf("%q is there twice", m.name)
		}
		names[m.name], texts[change] = true, true
		if _, err := regexp.Compile(m.by.run); err != nil {
			t.Errorf("%q: %v", m.name, err)
		}
		if tests, err := filepath.Glob(filepath.Join(checkout, m.by.dir, "*_test.go")); err != nil || tests == nil {
			t.Errorf("%q: no tests in %s", m.name, m.by.dir)
		}
	}
}

func TestApplyNeedsTheTextOnce(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		file, was string
		want      string
	}{
		{"f.go", "one", "ONE two two"},
		{"f.go", "two", ""},
		{"f.go", "three", ""},
		{"g.go", "one", ""},
	}
	for _, r := range rows {
		got, err := mutant{name: "m", file: r.file, was: r.was, becomes: "ONE"}.applied(root)
		if got != r.want || (err == nil) != (r.want != "") {
			t.Errorf("%s in %s: got %q, %v", r.was, r.file, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), `mutant "m" no longer applies`) {
			t.Error(err)
		}
	}
}

// A module of two files: the mutants of it meet every end that a mutant can meet.
func tiny(t *testing.T) bench {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module tiny\n\ngo 1.26\n",
		"p/p.go": "package p\n\nfunc Double(n int) int { return 2 * n }\n\nfunc Odd(n int) int { return n | 1 }\n",
		"p/p_test.go": `package p

import "testing"

func TestDouble(t *testing.T) {
	if Double(2) != 4 || Double(3) != 6 {
		t.Error("wrong")
	}
}
`,
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	return bench{root: root, scratch: t.TempDir(), timeout: twoSeconds}
}

const twoSeconds = 2e9

func TestTrial(t *testing.T) {
	b := tiny(t)
	m := func(was, becomes string) mutant {
		return mutant{name: "m", file: "p/p.go", was: was, becomes: becomes, by: suite{dir: "p", run: "."}}
	}
	rows := []struct {
		name   string
		mutant mutant
		failed []string
		err    string
	}{
		{name: "caught", mutant: m("2 * n", "3 * n"), failed: []string{"TestDouble"}},
		{name: "caught by a panic", mutant: m("return 2 * n", "panic(n)"), failed: []string{"TestDouble"}},
		{name: "caught by a panic beside the test", mutant: m("return 2 * n", "go panic(n); select {}"), failed: []string{"a panic"}},
		{name: "survives: nothing tests Odd", mutant: m("n | 1", "n | 3")},
		{name: "does not compile", mutant: m("2 * n", "2 * m"), err: "no longer compiles"},
		{name: "does not apply", mutant: m("7 * n", "2 * m"), err: "no longer applies"},
		{name: "hangs", mutant: m("return 2 * n", "for { n++ }"), err: "no verdict"},
		{name: "ends without a failed test", mutant: m("package p\n", "package p\n\nimport \"os\"\n\nfunc init() { os.Exit(3) }\n"), err: "ended without a failed test"},
	}
	before := read(t, filepath.Join(b.root, "p/p.go"))
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			v := b.trial(t.Context(), r.mutant)
			if diff := cmp.Diff(r.failed, v.failed); diff != "" {
				t.Error(diff, v.err)
			}
			if (v.err == nil) != (r.err == "") || v.err != nil && !strings.Contains(v.err.Error(), r.err) {
				t.Errorf("err = %v", v.err)
			}
		})
	}
	if read(t, filepath.Join(b.root, "p/p.go")) != before {
		t.Error("a file of the checkout was changed")
	}
}

// A test that fails without a mutant, or that does not exist, would prove nothing.
func TestHealthy(t *testing.T) {
	b := tiny(t)
	in := func(run string) []mutant { return []mutant{{name: "m", by: suite{dir: "p", run: run}}} }
	if err := b.healthy(t.Context(), in("."), io.Discard); err != nil {
		t.Error(err)
	}
	if err := b.healthy(t.Context(), in("TestNone"), io.Discard); err == nil || !strings.Contains(err.Error(), "no test of p matches") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(b.root, "p/p.go"), []byte("package p\n\nfunc Double(int) int { return 0 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.healthy(t.Context(), in("."), io.Discard); err == nil || !strings.Contains(err.Error(), "TestDouble failed") {
		t.Error(err)
	}
}

func TestSummaryFailsUnlessAllWereCaught(t *testing.T) {
	caught := verdict{mutant: mutant{name: "a"}, failed: []string{"T1", "T2", "T3", "T4"}}
	survived := verdict{mutant: mutant{name: "b"}}
	unjudged := verdict{mutant: mutant{name: "c"}, err: new(exec.ExitError)}
	rows := []struct {
		verdicts []verdict
		faults   []string
	}{
		{[]verdict{caught}, nil},
		{[]verdict{caught, survived}, []string{"1 of 2", "b () survived"}},
		{[]verdict{unjudged, caught, survived}, []string{"2 of 3", "c ()", "b () survived"}},
	}
	for _, r := range rows {
		var out strings.Builder
		err := summary(&out, r.verdicts)
		if (err == nil) != (r.faults == nil) {
			t.Errorf("err = %v", err)
		}
		for _, text := range r.faults {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%v does not say %q", err, text)
			}
		}
		if !strings.Contains(out.String(), "T1, T2, T3 and 1 more") {
			t.Error(out.String())
		}
	}
}

// What was not tried keeps its row, and what was never tried is not passed over.
func TestPageKeepsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	var every []verdict
	for _, m := range all() {
		every = append(every, verdict{mutant: m, failed: []string{"TestOld"}})
	}
	if err := writePage(path, every[1:]); err == nil || !strings.Contains(err.Error(), every[0].name) {
		t.Errorf("err = %v", err)
	}
	if err := writePage(path, every); err != nil {
		t.Fatal(err)
	}
	every[0].failed = []string{"TestNew"}
	if err := writePage(path, every[:1]); err != nil {
		t.Fatal(err)
	}
	text := read(t, path)
	if strings.Count(text, "| TestNew |") != 1 || strings.Count(text, "| TestOld |") != len(every)-1 {
		t.Error(text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
