package world

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var allPairs = flag.Bool("allpairs", false, "crash at every pair of boundaries, also of those around reads")

// reference is a rollout that is crashed everywhere.
type reference struct {
	name string
	cfg  Config
	// before happens before the run that is crashed.
	before func(context.Context, *World)
	// during happens some time after its start.
	during func(*World)
	run    func(context.Context, *World, *Run) error
	// calls is how many boundaries there must be at least: a sweep that finds none proves nothing.
	calls int
	// every n-th boundary that is not of a write; 0 is each.
	every int
}

func references() []reference {
	cordoned := cluster("w1", "w2")
	cordoned.Nodes[0].CordonedBy = "kubectl-cordon"
	return []reference{
		{name: "growth with workers and control plane", cfg: cluster("c1", "w1", "w2"), run: scale, calls: 500},
		{name: "resume after a failure", cfg: cluster("w1", "w2"), before: failOnce, run: resume, calls: 200},
		{name: "somebody had cordoned a node", cfg: cordoned, run: scale, calls: 300},
		{name: "dedicated etcd", cfg: cluster("e1", "e2", "e3"), run: scale, calls: 300},
		{name: "somebody cordons a claimed node", cfg: cluster("w1"), run: scale, calls: 150,
			during: func(w *World) { w.At(6*time.Second, func(w *World) { w.Recordon("w1") }) }},
	}
}

func scale(ctx context.Context, w *World, r *Run) error {
	_, err := r.Scale(ctx, w.grow())
	return err
}

func resume(ctx context.Context, _ *World, r *Run) error {
	_, err := r.Resume(ctx)
	return err
}

// failOnce leaves the first node claimed: its kubelet does not come back, and then somebody mends it.
func failOnce(ctx context.Context, w *World) {
	w.BreakKubelet("w1", true)
	r := w.Run()
	r.Limits.Verify = time.Minute
	if err := scale(ctx, w, r); err == nil {
		panic("the reference did not fail")
	}
	w.BreakKubelet("w1", false)
	w.Sleep(time.Minute)
}

// play runs the reference, killed at a boundary unless at is 0, and then at another one of the next run; in the end one that is not
// killed. It returns the end state, the boundaries of the first run, and whether each kill came.
func (ref reference) play(ctx context.Context, t *testing.T, again func(context.Context, *World, *Run) error, at ...int) (end string, first []Boundary, came bool) {
	t.Helper()
	w := New(ref.cfg)
	if ref.before != nil {
		ref.before(ctx, w)
	}
	if ref.during != nil {
		ref.during(w)
	}
	came = true
	run := ref.run
	for _, n := range at {
		r := w.Run()
		r.KillAt = n
		_ = run(ctx, w, r) // a killed program says nothing
		if n > 0 && !r.dead {
			came = false
		}
		run = again
		w.Sleep(time.Duration(1+n%100) * time.Second) // the next one comes at some other time
	}
	r := w.Run()
	if err := run(ctx, w, r); err != nil {
		t.Errorf("the last run: %v", err)
	}
	first = w.runs[len(w.runs)-1-len(at)].Boundaries
	w.Sleep(time.Minute)
	end = w.State()
	w.Close()
	time.Sleep(3 * time.Minute)
	for _, b := range w.Broken() {
		t.Errorf("broken: %s", b)
	}
	if t.Failed() {
		t.Logf("the story:\n%s", w.Story())
	}
	return end, first, came
}

// A program that is killed at any boundary leaves a cluster that the next run, by `scale` as by `resume`, takes to the end of a run without a crash.
func TestCrashAtEveryBoundary(t *testing.T) {
	for _, ref := range references() {
		t.Run(ref.name, func(t *testing.T) {
			t.Parallel()
			ref.sweep(t, scale)
		})
	}
}

// sweep kills the reference at each of its boundaries, and goes on with resume and with the same command in turn.
func (ref reference) sweep(t *testing.T, same func(context.Context, *World, *Run) error) {
	var want string
	var boundaries []Boundary
	synctest.Test(t, func(t *testing.T) { want, boundaries, _ = ref.play(t.Context(), t, nil) })
	if len(boundaries) < ref.calls {
		t.Fatalf("only %d boundaries", len(boundaries))
	}
	t.Logf("%d boundaries", len(boundaries))
	for i, b := range boundaries {
		if ref.every > 0 && i%ref.every != 0 && !b.Call.Write {
			continue
		}
		again := resume
		if i%2 == 0 {
			again = same
		}
		ok := crash(t, fmt.Sprintf("%d %s", i+1, b), ref, want, again, i+1)
		if !ok {
			return // the first one tells enough
		}
	}
}

func crash(t *testing.T, name string, ref reference, want string, again func(context.Context, *World, *Run) error, at ...int) bool {
	ok := true
	synctest.Test(t, func(t *testing.T) {
		end, _, came := ref.play(t.Context(), t, again, at...)
		if !came {
			t.Errorf("killed at %s: the kill did not come", name)
		}
		if end != want {
			t.Errorf("killed at %s: ends with\n%swant\n%s", name, end, want)
		}
		ok = !t.Failed()
	})
	return ok
}

// The second run may be killed as well, wherever it is: all pairs of boundaries around writes of a small plan, and after all others.
func TestCrashTwice(t *testing.T) {
	ref := reference{cfg: cluster("w1"), run: scale}
	var want string
	var boundaries []Boundary
	synctest.Test(t, func(t *testing.T) { want, boundaries, _ = ref.play(t.Context(), t, nil) })
	pairs := 0
	for i, b := range boundaries {
		if !*allPairs && !b.Call.Write {
			continue
		}
		// The boundaries of the second run depend on where the first one was killed.
		var second []Boundary
		synctest.Test(t, func(t *testing.T) {
			w := New(ref.cfg)
			r := w.Run()
			r.KillAt = i + 1
			_ = scale(t.Context(), w, r)
			w.Sleep(time.Duration(1+(i+1)%100) * time.Second)
			r = w.Run()
			_ = scale(t.Context(), w, r)
			second = r.Boundaries
			w.Close()
			time.Sleep(3 * time.Minute)
		})
		for j, c := range second {
			if !*allPairs && !c.Call.Write {
				continue
			}
			pairs++
			if !crash(t, fmt.Sprintf("%d %s, then %d %s", i+1, b, j+1, c), ref, want, scale, i+1, j+1) {
				return
			}
		}
	}
	t.Logf("%d pairs of %d boundaries", pairs, len(boundaries))
	if pairs < 500 {
		t.Errorf("only %d pairs", pairs)
	}
}
