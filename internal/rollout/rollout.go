// Package rollout decides and performs the moves that take the nodes of one cluster to their goal.
//
// Its heart is the pure function Next: goal, claim and one observation in, the next step out. It never trusts what was
// done, only what is seen; that makes crash, retry, resume and "somebody else did it" the same case. The planner walks Next
// through an ideal world to say what would happen; the runner walks it through the real one.
//
// The package's invariant: no effect without a look just before it, a claim that announced it, and a Lease that still fences it.
package rollout

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Prefix is the prefix of every annotation and the API group of trueup.
const Prefix = "cks-trueup.github.io"

// FieldManager is the name under which every write to Kubernetes is made. Release depends on it: spec.unschedulable is
// cleared only while managedFields show that this manager set it.
const FieldManager = "trueup"

// Role is what a virtual machine does in its cluster.
type Role string

// The roles that CKS knows.
const (
	RoleControl Role = "control" // control plane
	RoleWorker  Role = "worker"
	RoleEtcd    Role = "etcd" // dedicated etcd: a guest without a Kubernetes Node
)

// Roles are all of them, in the order in which their nodes are worked on.
func Roles() []Role { return []Role{RoleWorker, RoleControl, RoleEtcd} }

// Move is one step on one node.
type Move string

// The moves, in their order.
const (
	MoveClaim   Move = "claim"   // record what was there, cordon, in one conditional patch
	MoveDrain   Move = "drain"   // cold method: evict the pods that can run elsewhere
	MoveStop    Move = "stop"    // cold method: stop the instance
	MoveResize  Move = "resize"  // change the offering in CloudStack
	MoveStart   Move = "start"   // cold method: start the instance, until its guest answers
	MoveOnline  Move = "online"  // bring up what was plugged, verify the guest
	MoveRestart Move = "restart" // restart kubelet, once
	MoveVerify  Move = "verify"  // wait until the Node shows what the guest has, posted by the restarted kubelet
	MoveRelease Move = "release" // give schedulability back, drop the claim
)

// HasNode tells whether machines of the role are Kubernetes Nodes. A dedicated etcd machine is none: nothing is cordoned, it has no kubelet, and
// its claim is kept on the Lease.
func (r Role) HasNode() bool { return r != RoleEtcd }

// Target names one node in every system that knows it.
type Target struct {
	ClusterID   string `json:"clusterID"`
	ClusterName string `json:"clusterName"`
	Role        Role   `json:"role"`
	// Name is the Kubernetes Node's name: the instance's name in lower case. A dedicated etcd machine has a name of the same kind.
	Name string `json:"name"`
	// InstanceID is the VM's id in CloudStack, the guest's DMI UUID and the Node's systemUUID, all in one.
	InstanceID string `json:"instanceID"`
}

// Method is how an instance gets its offering.
type Method string

// The methods. Cold is only ever chosen by name.
const (
	MethodLive Method = ""     // while the instance runs: it can only grow, and nothing is drained
	MethodCold Method = "cold" // the node is drained, its instance stopped, changed and started
)

// Goal is what one node shall become, and how.
type Goal struct {
	Offering capacity.Offering `json:"offering"`
	// NoOnline forbids to bring up plugged CPUs and memory blocks: they are only verified.
	NoOnline bool `json:"noOnline,omitempty"`
	// Settle is how long the restarted kubelet must have run without another restart.
	Settle time.Duration `json:"settle"`
	// Patience is how long after kubelet's start pods and devices may take to be back, until the node is given back without them, with a warning.
	// Zero is DefaultPatience, less is none.
	Patience time.Duration `json:"patience,omitempty"`
	// Method is how: live, unless the person chose cold.
	Method Method `json:"method,omitempty"`
	// PastBoot, with the cold method, is the boot id that shall be over: the instance is stopped and started although it may have its offering already.
	PastBoot string `json:"pastBoot,omitempty"`
	// DeletePods names pods (namespace/name) that the cold method deletes where no eviction is allowed.
	DeletePods []string `json:"deletePods,omitempty"`
	// AcceptOutage lets the cold method stop the only control-plane node, or the only etcd machine: there is no Kubernetes API meanwhile.
	AcceptOutage bool `json:"acceptOutage,omitempty"`
	// Keep forbids to change the instance's offering: where it is another one, somebody changed it, and the rollout ends.
	Keep bool `json:"keep,omitempty"`
	// Ignore names checks that the person decided to go on against.
	Ignore []string `json:"ignore,omitempty"`
}

// DefaultSettle outlasts one period of a crash-looping kubelet: kubeadm's unit waits RestartSec=10 between two starts.
const DefaultSettle = 15 * time.Second

// DefaultPatience is several periods of a readiness probe (10 s by default, rarely more than a minute), and far more than a device plugin takes to
// register again (it watches for kubelet's socket). kubelet itself waits five minutes for devices; by then the whole verification is overdue.
const DefaultPatience = 2 * time.Minute

func (g Goal) patience() time.Duration { return cmp.Or(g.Patience, DefaultPatience) }

// Tenure is one holding of the cluster's Lease. It fences: an effect may only follow a look that still shows it.
type Tenure struct {
	// Run is the id of the rollout and the Lease's holderIdentity.
	Run string `json:"run"`
	// Transitions is the Lease's leaseTransitions during this holding.
	Transitions int32 `json:"transitions"`
}

// String prints the tenure for people.
func (t Tenure) String() string { return fmt.Sprintf("run %s (transition %d)", t.Run, t.Transitions) }
