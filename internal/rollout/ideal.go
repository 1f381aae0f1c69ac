package rollout

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// ideal is a world in which every action does at once exactly what it is meant to do. The planner walks Next through it.
type ideal struct {
	goal   Goal
	tenure Tenure
	claim  *Claim
	seen   Observation
}

// do changes the world as the action should.
func (w *ideal) do(a Action) {
	switch a {
	case ActionClaim:
		w.claim = newClaim(w.goal, w.tenure, Author{}, w.seen)
		if w.claim.Cordoned {
			w.seen.Node.Unschedulable, w.seen.Node.UnschedulableBy = true, FieldManager
		}
	case ActionAdopt:
		w.claim = adopted(*w.claim, w.tenure, w.seen)
	case ActionDrain:
		w.drain()
	case ActionStop:
		w.claim = stopping(*w.claim, w.seen, w.seen.ServerTime)
		w.stop()
	case ActionStart:
		w.claim = starting(*w.claim, w.seen, w.seen.ServerTime)
		w.start()
	case ActionResize, ActionNoteJob:
		w.resize()
	case ActionOnline:
		w.online()
	case ActionRestart:
		w.claim = restarting(*w.claim, w.seen)
		w.startKubelet()
	case ActionRelease:
		if uncordon, _ := release(w.claim, w.seen); uncordon {
			w.seen.Node.Unschedulable, w.seen.Node.UnschedulableBy = false, ""
		}
		w.claim = nil
	}
}

// pass lets the time pass that a wait needs, and makes come true what it waits for.
func (w *ideal) pass(s Step) {
	switch s.Move {
	case MoveDrain:
		w.drain()
	case MoveStop:
		w.passStop()
	case MoveStart:
		w.passStart()
	case MoveResize:
		w.passResize()
	case MoveOnline:
		w.plug()
		w.online()
	case MoveRestart:
		w.run()
	default:
		if !w.seen.Target.Role.HasNode() {
			w.seen.Guest.Etcd = &capacity.Etcd{Unit: capacity.Unit{ActiveState: "active", SubState: "running", MainPID: 1}, Members: []capacity.EtcdMember{{Healthy: true}}}
			return
		}
		w.run()
		w.age(w.goal.Settle)
		w.enforce()
		w.post()
	}
}

// passResize lets CloudStack finish what it does with the instance: our own resize if one was asked for, else something else.
func (w *ideal) passResize() {
	if w.claim.Cold == nil {
		w.seen.Instance.State = stateRunning
	}
	if w.claim.Resize != nil {
		w.resize()
	}
	w.seen.Job = nil
}

// drain lets every pod go that can run elsewhere.
func (w *ideal) drain() {
	if w.seen.Pods = stayingPods(w.seen.Pods); w.seen.Pods == nil || w.seen.Pods.Unknown != "" {
		w.seen.Pods = &PodReading{}
	}
}

// passStop lets CloudStack finish what it does with the instance.
func (w *ideal) passStop() {
	w.seen.Job = nil
	if p := w.claim.Cold.Power; p != nil && p.State == stateStopped || !w.seen.Instance.Running() {
		w.stop()
	}
}

// passStart likewise; a request in doubt is waited for.
func (w *ideal) passStart() {
	w.seen.Job = nil
	if doubt := w.claim.Cold.doubt(); !w.seen.ServerTime.After(doubt) {
		w.seen.ServerTime = doubt.Add(time.Second)
	}
	if p := w.claim.Cold.Power; p != nil && p.State == stateRunning {
		w.start()
	}
}

func (w *ideal) stop() {
	w.seen.Instance.State, w.seen.Guest = stateStopped, capacity.Guest{}
}

// start boots the guest with what the instance has.
func (w *ideal) start() {
	before, g := w.claim.Before.Guest, w.claim.Before.Guest
	i := &w.seen.Instance
	i.State = stateRunning
	g.BootID = w.claim.Cold.Ended + "'"
	g.CPUsOnline, g.CPUsPresent, g.CPUsPossible = i.CPUs, i.CPUs, max(i.CPUs, g.CPUsPossible)
	if g.BlockSize > 0 {
		g.BlocksOnline, g.BlocksOffline = int(roundUp(i.MemoryMiB*capacity.MiB, g.BlockSize)/g.BlockSize), 0
	}
	g.MemTotal = before.MemTotal + g.MemoryOnline() - before.MemoryOnline()
	w.seen.Guest = g
	if w.seen.Target.Role.HasNode() {
		w.startKubelet()
	}
}

func (w *ideal) run() {
	u := &w.seen.Guest.Kubelet
	u.ActiveState, u.SubState, u.MainPID = "active", "running", max(u.MainPID, 1)
}

func (w *ideal) resize() {
	w.claim = resizing(*w.claim, w.seen, w.seen.ServerTime)
	if w.seen.Instance.State != stateStopped {
		w.plug()
	}
	o := w.goal.Offering
	i := &w.seen.Instance
	i.OfferingID, i.OfferingName, i.CPUs, i.MemoryMiB = o.ID, o.Name, o.CPUs, o.MemoryMiB
	w.seen.Job = nil
}

// plug makes present, still offline, what the goal has and the guest lacks.
func (w *ideal) plug() {
	g := &w.seen.Guest
	g.CPUsPresent = max(g.CPUsPresent, w.goal.Offering.CPUs)
	if g.BlockSize > 0 {
		missing := roundUp(w.goal.Offering.MemoryMiB*capacity.MiB, g.BlockSize) - g.MemoryPresent()
		g.BlocksOffline += max(0, int(missing/g.BlockSize))
	}
}

func (w *ideal) online() {
	g := &w.seen.Guest
	g.CPUsOnline = g.CPUsPresent
	g.BlocksOnline, g.BlocksOffline = g.BlocksOnline+g.BlocksOffline, 0
	base := w.claim.Before.Guest
	g.MemTotal = base.MemTotal + g.MemoryOnline() - base.MemoryOnline()
}

func (w *ideal) startKubelet() {
	g := &w.seen.Guest
	g.Kubelet.InvocationID += "'"
	g.Kubelet.MainPID++
	g.Kubelet.Start, g.Kubelet.Restarts = g.Monotonic, 0
	w.enforce()
	w.age(w.goal.Settle)
	w.post()
}

// enforce is what a starting kubelet does for its pods: they may use all that it found, as far as the guest tells.
func (w *ideal) enforce() {
	g := &w.seen.Guest
	g.KubepodsCPUs = min(g.KubepodsCPUs, 1) * g.CPUsOnline
	if g.KubepodsMemory > 0 && g.KubepodsMemory != capacity.Unlimited {
		g.KubepodsMemory = g.MemTotal
	}
}

// age lets d pass, and a second more, so that every post has a heartbeat of its own.
func (w *ideal) age(d time.Duration) {
	w.seen.Guest.Clock = w.seen.Guest.Clock.Add(d + time.Second)
	w.seen.Guest.Monotonic += d + time.Second
}

// post is what a kubelet does that was started with the present hardware: it reserves what it reserved before, and has its devices back.
func (w *ideal) post() {
	n, g, before := &w.seen.Node, w.seen.Guest, w.claim.Before
	reserved := capacity.Explain(before.Capacity, before.Allocatable)
	milliCPU, memory := int64(g.CPUsOnline)*1000, g.MemTotal
	n.Capacity = with(n.Capacity, milliCPU, memory)
	n.Allocatable = with(before.Allocatable, milliCPU-max(0, reserved.CPUReserved), memory-reserved.HugePages-max(0, reserved.MemoryReserved))
	n.BootID = g.BootID
	n.Ready = capacity.Condition{Status: "True", Heartbeat: g.Clock.Truncate(time.Second)}
}

func with(r capacity.Resources, milliCPU, memory int64) capacity.Resources {
	out := capacity.Resources{}
	maps.Copy(out, r)
	out["cpu"] = *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)
	out["memory"] = *resource.NewQuantity(memory, resource.BinarySI)
	return out
}
