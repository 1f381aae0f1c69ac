package kube

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// A tenure is a run and its number: the same run under another number has lost the Lease in between.
func TestShowing(t *testing.T) {
	ours := rollout.Tenure{Run: "run-1", Transitions: 7}
	unreachable := rollout.ErrUnreachable
	rows := []struct {
		name   string
		holder string
		number int32
		err    error // of the look
		want   error
	}{
		{"ours", "run-1", 7, nil, nil},
		{"another run", "run-2", 7, nil, rollout.ErrLost},
		{"our run under another number", "run-1", 8, nil, rollout.ErrLost},
		{"nobody", "", 7, nil, rollout.ErrLost},
		{"deleted", "", 0, rollout.ErrNotFound, rollout.ErrLost},
		{"could not be read", "run-1", 7, unreachable, unreachable},
	}
	for _, r := range rows {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &r.holder, LeaseTransitions: &r.number}}
		if err := showing(lease, r.err, ours); !errors.Is(err, r.want) || (err == nil) != (r.want == nil) {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}

// A machine that sleeps stops its monotonic clock, a wall clock that is set back does not: the longer of the two counts.
func TestElapsedByEachClock(t *testing.T) {
	now := time.Now()
	rows := []struct {
		name     string
		from, to time.Time
		want     time.Duration
	}{
		{"slept for an hour", now, wallMoved(t, now, time.Hour), time.Hour},
		{"the wall clock was set back by an hour meanwhile", now, wallMoved(t, now.Add(time.Minute), -time.Hour), time.Minute},
		{"both run", now, now.Add(time.Minute), time.Minute},
	}
	for _, r := range rows {
		if got := elapsed(r.from, r.to); got != r.want {
			t.Errorf("%s: %s, want %s", r.name, got, r.want)
		}
	}
}

// wallMoved returns the time with its wall clock alone moved, as only the kernel does it. It relies on how package time keeps the seconds
// of a time with a monotonic reading, and fails if that is no longer so.
func wallMoved(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	const secondsAt = 30 // the bits below are nanoseconds
	moved := at
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(int64(d/time.Second) << secondsAt)
	if moved.Sub(at) != 0 || moved.Round(0).Sub(at.Round(0)) != d {
		t.Fatal("package time keeps its clocks in another way now")
	}
	return moved
}
