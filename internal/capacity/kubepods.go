package capacity

import (
	"fmt"
	"math"
)

// Unlimited is the figure of a cgroup without a memory limit ("max").
const Unlimited int64 = math.MaxInt64

// pageSize is what a cgroup's memory.max is rounded down to, in bytes.
const pageSize int64 = 4096

// CheckKubepodsMemory tells whether pods may use the memory that was added: memory.max of the kubepods cgroup, which kubelet writes at its start.
//
// kubelet sets it to capacity - kubeReserved - systemReserved, without the eviction threshold and without a look at huge pages; to the full
// capacity where enforceNodeAllocatable has no pods. Measured with kubelet 1.36.3 (kubeReserved 50 MiB, eviction threshold 5 %): MemTotal - 50 MiB to
// the byte, before and after a DIMM, unchanged until kubelet's restart and new 3 s after it under software emulation. The reservations alone can't be seen from outside, so the rule is a tolerant one: no less than
// allocatable, which is that figure less the eviction threshold and huge pages; and not the very figure that belonged to the capacity of before if
// that grew, which finds a limit left over even where threshold or huge pages are bigger than the growth. (A figure of before above the capacity of
// before is that of a kubelet which had found the growth already, and had not posted it.) A limit above the capacity harms no pod.
// A guest where the figure can't be read (cgroup v1, another cgroup root) passes, and so does one without a limit.
func CheckKubepodsMemory(before Guest, capacityBefore Resources, g Guest, n Node) Check {
	limit := g.KubepodsMemory
	c := Check{Layer: LayerKubelet, What: "memory of the kubepods cgroup", OK: true,
		Expected: fmt.Sprintf("at least %d MiB, the Node's allocatable", bytes(n.Allocatable, "memory")/MiB), Observed: fmt.Sprintf("%d MiB", limit/MiB)}
	switch {
	case limit <= 0:
		c.Observed = "not read"
	case limit == Unlimited:
		c.Observed = "no limit"
	case limit+pageSize <= bytes(n.Allocatable, "memory"):
		c.OK = false
	case limit == before.KubepodsMemory && limit <= bytes(capacityBefore, "memory") && grew(capacityBefore, n.Capacity, "memory"):
		c.OK, c.Expected = false, fmt.Sprintf("another limit than %d MiB, as the capacity grew", limit/MiB)
	}
	return c
}

// CgroupWarning returns a sentence if the Node's CPUs grew on a guest with cgroup v1, else "". There kubelet widens the cpuset of the kubepods cgroup
// alone: its children keep their lists, and new pods take over the list of their QoS cgroup. Measured: widening kubepods does not widen what is below it.
func CgroupWarning(capacityBefore Resources, g Guest, n Node) string {
	if g.CgroupVersion != 1 || !grew(capacityBefore, n.Capacity, "cpu") {
		return ""
	}
	return "the guest has cgroup v1: its pods may keep to the CPUs that they had, and new ones too, until the node is drained and rebooted"
}
