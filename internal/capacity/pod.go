package capacity

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Pod is one reading of a pod that is bound to a node.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"` // Pending, Running, Succeeded, Failed, Unknown
	// Reason is why the pod is in its phase, where Kubernetes says it: "NodeAffinity", "OutOfcpu", "Evicted", …
	Reason string `json:"reason,omitempty"`
	Ready  bool   `json:"ready,omitempty"`
	// Probed is true if a container has a readiness probe.
	Probed bool `json:"probed,omitempty"`
	// Restarts is the sum over the pod's containers.
	Restarts int `json:"restarts,omitempty"`
	// Deleting is true once the pod has a deletionTimestamp.
	Deleting bool `json:"deleting,omitempty"`
	// Controller is the kind of the owner that would replace the pod: "ReplicaSet", "DaemonSet", …; empty where nothing would.
	Controller string `json:"controller,omitempty"`
	// Static is true for the mirror of a pod that kubelet runs from a file on its node: the API server can't end it.
	Static bool `json:"static,omitempty"`
	// LocalData is true if the pod keeps data in an emptyDir volume, which goes with the pod.
	LocalData bool `json:"localData,omitempty"`
	// MilliCPU (thousandths of a CPU) and Memory (bytes) are what the scheduler counts for the pod.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	Memory   int64 `json:"memory,omitempty"`
}

// Stays tells whether the pod belongs to its node: a DaemonSet's pod would come back at once, and a static pod can't be ended from outside.
func (p Pod) Stays() bool { return p.Static || p.Controller == "DaemonSet" }

// String is the pod's namespace and name, as kubectl takes them.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Finished tells whether the pod will not run again.
func (p Pod) Finished() bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

// Rejected tells whether kubelet refused to take the pod up: it admits every pod of its node anew at each of its starts. The
// reasons are those of its admission handlers.
func (p Pod) Rejected() bool {
	if p.Phase != "Failed" {
		return false
	}
	switch p.Reason {
	case "NodeAffinity", "TaintToleration", "UnexpectedAdmissionError", "TopologyAffinityError", "SMTAlignmentError":
		return true
	}
	return strings.HasPrefix(p.Reason, "OutOf")
}

// KeepsReadiness tells whether a starting kubelet of that version ("v1.35.1") keeps what readiness probes had found. Before 1.35 it reports every
// container that has a readiness probe as not ready, until the first probe succeeds. An unreadable version keeps nothing.
func KeepsReadiness(kubeletVersion string) bool {
	v, err := version.ParseSemantic(kubeletVersion)
	return err == nil && !v.LessThan(version.MustParseSemantic("1.35.0-0"))
}
