package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets this test binary play a program that starts another one and is then killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PROCESS_TEST_PARENT"); dir != "" {
		playParent(dir)
	}
	os.Exit(m.Run())
}

func playParent(dir string) {
	starter, err := NewStarter(dir)
	if err != nil {
		panic(err)
	}
	child, err := starter.Start("child", []string{"sleep", "1000"})
	if err != nil {
		panic(err)
	}
	fmt.Println(child.PID())
	<-child.Done()
}

func newStarter(t *testing.T) (*Starter, string) {
	dir := t.TempDir()
	s, err := NewStarter(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, dir
}

func TestStop(t *testing.T) {
	tests := []struct {
		name   string
		script string
		grace  time.Duration
		want   error
	}{
		{"ends on SIGTERM", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done", time.Minute, nil},
		{"is killed when it does not", "trap '' TERM; echo ready; while :; do sleep 0.05; done", 200 * time.Millisecond, ErrKilled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newStarter(t)
			p, err := s.Start("program", []string{"sh", "-c", test.script})
			if err != nil {
				t.Fatal(err)
			}
			waitLog(t, p, "ready")
			if err := p.Stop(t.Context(), test.grace); !errors.Is(err, test.want) {
				t.Errorf("Stop: %v, want %v", err, test.want)
			}
			<-p.Done()
		})
	}
}

// waitLog waits until the program has written a line: only then its trap is set.
func waitLog(t *testing.T, p *Process, line string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !strings.Contains(tail(p.Log()), line) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s wrote no %q", p.Name(), line)
		}
	}
}

func TestErrShowsTheEndOfTheLog(t *testing.T) {
	s, _ := newStarter(t)
	p, err := s.Start("program", []string{"sh", "-c", "echo no such thing >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "no such thing") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Err: %v, want the exit status and what the program said", err)
	}
}

func TestKillMarkedTakesOnlyItsOwn(t *testing.T) {
	s, dir := newStarter(t)
	mine, err := s.Start("mine", []string{"sleep", "1000"})
	if err != nil {
		t.Fatal(err)
	}
	other, otherDir := newStarter(t)
	theirs, err := other.Start("theirs", []string{"sleep", "1000"})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Kill()
	if err := Terminate(theirs.PID(), dir); err == nil {
		t.Error("Terminate of another lab's program: no error")
	}

	killed, err := KillMarked(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	<-mine.Done()
	if want := fmt.Sprintf("sleep (%d)", mine.PID()); len(killed) != 1 || killed[0] != want {
		t.Errorf("killed %v, want %s", killed, want)
	}
	if pids, err := Marked(otherDir); err != nil || len(pids) != 1 || pids[0] != theirs.PID() {
		t.Errorf("the other lab has %v (%v), want %d", pids, err, theirs.PID())
	}
}

func TestProgramsDieWithTheirParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "PROCESS_TEST_PARENT="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !isMarked(child, dir) {
		t.Fatalf("program %d does not carry the mark", child)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	if err := waitUnmarked(t.Context(), dir); err != nil {
		t.Error(err)
	}
}
