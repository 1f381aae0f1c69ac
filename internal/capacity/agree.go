package capacity

import (
	"fmt"
	"time"
)

// Check is the outcome of one comparison: which layer was looked at, for what, and what was expected and observed.
type Check struct {
	Layer    Layer  `json:"layer"`
	OK       bool   `json:"ok"`
	What     string `json:"what"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
}

// String prints the check for people.
func (c Check) String() string {
	if c.OK {
		return fmt.Sprintf("%s: %s", c.What, c.Observed)
	}
	return fmt.Sprintf("%s: expected %s, observed %s", c.What, c.Expected, c.Observed)
}

// Failed returns the first check that failed, and whether there is one.
func Failed(checks ...Check) (Check, bool) {
	for _, c := range checks {
		if !c.OK {
			return c, true
		}
	}
	return Check{}, false
}

// CheckInstance compares the VM in CloudStack with the goal: offering id, CPU count and memory.
func CheckInstance(i Instance, goal Offering) Check {
	return Check{
		Layer: LayerCloudStack, What: "offering of the instance",
		OK:       i.AtOffering(goal),
		Expected: goal.String(),
		Observed: fmt.Sprintf("%s (%s)", i.OfferingName, i.Size()),
	}
}

// CheckGuestCPUs compares the guest's online CPUs with the goal: the count must be equal.
func CheckGuestCPUs(g Guest, goal Offering) Check {
	observed := fmt.Sprintf("%d online", g.CPUsOnline)
	if offline := g.CPUsPresent - g.CPUsOnline; offline > 0 {
		observed += fmt.Sprintf(", %d plugged but offline", offline)
	}
	return Check{
		Layer: LayerGuest, What: "CPUs in the guest",
		OK:       g.CPUsOnline == goal.CPUs,
		Expected: fmt.Sprintf("%d online", goal.CPUs),
		Observed: observed,
	}
}

// CheckGuestBlocks compares the guest's online memory blocks with the goal, exactly. Where the goal is not a multiple
// of the block size, the kernel keeps the last, partly filled block that the firmware gave it at boot: the count is rounded up.
func CheckGuestBlocks(g Guest, goal Offering) Check {
	c := Check{Layer: LayerGuest, What: "memory blocks in the guest"}
	if g.BlockSize <= 0 {
		c.Expected, c.Observed = "a memory block size", "none"
		return c
	}
	want := g.wholeBlocks(goal.MemoryMiB*MiB) / g.BlockSize
	c.OK = want > 0 && int64(g.BlocksOnline) == want
	c.Expected = fmt.Sprintf("%d x %d MiB online", want, g.BlockSize/MiB)
	c.Observed = fmt.Sprintf("%d x %d MiB online", g.BlocksOnline, g.BlockSize/MiB)
	if g.BlocksOffline > 0 {
		c.Observed += fmt.Sprintf(", %d plugged but offline", g.BlocksOffline)
	}
	return c
}

// Bounds of MemTotal. A hot-added DIMM raises it by its full size, or by 1/64 less where the page structs come out of the
// DIMM itself (memmap_on_memory); measured on Debian 12, Debian 13 and Ubuntu 24.04 kernels to the kB, so 4 MiB is slack for the rest.
const (
	memTotalSlack = 4 * MiB
	memmapShare   = 64
)

// memTotalShortfall is how far MemTotal may lie below the configured memory without a reading from the same boot to compare
// with: the kernel, its page structs, a 64 MiB swiotlb and a crash kernel take 1.9 to 6.9 % on nodes measured and reported
// in the field, up to 12 % on the smallest. It is a bound of plausibility and never passes a node alone.
func memTotalShortfall(configured int64) int64 {
	return max(configured*8/100, 512*MiB)
}

// CheckMemTotal compares MemTotal with the goal: by its growth since before, if that reading is of the same boot, else by plausibility.
// A nil before means that there is none.
func CheckMemTotal(before *Guest, g Guest, goal Offering) Check {
	c := Check{Layer: LayerGuest, What: "MemTotal in the guest", Observed: fmt.Sprintf("%d kB", g.MemTotal/1024)}
	goalBytes := goal.MemoryMiB * MiB
	low, high := goalBytes-memTotalShortfall(goalBytes), goalBytes
	if before != nil && before.BootID == g.BootID {
		growth := g.wholeBlocks(goalBytes) - before.MemoryOnline()
		low = before.MemTotal + growth - growth/memmapShare - memTotalSlack
		high = before.MemTotal + growth + memTotalSlack
	}
	c.OK = g.MemTotal > 0 && low <= g.MemTotal && g.MemTotal <= high
	c.Expected = fmt.Sprintf("%d to %d kB", low/1024, high/1024)
	return c
}

// CheckGuest compares the guest with the goal: CPUs, memory blocks and MemTotal. A nil before means that there is no earlier reading.
func CheckGuest(before *Guest, g Guest, goal Offering) []Check {
	return []Check{CheckGuestCPUs(g, goal), CheckGuestBlocks(g, goal), CheckMemTotal(before, g, goal)}
}

// capacitySlack is how far the Node's capacity.memory may differ from the guest's MemTotal. kubelet posts MemTotal to the
// kB; a balloon may have moved between its start and this reading.
const capacitySlack = 16 * MiB

// CheckCapacity compares the Node's capacity with the guest: CPUs equal to the online count, memory equal to MemTotal within 16 MiB.
func CheckCapacity(g Guest, n Node) Check {
	read := g.CPUsOnline > 0 && g.MemTotal > 0 // two views that were not read do not agree
	diff := n.Memory() - g.MemTotal
	return Check{
		Layer: LayerCapacity, What: "capacity of the Node",
		OK:       read && n.CPUs() == int64(g.CPUsOnline)*1000 && -capacitySlack <= diff && diff <= capacitySlack,
		Expected: fmt.Sprintf("%d CPU / %d MiB", g.CPUsOnline, g.MemTotal/MiB),
		Observed: n.Size(),
	}
}

// Freshness is what must be known to tell a status that the restarted kubelet posted from one left over.
type Freshness struct {
	// Before is the Ready condition's heartbeat just before the restart; zero if no restart was needed.
	Before time.Time
	// Stepped is true if the guest's wall clock was stepped since the restart: its stamps can't be compared then.
	Stepped bool
}

// CheckFresh tells whether the Node's status was posted by the kubelet process that runs now: the heartbeat differs from the one
// before the restart, and is not before the start of the process. Both stamps come from the node's own clock and are cut to the second.
func CheckFresh(g Guest, n Node, f Freshness) Check {
	start := g.KubeletStart()
	beat := n.Ready.Heartbeat
	ok := !g.Clock.IsZero() && !beat.IsZero() && !beat.Equal(f.Before) && (f.Stepped || !beat.Before(start))
	return Check{
		Layer: LayerReadiness, What: "status posted by the running kubelet",
		OK:       ok,
		Expected: "a heartbeat at or after " + start.UTC().Format(time.RFC3339),
		Observed: stamp(beat),
	}
}

// CheckReady tells whether the Node is Ready.
func CheckReady(n Node) Check {
	observed := "Ready=" + n.Ready.Status
	if !n.Ready.True() && n.Ready.Message != "" {
		observed += fmt.Sprintf(" (%s: %s)", n.Ready.Reason, n.Ready.Message)
	}
	return Check{Layer: LayerReadiness, What: "Ready condition of the Node", OK: n.Ready.True(), Expected: "Ready=True", Observed: observed}
}

// CheckSettled tells whether the present kubelet process has run long enough. Its age alone is the proof: systemd gives every
// start a new process, so one that has this age was not restarted meanwhile, and NRestarts has not moved.
func CheckSettled(g Guest, settle time.Duration) Check {
	return Check{
		Layer: LayerKubelet, What: "kubelet settled",
		OK:       g.Kubelet.Running() && g.KubeletAge() >= settle,
		Expected: fmt.Sprintf("the same process for %s", settle),
		Observed: fmt.Sprintf("%s, running for %s", g.Kubelet, g.KubeletAge().Truncate(time.Millisecond)),
	}
}

// CheckRunning tells whether kubelet's unit is active with a running process.
func CheckRunning(g Guest) Check {
	return Check{Layer: LayerKubelet, What: "kubelet unit", OK: g.Kubelet.Running(), Expected: "active (running)", Observed: g.Kubelet.String()}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format(time.RFC3339)
}
