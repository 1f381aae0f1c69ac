package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Limits bound every wait and every effect. All are in force at once: a wait ends at its own bound.
type Limits struct {
	Access  time.Duration // reads that fail again and again, until they succeed
	Resize  time.Duration // from the resize request until the instance shows the offering
	Online  time.Duration // until the guest shows what CloudStack says
	Restart time.Duration // until kubelet's unit runs, so that it can be restarted
	Verify  time.Duration // from the restart until the Node is verified
	Drain   time.Duration // cold method: until every pod that can run elsewhere has left
	Stop    time.Duration // cold method: until the instance is stopped
	Start   time.Duration // cold method: from the start request until the guest answers
	Effect  time.Duration // one effect with the look at the Lease before it; shorter than the Lease's duration
	// Request is for how long the signature of a resize request is good.
	Request time.Duration
}

// DefaultLimits returns bounds of five to ten times what was measured on a loaded two-core lab under software emulation;
// Resize allows a live migration, which CloudStack does by itself where the host is full.
func DefaultLimits() Limits {
	return Limits{Access: 2 * time.Minute, Resize: 15 * time.Minute, Online: 2 * time.Minute, Restart: time.Minute,
		Drain: 10 * time.Minute, Stop: 10 * time.Minute, Start: 10 * time.Minute,
		Verify: 5 * time.Minute, Effect: 20 * time.Second, Request: 60 * time.Second}
}

// Runner performs plans. Its fields are set once and not changed during Run.
type Runner struct {
	CloudStack CloudStack
	Guests     Guests
	Nodes      Nodes
	Lock       Lock
	Shelf      Shelf
	Clock      Clock
	Limits     Limits
	Author     Author
	// Health, if not nil, is asked before and after the turn of each control-plane node and etcd machine.
	Health Health
	// Pods, if not nil, is asked before and after kubelet's restart.
	Pods Pods
	// Power and Evictions are what the cold method needs; nil where no goal asks for it.
	Power     Power
	Evictions Evictions
	// Run is the id of this rollout: a new one for every start of the program.
	Run string
	// Command is what the person called: scale, reconcile, resume. Continues is the run of an unfinished rollout that this one goes on with.
	Command, Continues string
	// ByNode says that the plan leaves out nodes of its roles, so that only `resume` goes on with the very same ones.
	ByNode bool
	// Watcher, if not nil, is told what happens as it happens. It must not block.
	Watcher func(Event)
	// Stop, if not nil, is closed to ask for an end at the next safe point: before the next effect.
	Stop <-chan struct{}
	// EndMove and EndNode, if not nil, are closed to ask for an end that leaves less to resume: when the present move is over, and when the present
	// node is.
	EndMove, EndNode <-chan struct{}
}

// Event tells a person what a node is going through.
type Event struct {
	At     time.Time
	Target Target
	Move   Move
	// Action is set when an effect begins or has ended, Text says which; both are empty for a wait.
	Action Action
	Text   string
	// Check is what a wait waits for.
	Check capacity.Check
	// Done is true when the node is finished, Fault is set when it failed.
	Done  bool
	Fault *Fault
}

// Effect is one thing that was done.
type Effect struct {
	At     time.Time `json:"at"`
	Node   string    `json:"node"`
	Action Action    `json:"action"`
	Text   string    `json:"text"`
	// Unanswered means that no reply came: it was done or it was not, which the next look showed.
	Unanswered bool `json:"unanswered,omitempty"`
}

// Report is what a rollout did, for people and machines.
type Report struct {
	Run     string       `json:"run"`
	Effects []Effect     `json:"effects"`
	Nodes   []NodeReport `json:"nodes"`
}

// NodeReport is what became of one node.
type NodeReport struct {
	Target Target `json:"target"`
	Goal   Goal   `json:"goal"`
	// Outcome is one word: done, unchanged, failed, interrupted or waiting (not reached).
	Outcome Outcome       `json:"outcome"`
	Took    time.Duration `json:"took"` // nanoseconds
	// Moves is how long each move took, in nanoseconds.
	Moves map[Move]time.Duration `json:"moves,omitempty"`
	// Unneeded lists planned actions that an observation showed to be unnecessary, with the reason.
	Unneeded []string `json:"unneeded,omitempty"`
	// Unplanned lists effects that the plan did not have, with the reason.
	Unplanned []string `json:"unplanned,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	// Claim is the last claim seen on the node: the readings before, the job's id, the evidence of the restart.
	Claim *Claim `json:"claim,omitempty"`
	// Final is the last observation of the node.
	Final *Observation `json:"final,omitempty"`
	Fault *Fault       `json:"fault,omitempty"`

	claimed bool // the node carried a claim when it was last seen
}

// Outcome is what became of one node in a rollout.
type Outcome string

// The outcomes.
const (
	OutcomeDone        Outcome = "done"
	OutcomeUnchanged   Outcome = "unchanged" // every view agreed, nothing was done
	OutcomeFailed      Outcome = "failed"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeWaiting     Outcome = "waiting" // the rollout ended before this node's turn
)

// ErrInterrupted means that the rollout stopped at a safe point because it was asked to. It can be resumed.
var ErrInterrupted = errors.New("stopped at a safe point")

// Walk performs the plan, node by node, and returns what was done. The error is nil when every node is verified and the Lease is given
// back; else it is a *Fault, ErrInterrupted, or the context's error. The report is complete in every case.
func (r *Runner) Walk(ctx context.Context, plan Plan) (Report, error) {
	report := Report{Run: r.Run}
	for _, np := range plan.Nodes {
		report.Nodes = append(report.Nodes, NodeReport{Target: np.Target, Goal: np.Goal, Outcome: OutcomeWaiting})
	}
	tenure, err := r.Lock.Acquire(ctx, r.leaseState(plan))
	if ctx.Err() != nil && err != nil {
		return report, ctx.Err()
	}
	if err != nil {
		return report, lockFault(plan, err)
	}
	err = r.walkNodes(ctx, plan, tenure, &report)
	if e := r.giveBack(ctx, tenure, finished(report, err)); e != nil && err == nil {
		err = &Fault{Layer: capacity.LayerLock, Cluster: plan.ClusterName, Summary: "the Lease could not be given back; it runs out by itself", Cause: e}
	}
	return report, err
}

func (r *Runner) walkNodes(ctx context.Context, plan Plan, tenure Tenure, report *Report) error {
	for i, np := range plan.Nodes {
		if closed(r.EndNode) {
			return fmt.Errorf("%s: %w, before node %s; to go on: trueup resume %s", plan.ClusterName, ErrInterrupted, np.Target.Name, Word(cmp.Or(plan.ClusterName, plan.ClusterID)))
		}
		w := &walk{Runner: r, tenure: tenure, plan: np, target: np.Target, goal: np.Goal, report: report, node: &report.Nodes[i], tried: map[Action]bool{}}
		if i+1 < len(plan.Nodes) {
			w.next = &plan.Nodes[i+1].Target
		}
		if err := w.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// giveBack releases the Lease even when ctx has ended, within one effect's bound.
func (r *Runner) giveBack(ctx context.Context, tenure Tenure, finished bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Limits.Effect)
	defer cancel()
	return r.Lock.Release(ctx, tenure, finished)
}

// finished tells whether nothing is left to resume: every node is verified, or no node was changed and none holds a claim.
func finished(report Report, err error) bool {
	if err == nil {
		return true
	}
	for _, n := range report.Nodes {
		if n.Outcome == OutcomeDone || n.claimed {
			return false
		}
	}
	return true
}

func (r *Runner) leaseState(plan Plan) LeaseState {
	s := LeaseState{Run: r.Run, Actor: r.Author.Actor, Why: r.Author.Why, Since: r.Author.Since, ClusterID: plan.ClusterID,
		Command: r.Command, Continues: r.Continues, Goals: map[string]Goal{}}
	for _, n := range plan.Nodes {
		s.Goals[n.Target.InstanceID] = n.Goal
	}
	return s
}

func lockFault(plan Plan, err error) error {
	f := &Fault{Layer: capacity.LayerLock, Cluster: plan.ClusterName, Summary: "the cluster's Lease could not be taken, nothing was changed", Cause: err}
	var held *HeldError
	var open *OpenError
	switch {
	case errors.As(err, &open):
		f.Summary = "another rollout of this cluster is open, nothing was changed"
		f.Recover = fmt.Sprintf("finish it with `trueup resume %s`, or give it up with `trueup abort %s`", Word(plan.ClusterName), Word(plan.ClusterName))
	case errors.As(err, &held):
		f.Summary = "another rollout holds this cluster, nothing was changed"
		f.Recover = "wait until it has ended, then run the same command again; a holder that died is taken over by itself"
	case errors.Is(err, ErrDenied), errors.Is(err, ErrUnreachable):
		f.Layer = capacity.LayerAccess
	}
	return f
}

// recoverCommand is the command that finishes what a rollout began on a node.
func recoverCommand(t Target, g Goal) string {
	if g.Method == MethodCold {
		return "trueup resume " + Word(cmp.Or(t.ClusterName, t.ClusterID))
	}
	return fmt.Sprintf("trueup scale %s --%s %s", Word(cmp.Or(t.ClusterName, t.ClusterID)), t.Role, Word(cmp.Or(g.Offering.Name, g.Offering.ID)))
}

// goOn is the command that goes on with a rollout: all of its goals, since the Lease refuses a rollout with others; where nodes of one role have
// goals of their own, or checks are ignored, only the Lease knows it all.
func goOn(nodes []NodeReport, cluster string) string {
	goals, method := map[Role]string{}, ""
	for _, n := range nodes {
		g, goal := n.Goal, cmp.Or(n.Goal.Offering.Name, n.Goal.Offering.ID)
		if other, has := goals[n.Target.Role]; goal == "" || has && other != goal || len(g.Ignore)+len(g.DeletePods) > 0 || g.PastBoot != "" || g.AcceptOutage {
			return "trueup resume " + Word(cluster)
		}
		goals[n.Target.Role] = goal
		if g.Method == MethodCold {
			method = " --method cold"
		}
	}
	var command strings.Builder
	command.WriteString("trueup scale " + Word(cluster))
	for _, role := range Roles() {
		if goal, has := goals[role]; has {
			command.WriteString(" --" + string(role) + " " + Word(goal))
		}
	}
	return command.String() + method
}

// Word quotes a name for the shell, if it needs that.
func Word(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
