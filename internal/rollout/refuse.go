package rollout

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Refusal is a check of a node before any change. One that is not met is a reason not to touch the node at all.
type Refusal struct {
	Check capacity.Check `json:"check"`
	// Remedy says what a person can do about it.
	Remedy string `json:"remedy"`
	// Name is the check's own: stable, unique, and the one by which it can be ignored, if it can. See docs/preflight.md.
	Name string `json:"name"`
}

// NodeCheck is a check of a node before any change, and what it means if it is not met.
type NodeCheck struct {
	Refusal

	// Warning: it is no reason to refuse; a person should know.
	Warning bool `json:"warning,omitempty"`
}

// String prints the refusal for people.
func (r Refusal) String() string { return r.Check.String() + ". " + r.Remedy }

// Refusals lists every reason not to start on this node, the most fundamental first. It is asked only about a node that is
// not yet where it shall be. What the goal ignores is no reason.
func Refusals(goal Goal, seen Observation) []Refusal {
	return unmet(NodeChecks(goal, seen), func(c NodeCheck) bool { return !c.Warning && !goal.Ignores(c.Name) })
}

// Warnings lists what a person should know about this node before it is started on.
func Warnings(goal Goal, seen Observation) []Refusal {
	return unmet(NodeChecks(goal, seen), func(c NodeCheck) bool { return c.Warning })
}

func unmet(all []NodeCheck, counts func(NodeCheck) bool) (out []Refusal) {
	for _, c := range all {
		if !c.Check.OK && counts(c) {
			out = append(out, c.Refusal)
		}
	}
	return out
}

// Ignores tells whether the person decided to go on against a check, and may.
func (g Goal) Ignores(name string) bool { return slices.Contains(g.Ignore, name) && Ignorable(name) }

// NodeChecks lists every check that applies to this node, met or not.
func NodeChecks(goal Goal, seen Observation) []NodeCheck {
	if goal.Method == MethodCold {
		return coldChecks(goal, seen)
	}
	all := append(identityRefusals(seen), healthRefusals(seen)...)
	all = append(all, peerRefusals(seen)...)
	if !seen.Instance.AtOffering(goal.Offering) {
		all = append(all, offeringRefusals(goal.Offering, seen.Instance)...)
	}
	all = append(all, hardwareRefusals(goal.Offering, seen)...)
	restarts := seen.Target.Role.HasNode() && changesSize(goal, seen)
	if restarts {
		all = append(all, managerRefusals(seen)...)
	}
	out := make([]NodeCheck, 0, len(all))
	for _, r := range all {
		out = append(out, NodeCheck{Refusal: r})
	}
	out = append(out, offlineCheck(goal, seen))
	if restarts {
		out = append(out, cgroupCheck(goal, seen))
		out = append(out, restartNotes(seen)...)
	}
	return append(out, inspectionChecks(goal, seen)...)
}

// Ignorable tells whether a person may decide to go on against a check. That SSH, Node and instance are one machine, that the node and what stands
// in for it are well, and that no other tool is at work, is what the promises rest on.
func Ignorable(name string) bool {
	switch name {
	case "allocatable", "offering-kind", "offering-size", "offering-dynamic-scaling", "instance-dynamic-scaling",
		"plugged-hardware", "memtotal", "memory-alignment", "possible-cpus", "cpu-manager", "memory-manager",
		"dimm-slots", "refused-memory", "boot-memory", "bare-pods", "local-data":
		return true
	}
	return false
}

func failing(all []Refusal) []Refusal {
	return slices.DeleteFunc(all, func(r Refusal) bool { return r.Check.OK })
}

func preflight(what string, ok bool, expected, observed string) capacity.Check {
	return capacity.Check{Layer: capacity.LayerPreflight, What: what, OK: ok, Expected: expected, Observed: observed}
}

// identityRefusals make sure that SSH, the Kubernetes API and CloudStack speak of one machine in one boot.
func identityRefusals(seen Observation) []Refusal {
	i, g, n := seen.Instance, seen.Guest, seen.Node
	const other = "An SSH endpoint or the Node's name leads to another machine: check port forwarding rules and node names"
	ssh := Refusal{preflight("DMI UUID of the guest reached by SSH", g.ProductUUID == i.ID, i.ID, g.ProductUUID), other, "ssh-identity"}
	if !seen.Target.Role.HasNode() {
		return []Refusal{ssh}
	}
	return []Refusal{
		ssh,
		{preflight("systemUUID of the Node", n.SystemUUID == i.ID, i.ID, n.SystemUUID), other, "node-identity"},
		{preflight("machine-id of Node and guest", n.MachineID == g.MachineID, g.MachineID, n.MachineID), other, "machine-id"},
		{preflight("boot id of Node and guest", n.BootID == g.BootID, g.BootID, n.BootID),
			"kubelet has not posted since the last boot: see `systemctl status kubelet` on the node", "boot-id"},
	}
}

// healthRefusals: only a healthy node can be verified afterwards, and only where nobody else is at work.
func healthRefusals(seen Observation) []Refusal {
	state := Refusal{preflight("state of the instance", seen.Instance.Running(), "Running", seen.Instance.State),
		"Only a running instance can be scaled live: start it, or wait until CloudStack has finished with it", "instance-state"}
	if !seen.Target.Role.HasNode() {
		return []Refusal{state} // what etcd says of itself is about all of its machines
	}
	ready, unit, marks := capacity.CheckReady(seen.Node), capacity.CheckRunning(seen.Guest), checkMarks(seen.Node)
	sums := capacity.CheckAllocatable(seen.Node.Capacity, seen.Node.Allocatable, seen.Node)
	return []Refusal{
		state,
		roleRefusal(seen),
		{preflight(unit.What, unit.OK, unit.Expected, unit.Observed), "See `systemctl status kubelet` on the node", "kubelet-unit"},
		{preflight(ready.What, ready.OK, ready.Expected, ready.Observed),
			"A node that is not healthy before can't be verified after: mend it first (`kubectl describe node " + seen.Node.Name + "`)", "node-ready"},
		{preflight(sums.What, sums.OK, sums.Expected, sums.Observed),
			"No kubelet posts this: look for what else writes to the Node's status", "allocatable"},
		{preflight(marks.What, marks.OK, marks.Expected, marks.Observed),
			"Wait until that tool has finished with the node, or remove its mark if it was left over", "foreign-marks"},
	}
}

// roleRefusal: CloudStack's list does not mark control-plane nodes, so what it was taken to say is held against the Node's label. A control-plane
// node taken for a worker would be worked on beside its peers.
func roleRefusal(seen Observation) Refusal {
	label := RoleWorker
	if seen.Node.ControlPlane {
		label = RoleControl
	}
	return Refusal{preflight("role of the node", label == seen.Target.Role, string(seen.Target.Role)+", as CloudStack lists it", string(label)+", by the label node-role.kubernetes.io/control-plane"),
		"CloudStack and Kubernetes must agree about its role: set or remove the label (`kubectl label node " + seen.Node.Name + "`)", "role"}
}

// peerRefusals: a control-plane node or an etcd machine is only touched while the others, and the API server with its etcd, are well.
func peerRefusals(seen Observation) (out []Refusal) {
	for _, c := range others(seen) {
		name := "control-plane"
		if c.What == etcdCheck {
			name = "etcd"
		}
		out = append(out, Refusal{preflight(c.What, c.OK, c.Expected, c.Observed), "Mend that first: with one more machine away, etcd may lose its quorum", name})
	}
	return out
}

// offeringRefusals are CloudStack's own rules for a live scale on KVM, as far as the VM and the offering show them.
func offeringRefusals(goal capacity.Offering, i capacity.Instance) []Refusal {
	return []Refusal{
		{preflight("kind of the offering", !goal.Custom, "fixed CPU and memory", kindOf(goal)),
			"CKS refuses custom offerings: choose one with fixed CPU and memory", "offering-kind"},
		{preflight("size of the offering", !goal.Smaller(i), "no less than "+speed(i.Size(), i.SpeedMHz), speed(goal.Size(), goal.SpeedMHz)),
			"CloudStack lets a running instance only grow: choose an offering with at least its present CPUs, CPU speed and memory", "offering-size"},
		{preflight("dynamic scaling of the offering", goal.DynamicScaling, "dynamicscalingenabled true", strconv.FormatBool(goal.DynamicScaling)),
			"Choose an offering with dynamic scaling enabled; CloudStack can't switch between such and other ones on a running instance", "offering-dynamic-scaling"},
		{preflight("dynamic scaling of the instance", i.DynamicallyScalable, "isdynamicallyscalable true", strconv.FormatBool(i.DynamicallyScalable)),
			"The flag is fixed at the start of a VM: it needs a dynamically scalable template and offering, the zone setting enable.dynamic.scale.vm, updateVirtualMachine, and a stop and start", "instance-dynamic-scaling"},
	}
}

func kindOf(goal capacity.Offering) string {
	if goal.Custom {
		return "custom"
	}
	return "fixed"
}

func orNoFile(policy string) string {
	if policy == "" {
		return "no state file"
	}
	return policy
}

func speed(size string, mhz int) string {
	if mhz <= 0 {
		return size
	}
	return fmt.Sprintf("%s / %d MHz", size, mhz)
}

// hardwareRefusals are the guest's rules: what the kernel would refuse although CloudStack reports success.
func hardwareRefusals(goal capacity.Offering, seen Observation) []Refusal {
	g := seen.Guest
	growth := (goal.MemoryMiB - seen.Instance.MemoryMiB) * capacity.MiB
	aligned := g.BlockSize > 0 && growth%g.BlockSize == 0
	total := capacity.CheckMemTotal(nil, g, capacity.Offering{MemoryMiB: g.MemoryOnline() / capacity.MiB})
	excess := g.Excess(goal) && !goal.Smaller(seen.Instance)
	return []Refusal{
		{preflight("hardware of the guest", !excess, "at most "+goal.Size(), fmt.Sprintf("%d CPU / %d MiB plugged", g.CPUsPresent, g.MemoryPresent()/capacity.MiB)),
			"The guest has more than CloudStack would show: look at the instance's definition on its host, or choose a bigger offering", "plugged-hardware"},
		{preflight(total.What, total.OK, total.Expected, total.Observed),
			"Much of the guest's memory is hidden from its kernel: deflate the balloon, or shrink the crash kernel's reservation", "memtotal"},
		{preflight("memory growth", aligned || growth <= 0, fmt.Sprintf("a multiple of the guest's memory block, %d MiB", g.BlockSize/capacity.MiB), fmt.Sprintf("%d MiB", growth/capacity.MiB)),
			"The guest's kernel refuses such a DIMM as a whole, and every later one too until a power cycle: choose an offering that differs by a multiple", "memory-alignment"},
		{preflight("CPUs that the guest can ever have in this boot", g.CPUsPossible >= goal.CPUs, fmt.Sprintf("at least %d", goal.CPUs), fmt.Sprint(g.CPUsPossible)),
			"The limit is fixed at boot: stop and start the instance on a CloudStack whose kvm.cpu.dynamic.scaling.capacity allows more", "possible-cpus"},
	}
}

// managerRefusals: with a static policy kubelet compares its checkpoint with the machine and does not come back after a growth. The state files show
// what the present kubelet has, its configuration what a restarted one would have: either is enough.
func managerRefusals(seen Observation) []Refusal {
	const remedy = "With it kubelet refuses to start after the machine has grown, until the node is drained and its state file removed: resize this node by drain and restart instead"
	var c capacity.KubeletConfig
	if seen.Inspection != nil {
		c = seen.Inspection.Kubelet
	}
	cpu, memory := seen.Guest.CPUManagerPolicy, seen.Guest.MemoryManagerPolicy
	return []Refusal{
		{preflight("CPU manager policy of kubelet", dynamic(cpu) && dynamic(c.CPUManagerPolicy), "none", policies(cpu, c.CPUManagerPolicy, c.Path)), remedy, "cpu-manager"},
		{preflight("memory manager policy of kubelet", dynamic(memory) && dynamic(c.MemoryManagerPolicy), "None", policies(memory, c.MemoryManagerPolicy, c.Path)), remedy, "memory-manager"},
	}
}

// policies prints the policy of the state file, and that of the configuration where it is another one.
func policies(state, configured, path string) string {
	if dynamic(configured) {
		return orNoFile(state)
	}
	return fmt.Sprintf("%s; %s configured (%s, or an argument of kubelet)", orNoFile(state), configured, path)
}

// offlineCheck: what is offline before is brought up with what is plugged. Somebody may have taken it offline on purpose. Where the instance is at
// its goal, bringing up is all that is left to do, and the plan says so.
func offlineCheck(goal Goal, seen Observation) NodeCheck {
	g := seen.Guest
	cpus, observed := max(0, g.CPUsPresent-g.CPUsOnline), "none"
	if cpus > 0 || g.BlocksOffline > 0 {
		observed = fmt.Sprintf("%d CPUs and %d memory blocks", cpus, g.BlocksOffline)
	}
	return warning("offline-hardware", preflight("hardware of the guest that is offline", observed == "none" || seen.Instance.AtOffering(goal.Offering), "none", observed),
		"It would be brought up with the rest. If somebody took it offline on purpose, find out why first; if it could not be brought up before, a reboot of the guest is the known cure")
}

// cgroupCheck: on cgroup v1 kubelet widens the cpuset of all pods together, and not those below it.
func cgroupCheck(goal Goal, seen Observation) NodeCheck {
	version := seen.Guest.CgroupVersion
	return warning("cgroup-version", preflight("cgroups of the guest", version != 1 || seen.Node.CPUs() >= int64(goal.Offering.CPUs)*1000, "version 2 where CPUs are added", fmt.Sprintf("version %d", version)),
		"Pods may keep to the CPUs that they have, and new ones too, until the node is drained and rebooted: kubelet does not widen their cpusets")
}

func warning(name string, c capacity.Check, remedy string) NodeCheck {
	return NodeCheck{Refusal{c, remedy, name}, true}
}

func dynamic(policy string) bool {
	return policy == "" || policy == "none" || policy == "None"
}
