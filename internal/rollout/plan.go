package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Member is one node of a cluster as the planner gets it.
type Member struct {
	Seen  Observation
	Claim *Claim
	// Goal is the goal of this very node; nil where its role's goal holds, if there is one.
	Goal *Goal
}

// Plan is the ordered list of everything that a rollout would do. `plan` prints it, `scale` walks it.
type Plan struct {
	ClusterID   string        `json:"clusterID"`
	ClusterName string        `json:"clusterName"`
	Goals       map[Role]Goal `json:"goals"`
	Nodes       []NodePlan    `json:"nodes"`
	Warnings    []string      `json:"warnings,omitempty"`
}

// NodePlan is what would be done on one node.
type NodePlan struct {
	Target Target `json:"target"`
	// Goal is zero for a claimed node that this rollout has no goal for: it refuses the rollout.
	Goal Goal `json:"goal"`
	// Peers are the names of the cluster's other control-plane Nodes, for a control-plane node.
	Peers []string `json:"peers,omitempty"`
	// Present is the instance's size now.
	Present string        `json:"present"`
	Moves   []PlannedMove `json:"moves"`
	// Resumes names the run whose claim is on the Node already, empty where there is none.
	Resumes  string    `json:"resumes,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Warnings are what a person should know before the node is started on; none refuses it.
	Warnings []Refusal `json:"warnings,omitempty"`
}

// PlannedMove is one move with the sentence that says it.
type PlannedMove struct {
	Move   Move   `json:"move"`
	Action Action `json:"action,omitempty"` // empty for verify, which changes nothing
	// Sentence says what is done, or waited for.
	Sentence string `json:"sentence"`
	// Why is what was seen that makes it necessary.
	Why string `json:"why"`
}

// Changes reports whether any node would be changed.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Nodes, func(n NodePlan) bool { return len(n.Moves) > 0 })
}

// Refused returns the nodes that refuse to be started on.
func (p Plan) Refused() []NodePlan {
	var out []NodePlan
	for _, n := range p.Nodes {
		if len(n.Refusals) > 0 {
			out = append(out, n)
		}
	}
	return out
}

// NewPlan plans for all members whose role has a goal: nodes that carry a claim already come first, because only one node of a
// cluster may be in work; then workers, then control-plane nodes, then dedicated etcd machines, each in the order given. A node that carries a claim and has
// no goal here refuses the rollout: it must be finished first.
func NewPlan(clusterID, clusterName string, goals map[Role]Goal, members []Member) Plan {
	p := Plan{ClusterID: clusterID, ClusterName: clusterName, Goals: goals}
	for _, m := range ordered(excused(members)) {
		goal, wanted := goals[m.Seen.Target.Role]
		if m.Goal != nil {
			goal, wanted = *m.Goal, true
		}
		switch {
		case wanted:
			p.Nodes = append(p.Nodes, planNode(goal, m))
		case m.Claim != nil:
			p.Nodes = append(p.Nodes, unfinished(m))
		}
	}
	return p
}

// unfinished is a node that an earlier rollout left claimed, and that this rollout does not touch.
func unfinished(m Member) NodePlan {
	t := m.Seen.Target
	return NodePlan{Target: t, Present: m.Seen.Instance.Size(), Resumes: m.Claim.Run, Refusals: []Refusal{{
		Check: capacity.Check{Layer: capacity.LayerLock, What: "claim on Node " + t.Name, Expected: "none, or a goal for role " + string(t.Role),
			Observed: fmt.Sprintf("run %s took it to %s and has not finished", m.Claim.Run, m.Claim.Goal)},
		Remedy: "Finish that node first: " + recoverCommand(t, m.Claim.Asked()),
	}}}
}

// excused are the members as they will be when the ones that carry a claim are finished, which come first: a node that an earlier run has left stopped, or
// without kubelet, is no reason against the turn of its peers. Before each of those turns the engine looks again.
func excused(members []Member) []Member {
	held := map[string]bool{}
	etcd := false
	for _, m := range members {
		held[m.Seen.Target.Name] = m.Claim != nil
		etcd = etcd || m.Claim != nil && m.Seen.Target.Role == RoleEtcd
	}
	out := slices.Clone(members)
	for i := range out {
		seen := &out[i].Seen
		seen.Peers = slices.Clone(seen.Peers)
		for j, p := range seen.Peers {
			if held[p.Name] {
				seen.Peers[j].Ready.Status = "True"
			}
		}
		if etcd && seen.Guest.Etcd != nil && out[i].Claim == nil {
			whole := *seen.Guest.Etcd
			whole.Members = slices.Clone(whole.Members)
			for j := range whole.Members {
				whole.Members[j].Healthy = true
			}
			seen.Guest.Etcd = &whole
		}
	}
	return out
}

func ordered(members []Member) []Member {
	rank := func(m Member) int {
		switch {
		case m.Claim != nil:
			return 0
		case m.Seen.Target.Role == RoleControl:
			return 2
		case m.Seen.Target.Role == RoleEtcd:
			return 3
		}
		return 1
	}
	out := slices.Clone(members)
	slices.SortStableFunc(out, func(a, b Member) int { return rank(a) - rank(b) })
	return out
}

// mostSteps bounds the walk through the ideal world: no node needs more than adopt, claim, resize, online, restart, release and a few waits.
const mostSteps = 20

// planNode walks Next through an ideal world in which every action does at once what it is meant to do. The plan is thus made by
// the very function that the runner asks, and can't drift from it.
func planNode(goal Goal, m Member) NodePlan {
	np := NodePlan{Target: m.Seen.Target, Goal: goal, Present: m.Seen.Instance.Size()}
	for _, p := range m.Seen.Peers {
		np.Peers = append(np.Peers, p.Name)
	}
	w := ideal{goal: goal, claim: m.Claim, seen: m.Seen}
	if m.Claim != nil {
		np.Resumes = m.Claim.Run
		w.tenure = m.Claim.Tenure() // adopting a claim is bookkeeping, not a change of the cluster
		w.claim = adopted(*m.Claim, w.tenure, m.Seen)
	} else if lagging(goal, m.Seen) != "" {
		np.Refusals, np.Warnings = Refusals(goal, m.Seen), Warnings(goal, m.Seen)
	}
	np.walk(&w)
	return np
}

// walk lists the moves that take the ideal world to the goal.
func (np *NodePlan) walk(w *ideal) {
	var step Step
	for range mostSteps {
		step = Next(np.Goal, w.tenure, w.claim, w.seen)
		switch step.Kind {
		case KindDone:
			return
		case KindStop:
			np.refuse(step.Fault)
			return
		case KindAct:
			np.add(step, w)
			w.do(step.Action)
		case KindWait:
			w.pass(step)
		}
	}
	np.refuse(&Fault{Layer: step.Check.Layer, Summary: "this can't come true: " + step.Check.What, Expected: step.Check.Expected, Observed: step.Check.Observed,
		Recover: "Mend that first, or report it as a fault of trueup with the output of `trueup status -o json`"})
}

func (np *NodePlan) add(step Step, w *ideal) {
	if step.Action == ActionRelease {
		np.Moves = append(np.Moves, verifyMove(np.Goal, w))
	}
	if step.Action != ActionNoteJob && step.Action != ActionNoteRefused {
		np.Moves = append(np.Moves, PlannedMove{Move: step.Move, Action: step.Action, Sentence: Sentence(step.Action, np.Goal, w.claim, w.seen), Why: step.Why})
	}
}

// refuse drops the moves: a node that can't be taken to its goal is not started on.
func (np *NodePlan) refuse(f *Fault) {
	np.Moves = nil
	if len(np.Refusals) > 0 {
		return
	}
	np.Refusals = []Refusal{{Check: capacity.Check{Layer: f.Layer, What: f.Summary, Expected: f.Expected, Observed: f.Observed},
		Remedy: cmp.Or(f.Recover, "Mend that, then run: "+recoverCommand(np.Target, np.Goal))}}
}

func verifyMove(goal Goal, w *ideal) PlannedMove {
	if !w.seen.Target.Role.HasNode() {
		return PlannedMove{Move: MoveVerify, Why: "the cluster relies on every member while the next machine is worked on",
			Sentence: fmt.Sprintf("wait until etcd runs on %s, and finds every member of its cluster healthy", w.seen.Target.Name)}
	}
	return PlannedMove{Move: MoveVerify, Why: "a CloudStack record proves nothing about the Node",
		Sentence: fmt.Sprintf("wait until Node %s is Ready with %d CPU and %d MiB in a status posted by the running kubelet, which must then have run for %s",
			w.seen.Target.Name, goal.Offering.CPUs, w.seen.Guest.MemTotal/capacity.MiB, goal.Settle)}
}

// Sentence says in one sentence what an action does to the node that was seen.
func Sentence(a Action, goal Goal, claim *Claim, seen Observation) string {
	name := seen.Target.Name
	switch a {
	case ActionClaim:
		return claimSentence(goal, seen)
	case ActionAdopt:
		return fmt.Sprintf("take over %s from run %s", claimOn(seen.Target), claim.Run)
	case ActionDrain:
		return drainSentence(seen)
	case ActionStop:
		return fmt.Sprintf("stopVirtualMachine %s (%s)", name, seen.Instance.ID)
	case ActionStart:
		return fmt.Sprintf("startVirtualMachine %s (%s) with %s", name, seen.Instance.ID, seen.Instance.Present())
	case ActionNoteRefused:
		return "note CloudStack's refusal in " + claimOn(seen.Target)
	case ActionResize:
		return fmt.Sprintf("scaleVirtualMachine %s (%s) from %s to %s", name, seen.Instance.ID, seen.Instance.OfferingName, goal.Offering)
	case ActionNoteJob:
		return "note the resize job in " + claimOn(seen.Target)
	case ActionOnline:
		return fmt.Sprintf("bring up %d CPUs and %d memory blocks of %d MiB in the guest of %s",
			seen.Guest.CPUsPresent-seen.Guest.CPUsOnline, seen.Guest.BlocksOffline, seen.Guest.BlockSize/capacity.MiB, name)
	case ActionRestart:
		return fmt.Sprintf("restart kubelet on %s, once", name)
	default:
		return releaseSentence(claim, seen)
	}
}

// claimOn names the claim and its place.
func claimOn(t Target) string {
	if !t.Role.HasNode() {
		return fmt.Sprintf("the claim for %s on the Lease", t.Name)
	}
	return "the claim on Node " + t.Name
}

func claimSentence(goal Goal, seen Observation) string {
	switch {
	case !seen.Target.Role.HasNode():
		return fmt.Sprintf("record a claim for %s on the Lease, without a cordon: a dedicated etcd machine is no Node", seen.Target.Name)
	case seen.Node.Unschedulable:
		return fmt.Sprintf("record a claim on Node %s, which somebody has cordoned already and which stays cordoned", seen.Target.Name)
	case goal.Method != MethodCold && !changesSize(goal, seen):
		return fmt.Sprintf("record a claim on Node %s, without a cordon: neither CPU count nor memory changes", seen.Target.Name)
	}
	return fmt.Sprintf("cordon Node %s and record the claim, in one patch", seen.Target.Name)
}

func releaseSentence(claim *Claim, seen Observation) string {
	if !seen.Target.Role.HasNode() {
		return "drop " + claimOn(seen.Target)
	}
	if uncordon, _ := release(claim, seen); uncordon {
		return fmt.Sprintf("uncordon Node %s and drop the claim, in one patch", seen.Target.Name)
	}
	return fmt.Sprintf("drop the claim on Node %s, and leave its schedulability as it is", seen.Target.Name)
}
