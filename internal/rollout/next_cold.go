package rollout

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// CloudStack's words for the states in which the cold method acts.
const (
	stateRunning = "Running"
	stateStopped = "Stopped"
)

// nextCold decides for a node that is claimed for the cold method: it is drained, stopped, given its offering, and started. What comes next is decided
// by what is seen; the claim says what was asked for, and which boot was to end.
func nextCold(goal Goal, claim *Claim, seen Observation) Step {
	wanted := goal
	if claim.refused() != "" {
		wanted.Offering = seen.Instance.Present() // the offering can't be had: the node is started again as it is
	}
	switch {
	case seen.Job != nil && seen.Job.Status == JobPending && !toNote(wanted, claim, seen):
		return wait(coldMove(claim, seen), capacity.Check{Layer: capacity.LayerCloudStack, What: "job " + seen.Job.ID + " on the instance", Expected: "finished", Observed: "pending"})
	case seen.Instance.Running():
		return nextColdRunning(wanted, claim, seen)
	case seen.Instance.State != stateStopped:
		return wait(coldMove(claim, seen), checkState(seen, stateStopped))
	case !seen.Instance.AtOffering(wanted.Offering):
		return nextColdResize(goal, claim, seen)
	}
	return nextStart(claim, seen)
}

// toNote tells whether the job is the one of our resize whose reply was lost.
func toNote(wanted Goal, claim *Claim, seen Observation) bool {
	r := claim.Resize
	return r != nil && r.JobID == "" && r.Refused == "" && ownResize(claim, seen) != nil && seen.Instance.State == stateStopped && !seen.Instance.AtOffering(wanted.Offering)
}

// ownResize is the job if it can be our resize, else nil. The job of a stop or a start is none.
func ownResize(claim *Claim, seen Observation) *Job {
	if p := claim.Cold.Power; p != nil && seen.Job != nil && p.JobID == seen.Job.ID {
		return nil
	}
	return ownJob(claim.Resize, seen.Job)
}

// refused is CloudStack's refusal of the offering, empty while there is none.
func (c *Claim) refused() string {
	if c.Resize == nil {
		return ""
	}
	return c.Resize.Refused
}

// coldMove is the move to which a job, or a state on the way to another one, belongs.
func coldMove(claim *Claim, seen Observation) Move {
	switch p := claim.Cold.Power; {
	case p != nil && p.State == stateRunning:
		return MoveStart
	case seen.Instance.State == stateStopped:
		return MoveResize
	}
	return MoveStop
}

func checkState(seen Observation, state string) capacity.Check {
	return capacity.Check{Layer: capacity.LayerCloudStack, What: "state of the instance", OK: seen.Instance.State == state, Expected: state, Observed: seen.Instance.State}
}

// nextColdRunning decides while the instance runs: it is still to be stopped, or it was started again.
func nextColdRunning(wanted Goal, claim *Claim, seen Observation) Step {
	cold, atOffering, unread := claim.Cold, seen.Instance.AtOffering(wanted.Offering), seen.Guest.BootID == ""
	another := cold.Ended != "" && !unread && seen.Guest.BootID != cold.Ended
	started := cold.Power != nil && cold.Power.State == stateRunning
	stops := cold.Power != nil && cold.Power.State == stateStopped
	switch {
	case unread && stops:
		s := nextStop(claim, seen) // it may be on its way down while CloudStack still calls it Running
		s.Look = true              // or somebody has started it again: its guest tells
		return s
	case unread:
		return wait(MoveStart, capacity.Check{Layer: capacity.LayerAccess, What: "guest of the started instance", Expected: "an answer over SSH", Observed: cmp.Or(seen.GuestUnread, "none")})
	case atOffering && another:
		return nextColdUp(wanted, claim, seen)
	case another:
		c := checkState(seen, stateStopped)
		return stopCheck(MoveResize, "somebody started the instance before it had its offering", c)
	case started:
		return stop(MoveStart, capacity.LayerCloudStack, "the instance was not stopped after all", "another boot than "+cold.Ended, "the same")
	}
	return nextStop(claim, seen)
}

// nextStop drains the node, and asks CloudStack to stop the instance once nothing is left on it that could run elsewhere.
func nextStop(claim *Claim, seen Observation) Step {
	state := checkState(seen, stateStopped)
	if s, asked := answered(claim.Cold.Power, seen, MoveStop, state, "CloudStack could not stop the instance"); asked {
		return s
	}
	if seen.Target.Role.HasNode() {
		if s, left := nextDrain(seen); left {
			return s
		}
	}
	if c, failed := capacity.Failed(others(seen)...); failed {
		return wait(MoveStop, c)
	}
	return act(ActionStop, state.String())
}

// answered tells whether a request of that kind is under way, or has failed, and what is to be done then. One that was never seen and has expired is
// as good as none.
func answered(p *PowerIntent, seen Observation, m Move, state capacity.Check, failed string) (Step, bool) {
	switch {
	case p == nil || p.State != state.Expected:
		return Step{}, false
	case p.Refused != "":
		return stop(m, capacity.LayerCloudStack, failed, state.Expected, p.Refused), true
	case p.JobID != "" && seen.Job != nil && seen.Job.ID == p.JobID && seen.Job.Status == JobFailed:
		return stop(m, capacity.LayerCloudStack, failed, state.Expected, jobText(seen.Job)), true
	case p.JobID != "":
		state.Observed += ", with job " + p.JobID
		return wait(m, state), true
	case seen.ServerTime.After(p.Expires):
		return Step{}, false
	}
	state.Observed += ", and no trace of the request yet"
	s := wait(m, state)
	s.Wake = p.Expires.Sub(seen.ServerTime) + time.Second
	return s, true
}

// drainCheck is the name of the wait for pods to leave the node.
const drainCheck = "pods that can run elsewhere"

// nextDrain evicts what is left on the node that could run elsewhere, and waits until it is gone. What a disruption budget holds is tried again after
// each wait.
func nextDrain(seen Observation) (Step, bool) {
	c := capacity.Check{Layer: capacity.LayerSchedulability, What: drainCheck, Expected: "none on the node"}
	if seen.Pods != nil && seen.Pods.Unknown != "" {
		c.Observed = "not known: " + seen.Pods.Unknown
		return wait(MoveDrain, c), true
	}
	if seen.Pods == nil {
		return act(ActionDrain, "its pods are not known yet"), true // read before anything is done
	}
	fresh, ending, held := toLeave(seen)
	switch {
	case len(fresh)+len(ending)+len(held) == 0:
		return Step{}, false
	case len(fresh) > 0:
		return act(ActionDrain, fmt.Sprintf("%d pods run on it that can run elsewhere", len(fresh)+len(ending)+len(held))), true
	}
	c.Observed = drainState(ending, held)
	return wait(MoveDrain, c), true
}

// toLeave are the pods that must leave the node: those that are still to be evicted, those that are ending, and those that a budget holds.
func toLeave(seen Observation) (fresh []capacity.Pod, ending, held []string) {
	for _, p := range seen.Pods.Pods {
		reason, blocked := seen.Held[p.UID]
		switch {
		case p.Stays(), p.Finished():
		case p.Deleting:
			ending = append(ending, p.String())
		case blocked:
			held = append(held, fmt.Sprintf("%s (%s)", p, reason))
		default:
			fresh = append(fresh, p)
		}
	}
	return fresh, ending, held
}

func drainState(ending, held []string) string {
	text := ""
	if held != nil {
		text = "held: " + some(held)
	}
	if ending != nil {
		text = joinWords(text, "ending: "+some(ending))
	}
	return text
}

// nextColdResize asks for the offering while the instance is stopped: CloudStack changes its record alone, and may shrink it, too.
func nextColdResize(goal Goal, claim *Claim, seen Observation) Step {
	atGoal := capacity.CheckInstance(seen.Instance, goal.Offering)
	intent, job := claim.Resize, ownResize(claim, seen)
	switch {
	case intent == nil:
		return act(ActionResize, atGoal.String())
	case intent.JobID != "" && job != nil && job.Status == JobFailed:
		return act(ActionNoteRefused, jobText(job))
	case intent.JobID != "":
		return nextJob(intent, job, atGoal)
	case job != nil:
		return act(ActionNoteJob, "found job "+job.ID+" again, the reply to the request was lost")
	case seen.ServerTime.After(intent.Expires):
		return act(ActionResize, "the earlier request was never seen by CloudStack and has expired")
	}
	atGoal.Observed += ", and no trace of the request yet"
	s := wait(MoveResize, atGoal)
	s.Wake = intent.Expires.Sub(seen.ServerTime) + time.Second
	return s
}

// nextStart asks CloudStack to start the instance. A stop request without a reply could still come true after it, so it must have expired.
func nextStart(claim *Claim, seen Observation) Step {
	state := checkState(seen, stateRunning)
	if s, asked := answered(claim.Cold.Power, seen, MoveStart, state, "CloudStack could not start the instance"); asked {
		return s
	}
	if doubt := claim.Cold.doubt(); !doubt.IsZero() && !seen.ServerTime.After(doubt) {
		s := wait(MoveStart, capacity.Check{Layer: capacity.LayerCloudStack, What: "stop request without a reply",
			Expected: "expired, so that it can't be accepted any more", Observed: "good until " + doubt.UTC().Format("15:04:05Z")})
		s.Wake = doubt.Sub(seen.ServerTime) + time.Second
		return s
	}
	return act(ActionStart, state.String())
}

// doubt is until when a stop request without a reply may still be accepted; zero if there is none.
func (c *Cold) doubt() time.Time {
	if p := c.Power; p != nil && p.State == stateStopped && p.JobID == "" && p.Refused == "" && p.Expires.After(c.Doubt) {
		return p.Expires
	}
	return c.Doubt
}

// nextColdUp decides once another boot runs with the offering: guest, kubelet and Node are left. kubelet was started with the machine, so it is
// not restarted.
func nextColdUp(goal Goal, claim *Claim, seen Observation) Step {
	switch {
	case !guestAgrees(claim, goal, seen):
		return nextOnline(goal, claim, seen)
	case !seen.Target.Role.HasNode():
		if s := nextEtcd(seen); s.Kind == KindWait {
			return s
		}
	default:
		if s, waits := unverified(goal, claim, seen); waits {
			return s
		}
	}
	why := claim.refused()
	if why == "" {
		return act(ActionRelease, "verified")
	}
	s := act(ActionGiveBack, "CloudStack refused the offering, and the node runs again as it was")
	s.Fault = &Fault{Layer: capacity.LayerCloudStack, Move: MoveResize, Summary: "CloudStack refused the offering change; the node was started again as it was",
		Expected: claim.Goal.String(), Observed: why}
	return s
}
