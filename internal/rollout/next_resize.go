package rollout

import (
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// nextResize decides while the instance has not got the goal's offering.
func nextResize(goal Goal, claim *Claim, seen Observation) Step {
	atGoal := capacity.CheckInstance(seen.Instance, goal.Offering)
	intent, job := claim.Resize, ownJob(claim.Resize, seen.Job)
	switch {
	case intent == nil:
		return nextRequest(seen, atGoal, atGoal.String())
	case intent.Refused != "":
		return nextFailed(goal, claim, seen, "CloudStack refused the offering change", intent.Refused)
	case intent.JobID != "" && job != nil && job.Status == JobFailed:
		return nextFailedJob(goal, claim, seen, job)
	case intent.JobID != "":
		return nextJob(intent, job, atGoal)
	case job != nil:
		return act(ActionNoteJob, "found job "+job.ID+" again, the reply to the request was lost")
	case seen.ServerTime.After(intent.Expires):
		return nextRequest(seen, atGoal, "the earlier request was never seen by CloudStack and has expired")
	}
	atGoal.Observed += ", and no trace of the request yet"
	s := wait(MoveResize, atGoal)
	s.Wake = intent.Expires.Sub(seen.ServerTime) + time.Second
	return s
}

// ownJob is the job if it can be the one that the intent announced, else nil: the job that the claim names, or, where the reply
// was lost, one that is not older than the request.
func ownJob(intent *ResizeIntent, job *Job) *Job {
	switch {
	case intent == nil || job == nil:
		return nil
	case intent.JobID != "" && intent.JobID != job.ID:
		return nil
	case intent.JobID == "" && job.Created.Before(intent.Asked.Truncate(time.Second)):
		return nil
	}
	return job
}

// nextRequest asks CloudStack for the offering once nothing else is at work on the instance.
func nextRequest(seen Observation, atGoal capacity.Check, why string) Step {
	switch {
	case seen.Job != nil && seen.Job.Status == JobPending:
		atGoal.What = "another job on the instance (" + seen.Job.ID + ")"
		return wait(MoveResize, atGoal)
	case !seen.Instance.Running():
		return wait(MoveResize, capacity.Check{Layer: capacity.LayerCloudStack, What: "state of the instance", Expected: "Running", Observed: seen.Instance.State})
	}
	if c, failed := capacity.Failed(others(seen)...); failed {
		return wait(MoveResize, c)
	}
	return act(ActionResize, why)
}

// etcdCheck is the name of capacity.CheckEtcd's check.
const etcdCheck = "etcd"

// others lists what must be true of the machines that stand in for this one while it is worked on: the rest of the control plane, and of etcd.
func others(seen Observation) []capacity.Check {
	if !seen.Target.Role.HasNode() {
		return []capacity.Check{capacity.CheckEtcd(seen.Guest), checkPeers(seen)}
	}
	return []capacity.Check{checkPeers(seen)}
}

// nextJob decides while the job that the claim names has not brought the instance to the goal.
func nextJob(intent *ResizeIntent, job *Job, atGoal capacity.Check) Step {
	switch {
	case job == nil:
		atGoal.Observed += ", and CloudStack does not know job " + intent.JobID
	case job.Status == JobPending:
		atGoal.Observed += ", job " + job.ID + " pending"
	default:
		atGoal.Observed += ", though job " + job.ID + " succeeded"
	}
	return wait(MoveResize, atGoal)
}

// The phases that a claim keeps after a resize that neither happened nor certainly did not.
const (
	PhaseUnclear = "resize-unclear" // nobody knows what became of the request
	PhasePartial = "resize-partial" // something was plugged, but CloudStack shows the old offering
)

// unchangedFor is how long everything must be seen as before the claim until a failed resize counts as one that changed nothing. An
// agent that is still at work attaches a DIMM within seconds of the failure that CloudStack reported.
const unchangedFor = 30 * time.Second

// secondReading is the name of the wait for the second of two readings that show that nothing was changed.
const secondReading = "a second reading that nothing was changed"

// nextFailedJob decides after a job that ended as failed. One that CloudStack gave up may still be at work on the host.
func nextFailedJob(goal Goal, claim *Claim, seen Observation, job *Job) Step {
	if !job.Cancelled {
		return nextFailed(goal, claim, seen, "CloudStack failed the offering change", jobText(job))
	}
	s := stop(MoveResize, capacity.LayerCloudStack, "CloudStack gave up the offering change without knowing what became of it", goal.Offering.String(), jobText(job))
	s.Fault.Phase = PhaseUnclear
	return s
}

func jobText(job *Job) string {
	return fmt.Sprintf("job %s failed with code %d: %s", job.ID, job.Code, job.Text)
}

// nextFailed decides after a resize that CloudStack failed or refused: the node is given back only if instance, plugged hardware
// and Node are as before the claim in two readings, unchangedFor apart by the guest's own clock. What was attached in part stays cordoned.
func nextFailed(goal Goal, claim *Claim, seen Observation, summary, observed string) Step {
	failed := stop(MoveResize, capacity.LayerCloudStack, summary, goal.Offering.String(), observed)
	first := claim.Resize.Unchanged
	switch c := checkAsBefore(claim.Before, seen); {
	case !c.OK:
		failed.Fault.Phase = PhasePartial
		failed.Fault.Observed += "; " + c.String()
		return failed
	case first == nil || first.BootID != seen.Guest.BootID:
		return act(ActionNoteUnchanged, observed)
	case seen.Guest.Monotonic-first.Monotonic < unchangedFor:
		s := wait(MoveResize, capacity.Check{Layer: capacity.LayerCloudStack, What: secondReading, Expected: unchangedFor.String() + " after the first", Observed: observed})
		s.Wake, s.Look = unchangedFor-(seen.Guest.Monotonic-first.Monotonic), true
		return s
	}
	s := act(ActionGiveBack, summary+", and nothing was changed")
	s.Fault = failed.Fault
	return s
}

// checkAsBefore tells whether instance, plugged hardware and Node are as they were before the claim, and healthy.
func checkAsBefore(b Before, seen Observation) capacity.Check {
	g, i := seen.Guest, seen.Instance
	before := fmt.Sprintf("%s, %d CPUs and %d memory blocks plugged", b.Instance.OfferingName, b.Guest.CPUsPresent, b.Guest.BlocksOnline+b.Guest.BlocksOffline)
	now := fmt.Sprintf("%s, %d CPUs and %d memory blocks plugged", i.OfferingName, g.CPUsPresent, g.BlocksOnline+g.BlocksOffline)
	same := before == now && i.State == b.Instance.State && i.OfferingID == b.Instance.OfferingID && i.CPUs == b.Instance.CPUs && i.MemoryMiB == b.Instance.MemoryMiB
	c := capacity.Check{Layer: capacity.LayerGuest, What: "instance and plugged hardware", OK: same, Expected: before, Observed: now}
	checks := []capacity.Check{c, capacity.CheckEtcd(g)}
	if seen.Target.Role.HasNode() {
		checks = []capacity.Check{c, checkCapacityAsBefore(b, seen.Node), capacity.CheckRunning(g), capacity.CheckReady(seen.Node)}
	}
	if bad, failed := capacity.Failed(checks...); failed {
		return bad
	}
	return c
}

func checkCapacityAsBefore(b Before, n capacity.Node) capacity.Check {
	old := capacity.Node{Capacity: b.Capacity}
	return capacity.Check{Layer: capacity.LayerCapacity, What: "capacity of the Node", Expected: old.Size(), Observed: n.Size(),
		OK: old.CPUs() == n.CPUs() && old.Memory() == n.Memory()}
}
