package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/server/notice"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func opened(t *testing.T, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func entry(run string) history.Entry {
	return history.Entry{Time: noon, Kind: history.KindBegin, Command: "reconcile", Run: run, Actor: "serve@host", Cluster: "prod", ClusterID: "c1",
		Goals: map[string]rollout.Goal{"vm": {Settle: 15 * time.Second}}}
}

// Names of files and folders are the operator's: nothing in them may be taken for a part of an address.
func TestKeepsWhatItWasGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder?mode=ro#100%", "store.db")
	s := opened(t, path, Options{})
	other := entry("b")
	other.Cluster, other.ClusterID, other.Time = "test", "c2", noon.Add(time.Hour)
	for _, e := range []history.Entry{entry("a"), other, entry("c")} {
		if err := s.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	record := Audit{Time: noon, Actor: "serve@host", Action: "heal-begun", ClusterID: "c1", Cluster: "prod", Run: "a", Detail: "guest lags"}
	if err := s.Audit(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path, Options{})
	for name, tt := range map[string]struct {
		query Query
		want  []string
	}{
		"all":     {Query{}, []string{"a", "b", "c"}},
		"by name": {Query{Cluster: "prod"}, []string{"a", "c"}},
		"by id":   {Query{Cluster: "c2"}, []string{"b"}},
		"by run":  {Query{Run: "c"}, []string{"c"}},
		"since":   {Query{Since: noon.Add(time.Minute)}, []string{"b"}},
		"newest":  {Query{Limit: 2}, []string{"b", "c"}},
		"none":    {Query{Cluster: "x' OR 1=1 --"}, nil},
	} {
		entries, bad, err := s.History(t.Context(), tt.query)
		var got []string
		for _, e := range entries {
			got = append(got, e.Run)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || bad != 0 || err != nil {
			t.Errorf("%s: unreadable %d, %v, runs (-want +got):\n%s", name, bad, err, diff)
		}
	}
	entries, _, err := s.History(t.Context(), Query{Run: "a"})
	want := entry("a")
	want.Version = 1
	if diff := cmp.Diff([]history.Entry{want}, entries); diff != "" || err != nil {
		t.Errorf("%v, entry (-want +got):\n%s", err, diff)
	}
	records, err := s.Audits(t.Context(), Query{Cluster: "prod"})
	if diff := cmp.Diff([]Audit{record}, records); diff != "" || err != nil {
		t.Errorf("%v, audit (-want +got):\n%s", err, diff)
	}
}

func TestNobodyElseMayRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "store.db")
	s := opened(t, path, Options{})
	if err := s.Append(t.Context(), entry("a")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 3 {
		t.Fatalf("files %v, %v; want the store, its lock and its log", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", f, info.Mode(), err)
		}
	}
}

func TestOneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := opened(t, path, Options{})
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v, want ErrInUse", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, path, Options{})
}

func TestRecordsAreNotRewritten(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	if err := errors.Join(s.Append(t.Context(), entry("a")), s.Audit(t.Context(), Audit{Time: noon, Action: "started"})); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"history", "audit"} {
		if _, err := s.db.ExecContext(t.Context(), "UPDATE "+table+" SET run = 'x'"); err == nil {
			t.Errorf("%s could be rewritten", table)
		}
	}
}

// Whatever is wrong with the file, the server starts, and the damaged file is kept for a person.
func TestDamagedFileIsSetAside(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"no database":   func([]byte) []byte { return bytes.Repeat([]byte("garbage "), 1000) },
		"a page broken": func(b []byte) []byte { copy(b[4096:], bytes.Repeat([]byte{0xff}, 4096)); return b },
		"cut":           func(b []byte) []byte { return b[:len(b)/2] },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s := opened(t, path, Options{})
			for i := range 50 {
				if err := s.Append(t.Context(), entry(fmt.Sprint("run-", i))); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			sound, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			broken := damage(bytes.Clone(sound))
			if err := os.WriteFile(path, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			s = opened(t, path, Options{})
			kept, err := os.ReadFile(s.SetAside())
			if err != nil || !bytes.Equal(kept, broken) {
				t.Errorf("set aside as %q: %v, %d bytes of %d", s.SetAside(), err, len(kept), len(broken))
			}
			if err := s.Append(t.Context(), entry("after")); err != nil {
				t.Fatal(err)
			}
			if entries, _, err := s.History(t.Context(), Query{}); err != nil || len(entries) != 1 {
				t.Errorf("%d entries, %v; want the new one", len(entries), err)
			}
		})
	}
}

func TestSoundFileStays(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	if s.SetAside() != "" {
		t.Errorf("a new store was set aside as %s", s.SetAside())
	}
}

func TestPrune(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		retention time.Duration
		want      int
	}{"for ever": {0, 3}, "thirty days": {30 * day, 2}, "one day": {day, 1}} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, filepath.Join(t.TempDir(), "store.db"), Options{Retention: tt.retention})
			for i, age := range []time.Duration{0, 29 * day, 31 * day} {
				e, at := entry(fmt.Sprint(i)), noon.Add(-age)
				e.Time = at
				letter := notice.Letter{ID: fmt.Sprint(i), Channel: "ops", Key: fmt.Sprint(i), Created: at, Body: []byte("{}")}
				if err := errors.Join(s.Append(t.Context(), e), s.Audit(t.Context(), Audit{Time: at, Action: "started"}), s.Put(t.Context(), "c1", nil, []notice.Letter{letter})); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Prune(t.Context(), noon); err != nil {
				t.Fatal(err)
			}
			entries, _, err := s.History(t.Context(), Query{})
			records, err2 := s.Audits(t.Context(), Query{})
			letters, _, err3 := s.Due(t.Context(), "ops", noon, 10)
			if len(entries) != tt.want || len(records) != tt.want || len(letters) != tt.want || errors.Join(err, err2, err3) != nil {
				t.Errorf("%d entries, %d audits, %d letters, %v; want %d of each", len(entries), len(records), len(letters), errors.Join(err, err2, err3), tt.want)
			}
		})
	}
}

// A file that only ever grew would fill the disk in spite of the retention.
func TestPruneGivesSpaceBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := opened(t, path, Options{Retention: time.Hour})
	fat := entry("a")
	fat.Why = string(bytes.Repeat([]byte("x"), 200_000))
	for range 10 {
		if err := s.Append(t.Context(), fat); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Prune(t.Context(), noon.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // the log goes into the file
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 200_000 {
		t.Errorf("%d bytes are left of 2 MB, %v", info.Size(), err)
	}
}
