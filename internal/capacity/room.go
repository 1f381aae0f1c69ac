package capacity

import (
	"fmt"
	"strings"
)

// RoomNode is a node with what its pods ask for, as far as room for pods is concerned.
type RoomNode struct {
	Name string
	// Schedulable says that it takes pods: a worker that nobody has cordoned.
	Schedulable           bool
	Capacity, Allocatable Resources
	// Before is the size that its instance has, After the one that it shall have; zero means that it stays as it is.
	Before, After Offering
	Pods          []Pod
}

// room is CPU in millicores and memory in bytes.
type room struct{ cpu, memory int64 }

func (r room) plus(o room) room  { return room{r.cpu + o.cpu, r.memory + o.memory} }
func (r room) minus(o room) room { return room{max(0, r.cpu-o.cpu), max(0, r.memory-o.memory)} }

// holds tells whether o fits into r.
func (r room) holds(o room) bool { return o.cpu <= r.cpu && o.memory <= r.memory }

// String prints for example "3900m CPU and 7600 MiB".
func (r room) String() string { return fmt.Sprintf("%dm CPU and %d MiB", r.cpu, r.memory/MiB) }

func (n RoomNode) allocatable() room {
	return room{milliCPU(n.Allocatable), bytes(n.Allocatable, "memory")}
}

// allocatableAfter is what the node will offer to pods with its new size: what is reserved stays reserved. The kernel keeps as large a share of the memory
// as now (measured: 1.9 to 6.9 % of it, less of a bigger machine).
func (n RoomNode) allocatableAfter() room {
	now := n.allocatable()
	if n.After.CPUs == 0 || n.Before.MemoryMiB == 0 {
		return now
	}
	memory := bytes(n.Capacity, "memory")
	gained := room{int64(n.After.CPUs)*1000 - milliCPU(n.Capacity), int64(float64(memory) / float64(n.Before.MemoryMiB) * float64(n.After.MemoryMiB-n.Before.MemoryMiB))}
	return room{max(0, now.cpu+gained.cpu), max(0, now.memory+gained.memory)}
}

// requests sums up what the scheduler counts for the pods of that kind.
func (n RoomNode) requests(counts func(Pod) bool) (sum room) {
	for _, p := range n.Pods {
		if !p.Finished() && counts(p) {
			sum = sum.plus(room{p.MilliCPU, p.Memory})
		}
	}
	return sum
}

func anyPod(Pod) bool      { return true }
func movable(p Pod) bool   { return !p.Stays() }
func belonging(p Pod) bool { return p.Stays() }

// CheckRequestsFit tells whether what all pods ask for fits into what the nodes will offer with their new sizes: in sum over the nodes that take pods,
// and on each node for the pods that belong to it. The sum is necessary and not enough: the scheduler also needs room on one node for each pod.
func CheckRequestsFit(nodes []RoomNode) Check {
	c := Check{Layer: LayerPreflight, What: "room for the pods' requests after the change", OK: true}
	var asked, offered room
	for _, n := range nodes {
		own, after := n.requests(belonging), n.allocatableAfter()
		if n.After.CPUs > 0 && !after.holds(own) {
			c.OK = false
			c.Expected = fmt.Sprintf("on %s room for its DaemonSets' and static pods, which ask for %s", n.Name, own)
			c.Observed = fmt.Sprintf("%s: %s allocatable, %s after the change", n.Name, n.allocatable(), after)
			return c
		}
		if n.Schedulable {
			asked, offered = asked.plus(n.requests(anyPod)), offered.plus(after)
		}
	}
	c.OK = offered.holds(asked)
	c.Expected = fmt.Sprintf("room for %s, which is what all pods on the workers ask for", asked)
	c.Observed = fmt.Sprintf("%s allocatable on the workers after the change", offered)
	return c
}

// CheckRoomWithout tells whether the pods of a node that can run elsewhere fit into what is free on the others while it is away: in sum, which is
// necessary and not enough.
func CheckRoomWithout(nodes []RoomNode, away string) Check {
	c := Check{Layer: LayerPreflight, What: "room for its pods elsewhere", OK: true}
	var asked, free room
	var others []string
	for _, n := range nodes {
		switch {
		case n.Name == away:
			asked = n.requests(movable)
		case n.Schedulable:
			free = free.plus(n.allocatable().minus(n.requests(anyPod)))
			others = append(others, n.Name)
		}
	}
	c.OK = free.holds(asked)
	c.Expected = fmt.Sprintf("room for %s, which its pods that can run elsewhere ask for", asked)
	c.Observed = fmt.Sprintf("%s free on %d other workers", free, len(others))
	if len(others) > 0 && len(others) <= 3 {
		c.Observed = fmt.Sprintf("%s free on %s", free, strings.Join(others, ", "))
	}
	return c
}
