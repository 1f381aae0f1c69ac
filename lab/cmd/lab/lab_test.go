package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/lab/cluster"
	"github.com/cks-trueup/trueup/lab/process"
)

// lab runs this command as a person does, in a process of its own.
type lab struct {
	t      *testing.T
	binary string
	dir    string
}

func newLab(t *testing.T) lab {
	binary := filepath.Join(t.TempDir(), "lab")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	l := lab{t: t, binary: binary, dir: filepath.Join(t.TempDir(), "lab")}
	t.Cleanup(func() {
		if _, err := process.KillMarked(context.Background(), l.dir); err != nil { // t.Context has ended by now
			t.Error(err)
		}
	})
	return l
}

func (l lab) run(arguments ...string) (stdout string, err error) {
	cmd := exec.CommandContext(l.t.Context(), l.binary, append(arguments, "--dir", l.dir)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	l.t.Logf("lab %s: %v\n%s", strings.Join(arguments, " "), err, errs.String())
	return string(out), err
}

func (l lab) programs() []int {
	l.t.Helper()
	pids, err := process.Marked(l.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	return pids
}

// TestUpAfterKill kills a lab as hard as can be and expects the next up to find its way, and down to leave nothing.
func TestUpAfterKill(t *testing.T) {
	l := newLab(t)
	first, err := l.run("up", "--workers", "0", "--pods", "0")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.run("up"); err != nil || again != first {
		t.Errorf("up while a lab is up (%v):\n%s\nwant the same exports as before:\n%s", err, again, first)
	}
	before, err := cluster.ReadDescription(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	escaped := startEscaped(t, l.dir)
	l.killAll(escaped.Process.Pid)
	if _, err := l.run("status"); err == nil {
		t.Error("status of a killed lab: no error")
	}

	if _, err := l.run("up", "--workers", "0", "--pods", "0"); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(l.programs(), escaped.Process.Pid) {
		t.Error("a program that the killed lab left behind was not ended")
	}
	after, err := cluster.ReadDescription(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	if before.Nodes[0].VMID == after.Nodes[0].VMID {
		t.Errorf("both labs had the guest %s, want a new one", before.Nodes[0].VMID)
	}

	if _, err := l.run("down"); err != nil {
		t.Fatal(err)
	}
	if left := l.programs(); len(left) > 0 {
		t.Errorf("programs after down: %v", left)
	}
	if _, err := os.Stat(l.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder after down: %v, want it gone", err)
	}
}

// startEscaped starts a program that carries the lab's mark but that no parent ends.
func startEscaped(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), process.Mark+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it should have ended already
		_ = cmd.Wait()
	})
	return cmd
}

// killAll kills every program of the lab but one, and waits until they are gone: until then they hold the lab's folder.
func (l lab) killAll(but int) {
	l.t.Helper()
	pids := l.programs()
	if len(pids) < 7 { // daemon, etcd, API server, controller manager, scheduler, one guest; and the one that escaped
		l.t.Fatalf("programs of the lab: %v, want at least 7", pids)
	}
	for _, pid := range pids {
		if pid == but {
			continue
		}
		// The daemon may come first; its programs then are gone already.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			l.t.Fatal(err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !slices.Equal(l.programs(), []int{but}) {
		select {
		case <-tick.C:
		case <-deadline:
			l.t.Fatalf("programs a minute after SIGKILL: %v, want only %d", l.programs(), but)
		}
	}
}
