package capacity

import (
	"fmt"
	"time"
)

// Guest is one reading of the guest operating system, taken in one command so that its parts belong together.
type Guest struct {
	ProductUUID string `json:"productUUID"` // /sys/class/dmi/id/product_uuid, lower case; the VM id on KVM
	MachineID   string `json:"machineID"`   // /etc/machine-id
	BootID      string `json:"bootID"`      // /proc/sys/kernel/random/boot_id: new at each boot

	CPUsOnline   int `json:"cpusOnline"`   // /sys/devices/system/cpu/online
	CPUsPresent  int `json:"cpusPresent"`  // …/present: plugged, online or not
	CPUsPossible int `json:"cpusPossible"` // …/possible: fixed at boot; more can never be plugged

	BlockSize     int64 `json:"blockSize"`     // bytes in a memory block, /sys/devices/system/memory/block_size_bytes
	BlocksOnline  int   `json:"blocksOnline"`  // memory blocks whose state is online
	BlocksOffline int   `json:"blocksOffline"` // plugged memory blocks that are not online
	MemTotal      int64 `json:"memTotal"`      // bytes, MemTotal of /proc/meminfo

	// Clock is the guest's wall clock at the reading, Monotonic its time since boot.
	// Stamps from the node are compared with these, never with the clock of trueup's own machine.
	Clock     time.Time     `json:"clock"`
	Monotonic time.Duration `json:"monotonic"`

	Kubelet Unit `json:"kubelet"`

	// CPUManagerPolicy and MemoryManagerPolicy are the policyName of kubelet's state files, empty where there is none.
	// With a static policy kubelet refuses to start after the machine has grown.
	CPUManagerPolicy    string `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy string `json:"memoryManagerPolicy,omitempty"`
	// KubepodsCPUs is the number of CPUs that pods may use, cpuset.cpus.effective of the kubepods cgroup; 0 if it can't be read.
	KubepodsCPUs int `json:"kubepodsCPUs,omitempty"`
	// KubepodsMemory is how much memory all pods together may use, in bytes: memory.max of the kubepods cgroup. Unlimited where there is no limit; 0
	// if it can't be read.
	KubepodsMemory int64 `json:"kubepodsMemory,omitempty"`
	// CgroupVersion is 2 where /sys/fs/cgroup is the unified hierarchy, else 1; 0 if it was not read.
	CgroupVersion int `json:"cgroupVersion,omitempty"`

	// Etcd is what a dedicated etcd machine says about etcd; nil on every other machine.
	Etcd *Etcd `json:"etcd,omitempty"`
}

// Unit is the state of a systemd unit: kubelet's, or etcd's.
type Unit struct {
	ActiveState  string `json:"activeState"` // active, activating, failed, …
	SubState     string `json:"subState"`    // running, auto-restart, …
	InvocationID string `json:"invocationID"`
	MainPID      int    `json:"mainPID"`
	// Start is ExecMainStartTimestampMonotonic: when the present process was started, as time since boot.
	Start time.Duration `json:"start"`
	// Restarts is NRestarts: automatic restarts by systemd since the last start by hand.
	Restarts int `json:"restarts"`
}

// Running reports whether the unit is active with a running main process.
func (u Unit) Running() bool {
	return u.ActiveState == "active" && u.SubState == "running" && u.MainPID > 0
}

// String prints the unit's state for people.
func (u Unit) String() string {
	return fmt.Sprintf("%s (%s), pid %d, %d automatic restarts", u.ActiveState, u.SubState, u.MainPID, u.Restarts)
}

// MemoryOnline is the memory in online blocks, in bytes. It is more than MemTotal, which lacks what the kernel keeps.
func (g Guest) MemoryOnline() int64 { return int64(g.BlocksOnline) * g.BlockSize }

// MemoryPresent is the memory in all plugged blocks, online or not, in bytes.
func (g Guest) MemoryPresent() int64 { return int64(g.BlocksOnline+g.BlocksOffline) * g.BlockSize }

// wholeBlocks rounds bytes up to whole memory blocks: the firmware's last block may be filled in part.
func (g Guest) wholeBlocks(bytes int64) int64 {
	if g.BlockSize <= 0 {
		return bytes
	}
	return (bytes + g.BlockSize - 1) / g.BlockSize * g.BlockSize
}

// Excess reports whether more CPUs or memory blocks are plugged, online or not, than the offering gives.
func (g Guest) Excess(o Offering) bool {
	return g.CPUsPresent > o.CPUs || g.CPUsOnline > o.CPUs || g.MemoryPresent() > g.wholeBlocks(o.MemoryMiB*MiB)
}

// KubeletStart is when the present kubelet process was started, by the guest's wall clock, cut to the second as
// the Node's heartbeats are. Computed from monotonic stamps: systemd's localised ones are never parsed.
func (g Guest) KubeletStart() time.Time {
	return g.Clock.Add(g.Kubelet.Start - g.Monotonic).Truncate(time.Second)
}

// KubeletAge is how long the present kubelet process has been running.
func (g Guest) KubeletAge() time.Duration { return g.Monotonic - g.Kubelet.Start }

// BootTime is the guest's wall clock at its boot, as computed from this reading. Two readings of one boot
// that differ in it show that the guest's clock was stepped between them.
func (g Guest) BootTime() time.Time { return g.Clock.Add(-g.Monotonic) }

// Size prints what is online, for example "4 CPU / 8192 MiB".
func (g Guest) Size() string { return size(g.CPUsOnline, g.MemoryOnline()/MiB) }
