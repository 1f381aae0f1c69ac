package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// brief says a step in one line, for tables.
func brief(s Step) string {
	switch s.Kind {
	case KindAct:
		return "act: " + string(s.Action)
	case KindWait:
		return fmt.Sprintf("wait in %s: %s", s.Move, s.Check.What)
	case KindStop:
		return fmt.Sprintf("stop in %s, %s: %s", s.Move, s.Fault.Layer, s.Fault.Summary)
	case KindDone:
		return "done"
	}
	return "nothing"
}

type rule struct {
	name  string
	scene scene
	want  string
}

func checkRules(t *testing.T, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			step := r.scene.next()
			if got := brief(step); !strings.HasPrefix(got, r.want) {
				t.Errorf("got  %s\nwant %s", got, r.want)
			}
			if step.Kind == KindWait && (step.Check.OK || step.Check.What == "" || step.Check.Expected == "") {
				t.Errorf("a wait must say what it waits for: %+v", step.Check)
			}
			if step.Kind == KindAct && step.Why == "" {
				t.Error("an action must say why")
			}
		})
	}
}

// Changes of a scene, in words.
func marked(s *scene) {
	s.seen.Node.Marks = []capacity.Mark{{Tool: "kured", Key: "weave.works/kured-reboot-in-progress"}}
}
func deleting(s *scene)   { s.seen.Node.Deleting = true }
func otherGuest(s *scene) { s.seen.Guest.ProductUUID = "22222222-2222-2222-2222-222222222222" }
func otherNode(s *scene)  { s.seen.Node.SystemUUID = "22222222-2222-2222-2222-222222222222" }
func notReady(s *scene) {
	s.seen.Node.Ready.Status = "False"
	s.seen.Node.Ready.Message = "PLEG is not healthy"
}
func kubeletDown(s *scene) {
	s.seen.Guest.Kubelet.ActiveState, s.seen.Guest.Kubelet.SubState = "activating", "auto-restart"
}
func noOnline(s *scene)  { s.goal.NoOnline = true }
func migrating(s *scene) { s.seen.Instance.State = "Migrating" }
func someoneCordoned(s *scene) {
	s.seen.Node.Unschedulable, s.seen.Node.UnschedulableBy = true, "kubectl"
}

// shows makes the Node show a capacity, all of it allocatable.
func shows(cpu, memory string) func(*scene) {
	return func(s *scene) {
		s.seen.Node.Capacity, s.seen.Node.Allocatable = quantities(cpu, memory), quantities(cpu, memory)
	}
}
func keeps(s *scene)     { s.goal.Keep = true }
func laterRun(s *scene)  { s.tenure = Tenure{Run: "run-2", Transitions: 8} }
func takenOver(s *scene) { s.tenure = Tenure{Run: "run-1", Transitions: 8} }

func TestNextUnclaimed(t *testing.T) {
	checkRules(t, []rule{
		{"all views agree: nothing to do", released(), "done"},
		{"all agree, somebody cordoned it: not our business", released().with(someoneCordoned), "done"},
		{"all agree, another tool's mark: nothing is to be done to it", released().with(marked), "done"},
		{"the instance lags", untouched(), "act: claim"},
		{"the instance lags by its id alone", released().with(func(s *scene) { s.seen.Instance.OfferingID = small.ID }), "act: claim"},
		{"the instance lags, and is to be kept", untouched().with(keeps), "stop in claim, cloudstack: somebody changed the instance's offering"},
		{"it lags by its id alone, and is to be kept", released().with(keeps, func(s *scene) { s.seen.Instance.OfferingID = small.ID }), "stop in claim, cloudstack: somebody changed the instance's offering"},
		{"guest lags behind an instance that is kept", released().with(keeps, func(s *scene) { s.seen.Guest.CPUsOnline = 2 }, shows("2", "8215324Ki")), "act: claim"},
		{"all agree with an instance that is kept", released().with(keeps), "done"},
		{"only guest CPUs lag", released().with(func(s *scene) {
			s.seen.Guest.CPUsOnline = 2
		}, shows("2", "8215324Ki")), "act: claim"},
		{"only guest memory lags", released().with(func(s *scene) {
			s.seen.Guest.BlocksOnline, s.seen.Guest.BlocksOffline, s.seen.Guest.MemTotal = 32, 32, memSmall
		}, shows("4", "4021020Ki")), "act: claim"},
		{"only the Node's CPUs lag", released().with(shows("2", "8215324Ki")), "act: claim"},
		{"only the Node's memory lags", released().with(shows("4", "4021020Ki")), "act: claim"},
		{"lagging, somebody cordoned it", untouched().with(someoneCordoned), "act: claim"},
		{"lagging, another tool's mark", untouched().with(marked), "stop in claim, preflight: marks of other tools on the Node"},
		{"lagging, being deleted", untouched().with(deleting), "stop in claim, preflight: marks of other tools on the Node"},
		{"lagging, not Ready", untouched().with(notReady), "stop in claim, preflight: Ready condition of the Node"},
		{"agreeing, not Ready", released().with(notReady), "stop in verify, readiness: every view agrees, but the Node is not healthy"},
		{"agreeing, kubelet is down behind a Ready that is still True", released().with(kubeletDown), "stop in verify, kubelet: every view agrees, but the Node is not healthy"},
		{"agreeing, MemTotal implausible", released().with(func(s *scene) {
			s.seen.Guest.MemTotal = 6 * 1024 * capacity.MiB
		}, shows("4", "6Gi")), "stop in verify, guest: all memory blocks are online, but MemTotal is implausible"},
		{"agreeing, allocatable above capacity", released().with(func(s *scene) { s.seen.Node.Allocatable = quantities("5", "1Gi") }), "stop in verify, allocatable: every view agrees, but the Node is not healthy"},
		{"agreeing, but SSH leads to another machine", released().with(otherGuest), "stop in verify, preflight: DMI UUID of the guest"},
		{"agreeing, but the Node is another machine", released().with(otherNode), "stop in verify, preflight: systemUUID of the Node"},
		{"agreeing by a status from before a reboot", released().with(func(s *scene) { s.seen.Guest.BootID = "boot-2" }), "stop in verify, preflight: boot id"},
	})
}

func TestNextClaimed(t *testing.T) {
	checkRules(t, []rule{
		{"another instance", claimed().with(func(s *scene) { s.claim.InstanceID = "other" }), "stop in claim, lock: the claim on the Node is for another instance"},
		{"another goal", claimed().with(func(s *scene) { s.claim.Goal = faster }), "stop in claim, lock: the node is claimed for another goal"},
		{"another goal, of another run", claimed().with(laterRun, func(s *scene) { s.claim.Goal = faster }), "stop in claim, lock: the node is claimed for another goal"},
		{"another run's claim", claimed().with(laterRun), "act: adopt"},
		{"our run's claim from before somebody took the Lease in between", claimed().with(takenOver), "act: adopt"},
		{"another run's claim on a finished node", settled().with(laterRun), "act: adopt"},
		{"mark after the claim", claimed().with(marked), "stop in claim, schedulability: another tool works on this node"},
		{"mark before the restart", online().with(marked), "stop in claim, schedulability: another tool works on this node"},
		{"mark before the release", settled().with(marked), "stop in claim, schedulability: another tool works on this node"},
		{"mark on another run's claim: not even taken over", claimed().with(laterRun, marked), "stop in claim, schedulability: another tool works on this node"},
		{"deletion after the claim", claimed().with(deleting), "stop in claim, schedulability: another tool works on this node"},
		{"deletion before the restart", online().with(deleting), "stop in claim, schedulability: another tool works on this node"},
		{"deletion before the release", settled().with(deleting), "stop in claim, schedulability: another tool works on this node"},
		{"SSH leads to another machine", online().with(otherGuest), "stop in claim, access: SSH or the Node's name leads to another machine"},
		{"the Node is another machine", claimed().with(otherNode), "stop in claim, access: SSH or the Node's name leads to another machine"},
		{"somebody resized a claimed instance that is kept", settled().with(keeps, func(s *scene) { s.seen.Instance.OfferingID = faster.ID }), "stop in claim, cloudstack: somebody changed the instance's offering"},
		{"somebody uncordoned: respected", claimed().with(func(s *scene) { s.seen.Node.Unschedulable = false }), "act: resize"},
		{"somebody cordoned anew: respected", settled().with(someoneCordoned), "act: release"},
	})
}

func TestNextResize(t *testing.T) {
	job := func(status JobStatus) func(*scene) {
		return func(s *scene) {
			s.seen.Job = &Job{ID: "job-1", Status: status, Created: noon.Add(-10 * time.Second), Code: 530, Text: "no capacity"}
		}
	}
	noJob := func(s *scene) { s.seen.Job = nil }
	lostReply := func(s *scene) { s.claim.Resize.JobID = "" }
	seenUnchanged := func(ago time.Duration) func(*scene) {
		return func(s *scene) {
			s.claim.Resize.Unchanged = &Reading{BootID: s.seen.Guest.BootID, Monotonic: s.seen.Guest.Monotonic - ago}
		}
	}
	otherReadingBoot := func(s *scene) { s.claim.Resize.Unchanged.BootID = "boot-0" }
	refusedRequest := func(s *scene) { s.claim.Resize.Refused = "CloudStack refused scaleVirtualMachine" }
	older := func(s *scene) { s.seen.Job.Created = noon.Add(-11 * time.Second) }
	serverTime := func(d time.Duration) func(*scene) {
		return func(s *scene) { s.seen.ServerTime = s.claim.Resize.Expires.Add(d) }
	}
	checkRules(t, []rule{
		{"nothing announced", claimed(), "act: resize"},
		{"nothing announced, another job is pending", claimed().with(job(JobPending)), "wait in resize: another job on the instance (job-1)"},
		{"nothing announced, another job is over", claimed().with(job(JobSucceeded)), "act: resize"},
		{"nothing announced, another job failed", claimed().with(job(JobFailed)), "act: resize"},
		{"nothing announced, the instance is migrating", claimed().with(migrating), "wait in resize: state of the instance"},
		{"job pending", asked(), "wait in resize: offering of the instance"},
		{"job pending, instance migrating: CloudStack moves it by itself", asked().with(migrating), "wait in resize: offering of the instance"},
		{"job failed, and nothing was changed: look twice", asked().with(job(JobFailed)), "act: note-unchanged"},
		{"job failed, seen unchanged just now", asked().with(job(JobFailed), seenUnchanged(unchangedFor-1)), "wait in resize: a second reading that nothing was changed"},
		{"job failed, seen unchanged half a minute ago", asked().with(job(JobFailed), seenUnchanged(unchangedFor)), "act: give-back"},
		{"job failed, seen unchanged in another boot", asked().with(job(JobFailed), seenUnchanged(time.Hour), otherReadingBoot), "act: note-unchanged"},
		{"job failed, but a CPU was plugged", asked().with(job(JobFailed), func(s *scene) { s.seen.Guest.CPUsPresent++ }), "stop in resize, cloudstack: CloudStack failed the offering change"},
		{"job failed, but a DIMM was attached", asked().with(job(JobFailed), func(s *scene) { s.seen.Guest.BlocksOffline = 8 }), "stop in resize, cloudstack: CloudStack failed the offering change"},
		{"job failed, a DIMM arrived between the two readings", asked().with(job(JobFailed), seenUnchanged(unchangedFor), func(s *scene) { s.seen.Guest.BlocksOffline = 8 }), "stop in resize, cloudstack: CloudStack failed the offering change"},
		{"job failed, and the node is not healthy", asked().with(job(JobFailed), seenUnchanged(unchangedFor), notReady), "stop in resize, cloudstack: CloudStack failed the offering change"},
		{"job given up by a restarted management server", asked().with(job(JobFailed), func(s *scene) { s.seen.Job.Cancelled = true }), "stop in resize, cloudstack: CloudStack gave up the offering change without knowing what became of it"},
		{"request refused, and nothing was changed: look twice", asked().with(noJob, lostReply, refusedRequest), "act: note-unchanged"},
		{"job succeeded, the instance is listed late", asked().with(job(JobSucceeded)), "wait in resize: offering of the instance"},
		{"job unknown to CloudStack", asked().with(noJob), "wait in resize: offering of the instance"},
		{"job unknown, long after the expiry: never asked again in this attempt", asked().with(noJob, serverTime(time.Hour)), "wait in resize: offering of the instance"},
		{"another job than the named one", asked().with(func(s *scene) { s.seen.Job.ID = "job-2"; s.seen.Job.Status = JobFailed }), "wait in resize: offering of the instance"},
		{"reply lost, job found pending", asked().with(lostReply), "act: note-job"},
		{"reply lost, job found failed", asked().with(lostReply, job(JobFailed)), "act: note-job"},
		{"reply lost, job found in the second of the request", asked().with(lostReply, func(s *scene) { s.claim.Resize.Asked = s.claim.Resize.Asked.Add(999 * time.Millisecond) }), "act: note-job"},
		{"reply lost, an older job pending is not ours", asked().with(lostReply, older), "wait in resize: offering of the instance"},
		{"reply lost, an older failed job is not ours", asked().with(lostReply, job(JobFailed), older), "wait in resize: offering of the instance"},
		{"reply lost, no trace", asked().with(lostReply, noJob), "wait in resize: offering of the instance"},
		{"reply lost, no trace, at the expiry", asked().with(lostReply, noJob, serverTime(0)), "wait in resize: offering of the instance"},
		{"reply lost, no trace, after the expiry", asked().with(lostReply, noJob, serverTime(time.Second)), "act: resize"},
		{"reply lost, older job pending after the expiry", asked().with(lostReply, older, serverTime(time.Second)), "wait in resize: another job on the instance (job-1)"},
		{"reply lost, but it worked", resized().with(lostReply), "act: online"},
		{"half attached: memory in the guest, CPUs not, old offering", asked().with(func(s *scene) { s.seen.Guest.BlocksOffline = 32 }), "wait in resize: offering of the instance"},
		{"resized to a third offering behind our back", resized().with(func(s *scene) { s.seen.Instance.OfferingID = faster.ID }, noJob), "wait in resize: offering of the instance"},
	})
	if s := asked().with(lostReply, noJob).next(); s.Wake != 51*time.Second {
		t.Errorf("the lost request is over after %s, want 51s: 50s to its expiry and one for the cut clock", s.Wake)
	}
}

func TestNextOnline(t *testing.T) {
	half := func(s *scene) { s.seen.Guest.CPUsOnline = 4 }
	checkRules(t, []rule{
		{"CPUs and blocks offline", resized(), "act: online"},
		{"CPUs came online by a udev rule, blocks did not", resized().with(half), "act: online"},
		{"blocks came online by the kernel, CPUs did not", resized().with(func(s *scene) {
			s.seen.Guest.BlocksOnline, s.seen.Guest.BlocksOffline, s.seen.Guest.MemTotal = 64, 0, memBig
		}), "act: online"},
		{"everything came online by itself", online(), "act: restart"},
		{"bringing up is switched off", resized().with(noOnline), "wait in online: CPUs in the guest"},
		{"switched off, and everything came online by itself", online().with(noOnline), "act: restart"},
		{"nothing plugged yet", resized().with(func(s *scene) { s.seen.Guest.CPUsPresent, s.seen.Guest.BlocksOffline = 2, 0 }), "wait in online: CPUs in the guest"},
		{"CPUs there, DIMM refused by the kernel", online().with(func(s *scene) { s.seen.Guest.BlocksOnline, s.seen.Guest.MemTotal = 32, memSmall }), "wait in online: memory blocks in the guest"},
		{"blocks online, MemTotal follows late", online().with(func(s *scene) { s.seen.Guest.MemTotal = memSmall }), "wait in online: MemTotal in the guest"},
		{"more CPUs than the goal", online().with(func(s *scene) { s.seen.Guest.CPUsOnline, s.seen.Guest.CPUsPresent = 6, 6 }), "stop in online, guest: the guest has more than the goal"},
		{"more CPUs than the goal plugged: not brought up", resized().with(func(s *scene) { s.seen.Guest.CPUsPresent = 6 }), "stop in online, guest: the guest has more than the goal"},
		{"more memory than the goal", online().with(func(s *scene) { s.seen.Guest.BlocksOnline = 65 }), "stop in online, guest: the guest has more than the goal"},
		{"rebooted after the resize, kubelet has not posted", resized().with(rebooted), "wait in verify: status posted by the running kubelet"},
		{"block size unknown", resized().with(func(s *scene) { s.seen.Guest.BlockSize, s.seen.Guest.CPUsOnline = 0, 4 }), "act: online"},
	})
}

func TestNextRestart(t *testing.T) {
	replaced := func(s *scene) {
		s.seen.Guest.Kubelet.InvocationID, s.seen.Guest.Kubelet.Start = "inv-x", 999*time.Second
	}
	freshOld := func(s *scene) { s.seen.Node.Ready.Heartbeat = s.seen.Guest.Clock }
	nodeAgrees := func(s *scene) {
		s.seen.Node.Capacity, s.seen.Node.Allocatable = quantities("4", "8215324Ki"), quantities("3900m", "8112924Ki")
		s.seen.Guest.KubepodsCPUs, s.seen.Guest.KubepodsMemory = 4, memBig
	}
	lateCPU := func(s *scene) { s.seen.Guest.CPUsPresent, s.seen.Guest.CPUsOnline = 5, 5 }
	checkRules(t, []rule{
		{"all hardware online, Node old", online(), "act: restart"},
		{"kubelet crash-looping: not restarted on top", online().with(kubeletDown), "wait in restart: kubelet unit"},
		{"not needed: the Node shows the hardware already", online().with(nodeAgrees), "act: release"},
		{"announced, not happened", announced(), "act: restart"},
		{"announced, not happened, kubelet down", announced().with(kubeletDown), "wait in restart: kubelet unit"},
		{"announced, not happened, the Node agrees meanwhile: still done once, as announced", announced().with(nodeAgrees), "act: restart"},
		{"announced and happened", restartedScene(), "wait in verify: status posted by the running kubelet"},
		{"announced and happened, resumed by another run", restartedScene().with(laterRun), "act: adopt"},
		{"announced and happened, fresh status with the old capacity", restartedScene().with(freshOld), "wait in verify: capacity of the Node"},
		{"announced, then rebooted instead; kubelet has not posted", announced().with(rebooted), "wait in verify: status posted by the running kubelet"},
		{"announced, then rebooted instead; kubelet found everything", announced().with(rebooted, postedAfterReboot), "act: release"},
		{"announced, then rebooted instead; kubelet found the old hardware", announced().with(rebooted, postedAfterReboot, func(s *scene) { s.seen.Node.Capacity = quantities("2", "8143640Ki") }), "act: restart"},
		{"happened, then rebooted; kubelet found everything", settled().with(rebooted, postedAfterReboot), "act: release"},
		{"happened, then a CPU came: a fault, no second restart", restartedScene().with(lateCPU), "stop in online, guest: the guest's hardware changed after kubelet was restarted"},
		{"happened, then a CPU went offline", restartedScene().with(func(s *scene) { s.seen.Guest.CPUsOnline = 3 }), "stop in online, guest: the guest's hardware changed after kubelet was restarted"},
		{"happened before the last CPU came", restartedScene().with(func(s *scene) { s.claim.Restart.CPUsOnline = 3 }), "stop in verify, guest: the guest's hardware changed after kubelet was restarted"},
		{"happened before the last block came", restartedScene().with(func(s *scene) { s.claim.Restart.BlocksOnline = 63 }), "stop in verify, guest: the guest's hardware changed after kubelet was restarted"},
		{"somebody restarted kubelet meanwhile, it has not posted: wait for what it found", online().with(replaced), "wait in verify: status posted by the running kubelet"},
		{"somebody restarted kubelet before the hardware was online", online().with(replaced, freshOld), "act: restart"},
		{"somebody restarted kubelet after the hardware was online", online().with(replaced, freshOld, nodeAgrees), "wait in verify: kubelet settled"},
	})
}

func TestNextVerify(t *testing.T) {
	gpu := func(amount string) func(*scene) {
		return func(s *scene) {
			s.claim.Before.Allocatable = capacity.Resources{"cpu": s.claim.Before.Allocatable["cpu"], "memory": s.claim.Before.Allocatable["memory"], "vendor.example/gpu": resource.MustParse("2")}
			s.seen.Node.Allocatable = capacity.Resources{"cpu": s.seen.Node.Allocatable["cpu"], "memory": s.seen.Node.Allocatable["memory"], "vendor.example/gpu": resource.MustParse(amount)}
		}
	}
	heartbeat := func(d time.Duration) func(*scene) {
		return func(s *scene) { s.seen.Node.Ready.Heartbeat = noon.Add(d) }
	}
	steppedBack := func(s *scene) { s.seen.Guest.Clock = s.seen.Guest.Clock.Add(-time.Hour) }
	steppedForward := func(s *scene) { s.seen.Guest.Clock = s.seen.Guest.Clock.Add(time.Hour) }
	slewed := func(s *scene) { s.seen.Guest.Clock = s.seen.Guest.Clock.Add(clockStep) }
	checkRules(t, []rule{
		{"everything true", settled(), "act: release"},
		{"kubelet died after its post", settled().with(kubeletDown), "wait in verify: kubelet unit"},
		{"Ready, but the status is from before the restart", settled().with(heartbeat(-5 * time.Second)), "wait in verify: status posted by the running kubelet"},
		{"the heartbeat is a second older than the start", settled().with(heartbeat(3 * time.Second)), "wait in verify: status posted by the running kubelet"},
		{"the heartbeat is in the second of the start", settled().with(heartbeat(4 * time.Second)), "act: release"},
		{"fresh, right after the restart: PLEG is not healthy", settled().with(notReady), "wait in verify: Ready condition of the Node"},
		{"the status speaks of another boot", settled().with(func(s *scene) { s.seen.Node.BootID = "boot-0" }), "wait in verify: boot id in the Node's status"},
		{"CPU capacity is old", settled().with(func(s *scene) { s.seen.Node.Capacity = quantities("2", "8215324Ki") }), "wait in verify: capacity of the Node"},
		{"memory capacity is old", settled().with(func(s *scene) { s.seen.Node.Capacity = quantities("4", "4021020Ki") }), "wait in verify: capacity of the Node"},
		{"allocatable did not follow", settled().with(func(s *scene) { s.seen.Node.Allocatable = quantities("1900m", "8112924Ki") }), "wait in verify: allocatable of the Node"},
		{"allocatable above capacity", settled().with(func(s *scene) { s.seen.Node.Allocatable = quantities("5", "8112924Ki") }), "wait in verify: allocatable of the Node"},
		{"devices are not back", settled().with(gpu("0")), "wait in verify: extended resources of the Node"},
		{"devices are back", settled().with(gpu("2")), "act: release"},
		{"pods are pinned to the old CPUs", settled().with(func(s *scene) { s.seen.Guest.KubepodsCPUs = 2 }), "wait in verify: CPUs of the kubepods cgroup"},
		{"all pods together may use the old memory alone", settled().with(func(s *scene) { s.seen.Guest.KubepodsMemory = memSmall }), "wait in verify: memory of the kubepods cgroup"},
		{"pods have no memory limit", settled().with(func(s *scene) { s.seen.Guest.KubepodsMemory = capacity.Unlimited }), "act: release"},
		{"cgroup v1: the memory limit can't be read", settled().with(func(s *scene) { s.seen.Guest.KubepodsMemory = 0 }), "act: release"},
		{"cgroup v1: the figure can't be read", settled().with(func(s *scene) { s.seen.Guest.KubepodsCPUs = 0 }), "act: release"},
		{"not settled", posted(), "wait in verify: kubelet settled"},
		{"a nanosecond short of settled", settled().with(func(s *scene) { s.goal.Settle = s.seen.Guest.KubeletAge() + 1 }), "wait in verify: kubelet settled"},
		{"systemd restarted it again after our restart: the new process counts", settled().with(func(s *scene) {
			s.seen.Guest.Kubelet.InvocationID, s.seen.Guest.Kubelet.Start = "inv-3", s.seen.Guest.Monotonic-3*time.Second
		}), "wait in verify: status posted by the running kubelet"},
		{"clock stepped back by an hour: a changed heartbeat is enough", settled().with(steppedBack), "act: release"},
		{"clock stepped back, heartbeat unchanged", settled().with(steppedBack, heartbeat(-5*time.Second)), "wait in verify: status posted by the running kubelet"},
		{"clock stepped forward: a changed heartbeat is enough", settled().with(steppedForward), "act: release"},
		{"clock off by two seconds only: not a step", settled().with(slewed, heartbeat(4*time.Second)), "wait in verify: status posted by the running kubelet"},
		{"MemTotal fell: a balloon inflates", settled().with(func(s *scene) { s.seen.Guest.MemTotal -= 100 * capacity.MiB }), "wait in online: MemTotal in the guest"},
	})
	if s := posted().next(); s.Wake != 9*time.Second {
		t.Errorf("settled after %s, want 9s: 15s less the 6s that kubelet has run", s.Wake)
	}
}

// An offering that differs in speed alone needs no cordon, no onlining and no restart.
func TestNextForSpeedAlone(t *testing.T) {
	s := untouched()
	s.goal.Offering = faster
	if got := brief(s.next()); got != "act: claim" {
		t.Fatal(got)
	}
	s.claim = newClaim(s.goal, s.tenure, Author{}, s.seen)
	if s.claim.Cordoned {
		t.Error("cordoned for nothing")
	}
	if got := brief(s.next()); got != "act: resize" {
		t.Error(got)
	}
	s.seen.Instance.OfferingID = faster.ID
	if got := brief(s.next()); got != "act: release" {
		t.Error(got)
	}
}
