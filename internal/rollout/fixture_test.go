package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

const (
	kB  = int64(1024)
	vm1 = "11111111-1111-1111-1111-111111111111"
)

var (
	small  = capacity.Offering{ID: "off-small", Name: "small", CPUs: 2, SpeedMHz: 1000, MemoryMiB: 4096, DynamicScaling: true}
	big    = capacity.Offering{ID: "off-big", Name: "big", CPUs: 4, SpeedMHz: 1000, MemoryMiB: 8192, DynamicScaling: true}
	faster = capacity.Offering{ID: "off-fast", Name: "fast", CPUs: 2, SpeedMHz: 2000, MemoryMiB: 4096, DynamicScaling: true}
	ours   = Tenure{Run: "run-1", Transitions: 7}
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// MemTotal in bytes, measured on a Debian 12 guest that was booted with 4 GiB and then given a DIMM of 4 GiB.
const (
	memSmall = 4021020 * kB
	memBig   = memSmall + 4194304*kB
)

func quantities(cpu, memory string) capacity.Resources {
	return capacity.Resources{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "pods": resource.MustParse("110")}
}

// scene is one input of Next.
type scene struct {
	goal   Goal
	tenure Tenure
	claim  *Claim
	seen   Observation
}

func (s scene) next() Step { return Next(s.goal, s.tenure, s.claim, s.seen) }

// with returns the scene after the changes. The claim is copied, so that scenes do not share it.
func (s scene) with(changes ...func(*scene)) scene {
	if s.claim != nil {
		c := *s.claim
		s.claim = &c
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// untouched is a healthy worker at the small offering whose goal is the big one.
func untouched() scene {
	return scene{
		goal:   Goal{Offering: big, Settle: DefaultSettle},
		tenure: ours,
		seen: Observation{
			Target:     Target{ClusterID: "c1", ClusterName: "prod", Role: RoleWorker, Name: "w1", InstanceID: vm1},
			ServerTime: noon,
			Instance: capacity.Instance{ID: vm1, Name: "w1", State: "Running", OfferingID: small.ID, OfferingName: small.Name,
				CPUs: small.CPUs, SpeedMHz: small.SpeedMHz, MemoryMiB: small.MemoryMiB, DynamicallyScalable: true},
			Guest: capacity.Guest{ProductUUID: vm1, MachineID: "m1", BootID: "boot-1",
				CPUsOnline: 2, CPUsPresent: 2, CPUsPossible: 16, BlockSize: 128 * capacity.MiB, BlocksOnline: 32, MemTotal: memSmall,
				Clock: noon, Monotonic: 1000 * time.Second, KubepodsCPUs: 2, KubepodsMemory: memSmall, CgroupVersion: 2,
				Kubelet: capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: "inv-1", MainPID: 100, Start: 20 * time.Second}},
			Node: capacity.Node{Name: "w1", UID: "uid-1", ResourceVersion: "1", SystemUUID: vm1, MachineID: "m1", BootID: "boot-1",
				Capacity: quantities("2", "4021020Ki"), Allocatable: quantities("1900m", "3918620Ki"),
				Ready: capacity.Condition{Status: "True", Heartbeat: noon.Add(-5 * time.Second)}},
		},
	}
}

// claimed: our claim is on the Node and our cordon holds; nothing is resized yet.
func claimed() scene {
	s := untouched()
	s.claim = newClaim(s.goal, s.tenure, Author{Actor: "me@here"}, s.seen)
	s.seen.Node.Unschedulable, s.seen.Node.UnschedulableBy, s.seen.Node.ScaleDownDisabled = true, FieldManager, true
	return s
}

// asked: the request was sent ten seconds ago and is job-1, still pending.
func asked() scene {
	s := claimed()
	s.claim.Resize = &ResizeIntent{Asked: noon.Add(-10 * time.Second), Expires: noon.Add(50 * time.Second), JobID: "job-1"}
	s.seen.Job = &Job{ID: "job-1", Status: JobPending, Created: noon.Add(-10 * time.Second)}
	return s
}

// resized: CloudStack shows the goal; everything that it plugged is offline in the guest.
func resized() scene {
	s := asked()
	s.seen.Job = nil
	i, g := &s.seen.Instance, &s.seen.Guest
	i.OfferingID, i.OfferingName, i.CPUs, i.MemoryMiB = big.ID, big.Name, big.CPUs, big.MemoryMiB
	g.CPUsPresent, g.BlocksOffline = 4, 32
	return s
}

// online: the guest has everything online; kubelet has not been restarted.
func online() scene {
	s := resized()
	g := &s.seen.Guest
	g.CPUsOnline, g.BlocksOnline, g.BlocksOffline, g.MemTotal = 4, 64, 0, memBig
	return s
}

// announced: the restart is in the claim and has not happened.
func announced() scene {
	s := online()
	s.claim = restarting(*s.claim, s.seen)
	return s
}

// restartedScene: kubelet was restarted a second ago and has not posted yet.
func restartedScene() scene {
	s := announced()
	later(&s, 5*time.Second)
	s.seen.Guest.Kubelet = capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: "inv-2", MainPID: 200, Start: 1004 * time.Second}
	s.seen.Guest.KubepodsCPUs, s.seen.Guest.KubepodsMemory = 4, memBig
	return s
}

// posted: the restarted kubelet posted the new capacity; it has not run for the settle time yet.
func posted() scene {
	s := restartedScene()
	later(&s, 5*time.Second)
	n := &s.seen.Node
	n.Capacity, n.Allocatable = quantities("4", "8215324Ki"), quantities("3900m", "8112924Ki")
	n.Ready.Heartbeat = noon.Add(8 * time.Second)
	return s
}

// settled: everything is true, the node can be given back.
func settled() scene {
	s := posted()
	later(&s, DefaultSettle)
	return s
}

// released: done, nothing claimed.
func released() scene {
	s := settled()
	s.claim = nil
	s.seen.Node.Unschedulable, s.seen.Node.UnschedulableBy, s.seen.Node.ScaleDownDisabled = false, "", false
	return s
}

func later(s *scene, d time.Duration) {
	s.seen.Guest.Clock = s.seen.Guest.Clock.Add(d)
	s.seen.Guest.Monotonic += d
	s.seen.ServerTime = s.seen.ServerTime.Add(d)
}

// rebooted: the machine booted anew with all hardware, and kubelet was started 30 s after that.
func rebooted(s *scene) {
	g := &s.seen.Guest
	g.BootID, g.CPUsOnline, g.CPUsPresent, g.BlocksOnline, g.BlocksOffline, g.MemTotal = "boot-2", 4, 4, 64, 0, 8143640*kB
	g.Clock, g.Monotonic, g.KubepodsCPUs, g.KubepodsMemory = noon.Add(time.Hour), 60*time.Second, 4, 8143640*kB
	g.Kubelet = capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: "inv-9", MainPID: 90, Start: 30 * time.Second}
}

// postedAfterReboot: the new boot's kubelet posted what it found.
func postedAfterReboot(s *scene) {
	n := &s.seen.Node
	n.BootID, n.Capacity, n.Allocatable = "boot-2", quantities("4", "8143640Ki"), quantities("3900m", "8041240Ki")
	n.Ready = capacity.Condition{Status: "True", Heartbeat: noon.Add(time.Hour - 20*time.Second)}
}
