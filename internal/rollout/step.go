package rollout

import (
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Action is one thing to do: the part of a move that has an effect.
type Action string

// The actions. Each belongs to one move.
const (
	ActionClaim   Action = "claim"    // write the claim, cordon
	ActionAdopt   Action = "adopt"    // rewrite a claim of an earlier run under the present tenure
	ActionResize  Action = "resize"   // ask CloudStack for the offering
	ActionNoteJob Action = "note-job" // write a job's id that was found again into the claim
	// ActionNoteUnchanged writes into the claim that a failed resize has changed nothing, for the second look that must confirm it.
	ActionNoteUnchanged Action = "note-unchanged"
	// ActionGiveBack releases a node after a resize that failed and changed nothing; the step's fault ends the rollout then.
	ActionGiveBack Action = "give-back"
	ActionDrain    Action = "drain" // evict the pods that can run elsewhere
	ActionStop     Action = "stop"  // ask CloudStack to stop the instance
	ActionStart    Action = "start" // ask CloudStack to start the instance
	// ActionNoteRefused writes into the claim that the resize of a stopped instance failed: it is started again as it is.
	ActionNoteRefused Action = "note-refused"
	ActionOnline      Action = "online"  // bring up plugged CPUs and memory blocks
	ActionRestart     Action = "restart" // restart kubelet
	ActionRelease     Action = "release" // uncordon where we cordoned, drop the claim
)

// Move returns the move that the action is part of.
func (a Action) Move() Move {
	switch a {
	case ActionClaim, ActionAdopt:
		return MoveClaim
	case ActionDrain:
		return MoveDrain
	case ActionStop:
		return MoveStop
	case ActionStart:
		return MoveStart
	case ActionResize, ActionNoteJob, ActionNoteUnchanged, ActionNoteRefused:
		return MoveResize
	case ActionOnline:
		return MoveOnline
	case ActionRestart:
		return MoveRestart
	default:
		return MoveRelease
	}
}

// Kind says which of four things a Step is.
type Kind int

// The kinds of step.
const (
	KindAct  Kind = iota + 1 // do Action now
	KindWait                 // Check is not true yet: look again on an event, within Move's bound
	KindDone                 // every view agrees and nothing is claimed
	KindStop                 // Fault ends the rollout
)

// Step is Next's answer.
type Step struct {
	Kind   Kind
	Move   Move
	Action Action
	// Why says in a few words what was seen that led here.
	Why string
	// Check is what a wait waits for; it becomes the fault when the move's bound passes.
	Check capacity.Check
	// Look asks for a full look when the wait ends, where the parts of the move alone would not show it.
	Look bool
	// Yields marks a wait whose bound is no fault: the node is given back without what was waited for, with a warning.
	Yields bool
	// Wake is, for a wait, the time after which the check may have come true without any event. Zero: not known.
	Wake  time.Duration
	Fault *Fault
}

func act(a Action, why string) Step {
	return Step{Kind: KindAct, Move: a.Move(), Action: a, Why: why}
}

func wait(m Move, c capacity.Check) Step {
	return Step{Kind: KindWait, Move: m, Why: c.String(), Check: c}
}

func stop(m Move, layer capacity.Layer, summary, expected, observed string) Step {
	return Step{Kind: KindStop, Move: m, Fault: &Fault{Layer: layer, Move: m, Summary: summary, Expected: expected, Observed: observed}}
}

func stopCheck(m Move, summary string, c capacity.Check) Step {
	return stop(m, c.Layer, summary, c.Expected, c.Observed)
}
