package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/capacity"
)

func etcdWell() *capacity.Etcd {
	return &capacity.Etcd{Unit: capacity.Unit{ActiveState: "active", SubState: "running", MainPID: 70},
		Members: []capacity.EtcdMember{{Endpoint: "http://10.1.1.2:2379", Healthy: true}, {Endpoint: "http://10.1.1.3:2379", Healthy: true}}}
}

// asEtcd makes the scene one of a dedicated etcd machine: no Node, no kubelet, nothing of either in the claim.
func asEtcd(s *scene) {
	s.seen.Target.Role, s.seen.Target.Name = RoleEtcd, "e1"
	s.seen.Node = capacity.Node{}
	for _, g := range []*capacity.Guest{&s.seen.Guest, beforeOf(s)} {
		g.Kubelet, g.KubepodsCPUs, g.KubepodsMemory, g.Etcd = capacity.Unit{ActiveState: "inactive", SubState: "dead"}, 0, 0, etcdWell()
	}
	if s.claim != nil {
		s.claim.Restart, s.claim.Cordoned, s.claim.ScaleDown = nil, false, false
		s.claim.Before.Capacity, s.claim.Before.Allocatable = nil, nil
	}
}

// beforeOf is the guest in the claim, where there is one to change.
func beforeOf(s *scene) *capacity.Guest {
	if s.claim == nil {
		return new(capacity.Guest)
	}
	return &s.claim.Before.Guest
}

func memberIll(s *scene) { s.seen.Guest.Etcd.Members[1].Healthy = false }
func memberDown(s *scene) {
	s.seen.Guest.Etcd.Unit = capacity.Unit{ActiveState: "failed", SubState: "failed"}
}
func etcdUnread(s *scene)  { s.seen.Guest.Etcd = nil }
func apiIll(s *scene)      { s.seen.ControlPlane = "etcd failed" }
func staticCPUs(s *scene)  { s.seen.Guest.CPUManagerPolicy = "static" }
func wrongGuest(s *scene)  { s.seen.Guest.ProductUUID = "22222222-2222-2222-2222-222222222222" }
func tooFewSlots(s *scene) { s.seen.Guest.CPUsPossible = 3 }

// The whole turn of a dedicated etcd machine, state by state, and what stops it.
func TestNextEtcd(t *testing.T) {
	for _, c := range []struct {
		name string
		in   scene
		want string
	}{
		{"untouched", untouched().with(asEtcd), "act: claim"},
		{"kubelet's policies are of no interest", untouched().with(asEtcd, staticCPUs), "act: claim"},
		{"another member is ill", untouched().with(asEtcd, memberIll), "stop in claim, preflight"},
		{"its own etcd is down", untouched().with(asEtcd, memberDown), "stop in claim, preflight"},
		{"etcd was not read", untouched().with(asEtcd, etcdUnread), "stop in claim, preflight"},
		{"the API server's etcd is ill", untouched().with(asEtcd, apiIll), "stop in claim, preflight"},
		{"another machine", untouched().with(asEtcd, wrongGuest), "stop in claim, preflight"},
		{"too few CPUs possible", untouched().with(asEtcd, tooFewSlots), "stop in claim, preflight"},
		{"claimed", claimed().with(asEtcd), "act: resize"},
		{"claimed, and a member fell ill", claimed().with(asEtcd, memberIll), "wait in resize"},
		{"claimed, and the API server fell ill", claimed().with(asEtcd, apiIll), "wait in resize"},
		{"asked", asked().with(asEtcd), "wait in resize"},
		{"resized", resized().with(asEtcd), "act: online"},
		{"resized, and its own etcd is down: the memory may be what it lacks", resized().with(asEtcd, memberDown), "act: online"},
		{"online, and its own etcd is down", online().with(asEtcd, memberDown), "wait in verify"},
		{"online, and another member is ill", online().with(asEtcd, memberIll), "wait in verify"},
		{"online, and the API server is ill", online().with(asEtcd, apiIll), "wait in verify"},
		{"online: no restart", online().with(asEtcd), "act: release"},
		{"another machine behind the claim", online().with(asEtcd, wrongGuest), "stop in claim, access"},
		{"an earlier run's claim", online().with(asEtcd, func(s *scene) { s.claim.Transitions-- }), "act: adopt"},
		{"done", released().with(asEtcd), "done"},
		{"done, and ill", released().with(asEtcd, memberIll), "stop in verify, readiness: every view agrees, but etcd is not healthy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := brief(c.in.next()); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The sentences of a plan for etcd machines say what is not done, and etcd comes last, one machine after the other.
func TestPlanEtcd(t *testing.T) {
	first, second := untouched().with(asEtcd), untouched().with(asEtcd, func(s *scene) { s.seen.Target.Name = "e2" })
	control := untouched().with(func(s *scene) {
		s.seen.Target.Role, s.seen.Target.Name, s.seen.Node.ControlPlane = RoleControl, "c1", true
	})
	goal := first.goal
	p := NewPlan("c", "prod", map[Role]Goal{RoleEtcd: goal, RoleControl: goal}, []Member{{Seen: first.seen}, {Seen: second.seen}, {Seen: control.seen}})
	var names []string
	for _, n := range p.Nodes {
		names = append(names, n.Target.Name)
	}
	if !slices.Equal(names, []string{"c1", "e1", "e2"}) {
		t.Errorf("order %v", names)
	}
	var sentences []string
	for _, m := range p.Nodes[1].Moves {
		sentences = append(sentences, string(m.Move)+": "+m.Sentence)
	}
	want := []string{
		"claim: record a claim for e1 on the Lease, without a cordon: a dedicated etcd machine is no Node",
		"resize: scaleVirtualMachine e1 (" + vm1 + ") from small to " + big.String(),
		"online: bring up 2 CPUs and 32 memory blocks of 128 MiB in the guest of e1",
		"verify: wait until etcd runs on e1, and finds every member of its cluster healthy",
		"release: drop the claim for e1 on the Lease",
	}
	if !slices.Equal(sentences, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(sentences, "\n"), strings.Join(want, "\n"))
	}
}

// etcdPoint is one point of the classed input space of Next for a dedicated etcd machine.
type etcdPoint struct {
	point

	ill int // 0: all is well; 1 a member is ill, 2 its own etcd is down, 3 etcd was not read, 4 the API server is ill
}

func (p etcdPoint) scene() scene {
	ills := []func(*scene){func(*scene) {}, memberIll, memberDown, etcdUnread, apiIll}
	return p.point.scene().with(asEtcd, ills[p.ill])
}

// judge returns what is wrong with the step at this point, or "".
func (p etcdPoint) judge(s Step) string {
	well, ownWell := p.ill == 0, p.ill == 0 || p.ill == 4
	may := map[Action]bool{
		ActionClaim:   p.claim == claimNone && well && p.disturbance != disturbedGuest && p.instance != instanceOldMigrating && p.cpu != hardwareExcess && p.memory != hardwareExcess,
		ActionAdopt:   p.claim == claimEarlierRun && p.disturbance != disturbedGuest,
		ActionResize:  p.ours() && p.mayAsk() && well,
		ActionNoteJob: p.ours() && p.instance != instanceGoal && p.request == requestLostFound,
		ActionOnline: p.ours() && p.instance == instanceGoal && (p.cpu == hardwareOffline || p.memory == hardwareOffline) &&
			p.cpu != hardwareExcess && p.memory != hardwareExcess,
		ActionRelease:       p.ours() && p.instance == instanceGoal && p.hardware() && well,
		ActionNoteUnchanged: p.ours() && p.unchangedHardware() && ownWell && (p.request == requestFailed || p.request == requestRefused),
		ActionGiveBack:      p.ours() && p.unchangedHardware() && ownWell && p.request == requestFailedTwiceSeen,
	}
	done := p.claim == claimNone && p.instance == instanceGoal && p.hardware() && ownWell && p.disturbance != disturbedGuest
	switch {
	case s.Kind == KindAct && !may[s.Action]:
		return "must not " + string(s.Action)
	case s.Kind == KindWait && (!p.ours() || may[ActionRelease] || may[ActionResize] || may[ActionOnline]):
		return "waits although something can be done, or where it must not wait"
	case (s.Kind == KindDone) != done:
		return "is done, or does not see it"
	case s.Kind == KindStop && (s.Fault == nil || s.Fault.Layer == "" || s.Fault.Summary == ""):
		return "a fault must say what and where"
	}
	return ""
}

func (p etcdPoint) ours() bool { return p.claim == claimOurs && p.disturbance != disturbedGuest }

func (p etcdPoint) mayAsk() bool {
	return p.instance == instanceOld && (p.request == requestNone || p.request == requestLostExpired)
}

func (p etcdPoint) unchangedHardware() bool {
	return p.instance == instanceOld && p.cpu == hardwareMissing && p.memory == hardwareMissing
}

// Every promise that Next alone can keep for a dedicated etcd machine, at every point: above all, nothing is ever restarted.
func TestNextKeepsItsPromisesForEtcdEverywhere(t *testing.T) {
	t.Parallel()
	states, wrong, steps := 0, 0, map[string]int{}
	everyPoint(func(p point) {
		marks := p.disturbance == disturbedMark || p.disturbance == disturbedDeletion
		kubelet := p.down || p.stale || p.notReady || p.oldCapacity || p.badAllocatable || p.young || p.restart != restartHappened
		if marks || kubelet || wrong > 10 {
			return // what a Node or a kubelet says does not exist here
		}
		for ill := range 5 {
			states++
			e := etcdPoint{p, ill}
			step := e.scene().next()
			steps[fmt.Sprint(step.Kind, step.Action)]++
			if bad := e.judge(step); bad != "" {
				wrong++
				t.Errorf("%+v\n%s: %s", e, brief(step), bad)
			}
		}
	})
	t.Logf("%d states: %v", states, steps)
	for _, a := range []Action{ActionClaim, ActionAdopt, ActionResize, ActionNoteJob, ActionOnline, ActionRelease, ActionNoteUnchanged, ActionGiveBack} {
		if steps[fmt.Sprint(KindAct, a)] == 0 && wrong == 0 {
			t.Errorf("no state leads to %s: the space is too small", a)
		}
	}
}
