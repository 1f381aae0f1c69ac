package world

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("seeds", 5000, "how many seeds TestSeeds plays")
	first = flag.Uint64("first", 1, "the first seed that TestSeeds plays")
	seed  = flag.Uint64("seed", 0, "play this seed alone, and print its story")
)

// Any mixture of faults and of other people's doings keeps every promise, and when the trouble is over, further runs take the
// cluster to its goal.
func TestSeeds(t *testing.T) {
	if *seed != 0 {
		synctest.Test(t, func(t *testing.T) {
			broken, story := playSeed(t, *seed)
			t.Logf("the story of seed %d:\n%s", *seed, story)
			for _, b := range broken {
				t.Error(b)
			}
		})
		return
	}
	var next atomic.Uint64
	next.Store(*first - 1)
	var failed atomic.Int32
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for s := next.Add(1); s < *first+uint64(*seeds) && failed.Load() < 5; s = next.Add(1) {
				synctest.Test(t, func(t *testing.T) {
					if broken, _ := playSeed(t, s); len(broken) > 0 {
						failed.Add(1)
						t.Errorf("seed %d: %s\nto replay: go test ./internal/world -run 'TestSeeds$' -seed %d -v", s, broken[0], s)
					}
				})
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds", *seeds)
}

// A seed's story is the same each time, whatever the scheduler does: else a failure could not be replayed.
func TestSeedsAreRepeatable(t *testing.T) {
	for s := uint64(1); s <= 40; s++ {
		var stories [2]string
		for i := range stories {
			synctest.Test(t, func(t *testing.T) { _, stories[i] = playSeed(t, s) })
		}
		if stories[0] != stories[1] {
			t.Fatalf("seed %d has two stories:\n%s\n\n%s", s, stories[0], stories[1])
		}
	}
}

// mostRuns is how many undisturbed runs may be needed at the end. Scripted faults that have not struck by then still do.
const mostRuns = 6

// playSeed plays the scenario of a seed. It returns what was broken, and the story.
func playSeed(t *testing.T, seed uint64) (broken []string, story string) {
	s := newScenario(seed)
	w := New(s.config)
	defer func() {
		if p := recover(); p != nil { // the engine's: it must be told with its seed
			w.Close()
			time.Sleep(3 * time.Minute)
			broken, story = []string{fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}, w.Story()
		}
	}()
	s.begin(w)
	for i := range s.runs {
		s.trouble(t.Context(), w, i)
	}
	w.Calm()
	w.mend()
	var err error
	for range mostRuns {
		r := w.Run()
		r.Limits = short(r.Limits)
		if err = scale(t.Context(), w, r); err == nil {
			break
		}
		w.mend()
	}
	w.Sleep(time.Minute)
	if err != nil {
		broken = append(broken, fmt.Sprintf("after the trouble was over, %d runs could not finish: %v", mostRuns, err))
	}
	broken = append(w.Broken(), append(broken, w.unfinished()...)...)
	w.Close()
	time.Sleep(3 * time.Minute)
	return broken, w.Story()
}

// unfinished lists what is not as it should be after a rollout.
func (w *World) unfinished() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines {
		n := m.node
		if !m.hasNode() {
			if !m.finished(w.Big) || !m.etcd.running || m.claim() != nil {
				out = append(out, fmt.Sprintf("%s is not finished: %s, %s", m.name, m.hardware(), m.nodeState()))
			}
			continue
		}
		if n == nil || !m.finished(w.Big) || n.Claim != "" {
			out = append(out, fmt.Sprintf("%s is not finished: %s, %s", m.name, m.hardware(), m.nodeState()))
		} else if n.Unschedulable != (m.ledger.cordon != "") {
			out = append(out, fmt.Sprintf("%s is cordoned: %t, and the cordon was left by %q", m.name, n.Unschedulable, m.ledger.cordon))
		}
	}
	if w.lease.holder != "" || w.lease.state != nil {
		out = append(out, fmt.Sprintf("the Lease is held by %q, an open rollout on it: %t", w.lease.holder, w.lease.state != nil))
	}
	return out
}

// mend undoes what no program can: machines run again, Nodes are registered, marks are gone.
func (w *World) mend() {
	for _, m := range w.machines {
		w.StartVM(m.name)
		w.BreakKubelet(m.name, false)
		w.BreakEtcd(m.name, false)
		w.mu.Lock()
		marked, gone := m.node != nil && (len(m.node.Marks) > 0), m.node == nil && m.hasNode()
		w.mu.Unlock()
		if marked {
			w.Unmark(m.name)
		}
		if gone {
			w.RestartKubelet(m.name)
		}
	}
	w.Sleep(3 * time.Minute)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// one in n.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }
