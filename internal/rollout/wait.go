package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// wait returns when it is time to look again: on a change of the Node where the wait is for the Node, at the time that the step
// names, or after a pause that grows. When the move's bound has passed, what was waited for becomes the fault.
func (w *walk) wait(ctx context.Context, step Step) error {
	w.enter(step.Move)
	w.tell(Event{Move: step.Move, Check: step.Check})
	left := w.bound(step.Move) - w.spent(step.Move)
	if left <= 0 && step.Yields {
		w.goal.Patience = -1 // from now on what yields is not waited for
		w.current = readings{}
		return nil
	}
	if left <= 0 {
		return w.fail(ctx, w.overdue(step))
	}
	if w.stopped() && !w.down() {
		return w.interrupted("while waiting in the " + string(step.Move))
	}
	clear(w.tried)
	w.seen.Held = nil      // asked again
	w.current = readings{} // time passes: what was read is old
	return w.rest(ctx, min(left, w.nextPause(step)), w.nodeChanged(ctx, step.Move))
}

// interrupted says where the walk stopped because it was asked to, and how to go on.
func (w *walk) interrupted(where string) error {
	return fmt.Errorf("%s, node %s: %w, %s; to go on: %s", w.target.ClusterName, w.target.Name, ErrInterrupted, where, w.goOn())
}

func (w *walk) goOn() string {
	if w.ByNode {
		return "trueup resume " + Word(cmp.Or(w.target.ClusterName, w.target.ClusterID))
	}
	return goOn(w.report.Nodes, cmp.Or(w.target.ClusterName, w.target.ClusterID))
}

// rest returns after d, or before on a wake-up, but never so early that two looks follow each other without a pause. When it was
// asked to stop it returns at once: the look that follows decides whether there is anything to stop.
func (w *walk) rest(ctx context.Context, d time.Duration, wakes <-chan struct{}) error {
	timer := w.Clock.After(d)
	for {
		select {
		case _, open := <-wakes:
			if !open {
				w.wakes = nil // the watch has ended: the timer still looks
			} else if gap := firstPause - w.Clock.Now().Sub(w.looked); gap > 0 {
				timer = w.Clock.After(min(gap, d))
			} else {
				return nil
			}
			wakes = nil
		case <-timer:
			return nil
		case <-w.Stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nextPause is how long to wait without any event. For the Node there is a watch, so its timer is only a fallback and for kubelet's own
// state; for CloudStack's jobs and the guest's hardware there is no event to be had.
func (w *walk) nextPause(step Step) time.Duration {
	switch {
	case step.Wake > 0 && step.Check.What == settledCheck:
		w.warm()
		return step.Wake
	case step.Wake > 0 && step.Look:
		return step.Wake
	}
	w.pause = min(max(2*w.pause, firstPause), mostPause)
	return w.pause
}

// nodeChanged is the Node's watch for moves that wait for the Node, else nil: a channel that never speaks.
func (w *walk) nodeChanged(ctx context.Context, m Move) <-chan struct{} {
	if m != MoveVerify || !w.target.Role.HasNode() {
		return nil
	}
	if w.wakes == nil {
		wakes := make(chan struct{}, 1)
		w.wakes = wakes
		go w.watch(ctx, wakes)
	}
	return w.wakes
}

// watch passes the Node's changes on, the first one as soon as the watch stands: what changed before it is not lost. It runs beside the
// walk, so that a watch that is slow to begin delays nothing. Where it can't be had, or ends, the timer looks alone until the next wait.
func (w *walk) watch(ctx context.Context, wakes chan<- struct{}) {
	defer close(wakes)
	changes, err := w.Nodes.Watch(ctx, w.target.Name)
	if err != nil {
		return
	}
	for open := true; open; _, open = <-changes {
		select {
		case wakes <- struct{}{}:
		default:
		}
	}
}

// warm opens the way into the next node's guest while this node's kubelet settles, so that it costs nothing later.
func (w *walk) warm() {
	if w.next == nil {
		return
	}
	target := *w.next
	w.next = nil
	go func() { // the connection is for the next node: it outlives this one's turn
		ctx, cancel := context.WithTimeout(context.Background(), w.Limits.Effect)
		defer cancel()
		_, _ = w.Guests.Guest(ctx, target) // a failure shows itself when that node's turn comes
	}()
}

func (w *walk) bound(m Move) time.Duration {
	switch m {
	case MoveResize:
		return w.Limits.Resize
	case MoveDrain:
		return w.Limits.Drain
	case MoveStop:
		return w.Limits.Stop
	case MoveStart:
		return w.Limits.Start
	case MoveOnline:
		return w.Limits.Online
	case MoveRestart:
		return w.Limits.Restart
	case MoveVerify:
		return w.Limits.Verify
	default:
		return w.Limits.Access
	}
}

// overdue is the fault of a wait whose bound has passed.
func (w *walk) overdue(step Step) *Fault {
	f := &Fault{Layer: step.Check.Layer, Move: step.Move, Expected: step.Check.Expected, Observed: step.Check.Observed, Since: w.moveSince,
		Summary: fmt.Sprintf("%s: not within %s", step.Check.What, w.bound(step.Move))}
	if w.claim != nil && w.claim.Resize != nil && step.Move == MoveResize {
		f.Phase = PhaseUnclear
	}
	return f
}

// accessFault is the fault of a look that failed for good.
func accessFault(m Move, err error, since time.Time) *Fault {
	if errors.Is(err, ErrClaimUnreadable) {
		return &Fault{Layer: capacity.LayerLock, Move: m, Summary: "the Node carries a claim that this version of trueup can't read", Cause: err, Since: since}
	}
	return &Fault{Layer: capacity.LayerAccess, Move: m, Summary: "the node can't be read", Cause: err, Since: since}
}

// fail completes the fault, keeps it in the claim and in an Event on the Node, and returns it. A node that holds a claim stays as it is: cordoned, if the claim cordoned it.
func (w *walk) fail(ctx context.Context, f *Fault) error {
	f = w.complete(f)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Limits.Effect)
	defer cancel()
	if (f.Layer == capacity.LayerGuest || f.Layer == capacity.LayerKubelet || f.Move == MoveVerify) && w.guest != nil {
		f.Details, _ = w.guest.Diagnose(ctx)
	}
	if w.claim != nil && w.claim.Tenure() == w.tenure && f.Layer != capacity.LayerLock {
		f.GivenBack = w.giveBackUntouched(ctx)
		if !f.GivenBack {
			w.keepFault(ctx, f)
		}
	}
	if w.seen.Node.Name != "" && w.Lock.Check(ctx, w.tenure) == nil { // a run that has lost the Lease writes nothing at all
		_ = w.Nodes.Record(ctx, NodeEvent{NodeName: w.seen.Node.Name, NodeUID: w.seen.Node.UID, Warning: true, Reason: "TrueupFault", Message: f.Error()})
	}
	return f
}

// giveBackUntouched releases, on the way out, a node that was claimed and on which nothing has been done yet. Best effort: what can't
// be read, or is not healthy, keeps its claim and its cordon.
func (w *walk) giveBackUntouched(ctx context.Context) bool {
	if !nothingDone(w.claim, w.seen) || w.Lock.Check(ctx, w.tenure) != nil || w.read(ctx, everything()) != nil {
		return false
	}
	return w.claim != nil && w.claim.Tenure() == w.tenure && nothingDone(w.claim, w.seen) && w.releaseNode(ctx) == nil
}

// complete fills in what every fault says.
func (w *walk) complete(f *Fault) *Fault {
	f.Cluster, f.Node = w.target.ClusterName, w.target.Name
	if f.Since.IsZero() {
		f.Since = w.Clock.Now()
	}
	if f.Recover == "" {
		f.Recover = w.goOn()
	}
	return f
}
