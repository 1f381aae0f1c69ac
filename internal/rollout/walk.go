package rollout

import (
	"context"
	"errors"
	"slices"
	"time"
)

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

	seen      Observation
	claim     *Claim
	claimRead bool // whether there is a claim is known

	move      Move // the move that is under way
	moveSince time.Time
	conflicts int
	tried     map[Action]bool // what was done since the last pause: no action is repeated without one
	pause     time.Duration   // the last pause between two looks of this wait
	looked    time.Time       // when the last look ended
	current   readings        // which parts of seen were read since the last wait, and can't have been changed by an action since
	probed    time.Time       // when the guest was last read
	held      map[string]bool // pods, by UID, that a disruption budget held in the last drain
}

// run observes, decides and acts until Next says that the node is done, or until it can't go on.
func (w *walk) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := w.Clock.Now()
	err := w.steps(ctx)
	w.node.Took = w.Clock.Now().Sub(began)
	w.enter("")
	final := w.seen
	w.node.Final, w.node.claimed = &final, w.claim != nil
	if err == nil {
		w.compare()
	}
	switch {
	case err == nil && w.did() == 0:
		w.node.Outcome = OutcomeUnchanged
	case err == nil:
		w.node.Outcome = OutcomeDone
	case errors.Is(err, ErrInterrupted), ctx.Err() != nil:
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
			return err
		}
		step := Next(w.goal, w.tenure, w.claim, w.seen)
		if missing := w.lacking(step); step.Kind != KindWait && missing != (readings{}) {
			parts = missing // never act, and never end, on a reading of which a part is old
			continue
		}
		if w.over(step) {
			return w.interrupted("before the " + string(step.Move))
		}
		var err error
		switch step.Kind {
		case KindDone:
			return nil
		case KindStop:
			return w.fail(ctx, step.Fault)
		case KindAct:
			err = w.act(ctx, step)
			w.outdate(step.Action)
			parts = w.current.missing()
			if step.Move == MoveResize || step.Move == MoveStop || step.Move == MoveStart {
				parts = partsOf(step) // the guest is read once CloudStack says that it has grown
			}
		case KindWait:
			parts, err = partsOf(step), w.wait(ctx, step)
		}
		if err != nil {
			return err
		}
	}
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

// spent is how much time the move has taken on this node, over all its parts.
func (w *walk) spent(m Move) time.Duration {
	d := w.node.Moves[m]
	if m == w.move {
		d += w.Clock.Now().Sub(w.moveSince)
	}
	return d
}

// record keeps an effect, and notes one that the plan did not have. To take over a claim or to note a job's id is bookkeeping that no plan lists.
func (w *walk) record(step Step, sentence string, answered bool) {
	w.report.Effects = append(w.report.Effects, Effect{At: w.Clock.Now(), Node: w.target.Name, Action: step.Action, Text: sentence, Unanswered: !answered})
	bookkeeping := step.Action == ActionAdopt || step.Action == ActionNoteJob || step.Action == ActionNoteUnchanged || step.Action == ActionNoteRefused
	planned := slices.ContainsFunc(w.plan.Moves, func(m PlannedMove) bool { return m.Action == step.Action })
	again := w.times(step.Action) > 1 && step.Action != ActionDrain // pods leave one by one where a budget holds the rest
	if !bookkeeping && (!planned || again) {
		w.node.Unplanned = append(w.node.Unplanned, sentence+": "+step.Why)
	}
}

// compare notes which planned actions were not needed on a node that is done.
func (w *walk) compare() {
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

func (w *walk) stopped() bool { return closed(w.Stop) }

// over tells whether the walk was asked to end with its present move, and the step begins another one.
func (w *walk) over(step Step) bool {
	return closed(w.EndMove) && (step.Kind == KindAct || step.Kind == KindWait) && step.Move != w.move && !w.down()
}

// closed tells whether a channel that is only ever closed is. Nil never is.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
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
