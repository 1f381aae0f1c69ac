// Package capacity says how big a node is, by each of the four views, and when those views agree.
//
// It is pure: no input or output, no clock, nothing of trueup imported. Its invariant: a check never passes on a
// figure that was not read from the layer in question. A CloudStack record proves nothing about the guest, and the
// guest proves nothing about the Kubernetes Node.
package capacity

import "fmt"

// MiB is one mebibyte in bytes. CloudStack's offerings count memory in it, although its API calls it MB.
const MiB int64 = 1 << 20

// Layer is where a check looked, and so where a failure lies.
type Layer string

// The layers, from the outside in.
const (
	LayerAccess         Layer = "access"         // something could not be reached or read
	LayerLock           Layer = "lock"           // another run, or another goal, holds the cluster or the node
	LayerPreflight      Layer = "preflight"      // refused before any change
	LayerCloudStack     Layer = "cloudstack"     // the offering change
	LayerGuest          Layer = "guest"          // CPUs and memory blocks in the guest
	LayerKubelet        Layer = "kubelet"        // the kubelet unit in the guest
	LayerReadiness      Layer = "readiness"      // the Node's Ready condition, posted by the restarted kubelet
	LayerCapacity       Layer = "capacity"       // the Node's status.capacity
	LayerAllocatable    Layer = "allocatable"    // the Node's status.allocatable
	LayerSchedulability Layer = "schedulability" // spec.unschedulable and other tools' marks on the Node
)

// View is one of the four answers to "how big is this node?".
type View string

// The four views, in the order in which a change reaches them.
const (
	ViewRecord   View = "record"   // the cluster record in CloudStack: what a new node would get
	ViewInstance View = "instance" // the virtual machine in CloudStack
	ViewGuest    View = "guest"    // what the guest's kernel has online
	ViewNode     View = "node"     // what the Kubernetes Node advertises
)

// AllViews are the four, in that order.
func AllViews() []View { return []View{ViewRecord, ViewInstance, ViewGuest, ViewNode} }

// Offering is a CloudStack compute offering.
type Offering struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	CPUs      int    `json:"cpus"`
	SpeedMHz  int    `json:"speedMHz,omitempty"`
	MemoryMiB int64  `json:"memoryMiB"`
	// Custom means that CPU and memory are chosen at deployment; CKS refuses such offerings.
	Custom bool `json:"custom,omitempty"`
	// DynamicScaling is the offering's dynamicscalingenabled flag: without it no running VM can be scaled to or from it.
	DynamicScaling bool `json:"dynamicScaling,omitempty"`
}

// SameSize reports whether both offerings have the same CPU count and memory; CPU speed is not compared.
func (o Offering) SameSize(other Offering) bool {
	return o.CPUs == other.CPUs && o.MemoryMiB == other.MemoryMiB
}

// Size prints the CPU count and memory, for example "4 CPU / 8192 MiB".
func (o Offering) Size() string { return size(o.CPUs, o.MemoryMiB) }

// String prints the offering for people: its name and size.
func (o Offering) String() string {
	if o.Name == "" {
		return o.Size()
	}
	return fmt.Sprintf("%s (%s)", o.Name, o.Size())
}

func size(cpus int, mib int64) string { return fmt.Sprintf("%d CPU / %d MiB", cpus, mib) }

// Instance is the virtual machine as CloudStack's listVirtualMachines shows it.
type Instance struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	State        string `json:"state"` // CloudStack's word: Running, Stopped, Migrating, …
	OfferingID   string `json:"offeringID"`
	OfferingName string `json:"offeringName"`
	CPUs         int    `json:"cpus"`
	SpeedMHz     int    `json:"speedMHz,omitempty"`
	MemoryMiB    int64  `json:"memoryMiB"`
	// DynamicallyScalable is the VM's flag, fixed at its deployment: false means that it must be stopped to be resized.
	DynamicallyScalable bool   `json:"dynamicallyScalable"`
	TemplateID          string `json:"templateID,omitempty"`
	ZoneID              string `json:"zoneID,omitempty"`
	// LoginUser is the VM detail controlNodeLoginUser, empty where the cluster has none.
	LoginUser string `json:"loginUser,omitempty"`
}

// Present is the offering that the machine has now, as far as the machine itself shows it.
func (i Instance) Present() Offering {
	return Offering{ID: i.OfferingID, Name: i.OfferingName, CPUs: i.CPUs, SpeedMHz: i.SpeedMHz, MemoryMiB: i.MemoryMiB, DynamicScaling: true}
}

// Smaller reports whether the offering has less CPUs, CPU speed or memory than the machine: CloudStack lets a running machine only grow.
func (o Offering) Smaller(i Instance) bool {
	return o.CPUs < i.CPUs || o.MemoryMiB < i.MemoryMiB || (o.SpeedMHz > 0 && o.SpeedMHz < i.SpeedMHz)
}

// Running reports whether CloudStack says that the machine runs.
func (i Instance) Running() bool { return i.State == "Running" }

// Size prints the CPU count and memory, for example "4 CPU / 8192 MiB".
func (i Instance) Size() string { return size(i.CPUs, i.MemoryMiB) }

// AtOffering reports whether CloudStack shows the machine at the offering: its id, CPU count and memory.
func (i Instance) AtOffering(o Offering) bool {
	return i.OfferingID == o.ID && i.CPUs == o.CPUs && i.MemoryMiB == o.MemoryMiB
}

// Record is what CloudStack's cluster record says that a new node of a role would get.
type Record struct {
	// Offering is zero where the record names none (clusters made with nodeofferings alone may have none for a role).
	Offering Offering `json:"offering"`
}

// Known reports whether the record names an offering at all.
func (r Record) Known() bool { return r.Offering.ID != "" }
