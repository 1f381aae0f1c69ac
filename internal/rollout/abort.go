package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Healthy lists all that must be true of a node for its pods to be well off with what it has now: the guest has what the instance has,
// kubelet runs, the Node shows what the guest has and is Ready; on a dedicated etcd machine etcd runs, and finds its members healthy. Before is an earlier reading of the guest, nil if there is none.
func Healthy(before *capacity.Guest, seen Observation) []capacity.Check {
	checks := append(capacity.CheckGuest(before, seen.Guest, seen.Instance.Present()), checkIdentity(seen))
	if !seen.Target.Role.HasNode() {
		return append(checks, capacity.CheckEtcd(seen.Guest))
	}
	return append(checks,
		capacity.CheckRunning(seen.Guest),
		checkBoot(seen),
		capacity.CheckCapacity(seen.Guest, seen.Node),
		capacity.CheckReady(seen.Node),
		capacity.CheckAllocatable(seen.Node.Capacity, seen.Node.Allocatable, seen.Node),
		checkKubepods(seen),
		capacity.CheckKubepodsMemory(capacity.Guest{}, nil, seen.Guest, seen.Node),
	)
}

// Surrender says what Abort gives up.
type Surrender struct {
	ClusterID, ClusterName string
	// Members are the nodes that carry a claim and shall be given back.
	Members []Member
	// Rest are the goals that stay: those of the open rollout's other nodes, by instance id. Empty: the whole rollout is given up.
	Rest map[string]Goal
	// Command is what the open rollout was asked for with; it stays with the rest.
	Command string
	// Force gives back what is not verified healthy as well.
	Force bool
}

// Abort gives back what trueup holds on the members: drops each claim, and uncordons where that claim cordoned. A node that is not
// verified healthy keeps its claim and its cordon, unless that is forced. No offering is changed, nothing is restarted. What is left of the open
// rollout stays on the Lease, to be resumed; it is given up once no claim and no goal is left.
func (r *Runner) Abort(ctx context.Context, s Surrender) (Report, error) {
	report := Report{Run: r.Run}
	for _, m := range s.Members {
		report.Nodes = append(report.Nodes, NodeReport{Target: m.Seen.Target, Outcome: OutcomeWaiting})
	}
	plan := Plan{ClusterID: s.ClusterID, ClusterName: s.ClusterName}
	state := r.leaseState(plan)
	if len(s.Rest) > 0 {
		state.Goals, state.Command = s.Rest, s.Command
	}
	tenure, err := r.Lock.Acquire(ctx, state)
	if err != nil {
		return report, lockFault(plan, err)
	}
	var errs []error
	for i, m := range s.Members {
		w := &walk{Runner: r, tenure: tenure, target: m.Seen.Target, goal: Goal{Offering: m.Seen.Instance.Present()}, report: &report, node: &report.Nodes[i], tried: map[Action]bool{}}
		if err := w.abort(ctx, s.Force); err != nil {
			errs = append(errs, err)
		}
	}
	err = errors.Join(errs...)
	if e := r.giveBack(ctx, tenure, err == nil && len(s.Rest) == 0); e != nil && err == nil {
		err = &Fault{Layer: capacity.LayerLock, Cluster: s.ClusterName, Summary: "the Lease could not be given back; it runs out by itself", Cause: e}
	}
	return report, err
}

// abort gives one node back.
func (w *walk) abort(ctx context.Context, force bool) error {
	err := w.giveUp(ctx, force)
	final := w.seen
	w.node.Final, w.node.claimed = &final, w.claim != nil
	switch {
	case err == nil && w.did() == 0:
		w.node.Outcome = OutcomeUnchanged
	case err == nil:
		w.node.Outcome = OutcomeDone
	default:
		w.node.Outcome = OutcomeFailed
		errors.As(err, &w.node.Fault)
	}
	w.tell(Event{Move: MoveRelease, Done: err == nil, Fault: w.node.Fault})
	return err
}

// giveUp looks until the release was written, or a look shows that it must not be. After a resize that came to nothing two looks must agree.
func (w *walk) giveUp(ctx context.Context, force bool) error {
	var first *Reading
	for range mostConflicts {
		if err := w.look(ctx, everything()); err != nil {
			return err
		}
		if w.claim == nil {
			return nil
		}
		if c, failed := capacity.Failed(w.mayGiveUp()...); failed && !force {
			f := &Fault{Layer: c.Layer, Move: MoveRelease, Summary: "not given back: " + c.What, Expected: c.Expected, Observed: c.Observed,
				Recover: "trueup resume " + Word(w.target.ClusterName) + ", or trueup abort --force with a reason"}
			if !w.seen.Instance.Running() {
				f.Recover = fmt.Sprintf("trueup resume %s; or start the instance as it is (cmk start virtualmachine id=%s), then trueup abort again", Word(w.target.ClusterName), w.target.InstanceID)
			}
			return w.complete(f)
		}
		if left := w.doubt(&first); left > 0 && !force {
			if err := w.lookAgainAfter(ctx, left); err != nil {
				return err
			}
			continue
		}
		err := w.releaseUnder(ctx)
		if !errors.Is(err, ErrConflict) && !transient(ctx, err) {
			return err
		}
	}
	return w.complete(&Fault{Layer: capacity.LayerSchedulability, Move: MoveRelease, Summary: "the Node was changed by somebody else at every try", Cause: ErrConflict})
}

// doubt is how long the node must still be seen as it is until it counts as left alone by a resize that was asked for and shows nowhere: the
// agent may be at work on the host although CloudStack has failed or given up the job. It is measured from the first look by the guest's own clock.
func (w *walk) doubt(first **Reading) time.Duration {
	g := w.seen.Guest
	if w.claim.Resize == nil || w.seen.Instance.AtOffering(w.claim.Goal) {
		return 0
	}
	if *first == nil || (*first).BootID != g.BootID {
		*first = &Reading{BootID: g.BootID, Monotonic: g.Monotonic}
	}
	return unchangedFor - (g.Monotonic - (*first).Monotonic)
}

// lookAgainAfter waits before the second of two looks.
func (w *walk) lookAgainAfter(ctx context.Context, d time.Duration) error {
	if w.stopped() {
		return fmt.Errorf("%s, node %s: %w, nothing was given back; to go on: trueup abort %s", w.target.ClusterName, w.target.Name, ErrInterrupted, Word(w.target.ClusterName))
	}
	w.tell(Event{Move: MoveRelease, Check: capacity.Check{Layer: capacity.LayerCloudStack, What: secondReading, Expected: unchangedFor.String() + " after the first", Observed: "a resize that came to nothing"}})
	return w.rest(ctx, d, nil)
}

// mayGiveUp lists what must be true before the node is given back without force.
func (w *walk) mayGiveUp() []capacity.Check {
	checks := []capacity.Check{checkState(w.seen, stateRunning), {Layer: capacity.LayerCloudStack, What: "resize job", OK: w.seen.Job == nil || w.seen.Job.Status != JobPending,
		Expected: "none pending", Observed: "one is pending"}}
	if r := w.claim.Resize; r != nil && r.JobID == "" && r.Refused == "" && !w.seen.Instance.AtOffering(w.claim.Goal) {
		checks = append(checks, capacity.Check{Layer: capacity.LayerCloudStack, What: "resize request without a reply",
			OK: w.seen.ServerTime.After(r.Expires), Expected: "expired, so that it can't be accepted any more", Observed: "good until " + r.Expires.UTC().Format("15:04:05Z")})
	}
	checks = append(checks, checkPlugged(w.seen))
	return append(checks, Healthy(&w.claim.Before.Guest, w.seen)...)
}

// checkPlugged tells whether the guest has nothing, offline ones included, that CloudStack does not show: what a resize left that ended half
// way. It would come up with the next boot, and the next plan would be refused.
func checkPlugged(seen Observation) capacity.Check {
	g, o := seen.Guest, seen.Instance.Present()
	return capacity.Check{Layer: capacity.LayerGuest, What: "plugged hardware", OK: !g.Excess(o), Expected: "at most " + o.Size(),
		Observed: fmt.Sprintf("%d CPU / %d MiB", g.CPUsPresent, g.MemoryPresent()/capacity.MiB)}
}

// releaseUnder releases the node under the fence of the Lease.
func (w *walk) releaseUnder(ctx context.Context) error {
	effect, cancel := context.WithTimeout(ctx, w.Limits.Effect)
	defer cancel()
	if err := w.Lock.Check(effect, w.tenure); err != nil {
		return w.complete(&Fault{Layer: capacity.LayerLock, Move: MoveRelease, Summary: "the Lease is not ours any more, or can't be read: nothing further was done", Cause: err})
	}
	if w.claim.Restart != nil {
		w.readPods(effect)
	}
	sentence := Sentence(ActionRelease, w.goal, w.claim, w.seen)
	w.tell(Event{Move: MoveRelease, Action: ActionRelease, Text: sentence})
	err := w.releaseNode(effect)
	if err == nil {
		w.report.Effects = append(w.report.Effects, Effect{At: w.Clock.Now(), Node: w.target.Name, Action: ActionRelease, Text: sentence})
	}
	return err
}
