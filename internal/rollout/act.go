package rollout

import (
	"context"
	"errors"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// quickConflicts is how often in a row a lost race for the Node's resourceVersion is answered by looking again at once. A kubelet
// bumps it every few seconds, a look takes a fraction of one: more losses in a row mean another writer in a loop, and pauses.
const quickConflicts = 3

// mostConflicts bounds the repetitions of a bookkeeping write that follows an effect.
const mostConflicts = 10

// notDone is an error of an action that certainly had no effect.
type notDone struct{ error }

func (e notDone) Unwrap() error { return e.error }

// errMoot means that an action found its work done already, by somebody else.
var errMoot = errors.New("found done already")

// act performs one action under its fence: the Lease is read first, and all of it ends within one effect's bound.
func (w *walk) act(ctx context.Context, step Step) error {
	if step.Action == ActionClaim && w.times(ActionRelease) > 0 {
		return w.fail(ctx, &Fault{Layer: capacity.LayerCapacity, Move: MoveClaim, Summary: "the node was verified and released, and its views disagree again",
			Expected: "the views that were verified", Observed: step.Why})
	}
	if w.tried[step.Action] {
		return w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: capacity.Check{Layer: layerOf(step.Move),
			What: "effect of " + string(step.Action), Expected: "what it was meant to do", Observed: step.Why}})
	}
	if w.stopped() && !w.down() {
		return w.interrupted("before the " + string(step.Move))
	}
	w.enter(step.Move)
	sentence := Sentence(step.Action, w.goal, w.claim, w.seen)
	if step.Action != ActionDrain || !w.heldOnly() {
		w.tell(Event{Move: step.Move, Action: step.Action, Text: sentence})
	}
	effect, cancel := context.WithTimeout(ctx, w.Limits.Effect)
	defer cancel()
	if err := w.fence(effect); err != nil {
		return w.unfenced(ctx, step, err)
	}
	w.tried[step.Action] = true
	return w.judge(ctx, step, sentence, w.perform(effect, step.Action))
}

// unfenced handles a look at the Lease that did not show it to be ours: without it nothing is done.
func (w *walk) unfenced(ctx context.Context, step Step, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case transient(ctx, err):
		return w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: capacity.Check{Layer: capacity.LayerAccess,
			What: "reading the Lease before the " + string(step.Action), Expected: "an answer", Observed: err.Error()}})
	}
	return w.fail(ctx, &Fault{Layer: capacity.LayerLock, Move: step.Move, Summary: "the Lease is not ours any more, or can't be read: nothing further was done", Cause: err})
}

// judge says what the outcome of an action means for the walk: nil is "look again".
func (w *walk) judge(ctx context.Context, step Step, sentence string, err error) error {
	if err != nil && !errors.Is(err, ErrConflict) {
		w.current = readings{} // whatever happened, look at all of it again
	}
	certain := errors.As(err, new(notDone))
	unanswered := !certain && !errors.Is(err, ErrConflict) && (ctx.Err() != nil || transient(ctx, err))
	if err == nil || (unanswered && !errors.Is(err, errMoot)) {
		w.record(step, sentence, err == nil)
	}
	if err == nil || errors.Is(err, errMoot) {
		w.conflicts = 0
		if step.Fault != nil { // the node was given back, and the rollout ends with the reason
			step.Fault.GivenBack = true
			return w.fail(ctx, step.Fault)
		}
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrConflict):
		return w.lostRace(ctx, step)
	case transient(ctx, err):
		// The outcome is unknown. Look again: what happened shows itself, what did not is done again.
		return w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: unknownOutcome(step.Action, err)})
	}
	return w.fail(ctx, actFault(step, err))
}

// lostRace answers a write that lost against another one: nothing was done, so look again, at once at first and then with pauses.
func (w *walk) lostRace(ctx context.Context, step Step) error {
	w.current.node = false
	delete(w.tried, step.Action)
	w.conflicts++
	if w.conflicts <= quickConflicts {
		return nil
	}
	return w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: capacity.Check{Layer: capacity.LayerSchedulability,
		What: "a write to the Node", Expected: "no other write since the look before it", Observed: "somebody else changes the Node all the time"}})
}

func (w *walk) perform(ctx context.Context, a Action) error {
	switch a {
	case ActionClaim:
		return w.makeClaim(ctx)
	case ActionAdopt:
		return w.adoptClaim(ctx)
	case ActionResize:
		return w.resize(ctx)
	case ActionNoteJob:
		return w.noteJob(ctx)
	case ActionNoteUnchanged:
		return w.noteUnchanged(ctx)
	case ActionDrain:
		return w.drain(ctx)
	case ActionStop:
		return w.stopInstance(ctx)
	case ActionStart:
		return w.startInstance(ctx)
	case ActionNoteRefused:
		return w.writeClaim(ctx, noteRefused(*w.claim, jobText(w.seen.Job)), NodePatch{})
	case ActionOnline:
		return w.guest.Online(ctx)
	case ActionRestart:
		return w.restartKubelet(ctx)
	default:
		return w.releaseNode(ctx)
	}
}

// layerOf is the layer in which a move works.
func layerOf(m Move) capacity.Layer {
	switch m {
	case MoveResize, MoveStop, MoveStart:
		return capacity.LayerCloudStack
	case MoveOnline:
		return capacity.LayerGuest
	case MoveRestart:
		return capacity.LayerKubelet
	case MoveVerify:
		return capacity.LayerCapacity
	default:
		return capacity.LayerSchedulability
	}
}

func unknownOutcome(a Action, err error) capacity.Check {
	return capacity.Check{Layer: capacity.LayerAccess, What: "outcome of " + string(a), Expected: "a reply", Observed: err.Error()}
}

// actFault says in which layer a failed action lies.
func actFault(step Step, err error) *Fault {
	f := &Fault{Move: step.Move, Cause: err}
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		f.Layer, f.Summary = capacity.LayerCloudStack, "CloudStack refused the offering change, nothing was resized"
	case errors.Is(err, ErrLost):
		f.Layer, f.Summary = capacity.LayerLock, "another run has taken the node over: nothing further was done"
	case errors.Is(err, ErrDenied):
		f.Layer, f.Summary = capacity.LayerAccess, string(step.Action)+" is not allowed"
	case step.Action == ActionOnline:
		f.Layer, f.Summary = capacity.LayerGuest, "plugged CPUs or memory blocks could not be brought up"
	case step.Action == ActionRestart:
		f.Layer, f.Summary = capacity.LayerKubelet, "kubelet could not be restarted"
	case step.Move == MoveResize:
		f.Layer, f.Summary = capacity.LayerCloudStack, "the offering could not be changed"
	case step.Move == MoveStop:
		f.Layer, f.Summary = capacity.LayerCloudStack, "the instance could not be stopped"
	case step.Move == MoveStart:
		f.Layer, f.Summary = capacity.LayerCloudStack, "the instance could not be started"
	case step.Action == ActionDrain:
		f.Layer, f.Summary = capacity.LayerSchedulability, "the node could not be drained"
	default:
		f.Layer, f.Summary = layerOf(step.Move), "the Node could not be changed"
	}
	if step.Action == ActionClaim {
		f.Summary += "; the instance was not resized"
	}
	return f
}
