package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

// writerPath is the environment variable that makes this test program the writer which is killed.
const writerPath = "TRUEUP_STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if path, url := os.Getenv(writerPath), os.Getenv(receiverURL); path != "" {
		var err error
		if url != "" {
			err = send(path, url)
		} else {
			err = write(path)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) // only reached if it fails: it is killed while it works
	}
	os.Exit(m.Run())
}

// write adds records for ever, and acknowledges each one on standard output once the store has.
func write(path string) error {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{Retention: 24 * time.Hour})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		id := strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(i)
		for kind, do := range map[string]func() error{
			"history": func() error { return s.Append(ctx, entry(id)) },
			"audit":   func() error { return s.Audit(ctx, Audit{Time: noon, Action: "heal-begun", Run: id}) },
			"notice": func() error {
				return s.Put(ctx, "c1", nil, []notice.Letter{{ID: id, Channel: "ops", Key: id, Body: []byte("{}"), Created: noon}})
			},
			"prune": func() error { return s.Prune(ctx, noon) }, // rewrites pages between the others
		} {
			if err := do(); err != nil {
				return err
			}
			if _, err := fmt.Println(kind, id); err != nil {
				return err
			}
		}
	}
}

// TestKillLosesNothing kills a writer at whatever it is doing, again and again on one file. The pipe holds what was acknowledged: all of it must be
// there afterwards, and the file sound.
func TestKillLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	acknowledged := map[string]map[string]bool{"history": {}, "audit": {}, "notice": {}}
	const rounds = 12
	for round := range rounds {
		for _, line := range killAfter(t, path, 1+round*7) {
			if kind, id, ok := strings.Cut(line, " "); ok && acknowledged[kind] != nil {
				acknowledged[kind][id] = true
			}
		}
		s := opened(t, path, Options{})
		if s.SetAside() != "" {
			t.Fatalf("round %d: the file was damaged", round)
		}
		for kind, there := range present(t, s) {
			for id := range acknowledged[kind] {
				if !there[id] {
					t.Fatalf("round %d: %s %s was acknowledged and is lost", round, kind, id)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(acknowledged["notice"]); n < rounds {
		t.Errorf("only %d notices were acknowledged in %d rounds: the test saw nothing", n, rounds)
	}
}

// killAfter starts a writer, kills it once it has acknowledged so many records, and returns every whole line that it has written.
func killAfter(t *testing.T, path string, records int) (lines []string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), writerPath+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		if lines = append(lines, strings.TrimSpace(line)); len(lines) == records {
			_ = child.Process.Kill() // SIGKILL; what it wrote before is still in the pipe
		}
	}
	_, _ = io.Copy(io.Discard, in)
	_ = child.Wait() // it was killed
	if len(lines) < records {
		t.Fatalf("the writer ended by itself after %d records", len(lines))
	}
	return lines
}

// present lists the ids of everything in the store.
func present(t *testing.T, s *Store) map[string]map[string]bool {
	t.Helper()
	there := map[string]map[string]bool{"history": {}, "audit": {}, "notice": {}}
	entries, _, err := s.History(t.Context(), Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		there["history"][e.Run] = true
	}
	records, err := s.Audits(t.Context(), Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range records {
		there["audit"][a.Run] = true
	}
	letters, _, err := s.Due(t.Context(), "ops", noon, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		there["notice"][l.ID] = true
	}
	return there
}
