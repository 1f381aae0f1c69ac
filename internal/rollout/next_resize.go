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
	case intent.JobID != "":
		return nextJob(goal, intent, job, atGoal)
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
	return act(ActionResize, why)
}

// nextJob decides while the job that the claim names has not brought the instance to the goal.
func nextJob(goal Goal, intent *ResizeIntent, job *Job, atGoal capacity.Check) Step {
	switch {
	case job == nil:
		atGoal.Observed += ", and CloudStack does not know job " + intent.JobID
	case job.Status == JobFailed:
		return stop(MoveResize, capacity.LayerCloudStack, "CloudStack failed the offering change", goal.Offering.String(),
			fmt.Sprintf("job %s failed with code %d: %s", job.ID, job.Code, job.Text))
	case job.Status == JobPending:
		atGoal.Observed += ", job " + job.ID + " pending"
	default:
		atGoal.Observed += ", though job " + job.ID + " succeeded"
	}
	return wait(MoveResize, atGoal)
}
