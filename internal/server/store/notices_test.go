package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

// TestOutboxes holds the store and the outbox in memory to the same rules.
func TestOutboxes(t *testing.T) {
	for name, box := range map[string]notice.Outbox{
		"store":  opened(t, filepath.Join(t.TempDir(), "store.db"), Options{}),
		"memory": notice.NewMemory(),
	} {
		t.Run(name, func(t *testing.T) { testOutbox(t, box) })
	}
}

func testOutbox(t *testing.T, box notice.Outbox) {
	put := func(cluster string, ends []notice.Kind, letters ...notice.Letter) {
		t.Helper()
		if err := box.Put(t.Context(), cluster, ends, letters); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, at time.Time, next time.Time, want ...string) {
		t.Helper()
		due, later, err := box.Due(t.Context(), "ops", at, 10)
		var ids []string
		for _, l := range due {
			ids = append(ids, l.ID)
		}
		if diff := cmp.Diff(want, ids); diff != "" || err != nil || !later.Equal(next) {
			t.Errorf("%s: %v, next at %v, want %v; due (-want +got):\n%s", when, err, later, next, diff)
		}
	}
	letter := func(id, key string, kind notice.Kind) notice.Letter {
		return notice.Letter{ID: id, Channel: "ops", Key: key, Kind: kind, ClusterID: "c1", Body: []byte("{}"), Created: noon}
	}
	never := time.Time{}
	expect("empty", noon, never)
	put("c1", nil, letter("1", "drift", notice.Drift), letter("2", "run", notice.Failed))
	put("c1", nil, letter("3", "drift", notice.Drift))
	expect("an equal one waits", noon, never, "1", "2")
	must(box.Settle(t.Context(), "1", notice.Sent))
	put("c1", nil, letter("4", "drift", notice.Drift))
	expect("an equal one was sent", noon, never, "2")
	put("c2", []notice.Kind{notice.Drift})
	put("c1", nil, letter("5", "drift", notice.Drift))
	expect("the episode of another cluster ended", noon, never, "2")
	put("c1", []notice.Kind{notice.Waiting, notice.Drift})
	put("c1", nil, letter("6", "drift", notice.Drift), letter("7", "run", notice.Failed))
	expect("the episode ended: drift is told again, the run is not", noon, never, "2", "6")
	must(box.Postpone(t.Context(), "6", noon.Add(time.Minute)))
	expect("postponed", noon, noon.Add(time.Minute), "2")
	expect("its time has come", noon.Add(time.Minute), never, "2", "6")
	must(box.Settle(t.Context(), "2", notice.Dropped))
	put("c1", nil, letter("8", "run", notice.Failed))
	expect("one that was given up may come again", noon.Add(time.Minute), never, "6", "8")
	due, _, err := box.Due(t.Context(), "ops", noon.Add(time.Minute), 1)
	want := letter("6", "drift", notice.Drift)
	want.Attempts = 1
	if diff := cmp.Diff([]notice.Letter{want}, due, cmp.Transformer("utc", time.Time.UTC)); diff != "" || err != nil {
		t.Errorf("%v, the first letter (-want +got):\n%s", err, diff)
	}
	other := letter("9", "run", notice.Failed)
	other.Channel = "mail"
	put("c1", nil, other)
	expect("another channel's letter is none of ours", noon.Add(time.Minute), never, "6", "8")
}
