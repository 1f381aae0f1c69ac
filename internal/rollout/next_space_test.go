package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// point is one point of the classed input space of Next: an index into the names of each dimension.
type point struct {
	claim, instance, request, cpu, memory, restart, disturbance int
	down, stale, notReady, oldCapacity, badAllocatable, young   bool
}

// The dimensions. The first value of each is the one that is furthest along, or harmless.
const (
	claimOurs = iota
	claimNone
	claimEarlierRun
	claimOtherGoal
	claimOtherInstance
	claims
)
const (
	instanceGoal = iota
	instanceOld
	instanceOldMigrating
	instances
)
const (
	requestNone = iota
	requestNoneForeignJob
	requestPending
	requestSucceeded
	requestFailed
	requestUnknownJob
	requestLost
	requestLostFound
	requestLostForeignJob
	requestLostExpired
	requestLostExpiredForeignJob
	requestRefused
	requestFailedOnceSeen
	requestFailedTwiceSeen
	requestCancelled
	requests
)
const (
	hardwareOnline = iota
	hardwareOffline
	hardwareMissing
	hardwareExcess
	hardwares
)
const (
	restartHappened = iota
	restartNone
	restartAnnounced
	restartOtherBoot
	restartBeforeHardware
	restarts
)
const (
	undisturbed = iota
	disturbedMark
	disturbedDeletion
	disturbedGuest
	disturbances
)

// scene makes the concrete input for the point.
func (p point) scene() scene {
	s := settled()
	p.setInstance(&s)
	p.setHardware(&s)
	p.setKubelet(&s)
	p.setNode(&s)
	p.setDisturbance(&s)
	p.setClaim(&s)
	return s
}

func (p point) setInstance(s *scene) {
	i := &s.seen.Instance
	if p.instance != instanceGoal {
		i.OfferingID, i.OfferingName, i.CPUs, i.MemoryMiB = small.ID, small.Name, small.CPUs, small.MemoryMiB
	}
	if p.instance == instanceOldMigrating {
		i.State = "Migrating"
	}
	asked := s.seen.ServerTime.Add(-10 * time.Second)
	intent := &ResizeIntent{Asked: asked, Expires: asked.Add(time.Minute), JobID: "job-1"}
	job := &Job{ID: "job-1", Created: asked}
	switch p.request {
	case requestNone:
		intent, job = nil, nil
	case requestNoneForeignJob:
		intent = nil
	case requestSucceeded:
		job.Status = JobSucceeded
	case requestFailed:
		job.Status = JobFailed
	case requestUnknownJob:
		job = nil
	case requestLost:
		intent.JobID, job = "", nil
	case requestLostFound:
		intent.JobID = ""
	case requestLostForeignJob:
		intent.JobID, job.Created = "", asked.Add(-time.Second)
	case requestRefused:
		intent.JobID, intent.Refused, job = "", "CloudStack refused", nil
	case requestFailedOnceSeen:
		job.Status, intent.Unchanged = JobFailed, &Reading{BootID: s.seen.Guest.BootID, Monotonic: s.seen.Guest.Monotonic - unchangedFor + 1}
	case requestFailedTwiceSeen:
		job.Status, intent.Unchanged = JobFailed, &Reading{BootID: s.seen.Guest.BootID, Monotonic: s.seen.Guest.Monotonic - unchangedFor}
	case requestCancelled:
		job.Status, job.Cancelled = JobFailed, true
	case requestLostExpired:
		intent.JobID, intent.Expires, job = "", s.seen.ServerTime.Add(-time.Second), nil
	case requestLostExpiredForeignJob:
		intent.JobID, intent.Expires, job.Created = "", s.seen.ServerTime.Add(-time.Second), asked.Add(-time.Second)
	}
	s.claim.Resize, s.seen.Job = intent, job
}

func (p point) setHardware(s *scene) {
	g := &s.seen.Guest
	cpus := [hardwares][2]int{{4, 4}, {2, 4}, {2, 2}, {5, 5}}[p.cpu]
	g.CPUsOnline, g.CPUsPresent = cpus[0], cpus[1]
	blocks := [hardwares][2]int{{64, 0}, {32, 32}, {32, 0}, {65, 0}}[p.memory]
	g.BlocksOnline, g.BlocksOffline = blocks[0], blocks[1]
	g.MemTotal = memSmall + int64(g.BlocksOnline-32)*g.BlockSize
	g.KubepodsCPUs, g.KubepodsMemory = g.CPUsOnline, g.MemTotal
}

func (p point) setKubelet(s *scene) {
	r, g := s.claim.Restart, &s.seen.Guest
	r.CPUsOnline, r.BlocksOnline = g.CPUsOnline, g.BlocksOnline
	switch p.restart {
	case restartNone:
		s.claim.Restart, g.Kubelet.InvocationID = nil, "inv-1"
	case restartAnnounced:
		g.Kubelet.InvocationID = "inv-1"
	case restartOtherBoot:
		r.BootID = "boot-0"
	case restartBeforeHardware:
		r.BlocksOnline--
	}
	if p.down {
		kubeletDown(s)
	}
	if p.young {
		g.Kubelet.Start = g.Monotonic - s.goal.Settle + 1
	}
}

func (p point) setNode(s *scene) {
	n, g := &s.seen.Node, s.seen.Guest
	n.Capacity = with(n.Capacity, int64(g.CPUsOnline)*1000, g.MemTotal)
	n.Allocatable = with(n.Allocatable, int64(g.CPUsOnline)*1000-100, g.MemTotal-100*capacity.MiB)
	n.Ready.Heartbeat = g.KubeletStart()
	if p.stale {
		n.Ready.Heartbeat = n.Ready.Heartbeat.Add(-time.Second)
	}
	if p.notReady {
		notReady(s)
	}
	if p.oldCapacity {
		n.Capacity, n.Allocatable = quantities("1", "2Gi"), quantities("900m", "1948Mi")
	}
	if p.badAllocatable {
		n.Allocatable = capacity.Resources{"cpu": resource.MustParse("9"), "memory": resource.MustParse("1Gi")}
	}
}

func (p point) setDisturbance(s *scene) {
	switch p.disturbance {
	case disturbedMark:
		marked(s)
	case disturbedDeletion:
		deleting(s)
	case disturbedGuest:
		otherGuest(s)
	}
}

func (p point) setClaim(s *scene) {
	switch p.claim {
	case claimNone:
		s.claim = nil
	case claimEarlierRun:
		s.claim.Transitions--
	case claimOtherGoal:
		s.claim.Goal = faster
	case claimOtherInstance:
		s.claim.InstanceID = "other"
	}
}

// hardware tells whether the guest has exactly the goal online.
func (p point) hardware() bool { return p.cpu == hardwareOnline && p.memory == hardwareOnline }

// fenced tells whether the claim is ours, for this goal and machine, and nobody else is at work.
func (p point) fenced() bool { return p.claim == claimOurs && p.disturbance == undisturbed }

func (p point) mayRestart() bool {
	return p.fenced() && p.instance == instanceGoal && p.hardware() && !p.down && p.restart != restartHappened && p.restart != restartBeforeHardware
}

func (p point) mayRelease() bool {
	return p.fenced() && p.instance == instanceGoal && p.hardware() && !p.down && !p.stale && !p.notReady && !p.oldCapacity &&
		!p.badAllocatable && !p.young && p.restart != restartAnnounced && p.restart != restartBeforeHardware
}

func (p point) mayResize() bool {
	return p.fenced() && p.instance == instanceOld && (p.request == requestNone || p.request == requestLostExpired)
}

func (p point) mayOnline() bool {
	plugged := p.cpu == hardwareOffline || p.memory == hardwareOffline
	return p.fenced() && p.instance == instanceGoal && plugged && p.cpu != hardwareExcess && p.memory != hardwareExcess
}

func (p point) mayClaim() bool {
	return p.claim == claimNone && p.disturbance == undisturbed && !p.down && !p.notReady && !p.badAllocatable && p.instance != instanceOldMigrating &&
		p.cpu != hardwareExcess && p.memory != hardwareExcess
}

func (p point) mayBeDone() bool {
	return p.claim == claimNone && p.instance == instanceGoal && p.hardware() && !p.down && !p.notReady && !p.oldCapacity && !p.badAllocatable && p.disturbance != disturbedGuest
}

// asBefore tells whether nothing of the resize can be seen anywhere, and the node is healthy.
func (p point) asBefore() bool {
	return p.instance == instanceOld && p.cpu == hardwareMissing && p.memory == hardwareMissing && !p.down && !p.notReady && !p.oldCapacity
}

func (p point) mayNoteUnchanged() bool {
	return p.fenced() && p.asBefore() && (p.request == requestFailed || p.request == requestRefused)
}

func (p point) mayGiveBack() bool {
	return p.fenced() && p.asBefore() && p.request == requestFailedTwiceSeen
}

// judge returns what is wrong with the step at this point, or "". It shares only types with Next.
func (p point) judge(s Step) string {
	may := map[Action]bool{
		ActionClaim: p.mayClaim(), ActionResize: p.mayResize(), ActionOnline: p.mayOnline(), ActionRestart: p.mayRestart(), ActionRelease: p.mayRelease(),
		ActionAdopt:         p.claim == claimEarlierRun && p.disturbance == undisturbed,
		ActionNoteUnchanged: p.mayNoteUnchanged(), ActionGiveBack: p.mayGiveBack(),
		ActionNoteJob: p.fenced() && p.instance != instanceGoal && p.request == requestLostFound,
	}
	switch {
	case s.Kind == KindAct && !may[s.Action]:
		return "must not " + string(s.Action)
	case s.Kind == KindAct && s.Action.Move() != s.Move:
		return "an action of another move"
	case s.Action == ActionGiveBack && (s.Fault == nil || s.Fault.Layer != capacity.LayerCloudStack):
		return "gives back without the reason"
	case s.Kind == KindDone && !p.mayBeDone():
		return "is not done"
	case s.Kind == KindStop && (s.Fault == nil || s.Fault.Layer == "" || s.Fault.Summary == "" || s.Fault.Move == ""):
		return "a fault must say what and where"
	case s.Kind == KindWait && (!p.fenced() || s.Check.OK || s.Check.Layer == "" || s.Move == ""):
		return "waits for nothing, or where it must not wait"
	case s.Kind == KindWait && (p.mayRelease() || p.mayResize() || p.mayOnline()):
		return "waits although something can be done"
	case s.Kind != KindDone && p.mayBeDone() && !p.stale:
		return "does not see that it is done"
	case s.Kind < KindAct || s.Kind > KindStop:
		return "is no step"
	}
	return ""
}

// everyPoint calls visit for the whole space.
func everyPoint(visit func(point)) {
	for i := range claims * instances * requests * hardwares * hardwares * restarts * disturbances {
		p, n := point{}, i
		take := func(size int) (v int) { v, n = n%size, n/size; return v }
		p.claim, p.instance, p.request, p.cpu = take(claims), take(instances), take(requests), take(hardwares)
		p.memory, p.restart, p.disturbance = take(hardwares), take(restarts), take(disturbances)
		if p.instance == instanceGoal && p.request > requestNoneForeignJob {
			continue // what the instance has, no request can change
		}
		stride := 1
		if p.claim >= claimOtherGoal || p.disturbance != undisturbed {
			stride = 63 // refused whatever kubelet and the Node say: none of it, and all of it
		}
		for bits := 0; bits < 64; bits += stride {
			p.down, p.stale, p.notReady = bits&1 != 0, bits&2 != 0, bits&4 != 0
			p.oldCapacity, p.badAllocatable, p.young = bits&8 != 0, bits&16 != 0, bits&32 != 0
			visit(p)
		}
	}
}

// Every promise that Next alone can keep, at every point of its classed input space.
func TestNextKeepsItsPromisesEverywhere(t *testing.T) {
	t.Parallel()
	states, wrong, steps := 0, 0, map[string]int{}
	everyPoint(func(p point) {
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
	for _, a := range []Action{ActionClaim, ActionAdopt, ActionResize, ActionNoteJob, ActionOnline, ActionRestart, ActionRelease, ActionNoteUnchanged, ActionGiveBack} {
		if steps[fmt.Sprint(KindAct, a)] == 0 && wrong == 0 {
			t.Errorf("no state leads to %s: the space is too small", a)
		}
	}
}

func drawPoint(t *rapid.T) point {
	index := func(name string, size int) int { return rapid.IntRange(0, size-1).Draw(t, name) }
	p := point{claim: index("claim", claims), instance: index("instance", instances), request: index("request", requests),
		cpu: index("cpu", hardwares), memory: index("memory", hardwares), restart: index("restart", restarts), disturbance: index("disturbance", disturbances)}
	for name, b := range map[string]*bool{"down": &p.down, "stale": &p.stale, "notReady": &p.notReady, "oldCapacity": &p.oldCapacity, "badAllocatable": &p.badAllocatable, "young": &p.young} {
		*b = rapid.Bool().Draw(t, name)
	}
	return p
}

// From every state, the plan either refuses or ends with an unclaimed node, its moves in their order and the restart at most once.
func TestPlansEndFromEverywhere(t *testing.T) {
	t.Parallel()
	i, plans, wrong := 0, 0, 0
	everyPoint(func(p point) {
		if i++; i%11 != 0 || p.disturbance != undisturbed || wrong > 5 {
			return // a prime, so that every value meets every other one
		}
		plans++
		s := p.scene()
		np := planNode(s.goal, Member{Seen: s.seen, Claim: s.claim})
		if bad := judgePlan(p, np); bad != "" {
			wrong++
			t.Errorf("%+v\n%s: %+v", p, bad, np)
		}
	})
	t.Logf("%d plans", plans)
}

// judgePlan returns what is wrong with a plan made at this point, or "".
func judgePlan(p point, np NodePlan) string {
	order := map[Move]int{MoveClaim: 0, MoveResize: 1, MoveOnline: 2, MoveRestart: 3, MoveVerify: 4, MoveRelease: 5}
	for _, r := range np.Refusals {
		switch {
		case r.Remedy == "" || r.Check.What == "" || r.Check.Layer == "":
			return "a refusal must say what and what to do"
		case strings.HasPrefix(r.Check.What, "this can't come true"):
			return "the ideal world does not end"
		case len(np.Moves) > 0:
			return "refuses and has moves"
		}
	}
	if len(np.Refusals) > 0 {
		return ""
	}
	last := -1
	for _, m := range np.Moves {
		if order[m.Move] <= last {
			return string(m.Move) + " twice or out of order"
		}
		if m.Sentence == "" || m.Why == "" {
			return "a move must say what and why"
		}
		last = order[m.Move]
	}
	switch {
	case last != -1 && last != order[MoveRelease]:
		return "does not end with a release"
	case last == -1 && !p.mayBeDone():
		return "plans nothing, but the node is not done"
	}
	return ""
}

// Next must not panic on anything that a port could hand over, however wrong.
func TestNextNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawPoint(t).scene()
		for name, n := range map[string]*int{"online": &s.seen.Guest.CPUsOnline, "present": &s.seen.Guest.CPUsPresent, "possible": &s.seen.Guest.CPUsPossible,
			"blocks": &s.seen.Guest.BlocksOnline, "offline": &s.seen.Guest.BlocksOffline, "kubepods": &s.seen.Guest.KubepodsCPUs, "goal": &s.goal.Offering.CPUs} {
			if rapid.Bool().Draw(t, "garble "+name) {
				*n = rapid.IntRange(-1, 1000).Draw(t, name)
			}
		}
		for name, n := range map[string]*int64{"blockSize": &s.seen.Guest.BlockSize, "memTotal": &s.seen.Guest.MemTotal, "kubepodsMemory": &s.seen.Guest.KubepodsMemory, "goalMemory": &s.goal.Offering.MemoryMiB} {
			if rapid.Bool().Draw(t, "garble "+name) {
				*n = rapid.Int64Range(-1, 1<<40).Draw(t, name)
			}
		}
		if rapid.Bool().Draw(t, "no figures") {
			s.seen.Node.Capacity, s.seen.Node.Allocatable = nil, nil
		}
		step := s.next()
		if step.Kind == KindAct {
			_ = Sentence(step.Action, s.goal, s.claim, s.seen)
		}
		_ = planNode(s.goal, Member{Seen: s.seen, Claim: s.claim})
	})
}
