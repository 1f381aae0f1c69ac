package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// mostConflicts bounds how often in a row a lost race for the Node's resourceVersion is answered by looking again. A kubelet
// bumps it every few seconds, a look takes a fraction of one: more than a few losses in a row mean another writer in a loop.
const mostConflicts = 10

// walk takes one node to its goal.
type walk struct {
	*Runner
	tenure Tenure
	plan   NodePlan
	target Target
	goal   Goal
	next   *Target // whose turn comes after this node
	report *Report
	node   *NodeReport

	guest Guest
	wakes <-chan struct{}

	seen  Observation
	claim *Claim

	move      Move // the move that is under way
	moveSince time.Time
	conflicts int
	last      Action        // the action done last, to notice a repetition
	pause     time.Duration // the last pause between two looks of this wait
}

// run observes, decides and acts until Next says that the node is done, or until it can't go on.
func (w *walk) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := w.Clock.Now()
	err := w.steps(ctx)
	w.node.Took = w.Clock.Now().Sub(began)
	w.enter("")
	w.compare()
	final := w.seen
	w.node.Final = &final
	switch {
	case err == nil && w.did() == 0:
		w.node.Outcome = OutcomeUnchanged
	case err == nil:
		w.node.Outcome = OutcomeDone
	case errors.Is(err, ErrInterrupted), errors.Is(err, context.Canceled):
		w.node.Outcome = OutcomeInterrupted
	default:
		w.node.Outcome = OutcomeFailed
		errors.As(err, &w.node.Fault)
	}
	w.tell(Event{Move: w.move, Done: err == nil, Fault: w.node.Fault})
	return err
}

func (w *walk) steps(ctx context.Context) error {
	parts := everything()
	for {
		if err := w.look(ctx, parts); err != nil {
			return w.accessFault(err)
		}
		step := Next(w.goal, w.tenure, w.claim, w.seen)
		if step.Kind != KindWait && parts != everything() {
			parts = everything() // never act, and never end, on a reading of which a part is old
			continue
		}
		var err error
		switch step.Kind {
		case KindDone:
			return nil
		case KindStop:
			return w.fail(ctx, step.Fault)
		case KindAct:
			parts, err = everything(), w.act(ctx, step)
		case KindWait:
			parts, err = partsOf(step.Move), w.wait(ctx, step)
		}
		if err != nil {
			return err
		}
	}
}

// act performs one action under its fence: the Lease is read first, and all of it ends within one effect's bound.
func (w *walk) act(ctx context.Context, step Step) error {
	if again, err := w.guardRepeat(ctx, step); again || err != nil {
		return err
	}
	if w.stopped() {
		return fmt.Errorf("%s: before the %s of %s: %w; to go on: %s", w.target.ClusterName, step.Move, w.target.Name, ErrInterrupted, recoverCommand(w.target, w.goal))
	}
	w.enter(step.Move)
	sentence := Sentence(step.Action, w.goal, w.claim, w.seen)
	w.tell(Event{Move: step.Move, Action: step.Action, Text: sentence})
	effect, cancel := context.WithTimeout(ctx, w.Limits.Effect)
	defer cancel()
	if err := w.Lock.Check(effect, w.tenure); err != nil {
		return w.fail(ctx, &Fault{Layer: capacity.LayerLock, Move: step.Move, Summary: "the Lease is not ours any more, or can't be read: nothing further was done", Cause: err})
	}
	err := w.perform(effect, step.Action)
	switch {
	case err == nil:
		w.conflicts = 0
		w.record(step, sentence)
		return nil
	case errors.Is(err, ErrConflict) && w.conflicts < mostConflicts:
		w.conflicts++
		w.last = "" // it was not done
		return nil
	case transient(ctx, err):
		// The outcome is unknown. Look again: what happened shows itself, what did not is done again.
		return w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: unknownOutcome(step.Action, err)})
	}
	return w.fail(ctx, actFault(step, err))
}

// guardRepeat keeps the same action from being done over and over: a repetition waits first, within the move's bound, and a node that was
// released in this rollout is not claimed in it again.
func (w *walk) guardRepeat(ctx context.Context, step Step) (again bool, err error) {
	if step.Action == ActionClaim && w.times(ActionRelease) > 0 {
		return false, w.fail(ctx, &Fault{Layer: capacity.LayerCapacity, Move: MoveClaim, Summary: "the node was verified and released, and its views disagree again", Observed: step.Why})
	}
	if step.Action != w.last {
		w.last = step.Action
		return false, nil
	}
	w.last = ""
	check := capacity.Check{Layer: layerOf(step.Move), What: "effect of " + string(step.Action), Expected: "what it was meant to do", Observed: step.Why}
	return true, w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: check})
}

// layerOf is the layer in which a move works.
func layerOf(m Move) capacity.Layer {
	switch m {
	case MoveResize:
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
	case ActionOnline:
		return w.guest.Online(ctx)
	case ActionRestart:
		return w.restartKubelet(ctx)
	default:
		return w.releaseNode(ctx)
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
	case errors.Is(err, ErrConflict):
		f.Layer, f.Summary = capacity.LayerSchedulability, "the Node was changed by somebody else at every try"
	case errors.Is(err, ErrDenied):
		f.Layer, f.Summary = capacity.LayerAccess, string(step.Action)+" is not allowed"
	case step.Action == ActionOnline:
		f.Layer, f.Summary = capacity.LayerGuest, "plugged CPUs or memory blocks could not be brought up"
	case step.Action == ActionRestart:
		f.Layer, f.Summary = capacity.LayerKubelet, "kubelet could not be restarted"
	case step.Move == MoveResize:
		f.Layer, f.Summary = capacity.LayerCloudStack, "the offering could not be changed"
	default:
		f.Layer, f.Summary = layerOf(step.Move), "the Node could not be changed"
	}
	if step.Action == ActionClaim {
		f.Summary += "; the instance was not resized"
	}
	return f
}

// enter notes that a move began and how long the one before took.
func (w *walk) enter(m Move) {
	if m == w.move {
		return
	}
	now := w.Clock.Now()
	if w.move != "" {
		if w.node.Moves == nil {
			w.node.Moves = map[Move]time.Duration{}
		}
		w.node.Moves[w.move] += now.Sub(w.moveSince)
	}
	if m != "" {
		w.move, w.moveSince, w.pause = m, now, 0
	}
}

func (w *walk) record(step Step, sentence string) {
	w.report.Effects = append(w.report.Effects, Effect{At: w.Clock.Now(), Node: w.target.Name, Action: step.Action, Text: sentence})
	planned := slices.ContainsFunc(w.plan.Moves, func(m PlannedMove) bool { return m.Action == step.Action })
	if !planned || w.times(step.Action) > 1 {
		w.node.Unplanned = append(w.node.Unplanned, sentence+": "+step.Why)
	}
}

// compare notes which planned actions were not needed.
func (w *walk) compare() {
	if w.claim != nil {
		return // not finished: what is missing is not unneeded
	}
	for _, m := range w.plan.Moves {
		if m.Action != "" && w.times(m.Action) == 0 {
			w.node.Unneeded = append(w.node.Unneeded, m.Sentence+": found done already")
		}
	}
}

func (w *walk) times(a Action) (n int) {
	for _, e := range w.report.Effects {
		if e.Node == w.target.Name && e.Action == a {
			n++
		}
	}
	return n
}

func (w *walk) did() (n int) {
	for _, e := range w.report.Effects {
		if e.Node == w.target.Name {
			n++
		}
	}
	return n
}

func (w *walk) stopped() bool {
	select {
	case <-w.Stop:
		return true
	default:
		return false
	}
}

func (w *walk) tell(e Event) {
	if w.Watcher != nil {
		e.At, e.Target = w.Clock.Now(), w.target
		w.Watcher(e)
	}
}
