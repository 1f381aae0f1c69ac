package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is the path of the trueup program that TestMain compiled.
var program string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "trueup-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "trueup")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version=e2e", "-o", program, "./cmd/trueup")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build trueup: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// runTimeout ends a run that hangs: ten times what the longest one takes on two busy cores.
const runTimeout = 15 * time.Minute

// run is one run of trueup.
type run struct {
	args           []string
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	stdout, stderr bytes.Buffer
	ended          chan struct{}
	code           int // -1: ended by a signal
}

// begin starts trueup without waiting for it.
func (f *fixture) begin(t testing.TB, args ...string) *run {
	t.Helper()
	return f.beginWith(t, nil, args...)
}

// beginWith is begin with variables that beat the fixture's environment.
func (f *fixture) beginWith(t testing.TB, env []string, args ...string) *run {
	t.Helper()
	return begin(t, machine{env: append(f.environment(), env...)}, args...)
}

// begin starts trueup on a machine.
func begin(t testing.TB, on machine, args ...string) *run {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	r := &run{args: args, cancel: cancel, ended: make(chan struct{})}
	r.cmd = exec.CommandContext(ctx, program, args...)
	r.cmd.Env, r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = on.env, on.dir, &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		var ended *exec.ExitError
		if err := r.cmd.Wait(); errors.As(err, &ended) {
			r.code = ended.ExitCode()
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			cancel() // nobody waits for it any more
		}
		r.wait()
		cancel()
	})
	return r
}

// wait returns when the program has ended.
func (r *run) wait() *run {
	<-r.ended
	return r
}

// signal sends a signal to the program.
func (r *run) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s: %v\n%s", r, err, &r.stderr)
	}
}

// trueup runs the program to its end, which must come with the exit code.
func (f *fixture) trueup(t testing.TB, code int, args ...string) *run {
	t.Helper()
	r := f.begin(t, args...).wait()
	r.expectCode(t, code)
	return r
}

func (r *run) expectCode(t testing.TB, code int) {
	t.Helper()
	if r.code != code {
		t.Fatalf("%s: exit code %d, want %d; stderr:\n%s", r, r.code, code, &r.stderr)
	}
}

func (r *run) String() string { return "trueup " + strings.Join(r.args, " ") }
