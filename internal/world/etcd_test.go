package world

import (
	"errors"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// A whole cluster with dedicated etcd: its machines come last, one after the other; nothing on them is restarted, and no claim stays.
func TestRolloutWithEtcd(t *testing.T) {
	simulate(t, cluster("c1", "e1", "e2", "e3", "w1"), func(t *testing.T, w *World) {
		report, err := w.Run().Scale(t.Context(), w.grow())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range report.Nodes {
			if n.Outcome != rollout.OutcomeDone || n.Unplanned != nil || n.Unneeded != nil {
				t.Errorf("%+v", n)
			}
		}
		if last := report.Nodes[4].Target.Name; last != "e3" {
			t.Errorf("%s comes last", last)
		}
		for _, left := range w.unfinished() {
			t.Error(left)
		}
	})
}

// A member falls ill while another one's machine is worked on: that machine is not given back, the next one not begun on; once it is well, resume finishes all.
func TestEtcdMemberFallsIllInTheMiddle(t *testing.T) {
	simulate(t, cluster("e1", "e2", "e3"), func(t *testing.T, w *World) {
		w.At(2500*time.Millisecond, func(w *World) { w.BreakEtcd("e2", true) })
		r := w.Run()
		r.Limits = short(r.Limits)
		var f *rollout.Fault
		if _, err := r.Scale(t.Context(), w.grow()); !errors.As(err, &f) || f.Layer != capacity.LayerReadiness || f.Node != "e1" {
			t.Errorf("got %v", err)
		}
		if w.resizes(w.idOf("e2")) != 0 || w.Open() == nil {
			t.Errorf("the next machine was begun on, or the rollout was forgotten\n%s", w.State())
		}
		w.BreakEtcd("e2", false)
		if _, err := w.Run().Resume(t.Context()); err != nil {
			t.Error(err)
		}
		for _, left := range w.unfinished() {
			t.Error(left)
		}
	})
}

// A cluster of which a member is ill already is not begun on.
func TestIllEtcdIsRefused(t *testing.T) {
	simulate(t, cluster("e1", "e2", "e3"), func(t *testing.T, w *World) {
		w.BreakEtcd("e3", true)
		before := w.State()
		var refused *RefusedError
		if err := scale(t.Context(), w, w.Run()); !errors.As(err, &refused) || w.State() != before {
			t.Errorf("%v\n%s", err, w.State())
		}
	})
}

// abort gives an etcd machine back like any other: verified healthy, else only by force.
func TestAbortOfEtcd(t *testing.T) {
	simulate(t, cluster("e1", "e2", "e3"), func(t *testing.T, w *World) {
		w.At(2500*time.Millisecond, func(w *World) { w.BreakEtcd("e2", true) })
		r := w.Run()
		r.Limits = short(r.Limits)
		if err := scale(t.Context(), w, r); err == nil {
			t.Fatal("it went through with a member down")
		}
		if _, err := w.Run().Abort(t.Context(), false); err == nil {
			t.Error("given back while a member is ill")
		}
		if _, err := w.Run().Abort(t.Context(), true); err != nil || w.Open() != nil || len(w.lease.claims[w.idOf("e1")]) > 0 {
			t.Errorf("by force: %v\n%s", err, w.State())
		}
	})
}
