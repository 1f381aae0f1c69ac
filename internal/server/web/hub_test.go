package web

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func ids(events []Event) (out []uint64) {
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

func TestHubReplaysThePresentRollout(t *testing.T) {
	h := NewHub(time.Now)
	h.Publish("a", "run-1", rollout.Event{Text: "one"})
	h.Publish("a", "run-1", rollout.Event{Text: "two"})
	h.Publish("b", "run-2", rollout.Event{Text: "three"})
	h.Changed("a")
	for _, c := range []struct {
		name  string
		after uint64
		want  []uint64
	}{
		{"from the beginning", 0, []uint64{1, 2}},
		{"after the first", 1, []uint64{2}},
		{"nothing new", 4, nil},
		{"an id of an earlier server", 900, []uint64{1, 2}},
	} {
		past, _ := h.watch(t.Context(), "a", c.after)
		if got := ids(past); !slices.Equal(got, c.want) {
			t.Errorf("%s: got events %v, want %v", c.name, got, c.want)
		}
	}
	h.Publish("a", "run-3", rollout.Event{Text: "a new run"})
	if past, _ := h.watch(t.Context(), "a", 0); !slices.Equal(ids(past), []uint64{5}) {
		t.Errorf("after a new run began: %v", ids(past))
	}
	if len(h.eventsOf("a", "run-1")) != 0 || len(h.eventsOf("a", "run-3")) != 1 {
		t.Error("the events of an earlier run were kept")
	}
	h.Forget("a")
	if past, _ := h.watch(t.Context(), "a", 0); past != nil {
		t.Errorf("events of a cluster that left: %v", past)
	}
}

func TestHubKeepsABoundedNumberOfEvents(t *testing.T) {
	h := NewHub(time.Now)
	for range mostEvents * 2 {
		h.Publish("a", "run", rollout.Event{})
	}
	past, _ := h.watch(t.Context(), "a", 0)
	if len(past) > mostEvents || past[len(past)-1].ID != mostEvents*2 {
		t.Errorf("%d events are kept, the last is %d", len(past), past[len(past)-1].ID)
	}
}

func TestHubDropsWhoIsTooSlow(t *testing.T) {
	h := NewHub(time.Now)
	_, slow := h.watch(t.Context(), "a", 0)
	_, other := h.watch(t.Context(), "b", 0)
	for range mostBuffered + 1 {
		h.Publish("a", "run", rollout.Event{})
	}
	n := 0
	for range slow {
		n++
	}
	if n != mostBuffered {
		t.Errorf("the slow one got %d events before it was dropped, want %d", n, mostBuffered)
	}
	if len(other) != 0 || len(h.watchers) != 1 {
		t.Errorf("%d events reached the watcher of another cluster, %d watchers are left", len(other), len(h.watchers))
	}
}

func TestHubWithManyReadersWhileEventsFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := NewHub(time.Now)
		var readers sync.WaitGroup
		got := make([]int, 300)
		for i := range got {
			_, live := h.watch(ctx, "a", 0)
			readers.Go(func() {
				for {
					select {
					case <-ctx.Done():
						return
					case <-live:
						got[i]++
					}
				}
			})
		}
		for range 500 {
			h.Publish("a", "run", rollout.Event{})
			synctest.Wait()
		}
		cancel()
		readers.Wait()
		synctest.Wait()
		for i, n := range got {
			if n != 500 {
				t.Fatalf("reader %d got %d of 500 events", i, n)
			}
		}
		if len(h.watchers) != 0 {
			t.Errorf("%d watchers are left", len(h.watchers))
		}
	})
}
