package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// contender is one trueup process with a clock of its own.
type contender struct {
	*Lock

	clock *handClock
	line  *line
	state rollout.LeaseState
}

func newContender(t *testing.T, run string) *contender {
	t.Helper()
	clock, line := newHandClock(), newLine()
	return &contender{
		Lock:  newClient(t, Options{Clock: clock, Dial: line.dial}).Lock(),
		clock: clock, line: line,
		state: rollout.LeaseState{
			Run: run, Actor: run + "@host", Since: clock.Now(), ClusterID: "c-1",
			Command: "scale", Continues: continuesAny(run),
			Goals: map[string]rollout.Goal{
				"vm-1": {Offering: capacity.Offering{ID: "o-2", CPUs: 4, MemoryMiB: 8192}, Settle: rollout.DefaultSettle},
			},
		},
	}
}

// continuesAny names the other contender's run: whoever takes over here knows which rollout it goes on with.
func continuesAny(run string) string {
	if run == "run-a" {
		return "run-b"
	}
	return "run-a"
}

// written is the state as it stands on the Lease.
func (c *contender) written() rollout.LeaseState {
	s := c.state
	s.Continues = ""
	return s
}

// acquired takes the Lease at once.
func (c *contender) acquired(t *testing.T) rollout.Tenure {
	t.Helper()
	tenure, err := c.Acquire(t.Context(), c.state)
	if err != nil {
		t.Fatal(err)
	}
	c.clock.settle(t)
	return tenure
}

// outcome is what an Acquire in the background ended with.
type outcome struct {
	tenure rollout.Tenure
	err    error
}

func (c *contender) acquire(t *testing.T) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		tenure, err := c.Acquire(t.Context(), c.state)
		ended <- outcome{tenure, err}
	}()
	return ended
}

// waitFor steps the contender's clock until its Acquire ends. It returns how long that took by this clock.
func (c *contender) waitFor(t *testing.T, ended <-chan outcome) (outcome, time.Duration) {
	t.Helper()
	began := c.clock.Now()
	for {
		select {
		case o := <-ended:
			return o, c.clock.Now().Sub(began)
		case s := <-c.clock.sleepers:
			if s.d == RenewInterval { // it has the Lease and renews it
				c.clock.sleepers <- s
				return receive(t, ended, "end of Acquire"), c.clock.Now().Sub(began)
			}
			s.wake <- c.clock.advance(s.d)
		case <-time.After(soon):
			t.Fatal("Acquire neither ended nor slept")
		}
	}
}

// die ends the renewing as a SIGKILL does: nothing is given back.
func (c *contender) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.end()
	c.clock.forget()
}

// noLease removes what another test left behind.
func noLease(t *testing.T) {
	t.Helper()
	remove := func(ctx context.Context) {
		err := admin(t).CoordinationV1().Leases(LeaseNamespace).Delete(ctx, LeaseName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	remove(t.Context())
	t.Cleanup(func() { remove(context.Background()) })
}

func rawLease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := admin(t).CoordinationV1().Leases(LeaseNamespace).Get(t.Context(), LeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestLeaseLife(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	tenure := a.acquired(t)
	if want := (rollout.Tenure{Run: "run-a", Transitions: 1}); tenure != want {
		t.Fatalf("tenure %s, want %s", tenure, want)
	}
	first := rawLease(t)
	if got := *first.Spec.LeaseDurationSeconds; got != 40 {
		t.Errorf("leaseDurationSeconds %d, want 40", got)
	}
	h, err := a.client.Holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Holding{Tenure: tenure, State: a.written(), Since: a.state.Since, Renewed: a.state.Since}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("Holder (-want +got):\n%s", diff)
	}

	for range 3 {
		before := rawLease(t)
		if d := a.clock.step(t); d != RenewInterval {
			t.Errorf("renewal after %s, want %s", d, RenewInterval)
		}
		a.clock.settle(t)
		after := rawLease(t)
		if got := after.Spec.RenewTime.Sub(before.Spec.RenewTime.Time); got != RenewInterval {
			t.Errorf("renewTime moved by %s, want %s", got, RenewInterval)
		}
		if !after.Spec.AcquireTime.Equal(first.Spec.AcquireTime) || tenureOf(after) != tenure {
			t.Errorf("a renewal changed more than renewTime: %+v", after.Spec)
		}
		if err := a.Check(t.Context(), tenure); err != nil {
			t.Errorf("Check while renewing: %v", err)
		}
	}

	if err := a.Release(t.Context(), tenure, true); err != nil {
		t.Fatal(err)
	}
	released := rawLease(t)
	if _, there := released.Annotations[LeaseState]; there || released.Spec.HolderIdentity != nil {
		t.Errorf("a released Lease still shows its run: %+v", released)
	}
	if h, err := a.client.Holder(t.Context()); err != nil || h.Held() {
		t.Errorf("Holder of a released Lease: %+v, %v", h, err)
	}
	if err := a.Check(t.Context(), tenure); !errors.Is(err, rollout.ErrLost) {
		t.Errorf("Check after Release: %v, want ErrLost", err)
	}
}

func TestTransitionsNeverRepeat(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	for want := int32(1); want <= 3; want++ {
		tenure := a.acquired(t)
		if tenure.Transitions != want {
			t.Fatalf("transition %d, want %d", tenure.Transitions, want)
		}
		if err := a.Release(t.Context(), tenure, true); err != nil {
			t.Fatal(err)
		}
		a.clock.forget()
	}
}

func TestDeadHolderIsTakenOver(t *testing.T) {
	noLease(t)
	a, b := newContender(t, "run-a"), newContender(t, "run-b")
	old := a.acquired(t)
	a.die()
	b.clock.advance(-24 * time.Hour) // nobody compares clocks of two machines

	o, waited := b.waitFor(t, b.acquire(t))
	if o.err != nil {
		t.Fatal(o.err)
	}
	if want := (rollout.Tenure{Run: "run-b", Transitions: 2}); o.tenure != want {
		t.Errorf("tenure %s, want %s", o.tenure, want)
	}
	const least = LeaseDuration + EffectDeadline
	if waited < least || waited > least+2*observeEvery {
		t.Errorf("taken over after %s, want between %s and %s", waited, least, least+2*observeEvery)
	}
	if err := b.Check(t.Context(), o.tenure); err != nil {
		t.Errorf("Check by the new holder: %v", err)
	}

	err := a.Check(t.Context(), old)
	if !errors.Is(err, rollout.ErrLost) || !strings.Contains(err.Error(), "run-b") {
		t.Errorf("Check by the old holder: %v, want ErrLost that names run-b", err)
	}
	if err := a.Release(t.Context(), old, true); err != nil {
		t.Errorf("Release by the old holder: %v", err)
	}
	if h, err := b.client.Holder(t.Context()); err != nil || h.Tenure != o.tenure || h.State.Run != "run-b" {
		t.Errorf("after the old holder's Release: %+v, %v, want run-b untouched", h, err)
	}
}

// A holder that shows life between the last look and the take-over keeps the Lease: the write is conditional.
func TestTakeoverLosesAgainstALateRenewal(t *testing.T) {
	noLease(t)
	a, b := newContender(t, "run-a"), newContender(t, "run-b")
	tenure := a.acquired(t)
	var renewed atomic.Bool
	onWire(b.client, func(r *http.Request, pass http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPatch && renewed.CompareAndSwap(false, true) {
			a.clock.step(t)
			a.clock.settle(t)
		}
		return pass.RoundTrip(r)
	})
	o, _ := b.waitFor(t, b.acquire(t))
	if !errors.Is(o.err, rollout.ErrHeld) || !renewed.Load() {
		t.Errorf("got %s, %v, want ErrHeld after a renewal in between", o.tenure, o.err)
	}
	if err := a.Check(t.Context(), tenure); err != nil {
		t.Errorf("Check by the holder: %v", err)
	}
}

func TestLiveHolderIsRespected(t *testing.T) {
	noLease(t)
	a, b := newContender(t, "run-a"), newContender(t, "run-b")
	var announced atomic.Pointer[rollout.HeldError]
	b.client.waiting = func(held *rollout.HeldError, atMost time.Duration) {
		if atMost != LeaseDuration+EffectDeadline {
			t.Errorf("told to wait at most %s", atMost)
		}
		announced.Store(held)
	}
	tenure := a.acquired(t)
	ended := b.acquire(t)
	for range 5 {
		b.clock.step(t)
	}
	b.clock.settle(t)
	a.clock.step(t)
	a.clock.settle(t)
	o, _ := b.waitFor(t, ended)
	var held *rollout.HeldError
	if !errors.As(o.err, &held) || !errors.Is(o.err, rollout.ErrHeld) {
		t.Fatalf("Acquire while run-a renews: %v, want a HeldError", o.err)
	}
	want := &rollout.HeldError{State: a.written(), Holder: "run-a", Since: a.state.Since}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("HeldError (-want +got):\n%s", diff)
	}
	if got := announced.Load(); got == nil || got.Holder != "run-a" {
		t.Errorf("Waiting was told of %v, want run-a", got)
	}
	if err := a.Check(t.Context(), tenure); err != nil {
		t.Errorf("Check by the holder: %v", err)
	}
}

func TestWaitingContenderTakesAReleasedLease(t *testing.T) {
	noLease(t)
	a, b := newContender(t, "run-a"), newContender(t, "run-b")
	tenure := a.acquired(t)
	ended := b.acquire(t)
	b.clock.settle(t)
	if err := a.Release(t.Context(), tenure, true); err != nil {
		t.Fatal(err)
	}
	o, waited := b.waitFor(t, ended)
	if o.err != nil || o.tenure.Transitions != 2 || waited > observeEvery {
		t.Errorf("got %s, %v after %s, want transition 2 after one look", o.tenure, o.err, waited)
	}
}

func TestTwoContendersOneWinner(t *testing.T) {
	noLease(t)
	a, b := newContender(t, "run-a"), newContender(t, "run-b")
	endedA, endedB := a.acquire(t), b.acquire(t)
	// The loser sleeps until its next look; only the winner has an outcome.
	var winner, loser *contender
	var loserEnded <-chan outcome
	var won outcome
	select {
	case won = <-endedA:
		winner, loser, loserEnded = a, b, endedB
	case won = <-endedB:
		winner, loser, loserEnded = b, a, endedA
	case <-time.After(soon):
		t.Fatal("nobody won")
	}
	if won.err != nil {
		t.Fatal(won.err)
	}
	loser.clock.step(t)
	loser.clock.settle(t) // has looked at the winner's Lease
	winner.clock.step(t)
	winner.clock.settle(t)
	o, _ := loser.waitFor(t, loserEnded)
	if !errors.Is(o.err, rollout.ErrHeld) {
		t.Errorf("the other contender: %s, %v, want ErrHeld", o.tenure, o.err)
	}
	if err := winner.Check(t.Context(), won.tenure); err != nil {
		t.Errorf("Check by the winner: %v", err)
	}
}

func TestSleeperRenewsBeforeAnEffect(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	tenure := a.acquired(t)
	a.clock.advance(LeaseDuration + time.Second)
	if err := a.Check(t.Context(), tenure); err != nil {
		t.Fatal(err)
	}
	if got := rawLease(t).Spec.RenewTime; !got.Time.Equal(a.clock.Now()) {
		t.Errorf("renewTime %s, want %s: an effect may not start on an old renewal", got, a.clock.Now())
	}
}

func TestElapsedSeesASleepOfTheMachine(t *testing.T) {
	woke := time.Now()
	slept := woke.Add(-time.Hour).Round(0) // the wall clock alone shows it
	if got := elapsed(slept, woke); got < time.Hour {
		t.Errorf("elapsed %s, want an hour", got)
	}
	if got := elapsed(woke, woke.Add(time.Second)); got != time.Second {
		t.Errorf("elapsed %s, want a second", got)
	}
}

func TestNoEffectAfterAFailedRead(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	tenure := a.acquired(t)
	a.line.kill()
	err := a.Check(t.Context(), tenure)
	if !errors.Is(err, rollout.ErrUnreachable) || errors.Is(err, rollout.ErrLost) {
		t.Errorf("Check without a network: %v, want ErrUnreachable", err)
	}
	a.line.revive()
	if err := a.Check(t.Context(), tenure); err != nil {
		t.Errorf("Check with the network back: %v", err)
	}
}

func TestRenewalIsTriedAgain(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	tenure := a.acquired(t)
	a.line.kill()
	a.clock.step(t)
	a.clock.settle(t)
	a.line.revive()
	if d := a.clock.step(t); d != renewAgain {
		t.Errorf("after a failed renewal the pause is %s, want %s", d, renewAgain)
	}
	a.clock.settle(t)
	if got := rawLease(t).Spec.RenewTime; !got.Time.Equal(a.clock.Now()) {
		t.Errorf("renewTime %s, want %s", got, a.clock.Now())
	}
	if err := a.Check(t.Context(), tenure); err != nil {
		t.Error(err)
	}
}

func TestRenewingStopsWhenTheLeaseIsLost(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	tenure := a.acquired(t)
	kubectl(t, "-n", LeaseNamespace, "delete", "lease", LeaseName)
	a.clock.step(t)
	receive(t, a.held.done, "end of the renewing")
	if err := a.Check(t.Context(), tenure); !errors.Is(err, rollout.ErrLost) {
		t.Errorf("Check of a deleted Lease: %v, want ErrLost", err)
	}
	if err := a.Release(t.Context(), tenure, true); err != nil {
		t.Errorf("Release of a deleted Lease: %v", err)
	}
}

func TestRenewingStopsWithItsContext(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	ctx, cancel := context.WithCancel(t.Context())
	tenure, err := a.Acquire(ctx, a.state)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	receive(t, a.held.done, "end of the renewing")
	if err := a.Release(t.Context(), tenure, true); err != nil {
		t.Errorf("Release after the run's context has ended: %v", err)
	}
	if tenureOf(rawLease(t)).Run != "" {
		t.Error("Release after the run's context has ended gave nothing back")
	}
}

func TestAcquireStopsWithItsContext(t *testing.T) {
	noLease(t)
	a, b := newContender(t, "run-a"), newContender(t, "run-b")
	a.acquired(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, b.state)
		ended <- err
	}()
	b.clock.settle(t)
	cancel()
	if err := receive(t, ended, "end of Acquire"); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire: %v, want context.Canceled", err)
	}
}

// The reply of the write that takes the Lease may be lost: the next look shows that it is ours.
func TestAcquireWithALostReply(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPatch} {
		t.Run(method, func(t *testing.T) {
			noLease(t)
			a := newContender(t, "run-a")
			transitions := int32(1)
			if method == http.MethodPatch {
				if err := a.Release(t.Context(), a.acquired(t), true); err != nil {
					t.Fatal(err)
				}
				a.clock.forget()
				transitions = 2
			}
			loseOneReply(a.client, method)
			o, waited := a.waitFor(t, a.acquire(t))
			if want := (rollout.Tenure{Run: "run-a", Transitions: transitions}); o.err != nil || o.tenure != want {
				t.Fatalf("got %s, %v, want %s", o.tenure, o.err, want)
			}
			if waited != observeEvery {
				t.Errorf("took %s, want one more look after %s", waited, observeEvery)
			}
			if got := a.held.lastRenewed(); !got.Equal(a.state.Since) && method == http.MethodPost {
				t.Errorf("renewed at %s, want the time before the lost write, %s", got, a.state.Since)
			}
		})
	}
}

func TestReleaseWithALostReply(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	tenure := a.acquired(t)
	loseOneReply(a.client, http.MethodPatch)
	if err := a.Release(t.Context(), tenure, true); err != nil {
		t.Errorf("Release whose first reply was lost: %v", err)
	}
	if tenureOf(rawLease(t)).Run != "" {
		t.Error("the Lease is still held")
	}
}

func loseOneReply(c *Client, method string) {
	var lost atomic.Bool
	onWire(c, func(r *http.Request, pass http.RoundTripper) (*http.Response, error) {
		response, err := pass.RoundTrip(r)
		if r.Method == method && err == nil && lost.CompareAndSwap(false, true) {
			_ = response.Body.Close() // the reply is lost on purpose
			return nil, io.ErrUnexpectedEOF
		}
		return response, err
	})
}

// People annotate and label Leases too: a lost race with them is no lost Lease.
func TestReleaseAmongOtherWriters(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	tenure := a.acquired(t)
	var raced atomic.Bool
	onWire(a.client, func(r *http.Request, pass http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPatch && raced.CompareAndSwap(false, true) {
			kubectl(t, "-n", LeaseNamespace, "annotate", "lease", LeaseName, "example.org/note=hello")
		}
		return pass.RoundTrip(r)
	})
	if err := a.Release(t.Context(), tenure, true); err != nil {
		t.Fatal(err)
	}
	lease := rawLease(t)
	if diff := cmp.Diff(map[string]string{"example.org/note": "hello"}, lease.Annotations); diff != "" || tenureOf(lease).Run != "" {
		t.Errorf("after Release: %v (-want +got):\n%s", lease.Spec, diff)
	}
}

func TestUnreadableStateStillShowsTheHolder(t *testing.T) {
	noLease(t)
	a, b := newContender(t, "run-a"), newContender(t, "run-b")
	a.acquired(t)
	kubectl(t, "-n", LeaseNamespace, "annotate", "--overwrite", "lease", LeaseName, LeaseState+"={")
	h, err := b.client.Holder(t.Context())
	if !errors.Is(err, ErrLeaseUnreadable) || h.Run != "run-a" {
		t.Errorf("Holder: %+v, %v, want run-a and ErrLeaseUnreadable", h, err)
	}
	ended := b.acquire(t)
	b.clock.settle(t)
	a.clock.step(t)
	a.clock.settle(t)
	o, _ := b.waitFor(t, ended)
	var held *rollout.HeldError
	if !errors.As(o.err, &held) || held.Holder != "run-a" {
		t.Errorf("Acquire: %v, want a HeldError that names run-a", o.err)
	}
}

func TestAcquireMisuse(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	if _, err := a.Acquire(t.Context(), rollout.LeaseState{}); err == nil {
		t.Error("Acquire without a run id must fail")
	}
	tenure := a.acquired(t)
	if _, err := a.Acquire(t.Context(), a.state); err == nil || !strings.Contains(err.Error(), "run-a") {
		t.Errorf("second Acquire: %v, want an error that names run-a", err)
	}
	other := rollout.Tenure{Run: tenure.Run, Transitions: tenure.Transitions + 1}
	if err := a.Check(t.Context(), other); !errors.Is(err, rollout.ErrLost) {
		t.Errorf("Check of a tenure that is not ours: %v, want ErrLost", err)
	}
}

func TestNobodyHoldsALeaseThatIsNotThere(t *testing.T) {
	noLease(t)
	h, err := newClient(t, Options{}).Holder(t.Context())
	if err != nil || h.Held() {
		t.Errorf("Holder: %+v, %v, want nobody", h, err)
	}
}

// EffectDeadline, LeaseDuration and RenewInterval fence only together.
func TestLeaseTimesFence(t *testing.T) {
	if EffectDeadline >= LeaseDuration {
		t.Error("an effect must end before the Lease could expire")
	}
	if 3*RenewInterval >= LeaseDuration {
		t.Error("three failed renewals must not cost the Lease")
	}
	if requestTimeout > RenewInterval {
		t.Error("one hanging request must not cost two renewals")
	}
}

// An unfinished rollout stays on the Lease. Only who names its run may go on with it, or give it up; a finished one leaves nothing.
func TestUnfinishedRolloutStaysOpen(t *testing.T) {
	noLease(t)
	a := newContender(t, "run-a")
	if err := a.Release(t.Context(), a.acquired(t), false); err != nil {
		t.Fatal(err)
	}
	stranger := newContender(t, "run-c")
	stranger.state.Continues = ""
	_, err := stranger.Acquire(t.Context(), stranger.state)
	var open *rollout.OpenError
	if !errors.As(err, &open) || !errors.Is(err, rollout.ErrHeld) {
		t.Fatalf("another rollout: got %v, want an OpenError", err)
	}
	if diff := cmp.Diff(a.written(), open.State); diff != "" {
		t.Errorf("state of the open rollout (-want +got):\n%s", diff)
	}
	b := newContender(t, "run-b")
	if err := b.Release(t.Context(), b.acquired(t), true); err != nil {
		t.Fatal(err)
	}
	if err := stranger.Release(t.Context(), stranger.acquired(t), true); err != nil {
		t.Errorf("after the end of the open rollout: %v", err)
	}
}
