package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// coldPoint is one point of the classed input space of Next where a node is claimed for the cold method.
type coldPoint struct {
	claim, state, boot, power, resize, pods, job, disturbance int

	atGoal, doubted, badHardware, stale, notReady bool
}

const (
	coldOurs = iota
	coldEarlierRun
	coldLiveClaim // the goal is cold, the claim is live
	coldClaims
)
const (
	coldRunning = iota
	coldStopping
	coldStopped
	coldStates
)
const ( // of a running instance
	bootAnother = iota
	bootSame
	bootUnread
	coldBoots
)
const ( // what was asked for last, and what is known of it
	powerNone = iota
	stopAccepted
	stopJobFailed
	stopDenied
	stopUnanswered
	stopUnansweredExpired
	startAccepted
	startJobFailed
	startDenied
	startUnanswered
	startUnansweredExpired
	powers
)
const (
	coldResizeNone = iota
	coldResizeDone
	coldResizeFailed
	coldResizeRefused
	coldResizeLost
	coldResizeLostFound
	coldResizeLostExpired
	coldResizes
)
const (
	podsGone = iota
	podsUnread
	podsUnlisted
	podsFresh
	podsEnding
	podsHeld
	coldPods
)
const (
	coldNoJob = iota
	coldForeignJob
	coldJobs
)

func (p coldPoint) scene() scene {
	s := drained()
	if p.atGoal {
		has(tiny)(&s)
	}
	p.setState(&s)
	p.setPower(&s)
	p.setResize(&s)
	p.setPods(&s)
	if p.job == coldForeignJob {
		jobIs("job-9", JobPending)(&s)
	}
	switch p.disturbance {
	case disturbedMark:
		marked(&s)
	case disturbedDeletion:
		deleting(&s)
	}
	switch p.claim {
	case coldEarlierRun:
		s.claim.Transitions--
	case coldLiveClaim:
		s.claim.Cold = nil
	}
	return s
}

func (p coldPoint) setState(s *scene) {
	o := capacity.Offering{CPUs: s.seen.Instance.CPUs, MemoryMiB: s.seen.Instance.MemoryMiB}
	switch {
	case p.state == coldStopping:
		off(s)
		s.seen.Instance.State = "Stopping"
	case p.state == coldStopped:
		off(s)
	case p.boot == bootUnread:
		unreadGuest(s)
	case p.boot == bootAnother:
		boots(o)(s)
		postsBoot(s)
	}
	if p.state != coldRunning || p.boot != bootAnother {
		return
	}
	if p.badHardware {
		s.seen.Guest.BlocksOnline--
	}
	if p.stale {
		s.seen.Node.Ready.Heartbeat = s.seen.Guest.KubeletStart().Add(-time.Second)
	}
	if p.notReady {
		notReady(s)
	}
}

func (p coldPoint) setPower(s *scene) {
	if p.power == powerNone {
		return
	}
	cold := *s.claim.Cold
	cold.Ended = "boot-1"
	if p.doubted {
		cold.Doubt = s.seen.ServerTime.Add(20 * time.Second)
	}
	s.claim.Cold = &cold
	state, soon, past := stateStopped, s.seen.ServerTime.Add(30*time.Second), s.seen.ServerTime.Add(-time.Second)
	kind := p.power
	if kind >= startAccepted {
		state, kind = stateRunning, kind-startAccepted+stopAccepted
	}
	switch kind {
	case stopAccepted:
		powerIs(state, "job-power", "", soon)(s)
	case stopJobFailed:
		powerIs(state, "job-power", "", soon)(s)
		jobIs("job-power", JobFailed)(s)
	case stopDenied:
		powerIs(state, "", "no", soon)(s)
	case stopUnanswered:
		powerIs(state, "", "", soon)(s)
	case stopUnansweredExpired:
		powerIs(state, "", "", past)(s)
	}
}

func (p coldPoint) setResize(s *scene) {
	asked := s.seen.ServerTime.Add(-10 * time.Second)
	intent, job := &ResizeIntent{Asked: asked, Expires: asked.Add(time.Minute), JobID: "job-1"}, s.seen.Job
	switch p.resize {
	case coldResizeNone:
		intent = nil
	case coldResizeFailed:
		job = &Job{ID: "job-1", Status: JobFailed, Created: asked}
	case coldResizeRefused:
		intent.JobID, intent.Refused = "", "no"
	case coldResizeLost:
		intent.JobID = ""
	case coldResizeLostFound:
		intent.JobID, job = "", &Job{ID: "job-1", Created: asked}
	case coldResizeLostExpired:
		intent.JobID, intent.Expires = "", s.seen.ServerTime.Add(-time.Second)
	}
	s.claim.Resize, s.seen.Job = intent, job
}

func (p coldPoint) setPods(s *scene) {
	ending := webPod
	ending.Deleting = true
	switch p.pods {
	case podsUnread:
		s.seen.Pods = nil
	case podsUnlisted:
		s.seen.Pods = &PodReading{Unknown: "denied"}
	case podsFresh:
		podsAre(webPod, agentPod)(s)
	case podsEnding:
		podsAre(ending, agentPod)(s)
	case podsHeld:
		podsAre(webPod, agentPod)(s)
		s.seen.Held = map[string]string{webPod.UID: "budget"}
	}
}

// fenced tells whether the claim is ours and cold, nobody else works on the node, and no job is pending on the instance.
func (p coldPoint) fenced() bool { return p.ours() && p.resize != coldResizeLostFound }

func (p coldPoint) ours() bool {
	return p.claim == coldOurs && p.disturbance == undisturbed && p.job == coldNoJob
}

// again tells whether a request of that kind may be sent: there is none, or one that can't be accepted any more.
func (p coldPoint) again(first, last, expired int) bool {
	return p.power < first || p.power > last || p.power == expired
}

// up tells whether another boot runs, since a stop was announced.
func (p coldPoint) up() bool {
	return p.state == coldRunning && p.boot == bootAnother && p.power != powerNone
}

// toStop tells whether the instance runs as it was and must be stopped.
func (p coldPoint) toStop() bool {
	stops := p.power >= stopAccepted && p.power <= stopUnansweredExpired
	return p.fenced() && p.state == coldRunning && (p.boot != bootUnread || stops) && !p.up() && p.again(stopAccepted, stopUnanswered, stopUnansweredExpired) && p.power < startAccepted
}

func (p coldPoint) mayDrain() bool {
	return p.toStop() && (p.pods == podsFresh || p.pods == podsUnread)
}
func (p coldPoint) mayStop() bool { return p.toStop() && p.pods == podsGone }

func (p coldPoint) mayResize() bool {
	return p.fenced() && p.state == coldStopped && !p.atGoal && (p.resize == coldResizeNone || p.resize == coldResizeLostExpired)
}

func (p coldPoint) mayStart() bool {
	hasOffering := p.atGoal || p.resize == coldResizeRefused
	return p.fenced() && p.state == coldStopped && hasOffering && p.again(startAccepted, startUnanswered, startUnansweredExpired) && p.power != stopUnanswered &&
		(p.power == powerNone || !p.doubted)
}

func (p coldPoint) verified() bool {
	return p.fenced() && p.up() && !p.badHardware && !p.stale && !p.notReady
}

func (p coldPoint) mayRelease() bool {
	return p.verified() && p.atGoal && p.resize != coldResizeRefused
}

func (p coldPoint) mayGiveBack() bool { return p.verified() && p.resize == coldResizeRefused }

// judge returns what is wrong with the step at this point, or "". It shares only types with Next.
func (p coldPoint) judge(s Step) string {
	may := map[Action]bool{ActionDrain: p.mayDrain(), ActionStop: p.mayStop(), ActionResize: p.mayResize(), ActionStart: p.mayStart(),
		ActionRelease: p.mayRelease(), ActionGiveBack: p.mayGiveBack(),
		ActionAdopt:       p.claim == coldEarlierRun && p.disturbance == undisturbed,
		ActionNoteRefused: p.fenced() && p.state == coldStopped && !p.atGoal && p.resize == coldResizeFailed,
		ActionNoteJob:     p.ours() && p.state == coldStopped && !p.atGoal && p.resize == coldResizeLostFound,
	}
	must := p.mayDrain() || p.mayStop() || p.mayResize() || p.mayStart() || p.mayRelease() || p.mayGiveBack()
	switch {
	case s.Kind == KindAct && !may[s.Action]:
		return "must not " + string(s.Action)
	case s.Kind == KindAct && s.Action.Move() != s.Move:
		return "an action of another move"
	case s.Kind == KindDone:
		return "is not done: the node is claimed"
	case s.Kind == KindStop && (s.Fault == nil || s.Fault.Layer == "" || s.Fault.Summary == "" || s.Fault.Move == ""):
		return "a fault must say what and where"
	case s.Kind == KindWait && (s.Check.OK || s.Check.Layer == "" || s.Move == "" || s.Check.Expected == ""):
		return "waits for nothing"
	case s.Kind != KindAct && must:
		return "does not act although something can be done"
	}
	return ""
}

func everyColdPoint(visit func(coldPoint)) {
	for i := range coldClaims * coldStates * coldBoots * powers * coldResizes * coldPods * coldJobs * 3 * 32 {
		p, n := coldPoint{}, i
		take := func(size int) (v int) { v, n = n%size, n/size; return v }
		p.claim, p.state, p.boot, p.power = take(coldClaims), take(coldStates), take(coldBoots), take(powers)
		p.resize, p.pods, p.job, p.disturbance = take(coldResizes), take(coldPods), take(coldJobs), take(3)
		p.atGoal, p.doubted, p.badHardware, p.stale, p.notReady = take(2) == 0, take(2) == 1, take(2) == 1, take(2) == 1, take(2) == 1
		detail := p.badHardware || p.stale || p.notReady
		switch {
		case p.state != coldRunning && (p.boot > 0 || detail), p.boot != bootAnother && detail:
			continue // there is nothing to be seen of it
		case p.job == coldForeignJob && p.resize == coldResizeLostFound, p.job == coldForeignJob && (p.power == stopJobFailed || p.power == startJobFailed),
			p.resize == coldResizeFailed && (p.power == stopJobFailed || p.power == startJobFailed), p.resize == coldResizeLostFound && (p.power == stopJobFailed || p.power == startJobFailed),
			p.job == coldForeignJob && (p.resize == coldResizeFailed || p.resize == coldResizeLost || p.resize == coldResizeLostExpired || p.resize == coldResizeNone):
			if p.resize != coldResizeNone || p.power == stopJobFailed || p.power == startJobFailed {
				continue // one job is read
			}
		}
		visit(p)
	}
}

// Every promise that Next alone can keep with the cold method, at every point of its classed input space.
func TestNextColdKeepsItsPromisesEverywhere(t *testing.T) {
	t.Parallel()
	states, wrong, steps := 0, 0, map[string]int{}
	everyColdPoint(func(p coldPoint) {
		if wrong > 10 {
			return
		}
		states++
		s := p.scene()
		step := s.next()
		steps[fmt.Sprint(step.Kind, step.Action)]++
		if bad := p.judge(step); bad != "" {
			wrong++
			t.Errorf("%+v\n%s: %s", p, brief(step), bad)
		}
	})
	t.Logf("%d states: %v", states, steps)
	for _, a := range []Action{ActionAdopt, ActionDrain, ActionStop, ActionResize, ActionNoteJob, ActionNoteRefused, ActionStart, ActionRelease, ActionGiveBack} {
		if steps[fmt.Sprint(KindAct, a)] == 0 && wrong == 0 {
			t.Errorf("no state leads to %s: the space is too small", a)
		}
	}
}

// From every state, the plan of the cold method either refuses or ends with an unclaimed node.
func TestColdPlansEndFromEverywhere(t *testing.T) {
	t.Parallel()
	i, plans, wrong := 0, 0, 0
	everyColdPoint(func(p coldPoint) {
		if i++; i%7 != 0 || wrong > 5 {
			return
		}
		plans++
		s := p.scene()
		np := planNode(s.goal, Member{Seen: s.seen, Claim: s.claim})
		switch {
		case len(np.Refusals) > 0 && (np.Refusals[0].Remedy == "" || np.Refusals[0].Check.What == ""):
			t.Errorf("%+v\n%+v: a refusal must say what and what to do", p, np.Refusals)
		case len(np.Refusals) == 0 && (len(np.Moves) == 0 || np.Moves[len(np.Moves)-1].Move != MoveRelease):
			t.Errorf("%+v\ndoes not end with a release: %+v", p, np.Moves)
		default:
			return
		}
		wrong++
	})
	t.Logf("%d plans", plans)
}
