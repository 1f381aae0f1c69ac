package rollout

import (
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Author is who runs a rollout and why: for people, in claims, events and history.
type Author struct {
	Actor string    `json:"actor"` // user@host
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`
}

// newClaim is the claim that the claim move writes for what was seen. The cordon is ours only if the node was schedulable, and
// only where something is going to change for its pods: an offering that differs in CPU speed alone needs none.
func newClaim(goal Goal, tenure Tenure, author Author, seen Observation) *Claim {
	hasNode := seen.Target.Role.HasNode()
	var cold *Cold
	if goal.Method == MethodCold {
		cold = &Cold{PastBoot: goal.PastBoot, Outage: alone(seen)}
	}
	return &Claim{
		Cold:    cold,
		Version: claimVersion, Run: tenure.Run, Transitions: tenure.Transitions,
		Actor: author.Actor, Why: author.Why, Since: author.Since,
		InstanceID: seen.Instance.ID, Goal: goal.Offering,
		Cordoned:  hasNode && !seen.Node.Unschedulable && (cold != nil || changesSize(goal, seen)),
		ScaleDown: hasNode && !seen.Node.ScaleDownDisabled,
		Before: Before{Instance: seen.Instance, Guest: seen.Guest,
			Capacity: seen.Node.Capacity, Allocatable: seen.Node.Allocatable},
	}
}

// changesSize tells whether reaching the goal changes CPU count or memory in any view.
func changesSize(goal Goal, seen Observation) bool {
	if seen.Instance.CPUs != goal.Offering.CPUs || seen.Instance.MemoryMiB != goal.Offering.MemoryMiB {
		return true
	}
	_, failed := capacity.Failed(sizes(goal, seen)...)
	return failed
}

// adopted is the claim as the present tenure takes it over: a new attempt. What an earlier attempt proved stays; what
// ended it is cleared, so that it is tried once more: a resize job that came to nothing, a restart before the hardware changed again.
func adopted(claim Claim, tenure Tenure, seen Observation) *Claim {
	if cameToNothing(claim, seen) {
		claim.Resize = nil
	}
	claim.Run, claim.Transitions = tenure.Run, tenure.Transitions
	claim.Phase, claim.Fault = "", nil
	if restarted(&claim, seen) && hardwareChanged(&claim, seen) {
		claim.Restart = nil
	}
	claim.Cold = adoptedCold(claim, seen)
	return &claim
}

// adoptedCold is what a new attempt takes over of the cold method: a stop or start that came to nothing, or that somebody has undone, is asked for anew.
func adoptedCold(claim Claim, seen Observation) *Cold {
	if claim.Cold == nil {
		return nil
	}
	cold := *claim.Cold
	undone := cold.Ended != "" && seen.Instance.Running() && seen.Guest.BootID != "" && seen.Guest.BootID != cold.Ended && !seen.Instance.AtOffering(claim.Goal)
	if undone || powerOver(cold, seen) {
		cold.Doubt, cold.Power = cold.doubt(), nil
	}
	if undone {
		cold.Ended = "" // that boot has ended, and another one is to end now
	}
	return &cold
}

// powerOver tells whether the announced stop or start came to nothing, or whether the instance, once started, stands again.
func powerOver(c Cold, seen Observation) bool {
	p, job := c.Power, seen.Job
	switch {
	case p == nil, job != nil && job.Status == JobPending:
		return false
	case p.Refused != "", p.JobID != "" && job != nil && job.ID == p.JobID && job.Status == JobFailed:
		return true
	}
	return p.State == stateRunning && p.JobID != "" && seen.Instance.State == stateStopped
}

// alone tells whether the Kubernetes API goes away with the machine: the only control-plane node, or the only etcd machine.
func alone(seen Observation) bool {
	switch seen.Target.Role {
	case RoleControl:
		return len(seen.Peers) == 0
	case RoleEtcd:
		return seen.Guest.Etcd != nil && len(seen.Guest.Etcd.Members) <= 1
	}
	return false
}

// cameToNothing tells whether the announced resize is over without the offering: its job failed, or an earlier attempt waited
// for a job in vain that CloudStack no longer knows or calls successful. A request whose reply was lost is not over before it expires.
func cameToNothing(claim Claim, seen Observation) bool {
	job := ownJob(claim.Resize, seen.Job)
	switch {
	case claim.Resize == nil, seen.Job != nil && seen.Job.Status == JobPending:
		return false
	case claim.Resize.Refused != "", job != nil && job.Status == JobFailed:
		return true
	}
	return claim.Resize.JobID != "" && claim.Fault != nil && claim.Fault.Move == MoveResize
}

// resizing is the claim that announces a request whose signature expires at expires.
func resizing(claim Claim, seen Observation, expires time.Time) *Claim {
	claim.Resize = &ResizeIntent{Asked: seen.ServerTime, Expires: expires}
	return &claim
}

// restarting is the claim that announces a restart of the kubelet process that was seen.
func restarting(claim Claim, seen Observation) *Claim {
	u := seen.Guest.Kubelet
	claim.Restart = &RestartIntent{
		BootID: seen.Guest.BootID, InvocationID: u.InvocationID, MainPID: u.MainPID, Start: u.Start,
		BootTime: seen.Guest.BootTime(), Heartbeat: seen.Node.Ready.Heartbeat,
		CPUsOnline: seen.Guest.CPUsOnline, BlocksOnline: seen.Guest.BlocksOnline,
		Pods: keptPods(seen.Pods),
	}
	return &claim
}

// unchanged is the claim that notes that a failed resize was first seen to have changed nothing.
func unchanged(claim Claim, seen Observation) *Claim {
	if claim.Resize != nil {
		resize := *claim.Resize
		resize.Unchanged = &Reading{BootID: seen.Guest.BootID, Monotonic: seen.Guest.Monotonic}
		claim.Resize = &resize
	}
	return &claim
}

// nothingDone tells whether nothing that the claim announced can have happened: no resize was asked for, no restart, and all is as before, with nothing at work that could change it.
func nothingDone(claim *Claim, seen Observation) bool {
	if seen.Job != nil && seen.Job.Status == JobPending {
		return false // somebody else's: what it will change is not to be seen yet
	}
	return claim != nil && claim.Resize == nil && claim.Restart == nil && (claim.Cold == nil || claim.Cold.Power == nil && claim.Cold.Ended == "") && checkAsBefore(claim.Before, seen).OK &&
		seen.Guest.CPUsOnline == claim.Before.Guest.CPUsOnline && seen.Guest.BlocksOnline == claim.Before.Guest.BlocksOnline
}

// release says what the release patch may clear besides the claim: the cordon only if our claim made it and managedFields still
// show that it is ours, the scale-down mark only if our claim set it.
func release(claim *Claim, seen Observation) (uncordon, scaleDown bool) {
	uncordon = claim.Cordoned && seen.Node.Unschedulable && seen.Node.UnschedulableBy == FieldManager
	return uncordon, claim.ScaleDown && seen.Node.ScaleDownDisabled
}
