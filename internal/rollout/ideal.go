package rollout

import (
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
	case MoveResize:
		w.resize()
	case MoveOnline:
		w.plug()
		w.online()
	case MoveRestart:
		w.seen.Guest.Kubelet.ActiveState, w.seen.Guest.Kubelet.SubState = "active", "running"
		w.seen.Guest.Kubelet.MainPID = max(w.seen.Guest.Kubelet.MainPID, 1)
	default:
		w.seen.Guest.Kubelet.ActiveState, w.seen.Guest.Kubelet.SubState = "active", "running"
		w.seen.Guest.Kubelet.MainPID = max(w.seen.Guest.Kubelet.MainPID, 1)
		w.age(w.goal.Settle)
		w.post()
	}
}

func (w *ideal) resize() {
	w.claim = resizing(*w.claim, w.seen, w.seen.ServerTime)
	w.plug()
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
	w.age(time.Second)
	g.Kubelet.InvocationID += "'"
	g.Kubelet.MainPID++
	g.Kubelet.Start, g.Kubelet.Restarts = g.Monotonic, 0
	g.KubepodsCPUs = min(g.KubepodsCPUs, 1) * g.CPUsOnline
	w.age(w.goal.Settle)
	w.post()
}

func (w *ideal) age(d time.Duration) {
	w.seen.Guest.Clock = w.seen.Guest.Clock.Add(d)
	w.seen.Guest.Monotonic += d
}

// post is what a kubelet does that was started with the present hardware.
func (w *ideal) post() {
	n, g := &w.seen.Node, w.seen.Guest
	before := capacity.Explain(n.Capacity, n.Allocatable)
	n.Capacity = with(n.Capacity, int64(g.CPUsOnline)*1000, g.MemTotal)
	n.Allocatable = with(n.Allocatable, int64(g.CPUsOnline)*1000-before.CPUReserved, g.MemTotal-before.HugePages-before.MemoryReserved)
	if b := w.claim; b != nil {
		for name, q := range b.Before.Allocatable {
			if _, ok := n.Allocatable[name]; ok && name != "cpu" && name != "memory" {
				n.Allocatable[name] = q
			}
		}
	}
	n.BootID = g.BootID
	n.Ready = capacity.Condition{Status: "True", Heartbeat: g.Clock.Truncate(time.Second)}
}

func with(r capacity.Resources, milliCPU, memory int64) capacity.Resources {
	out := capacity.Resources{}
	for name, q := range r {
		out[name] = q
	}
	out["cpu"] = *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)
	out["memory"] = *resource.NewQuantity(memory, resource.BinarySI)
	return out
}
