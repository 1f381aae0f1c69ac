package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func entry(run string) Entry {
	return Entry{Time: time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC), Kind: KindBegin, Command: "scale", Run: run, Actor: "op@host", Cluster: "prod", ClusterID: "c1"}
}

func runs(entries []Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Run)
	}
	return out
}

func TestAppendAndRead(t *testing.T) {
	f := Open(filepath.Join(t.TempDir(), "state", "history.jsonl"))
	if entries, bad, err := f.Read(); len(entries) != 0 || bad != 0 || err != nil {
		t.Fatalf("no file yet: %v, %d, %v", entries, bad, err)
	}
	for _, run := range []string{"a", "b"} {
		if err := f.Append(entry(run)); err != nil {
			t.Fatal(err)
		}
	}
	entries, bad, err := f.Read()
	if err != nil || bad != 0 {
		t.Fatalf("bad %d, err %v", bad, err)
	}
	want := []Entry{entry("a"), entry("b")}
	for i := range want {
		want[i].Version = entryVersion
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	info, err := os.Stat(f.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
}

// A crash may cut the last line at any byte. Whatever is left, earlier entries and later ones must be readable.
func TestCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := Open(filepath.Join(dir, "whole"))
	for _, run := range []string{"a", "b"} {
		if err := whole.Append(entry(run)); err != nil {
			t.Fatal(err)
		}
	}
	body, err := os.ReadFile(whole.Path())
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(body, '\n') + 1
	for cut := first; cut <= len(body); cut++ {
		f := Open(filepath.Join(dir, fmt.Sprintf("cut-%d", cut)))
		if err := os.WriteFile(f.Path(), body[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Append(entry("c")); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		entries, bad, err := f.Read()
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want, wantBad := []string{"a", "c"}, 1
		switch {
		case cut == first: // nothing of the second line is left
			wantBad = 0
		case cut >= len(body)-1: // only the line's end is missing, or nothing: it can be read
			want, wantBad = []string{"a", "b", "c"}, 0
		}
		if diff := cmp.Diff(want, runs(entries)); diff != "" || bad != wantBad {
			t.Fatalf("cut at %d of %d: %d unreadable, want %d; runs (-want +got):\n%s", cut, len(body), bad, wantBad, diff)
		}
	}
}

func TestAppendFromMany(t *testing.T) {
	f := Open(filepath.Join(t.TempDir(), "h"))
	const writers, each = 8, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := f.Append(entry(fmt.Sprintf("%d-%d", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	entries, bad, err := f.Read()
	if err != nil || bad != 0 || len(entries) != writers*each {
		t.Errorf("%d entries, %d unreadable, %v; want %d", len(entries), bad, err, writers*each)
	}
}

func TestNewerVersionIsCountedNotGuessed(t *testing.T) {
	f := Open(filepath.Join(t.TempDir(), "h"))
	if err := os.WriteFile(f.Path(), []byte(`{"v":99,"run":"future"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Append(entry("a")); err != nil {
		t.Fatal(err)
	}
	entries, bad, err := f.Read()
	if diff := cmp.Diff([]string{"a"}, runs(entries)); diff != "" || bad != 1 || err != nil {
		t.Errorf("unreadable %d, %v, runs:\n%s", bad, err, diff)
	}
}

func TestDefaultPath(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string
	}{
		"XDG":  {map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/trueup/history.jsonl"},
		"home": {map[string]string{"HOME": "/h"}, "/h/.local/state/trueup/history.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DefaultPath(func(k string) string { return tt.env[k] }); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"run":"a"}` + "\n" + `{"v":1,"ru`))
	f.Fuzz(func(t *testing.T, body []byte) {
		entries, bad, err := decode(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("reading memory failed: %v", err)
		}
		if lines := bytes.Count(body, []byte("\n")) + 1; len(entries)+bad > lines {
			t.Errorf("%d entries and %d unreadable of %d lines", len(entries), bad, lines)
		}
	})
}
