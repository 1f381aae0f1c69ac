package rollout

import (
	"fmt"
	"strings"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// The checks of this file rest on capacity.Inspection, which the engine does not read: it costs a guest several times what a probe costs, and none of
// them keeps a promise at the moment of the resize. Where they fail after all, CloudStack refuses the resize before it changes anything (slots),
// or the node stays cordoned with its claim and a fault that says why (everything else). So they are made once, before a rollout's first change.
// What must hold again just before every resize is in refuse.go.

// Bounds of hot-plugged memory in terms of the memory that a machine was booted with. Eight times as much was measured to work; sixty times was
// reported to panic for want of page structs; "about 16 to 30" is what the reports leave. Movable memory can't hold what the kernel itself
// needs: three times as much is known to be fine.
const (
	muchPerBoot    = 16
	tooMuchPerBoot = 30
	muchMovable    = 3
	// pageStructs is the part of a DIMM that its page structs take: 64 bytes for each page of 4 KiB.
	pageStructs = 64
)

// inspectionChecks lists the checks that rest on the inspection; none where there was none.
func inspectionChecks(goal Goal, seen Observation) []NodeCheck {
	i := seen.Inspection
	if i == nil {
		return nil
	}
	if i.Unread != "" {
		return []NodeCheck{warning("inspection", preflight("inspection of the guest", false, "an answer", i.Unread),
			"What rests on it was not checked: slots for DIMMs, the kernel's log, boot memory, kubelet's configuration")}
	}
	out := []NodeCheck{balloonCheck(*i), slotCheck(goal, seen), refusedMemoryCheck(goal, seen), refusedCPUsCheck(seen), bootMemoryCheck(goal, seen)}
	if seen.Target.Role.HasNode() && changesSize(goal, seen) {
		out = append(out, kubeletServiceCheck(*i), configReadCheck(i.Kubelet), configChangedCheck(seen), reservationsCheck(i.Kubelet))
	}
	return out
}

// check is a check that refuses the node.
func check(name string, c capacity.Check, remedy string) NodeCheck {
	return NodeCheck{Refusal{c, remedy, name}, false}
}

// plugs is how much memory is still to be plugged into the guest, in bytes.
func plugs(goal Goal, seen Observation) int64 {
	return max(0, goal.Offering.MemoryMiB*capacity.MiB-seen.Guest.MemoryPresent())
}

// balloonCheck warns of any balloon. One that hides much of the memory fails as "memtotal", which the engine looks at, too.
func balloonCheck(i capacity.Inspection) NodeCheck {
	observed := "none"
	if i.Balloon > 0 {
		observed = fmt.Sprintf("%d MiB", (i.Balloon+capacity.MiB-1)/capacity.MiB)
	}
	return warning("balloon", preflight("memory of the guest in a balloon", i.Balloon <= 0, "none", observed),
		"The hypervisor has taken it back, and a growth leaves it so: a restarted kubelet advertises that much less, or, if the balloon deflates in need, memory that is not there. Deflate it first; CloudStack inflates where memory is overprovisioned (vm.memballoon.disable on its agents)")
}

// slotCheck: CloudStack plugs one DIMM at each growth of memory, and gives its machines 16 slots. The slots that are taken are seen exactly, in ACPI.
func slotCheck(goal Goal, seen Observation) NodeCheck {
	i := seen.Inspection
	r := check("dimm-slots", preflight("slots for DIMMs", true, "a free one", fmt.Sprintf("%d of %d taken", i.DIMMsPlugged, i.DIMMSlots)),
		"Every live growth of memory takes a slot until the instance is stopped and started: after that all memory is boot memory, and all slots are free")
	switch {
	case seen.Instance.MemoryMiB >= goal.Offering.MemoryMiB, plugs(goal, seen) == 0: // the latter after a resize that was done in part
	case !i.ACPI:
		r.Check.OK, r.Warning, r.Check.Observed = false, true, "unknown: the guest shows no ACPI devices"
		r.Remedy = "If none is free, CloudStack refuses the resize, and nothing is changed"
	case i.DIMMSlots == 0:
		r.Check.OK, r.Check.Observed = false, "the machine was started without any"
		r.Remedy = "Stop and start the instance on a CloudStack that supports live scaling of fixed offerings (4.23): a machine that was started by an older one has neither slots nor a maximum of memory"
	case i.DIMMsPlugged >= i.DIMMSlots:
		r.Check.OK = false
	}
	return r
}

// refusedMemoryCheck: the hypervisor puts each DIMM right behind the last one. One that the kernel refused for its size makes every later one
// start at an odd address, so that is refused as well, until the machine is stopped and started. Where no DIMM is plugged, none was refused,
// whatever is left of the log.
func refusedMemoryCheck(goal Goal, seen Observation) NodeCheck {
	i := seen.Inspection
	k := i.Kernel
	r := check("refused-memory", preflight("DIMMs that the guest's kernel refused in this boot", len(k.MemoryRefused) == 0, "none", said(k.MemoryRefused)),
		"Stop and start the instance: until then the kernel refuses every later DIMM, too, while CloudStack reports success")
	r.Warning = plugs(goal, seen) == 0
	return orOverwritten(r, k.Whole || i.ACPI && i.DIMMsPlugged == 0)
}

// refusedCPUsCheck warns only: a CPU that was refused does not stand in the way of the next one, and too few possible CPUs are a check of their own.
// Where all CPUs of the instance are online, nothing is lost with an old log.
func refusedCPUsCheck(seen Observation) NodeCheck {
	k, g := seen.Inspection.Kernel, seen.Guest
	r := warning("refused-cpus", preflight("CPUs that the guest's kernel refused in this boot", len(k.CPUsRefused) == 0, "none", said(k.CPUsRefused)),
		"The next CPUs may fail to come up, too, and the node would stay cordoned: a reboot of the guest is the known cure")
	return orOverwritten(r, k.Whole || g.CPUsOnline == seen.Instance.CPUs)
}

// orOverwritten turns "none" into a warning where that is not known: the log does not reach back to the boot.
func orOverwritten(r NodeCheck, known bool) NodeCheck {
	if r.Check.OK && !known {
		r.Check.OK, r.Warning, r.Check.Observed = false, true, "none in what is left of the kernel's log, which does not reach back to the boot"
		r.Remedy = "Nothing is known of what came before: compare the guest's hardware with its instance's (`trueup status`), or look into an older log"
	}
	return r
}

// saidLines is how many lines of a log a check repeats.
const saidLines = 2

// said repeats the first lines of a log.
func said(lines []string) string {
	if len(lines) == 0 {
		return "none"
	}
	text := strings.Join(lines[:min(len(lines), saidLines)], "; ")
	if more := len(lines) - saidLines; more > 0 {
		text += fmt.Sprintf("; and %d more lines", more)
	}
	return text
}

// bootMemoryCheck: the page structs of a DIMM, 1/64 of it, come out of the memory that is there, and much more memory than the machine was booted
// with leaves its kernel too little of its own.
func bootMemoryCheck(goal Goal, seen Observation) NodeCheck {
	i, growth := seen.Inspection, plugs(goal, seen)
	booted, from := i.Kernel.BootMemory, "booted with"
	if booted <= 0 {
		booted, from = seen.Guest.MemoryPresent(), "boot memory unknown, at most"
	}
	plugged, needed := goal.Offering.MemoryMiB*capacity.MiB-booted, growth/pageStructs
	if i.MemmapOnMemory {
		needed = 0
	}
	movable := i.AutoOnline == "online_movable" && plugged > muchMovable*booted
	r := check("boot-memory", preflight("memory of the guest for what is plugged", true, fmt.Sprintf("%d MiB for page structs, and at most %d times the boot memory plugged", needed/capacity.MiB, muchPerBoot),
		fmt.Sprintf("%d MiB available; %s %d MiB, %d MiB plugged then", i.MemAvailable/capacity.MiB, from, booted/capacity.MiB, max(0, plugged)/capacity.MiB)),
		"A machine that is to grow that far needs more memory at its boot: stop it, give it a bigger offering, start it; or grow in smaller steps with pods moved away")
	if growth == 0 {
		return r
	}
	if movable {
		r.Check.Expected += fmt.Sprintf(", or %d times where the guest brings it up as movable", muchMovable)
	}
	r.Check.OK = needed <= i.MemAvailable/2 && plugged <= muchPerBoot*booted && !movable
	r.Warning = needed <= i.MemAvailable && plugged <= tooMuchPerBoot*booted
	return r
}

// kubeletServiceCheck: what is restarted is kubeadm's kubelet.service. Where kubelet lives inside another service, that would be the wrong thing.
func kubeletServiceCheck(i capacity.Inspection) NodeCheck {
	observed := "kubelet.service"
	if len(i.OtherKubelets) > 0 {
		observed = strings.Join(i.OtherKubelets, ", ")
	}
	return check("kubelet-service", preflight("service that runs kubelet", len(i.OtherKubelets) == 0, "kubeadm's kubelet.service alone", observed),
		"trueup restarts kubelet.service and nothing else. Here kubelet lives inside another service: its restart would take more down with it (a k3s or rke2 server its API server and etcd), so it must be done by hand")
}

func configReadCheck(k capacity.KubeletConfig) NodeCheck {
	observed := k.Path
	if k.Unread != "" {
		observed += ": " + k.Unread
	}
	return warning("kubelet-config", preflight("configuration file of kubelet", k.Unread == "", "readable", observed),
		"Whether a restarted kubelet would have a static CPU or memory manager is known from its state files alone: look at its configuration yourself")
}

// configChangedCheck compares times of the guest's own clock with each other.
func configChangedCheck(seen Observation) NodeCheck {
	k := seen.Inspection.Kubelet
	changed := k.ChangedSince(seen.Guest.KubeletStart())
	if k.NeedsReload {
		changed = append(changed, "the unit (systemd: NeedDaemonReload)")
	}
	r := warning("kubelet-config-changed", preflight("configuration of kubelet changed since its start", len(changed) == 0, "none", orNone(changed)),
		"The restart would apply it. If that is not wanted now, put back what was there; if it is, restart kubelet yourself first, and see that it comes up")
	if k.NeedsReload {
		r.Remedy += ". systemd starts the unit that it knows until `systemctl daemon-reload`"
	}
	return r
}

// reservationsCheck: a reservation in percent grows with the node.
func reservationsCheck(k capacity.KubeletConfig) NodeCheck {
	return warning("reservations", preflight("reservations of kubelet in percent", len(k.Percentages) == 0, "none", orNone(k.Percentages)),
		"Allocatable grows by less than the capacity, and the summary will say that the reservation changed: nothing is wrong with that")
}
