package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var two = []string{"c1", "w1"}

// reference is the end state of a rollout in which nothing goes wrong, and how many calls it makes.
func reference(t *testing.T, names []string) (state string, calls []string) {
	simulate(t, names, func(t *testing.T, tr *trial) {
		if _, err := tr.walk(t.Context()); err != nil {
			t.Fatal(err)
		}
		state, calls = tr.state(), tr.calls
	})
	return state, calls
}

// sweep runs play once for each call of the reference rollout, upset before and after its effect.
func sweep(t *testing.T, err error, play func(t *testing.T, tr *trial, call, want string)) {
	want, calls := reference(t, two)
	for i, call := range calls {
		for _, after := range []bool{false, true} {
			ok := t.Run(fmt.Sprintf("%03d %s after=%t", i+1, call, after), func(t *testing.T) {
				simulate(t, two, func(t *testing.T, tr *trial) {
					tr.upset = upset{n: i + 1, times: 1, after: after, err: err}
					play(t, tr, call, want)
				})
			})
			if !ok {
				return // the first one tells enough
			}
		}
	}
	if len(calls) < 100 {
		t.Errorf("only %d calls: the sweep is too small", len(calls))
	}
}

func sameEnd(t *testing.T, tr *trial, want string) {
	t.Helper()
	if got := tr.state(); got != want {
		t.Errorf("ends with\n%swant\n%seffects %v", got, want, tr.effectsDone())
	}
}

// A program that is killed before or after any call leaves a cluster that the next run takes to the same end.
func TestCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	sweep(t, errCrash, func(t *testing.T, tr *trial, _, want string) {
		if _, err := tr.walk(t.Context()); err == nil {
			t.Fatal("the crash did not happen")
		}
		time.Sleep(time.Duration(len(tr.calls)) * time.Second) // the next run comes at some other time
		if _, err := tr.walk(t.Context()); err != nil {
			t.Fatal(err)
		}
		sameEnd(t, tr, want)
	})
}

// The second run may be killed as well, wherever it is.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	want, calls := reference(t, []string{"w1"})
	for i := range calls {
		for j := 0; j < len(calls); j += 3 {
			ok := t.Run(fmt.Sprintf("%d and %d", i+1, j+1), func(t *testing.T) {
				simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
					tr.upset = upset{n: i + 1, times: 1, after: (i+j)%2 == 0, err: errCrash}
					_, _ = tr.walk(t.Context())
					tr.upset = upset{n: len(tr.calls) + j + 1, times: 1, after: (i+j)%3 == 0, err: errCrash}
					_, _ = tr.walk(t.Context())
					tr.upset = upset{}
					if _, err := tr.walk(t.Context()); err != nil {
						t.Fatal(err)
					}
					sameEnd(t, tr, want)
				})
			})
			if !ok {
				return
			}
		}
	}
}

// takesNoUpset names the calls without which a rollout can't begin or end: their failure is reported, and the next run mends it.
func takesNoUpset(call string) bool { return call == "Acquire" || call == "Release" }

// A reply that is lost, or a request that never arrives, is not even noticed in the end.
func TestUnreachableAtEveryCall(t *testing.T) {
	t.Parallel()
	sweep(t, fmt.Errorf("connection reset: %w", ErrUnreachable), mended)
}

// Neither is a call that never returns: it ends with its deadline, and its outcome is unknown.
func TestHangAtEveryCall(t *testing.T) {
	t.Parallel()
	sweep(t, errHang, mended)
}

func mended(t *testing.T, tr *trial, call, want string) {
	ctx := t.Context()
	if takesNoUpset(call) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Minute) // the Lease port has a deadline of its own
		defer cancel()
	}
	_, err := tr.walk(ctx)
	if takesNoUpset(call) {
		if err == nil {
			t.Error("not reported")
		}
		tr.lease.holder = nil // it runs out
		_, err = tr.walk(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	sameEnd(t, tr, want)
}

// A conflict at any write is answered by looking again.
func TestConflictAtEveryPatch(t *testing.T) {
	t.Parallel()
	sweep(t, fmt.Errorf("patch: %w", ErrConflict), func(t *testing.T, tr *trial, call, want string) {
		if !strings.HasPrefix(call, "Patch") || tr.upset.after {
			return // a conflict after the effect is none
		}
		if _, err := tr.walk(t.Context()); err != nil {
			t.Fatal(err)
		}
		sameEnd(t, tr, want)
	})
}

// A context that ends at any time interrupts the rollout, and the next one finishes it.
func TestCancelAtAnyTime(t *testing.T) {
	t.Parallel()
	want, _ := reference(t, two)
	for at := 5 * time.Millisecond; at < 40*time.Second; at += 151 * time.Millisecond {
		ok := t.Run(at.String(), func(t *testing.T) {
			simulate(t, two, func(t *testing.T, tr *trial) {
				ctx, cancel := context.WithTimeout(t.Context(), at)
				defer cancel()
				report, err := tr.walk(ctx)
				if err == nil {
					sameEnd(t, tr, want) // it was done by then
					return
				}
				var f *Fault
				if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &f) {
					t.Fatalf("got %v", err)
				}
				interruptedOnce(t, report)
				if _, err := tr.walk(t.Context()); err != nil {
					t.Fatal(err)
				}
				sameEnd(t, tr, want)
			})
		})
		if !ok {
			return
		}
	}
}

// A wish to stop ends the rollout at a safe point soon, and the next one finishes it.
func TestStopAtAnyTime(t *testing.T) {
	t.Parallel()
	want, _ := reference(t, two)
	for at := 5 * time.Millisecond; at < 40*time.Second; at += 151 * time.Millisecond {
		ok := t.Run(at.String(), func(t *testing.T) {
			simulate(t, two, func(t *testing.T, tr *trial) {
				stop := tr.stop
				time.AfterFunc(at, func() { close(stop) })
				began := time.Now()
				report, err := tr.walk(t.Context())
				if err == nil {
					sameEnd(t, tr, want) // it was done by then
					return
				}
				if !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), "trueup scale prod --") {
					t.Fatalf("got %v", err)
				}
				if late := time.Since(began) - at; late > time.Second {
					t.Errorf("stopped %s after it was asked to", late)
				}
				interruptedOnce(t, report)
				tr.stop = nil
				if _, err := tr.walk(t.Context()); err != nil {
					t.Fatal(err)
				}
				sameEnd(t, tr, want)
			})
		})
		if !ok {
			return
		}
	}
}

// A wish to end with the present move, or with the present node, is heeded at any time: nothing is cut in two, and the next run finishes it.
func TestEndGentlyAtAnyTime(t *testing.T) {
	t.Parallel()
	want, _ := reference(t, two)
	for _, tt := range []struct {
		name string
		ask  func(*trial) chan struct{}
		cut  func(*testing.T, Report) // what an end may not leave behind
	}{
		{"move", func(tr *trial) chan struct{} { tr.endMove = make(chan struct{}); return tr.endMove }, noMoveCut},
		{"node", func(tr *trial) chan struct{} { tr.endNode = make(chan struct{}); return tr.endNode }, noNodeCut},
	} {
		heeded := 0
		for at := 5 * time.Millisecond; at < 40*time.Second; at += 307 * time.Millisecond {
			ok := t.Run(tt.name+" "+at.String(), func(t *testing.T) {
				simulate(t, two, func(t *testing.T, tr *trial) {
					asked := tt.ask(tr)
					time.AfterFunc(at, func() { close(asked) })
					report, err := tr.walk(t.Context())
					if err == nil {
						sameEnd(t, tr, want) // it was done by then
						return
					}
					if !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), "to go on: trueup ") {
						t.Fatalf("got %v", err)
					}
					heeded++
					interruptedOnce(t, report)
					tt.cut(t, report)
					tr.endMove, tr.endNode = nil, nil
					if _, err := tr.walk(t.Context()); err != nil {
						t.Fatal(err)
					}
					sameEnd(t, tr, want)
				})
			})
			if !ok {
				return
			}
		}
		if heeded < 50 {
			t.Errorf("the wish to end with the %s was heeded %d times", tt.name, heeded)
		}
	}
}

// noMoveCut: what a move began, the interrupted node shows as finished.
func noMoveCut(t *testing.T, report Report) {
	t.Helper()
	for _, n := range report.Nodes {
		if n.Outcome != OutcomeInterrupted || n.Claim == nil {
			continue
		}
		seen, claim := n.Final, n.Claim
		if claim.Resize != nil && !seen.Instance.AtOffering(claim.Goal) {
			t.Errorf("%s: ended within the resize", n.Target.Name)
		}
		if claim.Restart != nil && !restarted(claim, *seen) {
			t.Errorf("%s: ended within the restart", n.Target.Name)
		}
	}
}

// noNodeCut: no node is left in the middle.
func noNodeCut(t *testing.T, report Report) {
	t.Helper()
	for _, n := range report.Nodes {
		if n.Outcome != OutcomeDone && n.Outcome != OutcomeWaiting {
			t.Errorf("%s is %s", n.Target.Name, n.Outcome)
		}
	}
}

// interruptedOnce checks that nodes are done, then one interrupted, then the rest waiting.
func interruptedOnce(t *testing.T, report Report) {
	t.Helper()
	rank := map[Outcome]int{OutcomeDone: 0, OutcomeInterrupted: 1, OutcomeWaiting: 2}
	last, interrupted := 0, 0
	for _, n := range report.Nodes {
		r, known := rank[n.Outcome]
		if !known || r < last {
			t.Errorf("outcome %s of %s", n.Outcome, n.Target.Name)
		}
		if r == 1 {
			interrupted++
		}
		last = r
	}
	if interrupted > 1 {
		t.Errorf("%d nodes interrupted", interrupted)
	}
	synctest.Wait()
}
