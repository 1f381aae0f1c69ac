package capacity

import "time"

// Inspection is a second reading of a guest, taken only before the first change: it costs the guest several times as much as Guest does (measured
// under software emulation: 0.5 s and 0.14 s), and what it shows is not needed to keep a promise at the moment of a resize.
type Inspection struct {
	// Unread says why the guest could not be inspected; everything else is zero then.
	Unread string `json:"unread,omitempty"`

	// DIMMSlots counts the ACPI devices of the kind PNP0C80, one for each slot that a DIMM can be plugged into; DIMMsPlugged those that are filled
	// (_STA 15). Measured on QEMU with kernel 6.1: `slots=4` gives four devices, no slots none, and a DIMM that the kernel refused fills its slot, too.
	DIMMSlots    int `json:"dimmSlots"`
	DIMMsPlugged int `json:"dimmsPlugged"`
	// ACPI tells whether the guest shows ACPI devices at all; without them nothing is known of slots.
	ACPI bool `json:"acpi"`

	// Balloon is the memory that the hypervisor has taken back from the guest, in bytes: balloon_inflate less balloon_deflate of /proc/vmstat. Measured
	// on kernel 6.1: a virtio balloon of 256 MiB is 65536 pages. It is seen also where MemTotal does not show it (deflate-on-oom).
	Balloon      int64 `json:"balloon,omitempty"`
	MemAvailable int64 `json:"memAvailable"` // bytes, MemAvailable of /proc/meminfo
	// MemmapOnMemory: the kernel takes a DIMM's page structs out of the DIMM itself, not out of the memory that is there.
	MemmapOnMemory bool `json:"memmapOnMemory,omitempty"`
	// AutoOnline is auto_online_blocks: offline, online, online_kernel or online_movable.
	AutoOnline string `json:"autoOnline,omitempty"`

	Kernel KernelLog `json:"kernel"`

	// OtherKubelets are units other than kubelet.service that run a kubelet here: "k3s-agent.service is active".
	OtherKubelets []string      `json:"otherKubelets,omitempty"`
	Kubelet       KubeletConfig `json:"kubelet"`
}

// KernelLog is what the kernel has said in this boot about hardware that was plugged.
type KernelLog struct {
	// Whole tells whether the log still reaches back to the boot.
	Whole bool `json:"whole"`
	// BootMemory is the memory that the kernel was booted with, in bytes; 0 where the log does not tell.
	BootMemory int64 `json:"bootMemory,omitempty"`
	// MemoryRefused and CPUsRefused are the lines in which the kernel refused a DIMM or a CPU.
	MemoryRefused []string `json:"memoryRefused,omitempty"`
	CPUsRefused   []string `json:"cpusRefused,omitempty"`
}

// KubeletConfig is what a restarted kubelet would work with, as far as its configuration file and its present arguments tell.
type KubeletConfig struct {
	// Path is the configuration file, empty on a machine without kubelet. Unread says why it could not be read.
	Path   string `json:"path,omitempty"`
	Unread string `json:"unread,omitempty"`
	// CPUManagerPolicy and MemoryManagerPolicy are empty where they are not set: none and None.
	CPUManagerPolicy    string `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy string `json:"memoryManagerPolicy,omitempty"`
	// Percentages are reservations of memory in percent: "evictionHard memory.available 5%".
	Percentages []string `json:"percentages,omitempty"`
	// Files are all that kubelet is configured by: its configuration, environment files, unit and drop-ins.
	Files []ConfigFile `json:"files,omitempty"`
	// NeedsReload is systemd's NeedDaemonReload: the unit on disk is another one than systemd knows.
	NeedsReload bool `json:"needsReload,omitempty"`
}

// ConfigFile is a file by which kubelet is configured.
type ConfigFile struct {
	Path string `json:"path"`
	// Modified is its time of modification by the guest's clock, in whole seconds.
	Modified time.Time `json:"modified"`
}

// ChangedSince lists the files that were modified in a later second than start. A change within that very second is not seen.
func (k KubeletConfig) ChangedSince(start time.Time) []string {
	var out []string
	for _, f := range k.Files {
		if f.Modified.After(start) {
			out = append(out, f.Path)
		}
	}
	return out
}
