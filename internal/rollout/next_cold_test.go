package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// tiny is smaller than small in every respect.
var tiny = capacity.Offering{ID: "off-tiny", Name: "tiny", CPUs: 1, SpeedMHz: 1000, MemoryMiB: 2048, DynamicScaling: true}

var (
	webPod    = capacity.Pod{UID: "p-web", Namespace: "default", Name: "web", Phase: "Running", Ready: true, Controller: "ReplicaSet"}
	agentPod  = capacity.Pod{UID: "p-agent", Namespace: "kube-system", Name: "agent", Phase: "Running", Ready: true, Controller: "DaemonSet"}
	staticPod = capacity.Pod{UID: "p-static", Namespace: "kube-system", Name: "proxy", Phase: "Running", Ready: true, Static: true}
)

func podsAre(pods ...capacity.Pod) func(*scene) {
	return func(s *scene) { s.seen.Pods = &PodReading{Pods: pods} }
}

// coldUntouched is a healthy worker that shall be made smaller by the cold method.
func coldUntouched() scene {
	s := untouched()
	s.goal.Offering, s.goal.Method = tiny, MethodCold
	podsAre(webPod, agentPod, staticPod)(&s)
	return s
}

// coldClaimed: our claim is on the Node; nothing is drained yet.
func coldClaimed() scene {
	s := coldUntouched()
	s.claim = newClaim(s.goal, s.tenure, Author{Actor: "me@here"}, s.seen)
	s.seen.Node.Unschedulable, s.seen.Node.UnschedulableBy, s.seen.Node.ScaleDownDisabled = true, FieldManager, true
	return s
}

// drained: only what belongs to the node is left.
func drained() scene { return coldClaimed().with(podsAre(agentPod, staticPod)) }

// stopAsked: the stop was sent ten seconds ago and is job-stop.
func stopAsked() scene {
	s := drained()
	s.claim = stopping(*s.claim, s.seen, noon.Add(50*time.Second))
	s.claim.Cold.Power.JobID = "job-stop"
	return s
}

func off(s *scene) { s.seen.Instance.State, s.seen.Guest = "Stopped", capacity.Guest{} }

// stopped: the instance is off, with its old offering.
func stoppedScene() scene { return stopAsked().with(off) }

// shrunk: the stopped instance has its new offering.
func shrunk() scene {
	return stoppedScene().with(resizeIs(&ResizeIntent{Asked: noon, Expires: noon.Add(time.Minute), JobID: "job-1"}, nil), has(tiny))
}

func resizeIs(intent *ResizeIntent, job *Job) func(*scene) {
	return func(s *scene) { s.claim.Resize, s.seen.Job = intent, job }
}

func has(o capacity.Offering) func(*scene) {
	return func(s *scene) {
		i := &s.seen.Instance
		i.OfferingID, i.OfferingName, i.CPUs, i.MemoryMiB = o.ID, o.Name, o.CPUs, o.MemoryMiB
	}
}

// powerIs writes the power intent anew: what was asked for, with a job or without.
func powerIs(state, job, refused string, expires time.Time) func(*scene) {
	return func(s *scene) {
		cold := *s.claim.Cold
		cold.Power = &PowerIntent{State: state, Asked: noon.Add(-10 * time.Second), Expires: expires, JobID: job, Refused: refused}
		s.claim.Cold = &cold
	}
}

func jobIs(id string, status JobStatus) func(*scene) {
	return func(s *scene) {
		s.seen.Job = &Job{ID: id, Status: status, Code: 530, Text: "no", Created: noon.Add(-10 * time.Second)}
	}
}

// boots lets the instance run in another boot with the offering, where nothing is posted yet.
func boots(o capacity.Offering) func(*scene) {
	return func(s *scene) {
		g := untouched().seen.Guest
		g.BootID, g.CPUsOnline, g.CPUsPresent, g.BlocksOnline = "boot-2", o.CPUs, o.CPUs, int(o.MemoryMiB/128)
		g.MemTotal = o.MemoryMiB*capacity.MiB - 170000*kB
		g.Clock, g.Monotonic, g.KubepodsCPUs, g.KubepodsMemory = noon.Add(time.Hour), 90*time.Second, o.CPUs, g.MemTotal
		g.Kubelet = capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: "inv-9", MainPID: 90, Start: 30 * time.Second}
		s.seen.Instance.State, s.seen.Guest, s.seen.Job = "Running", g, nil
	}
}

// postsBoot is the status of that boot's kubelet.
func postsBoot(s *scene) {
	n, g := &s.seen.Node, s.seen.Guest
	n.BootID = g.BootID
	n.Capacity = with(n.Capacity, int64(g.CPUsOnline)*1000, g.MemTotal)
	n.Allocatable = with(n.Allocatable, int64(g.CPUsOnline)*1000-100, g.MemTotal-100*capacity.MiB)
	n.Ready = capacity.Condition{Status: "True", Heartbeat: g.Clock.Add(-20 * time.Second).Truncate(time.Second)}
}

// startedScene: the shrunk instance runs again, and its kubelet has posted.
func startedScene() scene {
	return shrunk().with(powerIs("Running", "job-start", "", noon), boots(tiny), postsBoot)
}

func unreadGuest(s *scene) {
	s.seen.Instance.State, s.seen.Guest, s.seen.GuestUnread = "Running", capacity.Guest{}, "connection refused"
}

func TestNextCold(t *testing.T) {
	t.Parallel()
	soon, past := noon.Add(30*time.Second), noon.Add(-time.Second)
	held := func(s *scene) { s.seen.Held = map[string]string{webPod.UID: "budget web"} }
	ending := webPod
	ending.Deleting = true
	done := webPod
	done.Phase = "Succeeded"
	checkRules(t, []rule{
		{"unclaimed", coldUntouched(), "act: claim"},
		{"unclaimed, pods unknown", coldUntouched().with(func(s *scene) { s.seen.Pods = nil }), "stop in claim, preflight: pods of the node"},
		{"unclaimed, and its size is right", coldUntouched().with(func(s *scene) { s.goal.Offering = small }), "done"},
		{"unclaimed, its size is right, and the boot shall be over", coldUntouched().with(func(s *scene) { s.goal.Offering, s.goal.PastBoot = small, "boot-1" }), "act: claim"},
		{"unclaimed, and that boot is over", coldUntouched().with(func(s *scene) { s.goal.Offering, s.goal.PastBoot = small, "boot-0" }), "done"},

		{"claimed", coldClaimed(), "act: drain"},
		{"its pods are not known", coldClaimed().with(func(s *scene) { s.seen.Pods = nil }), "act: drain"},
		{"its pods can't be listed", coldClaimed().with(func(s *scene) { s.seen.Pods = &PodReading{Unknown: "denied"} }), "wait in drain: pods that can run elsewhere"},
		{"pods are ending", coldClaimed().with(podsAre(ending, agentPod)), "wait in drain: pods that can run elsewhere"},
		{"a budget holds a pod", coldClaimed().with(held), "wait in drain: pods that can run elsewhere"},
		{"only finished pods are left", coldClaimed().with(podsAre(done, agentPod)), "act: stop"},
		{"drained", drained(), "act: stop"},
		{"drained, and another control-plane node is away", drained().with(control, func(s *scene) { s.seen.Peers = []Peer{{Name: "c2"}} }), "wait in stop: rest of the control plane"},
		{"somebody else's job is pending", drained().with(jobIs("job-9", JobPending)), "wait in stop: job job-9"},
		{"another tool came", drained().with(marked), "stop in claim, schedulability: another tool"},

		{"stop pending", stopAsked().with(jobIs("job-stop", JobPending)), "wait in stop: job job-stop"},
		{"stopping", stopAsked().with(func(s *scene) { s.seen.Instance.State = "Stopping" }), "wait in stop: state of the instance"},
		{"stop failed", stopAsked().with(jobIs("job-stop", JobFailed)), "stop in stop, cloudstack: CloudStack could not stop the instance"},
		{"stop refused", stopAsked().with(powerIs("Stopped", "", "no", soon)), "stop in stop, cloudstack: CloudStack could not stop the instance"},
		{"no reply to the stop", stopAsked().with(powerIs("Stopped", "", "", soon)), "wait in stop: state of the instance"},
		{"no reply to the stop, and it has expired", stopAsked().with(powerIs("Stopped", "", "", past)), "act: stop"},

		{"it is on its way down, and CloudStack calls it Running", stopAsked().with(powerIs("Stopped", "", "", soon), unreadGuest), "wait in stop: state of the instance"},
		{"the same, with the job", stopAsked().with(unreadGuest), "wait in stop: state of the instance"},
		{"its guest does not answer, and the stop has expired", stopAsked().with(powerIs("Stopped", "", "", past), unreadGuest), "act: stop"},
		{"its guest does not answer before any stop", drained().with(unreadGuest), "wait in start: guest of the started instance"},
		{"stopped", stoppedScene(), "act: resize"},
		{"stopped, and somebody else's job is pending", stoppedScene().with(jobIs("job-9", JobPending)), "wait in resize: job job-9"},
		{"resize pending", stoppedScene().with(resizeIs(&ResizeIntent{Asked: noon, Expires: soon, JobID: "job-1"}, &Job{ID: "job-1"})), "wait in resize"},
		{"no reply to the resize", stoppedScene().with(resizeIs(&ResizeIntent{Asked: noon, Expires: soon}, nil)), "wait in resize"},
		{"no reply to the resize, and its job is found", stoppedScene().with(resizeIs(&ResizeIntent{Asked: noon, Expires: soon}, &Job{ID: "job-1", Created: noon})), "act: note-job"},
		{"no reply to the resize, and it has expired", stoppedScene().with(resizeIs(&ResizeIntent{Asked: noon, Expires: past}, nil)), "act: resize"},
		{"resize failed", stoppedScene().with(resizeIs(&ResizeIntent{Asked: noon, Expires: soon, JobID: "job-1"}, &Job{ID: "job-1", Status: JobFailed})), "act: note-refused"},
		{"resize refused", stoppedScene().with(resizeIs(&ResizeIntent{Refused: "no"}, nil)), "act: start"},
		{"refused, and it runs as it was", stoppedScene().with(resizeIs(&ResizeIntent{Refused: "no"}, nil), powerIs("Running", "job-start", "", noon), boots(small), postsBoot), "act: give-back"},
		{"somebody started it before it had its offering", stoppedScene().with(boots(small), postsBoot), "stop in resize, cloudstack: somebody started the instance before"},

		{"shrunk", shrunk(), "act: start"},
		{"shrunk, and the stop got no reply", shrunk().with(powerIs("Stopped", "", "", soon)), "wait in start: stop request without a reply"},
		{"start pending", shrunk().with(powerIs("Running", "job-start", "", soon), jobIs("job-start", JobPending)), "wait in start: job job-start"},
		{"start failed", shrunk().with(powerIs("Running", "job-start", "", soon), jobIs("job-start", JobFailed)), "stop in start, cloudstack: CloudStack could not start the instance"},
		{"start refused", shrunk().with(powerIs("Running", "", "no capacity", soon)), "stop in start, cloudstack: CloudStack could not start the instance"},
		{"no reply to the start", shrunk().with(powerIs("Running", "", "", soon)), "wait in start: state of the instance"},
		{"no reply to the start, and it has expired", shrunk().with(powerIs("Running", "", "", past)), "act: start"},
		{"starting", shrunk().with(powerIs("Running", "job-start", "", soon), func(s *scene) { s.seen.Instance.State = "Starting" }), "wait in start: state of the instance"},
		{"it runs, and SSH does not answer yet", shrunk().with(powerIs("Running", "job-start", "", soon), unreadGuest), "wait in start: guest of the started instance"},
		{"it runs, and it is the same boot", shrunk().with(powerIs("Running", "job-start", "", soon), func(s *scene) { s.seen.Instance.State, s.seen.Guest = "Running", untouched().seen.Guest }), "stop in start, cloudstack: the instance was not stopped after all"},
		{"it runs with less than its offering", startedScene().with(func(s *scene) { s.seen.Guest.BlocksOnline-- }), "wait in online"},
		{"SSH leads elsewhere", startedScene().with(otherGuest), "stop in claim, access: SSH or the Node's name"},
		{"nothing posted yet", shrunk().with(powerIs("Running", "job-start", "", soon), boots(tiny)), "wait in verify: status posted by the running kubelet"},
		{"posted", startedScene(), "act: release"},
		{"posted a size that is not the guest's", startedScene().with(shows("2", "4Gi")), "wait in verify: capacity of the Node"},
		{"posted, not ready", startedScene().with(notReady), "wait in verify: Ready"},
		{"its own pods are not ready again", startedScene().with(func(s *scene) {
			p := agentPod
			p.Ready = false
			podsAre(p, staticPod)(s)
		}), "wait in verify: readiness of pods"},
		{"its own pods are not ready, and patience ends", startedScene().with(func(s *scene) {
			p := agentPod
			p.Ready, s.goal.Patience = false, -1
			podsAre(p, staticPod)(s)
		}), "act: release"},
		{"another run takes over", startedScene().with(laterRun), "act: adopt"},
		{"the goal is live", coldClaimed().with(func(s *scene) { s.goal.Method = MethodLive }), "stop in claim, lock: the node is claimed for another method"},
		{"the claim is live", claimed().with(func(s *scene) { s.goal.Method = MethodCold }), "stop in claim, lock: the node is claimed for another method"},
	})
}

// What another run makes of a claim that it takes over: what came to nothing is asked for anew.
func TestAdoptedCold(t *testing.T) {
	t.Parallel()
	soon := noon.Add(30 * time.Second)
	for name, c := range map[string]struct {
		scene scene
		want  string
	}{
		"stop failed":         {stopAsked().with(jobIs("job-stop", JobFailed)), "act: stop"},
		"stop refused":        {stopAsked().with(powerIs("Stopped", "", "no", soon)), "act: stop"},
		"stop pending":        {stopAsked().with(jobIs("job-stop", JobPending)), "wait in stop"},
		"stop without reply":  {stopAsked().with(powerIs("Stopped", "", "", soon)), "wait in stop"},
		"resize refused":      {stoppedScene().with(resizeIs(&ResizeIntent{Refused: "no"}, nil)), "act: resize"},
		"somebody started it": {stoppedScene().with(boots(small), postsBoot), "act: stop"},
		"start failed":        {shrunk().with(powerIs("Running", "job-start", "", soon), jobIs("job-start", JobFailed)), "act: start"},
		"started and stopped": {shrunk().with(powerIs("Running", "job-start", "", soon)), "act: start"},
		"started":             {startedScene(), "act: release"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.scene.with(laterRun)
			if step := s.next(); step.Action != ActionAdopt {
				t.Fatalf("got %s", brief(step))
			}
			s.claim = adopted(*s.claim, s.tenure, s.seen)
			if got := brief(s.next()); len(got) < len(c.want) || got[:len(c.want)] != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	// A stop that got no reply may still arrive after somebody started the instance and another stop was answered.
	s := stopAsked().with(powerIs("Stopped", "", "", soon), boots(small), laterRun)
	s.claim = adopted(*s.claim, s.tenure, s.seen)
	s.claim = stopping(*s.claim, s.seen, soon.Add(time.Minute))
	s.claim.Cold.Power.JobID = "job-stop-2"
	if step := s.with(off, has(tiny)).next(); step.Kind != KindWait || step.Move != MoveStart {
		t.Errorf("started while an earlier stop may arrive: %s", brief(step))
	}
}

// The plan of the cold method, and what refuses it.
func TestColdPlan(t *testing.T) {
	t.Parallel()
	s := coldUntouched()
	var moves []string
	for _, m := range planNode(s.goal, Member{Seen: s.seen}).Moves {
		moves = append(moves, string(m.Move))
	}
	if got := fmt.Sprint(moves); got != "[claim drain stop resize start verify release]" {
		t.Error(got)
	}
	bare, local := webPod, webPod
	bare.Controller, local.LocalData = "", true
	for name, c := range map[string]struct {
		scene scene
		check string // that refuses; empty: none does
	}{
		"smaller":                            {s, ""},
		"a bare pod":                         {s.with(podsAre(bare)), "bare-pods"},
		"a bare pod, accepted":               {s.with(podsAre(bare), func(s *scene) { s.goal.Ignore = []string{"bare-pods"} }), ""},
		"local data":                         {s.with(podsAre(local)), "local-data"},
		"pods unread":                        {s.with(func(s *scene) { s.seen.Pods = nil }), "pods-readable"},
		"no dynamic scaling anywhere":        {s.with(func(s *scene) { s.goal.Offering.DynamicScaling, s.seen.Instance.DynamicallyScalable = false, false }), ""},
		"a custom offering":                  {s.with(func(s *scene) { s.goal.Offering.Custom = true }), "offering-kind"},
		"not running":                        {s.with(func(s *scene) { s.seen.Instance.State = "Stopped" }), "instance-state"},
		"static CPU manager":                 {s.with(func(s *scene) { s.seen.Guest.CPUManagerPolicy = "static" }), "cpu-manager"},
		"the only control-plane node":        {s.with(control), "api-outage"},
		"that, accepted":                     {s.with(control, func(s *scene) { s.goal.AcceptOutage = true }), ""},
		"one of several control-plane nodes": {s.with(control, func(s *scene) { s.seen.Peers = []Peer{{Name: "c2", Ready: capacity.Condition{Status: "True"}}} }), ""},
		"another one is away":                {s.with(control, func(s *scene) { s.seen.Peers = []Peer{{Name: "c2"}} }), "control-plane"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			if r := Refusals(c.scene.goal, c.scene.seen); len(r) > 0 {
				got = r[0].Name
			}
			if got != c.check {
				t.Errorf("got %q, want %q", got, c.check)
			}
		})
	}
}

func control(s *scene) {
	s.seen.Target.Role, s.seen.Node.ControlPlane = RoleControl, true
}
