package capacity

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources maps a resource name ("cpu", "memory", "hugepages-2Mi", "vendor.example/gpu") to its quantity.
type Resources map[string]resource.Quantity

// Node is one reading of the Kubernetes Node.
type Node struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`

	SystemUUID string `json:"systemUUID"` // status.nodeInfo, lower case; the VM id on KVM
	MachineID  string `json:"machineID"`
	BootID     string `json:"bootID"`
	// KubeletVersion is what the Node says of its kubelet, for example "v1.34.2".
	KubeletVersion string `json:"kubeletVersion,omitempty"`

	ControlPlane bool `json:"controlPlane"` // has the label node-role.kubernetes.io/control-plane

	Capacity    Resources `json:"capacity"`
	Allocatable Resources `json:"allocatable"`
	Ready       Condition `json:"ready"`

	Unschedulable bool `json:"unschedulable"`
	// UnschedulableBy is the field manager that owns spec.unschedulable by managedFields, empty where nobody does.
	UnschedulableBy string `json:"unschedulableBy,omitempty"`
	// Deleting is true once the Node has a deletionTimestamp.
	Deleting bool `json:"deleting,omitempty"`
	// Marks are signs that another tool is at work on this node.
	Marks []Mark `json:"marks,omitempty"`
	// ScaleDownDisabled is true while the cluster autoscaler's scale-down-disabled annotation is there, whoever set it.
	ScaleDownDisabled bool `json:"scaleDownDisabled,omitempty"`
	// Claim is the text of trueup's annotation, empty where there is none.
	Claim string `json:"claim,omitempty"`
}

// Condition is the Node's Ready condition.
type Condition struct {
	Status string `json:"status"` // True, False, Unknown; empty where there is none yet
	// Heartbeat is when kubelet last posted the condition, by the node's clock, cut to the second.
	Heartbeat time.Time `json:"heartbeat"`
	Reason    string    `json:"reason,omitempty"`
	Message   string    `json:"message,omitempty"`
}

// True reports whether the status is "True".
func (c Condition) True() bool { return c.Status == "True" }

// Mark is a sign on a Node that another tool is at work on it.
type Mark struct {
	Tool string `json:"tool"` // whose it is, for people: "kured", "cluster autoscaler", …
	Key  string `json:"key"`  // the annotation, label or taint
}

// String prints the mark for people.
func (m Mark) String() string { return fmt.Sprintf("%s (%s)", m.Key, m.Tool) }

// CPUs is capacity.cpu in millicores; 0 where the Node has none yet.
func (n Node) CPUs() int64 { return milliCPU(n.Capacity) }

// Memory is capacity.memory in bytes; 0 where the Node has none yet.
func (n Node) Memory() int64 { return bytes(n.Capacity, "memory") }

// Size prints the Node's capacity, for example "4 CPU / 7957 MiB".
func (n Node) Size() string {
	return fmt.Sprintf("%s CPU / %d MiB", cores(n.CPUs()), n.Memory()/MiB)
}

// AllocatableSize prints the Node's allocatable CPU and memory.
func (n Node) AllocatableSize() string {
	return fmt.Sprintf("%s CPU / %d MiB", cores(milliCPU(n.Allocatable)), bytes(n.Allocatable, "memory")/MiB)
}

func milliCPU(r Resources) int64 {
	q := r["cpu"]
	return q.MilliValue()
}

func bytes(r Resources, name string) int64 {
	q := r[name]
	return q.Value()
}

func cores(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%dm", milli)
}
