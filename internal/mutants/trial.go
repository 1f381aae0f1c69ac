package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// verdict is what became of one mutant.
type verdict struct {
	mutant
	// failed are the tests that failed on it, in the order of their failing; none: it survived.
	failed []string
	// err is why there is no verdict: it no longer compiles, or its tests did not end.
	err  error
	took time.Duration
}

// bench is where mutants are tried.
type bench struct {
	root    string // the checkout
	scratch string // for overlays and test programs
	timeout time.Duration
}

// try runs every mutant's tests, after the same tests without any mutant, and prints a line for each as it ends.
func try(ctx context.Context, mutants []mutant, timeout time.Duration, out io.Writer) ([]verdict, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	b := bench{root: root, scratch: scratch, timeout: timeout}
	if err := b.healthy(ctx, mutants, out); err != nil {
		return nil, err
	}
	var verdicts []verdict
	for i, m := range mutants {
		v := b.trial(ctx, m)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		verdicts = append(verdicts, v)
		if _, err := fmt.Fprintf(out, "%3d/%d  %-58s %5.1fs  %s\n", i+1, len(mutants), m.name, v.took.Seconds(), v.outcome()); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// healthy makes sure that the tests pass without a mutant: a test that fails anyway would catch everything.
func (b bench) healthy(ctx context.Context, mutants []mutant, out io.Writer) error {
	done := map[suite]bool{}
	for _, m := range mutants {
		if done[m.by] {
			continue
		}
		done[m.by] = true
		if _, err := fmt.Fprintf(out, "without a mutant: %s in %s\n", m.by.run, m.by.dir); err != nil {
			return err
		}
		program, err := b.build(ctx, m.by.dir, nil)
		if err != nil {
			return err
		}
		failed, err := b.test(ctx, program, m.by)
		if err != nil {
			return fmt.Errorf("without a mutant: %w", err)
		}
		if failed != nil {
			return fmt.Errorf("without a mutant, %s must pass: %s failed", m.by.dir, strings.Join(failed, ", "))
		}
	}
	return nil
}

func (b bench) trial(ctx context.Context, m mutant) verdict {
	v := verdict{mutant: m}
	began := time.Now()
	program, err := b.build(ctx, m.by.dir, &m)
	if err == nil {
		v.failed, err = b.test(ctx, program, m.by)
	}
	v.err, v.took = err, time.Since(began)
	return v
}

// build compiles the tests of a package, with the mutant in place of the file that it changes.
func (b bench) build(ctx context.Context, dir string, m *mutant) (program string, err error) {
	program = filepath.Join(b.scratch, "tests")
	args := []string{"test", "-c", "-o", program, "-ldflags=-s -w", fmt.Sprintf("-p=%d", runtime.GOMAXPROCS(0))}
	if m != nil {
		overlay, err := b.overlay(*m)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // the first build of all dependencies takes minutes
	defer cancel()
	said, err := b.command(ctx, b.root, "go", append(args, "./"+dir)...)
	if err != nil {
		return "", fmt.Errorf("no longer compiles: %w\n%s", err, said)
	}
	return program, nil
}

// overlay writes the mutated file and the description that the Go command reads.
func (b bench) overlay(m mutant) (string, error) {
	text, err := m.applied(b.root)
	if err != nil {
		return "", err
	}
	file, description := filepath.Join(b.scratch, "mutated"+filepath.Ext(m.file)), filepath.Join(b.scratch, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(b.root, m.file): file}})
	if err != nil {
		return "", err
	}
	return description, errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(description, replace, 0o600))
}

// test runs the compiled tests where `go test` would run them, and returns which of them failed.
func (b bench) test(ctx context.Context, program string, s suite) ([]string, error) {
	// The program gives up by itself first, with a trace of what hangs.
	ctx, cancel := context.WithTimeout(ctx, b.timeout+30*time.Second)
	defer cancel()
	said, err := b.command(ctx, filepath.Join(b.root, s.dir), program, "-test.run="+s.run, "-test.timeout="+b.timeout.String())
	return judge(said, err, s)
}

// command runs a command and returns what it printed. When ctx ends, it and all its children are killed.
func (b bench) command(ctx context.Context, dir, name string, args ...string) (string, error) {
	var said bytes.Buffer
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // the Go command, or tests that it has built
	c.Dir, c.Stdout, c.Stderr = dir, &said, &said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second
	err := c.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return said.String(), err
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	inTest     = regexp.MustCompile(`\.(Test\w+)`)
)

// judge returns the tests that failed, by what a test program printed and how it ended. An error: there is no verdict.
func judge(said string, err error, s suite) ([]string, error) {
	switch {
	case strings.Contains(said, "testing: warning: no tests to run"):
		return nil, fmt.Errorf("no test of %s matches %q", s.dir, s.run)
	case err == nil:
		return nil, nil
	case !errors.As(err, new(*exec.ExitError)), strings.Contains(said, "panic: test timed out after"):
		return nil, fmt.Errorf("%s in %s: no verdict: %w\n%s", s.run, s.dir, err, tail(said))
	}
	var failed []string
	for _, found := range failedTest.FindAllStringSubmatch(said, -1) {
		failed = append(failed, found[1])
	}
	if failed == nil && strings.Contains(said, "panic: ") && strings.Contains(said, "\ngoroutine ") {
		failed = []string{"a panic"} // beside the test, it ends the program without the test's line
		if found := inTest.FindStringSubmatch(said); found != nil {
			failed = []string{found[1]}
		}
	}
	if failed == nil {
		return nil, fmt.Errorf("%s in %s: ended without a failed test: %w\n%s", s.run, s.dir, err, tail(said))
	}
	slices.Sort(failed)
	return slices.Compact(failed), nil
}

// tail is the end of a long output.
func tail(text string) string {
	const most = 4000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}
