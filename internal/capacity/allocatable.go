package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Arithmetic says how the Node's allocatable follows from its capacity, for CPU and memory.
type Arithmetic struct {
	// CPUReserved is capacity - allocatable in millicores: kubeReserved + systemReserved.
	CPUReserved int64 `json:"cpuReservedMillicores"`
	// MemoryReserved is capacity - huge pages - allocatable in bytes: kubeReserved + systemReserved + the hard eviction threshold.
	MemoryReserved int64 `json:"memoryReservedBytes"`
	// HugePages is the memory in preallocated huge pages, in bytes: part of the capacity, never allocatable as memory.
	HugePages int64 `json:"hugePagesBytes,omitempty"`
}

// Explain returns the arithmetic of a Node's allocatable.
func Explain(capacity, allocatable Resources) Arithmetic {
	huge := hugePages(capacity)
	return Arithmetic{
		CPUReserved:    milliCPU(capacity) - milliCPU(allocatable),
		MemoryReserved: bytes(capacity, "memory") - huge - bytes(allocatable, "memory"),
		HugePages:      huge,
	}
}

// String prints the arithmetic for people, for example "capacity less 0m CPU and 100 MiB (reserved + eviction threshold)".
func (a Arithmetic) String() string {
	s := fmt.Sprintf("capacity less %dm CPU and %s (reserved + eviction threshold)", a.CPUReserved, mib(a.MemoryReserved))
	if a.HugePages > 0 {
		s += fmt.Sprintf(", less %s of huge pages", mib(a.HugePages))
	}
	return s
}

// mib prints bytes in MiB, exactly where they are whole and with two digits where a percentage made them odd.
func mib(bytes int64) string {
	if bytes%MiB == 0 {
		return fmt.Sprintf("%d MiB", bytes/MiB)
	}
	return fmt.Sprintf("%.2f MiB", float64(bytes)/float64(MiB))
}

func hugePages(r Resources) int64 {
	var sum int64
	for name := range r {
		if strings.HasPrefix(name, "hugepages-") {
			sum += bytes(r, name)
		}
	}
	return sum
}

// CheckAllocatable compares the Node's allocatable with what it was before. It fails only if allocatable exceeds capacity,
// or did not grow with a capacity that grew. A restart applies pending configuration, and reservations may be percentages, so
// a changed difference is no failure: see AllocatableWarning.
func CheckAllocatable(capacityBefore, allocatableBefore Resources, n Node) Check {
	c := Check{Layer: LayerAllocatable, What: "allocatable of the Node", OK: true, Expected: "at most the capacity, " + n.Size(), Observed: n.AllocatableSize()}
	for _, name := range []string{"cpu", "memory"} {
		have, read := n.Allocatable[name]
		if !read {
			c.OK, c.Observed = false, "no figure for "+name
			return c
		}
		total := n.Capacity[name]
		if have.Cmp(total) > 0 {
			c.OK = false
			return c
		}
		if grew(capacityBefore, n.Capacity, name) && !grew(allocatableBefore, n.Allocatable, name) {
			c.OK, c.Expected = false, fmt.Sprintf("more %s than %s, as the capacity grew", name, sizes(allocatableBefore))
			return c
		}
	}
	return c
}

// AllocatableWarning returns a sentence with both sums if the difference between capacity and allocatable has changed, else "".
func AllocatableWarning(capacityBefore, allocatableBefore Resources, n Node) string {
	before, after := Explain(capacityBefore, allocatableBefore), Explain(n.Capacity, n.Allocatable)
	if before == after {
		return ""
	}
	return fmt.Sprintf("the reservation changed: allocatable was %s, now it is %s; a kubelet restart applies pending configuration, and reservations may be percentages", before, after)
}

// Extended lists the extended resources (devices and the like: those whose name has a slash) of which there are any, each with its amount.
func Extended(r Resources) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if amount := r[name]; strings.Contains(name, "/") && !amount.IsZero() {
			all = append(all, name+" "+amount.String())
		}
	}
	return all
}

// ExtendedCheck is the name of CheckExtended's check.
const ExtendedCheck = "extended resources of the Node"

// CheckExtended tells whether every extended resource (devices and the like) is back at its former allocatable amount. kubelet
// starts with none of them until their device plugins register again.
func CheckExtended(allocatableBefore Resources, n Node) Check {
	c := Check{Layer: LayerAllocatable, What: ExtendedCheck, OK: true, Expected: "none", Observed: "none"}
	var want, have []string
	for _, name := range slices.Sorted(maps.Keys(allocatableBefore)) {
		if !strings.Contains(name, "/") {
			continue
		}
		before, now := allocatableBefore[name], n.Allocatable[name]
		want = append(want, name+"="+before.String())
		have = append(have, name+"="+now.String())
		if now.Cmp(before) < 0 {
			c.OK = false
		}
	}
	if want != nil {
		c.Expected, c.Observed = strings.Join(want, ", "), strings.Join(have, ", ")
	}
	return c
}

func grew(before, after Resources, name string) bool {
	b, a := before[name], after[name]
	return a.Cmp(b) > 0
}

func sizes(r Resources) string {
	return fmt.Sprintf("%s CPU / %d MiB", cores(milliCPU(r)), bytes(r, "memory")/MiB)
}

// Whole returns a Resources with CPU in whole cores and memory in bytes.
func Whole(cpus int, memory int64) Resources {
	return Resources{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": *resource.NewQuantity(memory, resource.BinarySI)}
}
