package rollout

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// deafGuests have guests that say yes to everything and do nothing.
type deafGuests struct{ Guests }

type deafGuest struct{ Guest }

func (g deafGuests) Guest(ctx context.Context, target Target) (Guest, error) {
	guest, err := g.Guests.Guest(ctx, target)
	return deafGuest{guest}, err
}

func (deafGuest) Online(context.Context) error { return nil }

func (deafGuest) RestartKubelet(context.Context, string) (RestartResult, error) {
	return RestartIssued, nil
}

// shortWatches end by themselves after a second.
type shortWatches struct {
	Nodes

	begun *int
}

func (n shortWatches) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	*n.begun++
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(time.Second, cancel)
	return n.Nodes.Watch(ctx, name)
}

// changed walks with a runner that was changed.
func (tr *trial) changed(t *testing.T, change func(*Runner)) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := tr.runner(cancel)
	change(r)
	_, err := r.Walk(ctx, NewPlan("c1", "prod", tr.goals, tr.members()))
	synctest.Wait()
	return err
}

// An action that says it was done and changes nothing is repeated with pauses, and only within its move's bound.
func TestActionsWithoutEffectEnd(t *testing.T) {
	rows := []struct {
		name    string
		arrange func(*trial)
		layer   capacity.Layer
		bound   func(Limits) time.Duration
	}{
		{"nothing comes online", func(*trial) {}, capacity.LayerGuest, func(l Limits) time.Duration { return l.Online }},
		{"kubelet is not restarted", func(tr *trial) {
			m := tr.machine("w1") // all that is plugged comes online by itself
			m.resize(big)
			tr.after(simJob+2*simPlug, func() {
				m.guest.CPUsOnline, m.guest.BlocksOnline, m.guest.BlocksOffline, m.guest.MemTotal = 4, 64, 0, memBig
			})
			time.Sleep(time.Minute)
		}, capacity.LayerKubelet, func(l Limits) time.Duration { return l.Restart }},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				r.arrange(tr)
				began := time.Now()
				err := tr.changed(t, func(run *Runner) { run.Guests = deafGuests{run.Guests} })
				f := new(Fault)
				if took := time.Since(began); !errors.As(err, &f) || f.Layer != r.layer || took < r.bound(tr.limits) || took > r.bound(tr.limits)+time.Minute {
					t.Errorf("after %s: %v", took, err)
				}
				if len(tr.calls) > 1500 {
					t.Errorf("%d calls: a loop without pauses", len(tr.calls))
				}
			})
		})
	}
}

// Nothing is begun after the wish to stop: what may still end had begun before.
func TestNoEffectAfterTheWishToStop(t *testing.T) {
	const underWay = 12 * simCall // the longest effect, with the look at the Lease and the announcement before it
	for at := 5 * time.Millisecond; at < 19*time.Second; at += 31 * time.Millisecond {
		simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
			var soon int
			stop := tr.stop
			tr.after(at, func() { close(stop) })
			tr.after(at+underWay, func() { soon = len(tr.effects) })
			_, _ = tr.walk(t.Context())
			time.Sleep(time.Second)
			if n := len(tr.effectsDone()); n > soon {
				t.Errorf("asked to stop after %s: %v begun later", at, tr.effectsDone()[soon:])
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A Node that changes all the time does not make the runner look all the time.
func TestStormOfChanges(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		m := tr.machine("w1")
		var storm func()
		storm = func() {
			for _, w := range m.watchers { // the resourceVersion stays: this is about the wake-ups alone
				select {
				case w <- struct{}{}:
				default:
				}
			}
			tr.after(time.Millisecond, storm)
		}
		tr.after(0, storm)
		tr.must(t)
		looks := 0
		for _, call := range tr.calls {
			if call == "Probe" {
				looks++
			}
		}
		if most := int(20 * time.Second / firstPause); looks > most {
			t.Errorf("looked %d times, want at most %d", looks, most)
		}
	})
}

// A watch that ends is begun again, at the pace of the looks.
func TestWatchesThatEnd(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		begun := 0
		tr.machine("w1").slowReady = 10 * time.Second
		if err := tr.changed(t, func(run *Runner) { run.Nodes = shortWatches{run.Nodes, &begun} }); err != nil {
			t.Fatal(err)
		}
		if begun < 3 || begun > 60 {
			t.Errorf("begun %d times", begun)
		}
	})
}

// One lost race costs a look, not a pause.
func TestLostRaceCostsNoPause(t *testing.T) {
	var quiet, raced time.Duration
	for _, took := range []*time.Duration{&quiet, &raced} {
		simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
			if took == &raced {
				tr.upset = upset{name: "Patch", times: 1, err: fmt.Errorf("patch: %w", ErrConflict)}
			}
			*took = tr.must(t).Nodes[0].Moves[MoveClaim]
		})
	}
	if more := raced - quiet; more <= 0 || more >= firstPause {
		t.Errorf("a lost race took %s more", more)
	}
}
