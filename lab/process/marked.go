package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Marked returns the ids of all running programs that carry the mark of the lab in folder dir, the caller excepted.
func Marked(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && pid != os.Getpid() && isMarked(pid, dir) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isMarked reads the environment that the program was started with. A zombie has none, nor does a program of another user for us.
func isMarked(pid int, dir string) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	mark := []byte(Mark + "=" + dir)
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(entry, mark) {
			return true
		}
	}
	return false
}

// KillMarked ends every program that carries the mark of the lab in folder dir and returns what it ended, once they are gone.
func KillMarked(ctx context.Context, dir string) ([]string, error) {
	pids, err := Marked(dir)
	if err != nil {
		return nil, err
	}
	var killed []string
	for _, pid := range pids {
		if name, ok := killMarked(pid, dir); ok {
			killed = append(killed, name)
		}
	}
	return killed, waitUnmarked(ctx, dir)
}

// killMarked takes hold of the process (a pidfd, inside os.Process), looks at the mark again, and only then kills: what it
// holds can't become another process in between.
func killMarked(pid int, dir string) (name string, killed bool) {
	held, err := os.FindProcess(pid)
	if err != nil {
		return "", false
	}
	defer func() { _ = held.Release() }()
	if !isMarked(pid, dir) {
		return "", false
	}
	name = comm(pid)
	return name, held.Kill() == nil
}

func comm(pid int) string {
	body, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return strconv.Itoa(pid)
	}
	return fmt.Sprintf("%s (%d)", strings.TrimSpace(string(body)), pid)
}

// waitUnmarked polls, as the kernel tells nobody but the parent when a process is gone.
func waitUnmarked(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		pids, err := Marked(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), fmt.Errorf("programs of the lab in %s still run after SIGKILL: %v", dir, pids))
		}
	}
}

// Terminate sends SIGTERM to the process if it carries the mark of the lab in folder dir.
func Terminate(pid int, dir string) error {
	held, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = held.Release() }()
	if !isMarked(pid, dir) {
		return fmt.Errorf("process %d is not of the lab in %s: it was left alone", pid, dir)
	}
	return held.Signal(syscall.SIGTERM)
}
