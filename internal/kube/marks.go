package kube

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// rule recognises one sign by which another tool shows on a Node that it is at work there now.
type rule struct {
	tool string
	// key is the name of the annotation, label or taint; * stands for any part of it without a slash.
	key string
	// busy says which values mean work. Nil: the sign's presence does.
	busy func(value string) bool
	// unlike, for annotations, names the annotation with which this one agrees while the tool is idle.
	unlike string
	// source says where the key was read.
	source string
}

// annotationRules are the annotations of tools at work. What such tools leave on an idle node is no mark:
//   - kured's lock lies on its DaemonSet; most-recent-reboot-needed on the Node is history;
//   - a plan label of system-upgrade-controller is the hash of the last finished plan;
//   - DeletionCandidateOfClusterAutoscaler is a preference, and the claim's scale-down-disabled keeps it from becoming more;
//   - karpenter.sh/do-not-disrupt, medik8s.io/exclude-from-remediation and the like are wishes of people;
//   - trueup's own claim is judged by rollout, not here.
func annotationRules() []rule {
	return []rule{
		{tool: "CloudStack live resize", key: "cloudstack.apache.org/cks-live-resize", source: "apache/cloudstack PR 14223 (draft)"},
		{tool: "kured", key: "weave.works/kured-reboot-in-progress", source: "kubereboot/kured KuredRebootInProgressAnnotation"},
		{tool: "Talos", key: "talos.dev/cordoned", busy: isTrue, source: "siderolabs/talos constants.AnnotationCordonedKey"},
		{tool: "Flatcar update operator", key: "flatcar-linux-update.v1.flatcar-linux.net/reboot-ok", busy: isTrue, source: "flatcar/flatcar-linux-update-operator pkg/constants"},
		{tool: "Flatcar update operator", key: "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress", busy: isTrue, source: "flatcar/flatcar-linux-update-operator pkg/constants"},
		{tool: "Flatcar update operator", key: "flatcar-linux-update.v1.flatcar-linux.net/agent-made-unschedulable", busy: isTrue, source: "flatcar/flatcar-linux-update-operator pkg/constants"},
		{tool: "OpenShift machine config operator", key: "machineconfiguration.openshift.io/state", busy: not("Done"), source: "openshift/machine-config-operator pkg/daemon/constants"},
		{tool: "OpenShift machine config operator", key: "machineconfiguration.openshift.io/desiredConfig", unlike: "machineconfiguration.openshift.io/currentConfig", source: "openshift/machine-config-operator pkg/daemon/constants"},
		{tool: "OpenShift machine config operator", key: "machineconfiguration.openshift.io/desiredDrain", unlike: "machineconfiguration.openshift.io/lastAppliedDrain", source: "openshift/machine-config-operator pkg/daemon/constants"},
		{tool: "SR-IOV network operator", key: "sriovnetwork.openshift.io/state", busy: not("Idle"), source: "sriov-network-operator consts.NodeDrainAnnotation"},
		{tool: "NVIDIA driver upgrade", key: "nvidia.com/*-driver-upgrade.node-initial-state.unschedulable", source: "NVIDIA/k8s-operator-libs UpgradeInitialStateAnnotationKeyFmt"},
		{tool: "NVIDIA maintenance operator", key: "maintenance.nvidia.com/node-initial-state.unschedulable", source: "Mellanox/maintenance-operator NodeInitialStateUnschedulableAnnot"},
	}
}

// labelRules are the labels of tools at work.
func labelRules() []rule {
	return []rule{
		// The label stays as "upgrade-done" on every node whose driver was ever upgraded; upgrade-required is next to be cordoned.
		{tool: "NVIDIA driver upgrade", key: "nvidia.com/*-driver-upgrade-state", busy: not("upgrade-done"), source: "NVIDIA/k8s-operator-libs UpgradeStateLabelKeyFmt"},
		{tool: "Flatcar update operator", key: "flatcar-linux-update.v1.flatcar-linux.net/before-reboot", busy: isTrue, source: "flatcar/flatcar-linux-update-operator pkg/constants"},
		{tool: "Flatcar update operator", key: "flatcar-linux-update.v1.flatcar-linux.net/after-reboot", busy: isTrue, source: "flatcar/flatcar-linux-update-operator pkg/constants"},
	}
}

// taintRules are the taints of tools at work, whatever their effect.
func taintRules() []rule {
	return []rule{
		{tool: "Kubernetes: out of service", key: "node.kubernetes.io/out-of-service", source: "k8s.io/api/core/v1 TaintNodeOutOfService"},
		{tool: "cloud controller manager: instance shut down", key: "node.cloudprovider.kubernetes.io/shutdown", source: "k8s.io/cloud-provider api.TaintNodeShutdown"},
		{tool: "cloud controller manager: node not initialised", key: "node.cloudprovider.kubernetes.io/uninitialized", source: "k8s.io/cloud-provider api.TaintExternalCloudProvider"},
		{tool: "cluster autoscaler", key: "ToBeDeletedByClusterAutoscaler", source: "kubernetes/autoscaler taints.ToBeDeletedTaint"},
		{tool: "Karpenter", key: "karpenter.sh/disrupted", source: "sigs.k8s.io/karpenter v1 DisruptedTaintKey"},
		{tool: "Karpenter", key: "karpenter.sh/disruption", source: "sigs.k8s.io/karpenter v1beta1 DisruptionTaintKey"},
		{tool: "medik8s node maintenance", key: "medik8s.io/drain", source: "medik8s/node-maintenance-operator controllers/taint.go"},
		{tool: "KubeVirt node maintenance", key: "kubevirt.io/drain", source: "kubevirt/node-maintenance-operator, predecessor of medik8s"},
		{tool: "medik8s remediation", key: "medik8s.io/remediation", source: "medik8s/self-node-remediation"},
		{tool: "medik8s remediation", key: "medik8s.io/fence-agents-remediation", source: "medik8s/fence-agents-remediation"},
	}
}

func isTrue(value string) bool { return value == "true" }

// not is true for any value but the idle one. An empty value is idle too: these tools clear a sign that way.
func not(idle string) func(string) bool { return func(v string) bool { return v != idle && v != "" } }

// foreignMarks lists the signs of other tools at work on the node, sorted by key.
func foreignMarks(n *corev1.Node) []capacity.Mark {
	taints := make(map[string]string, len(n.Spec.Taints))
	for _, t := range n.Spec.Taints {
		taints[t.Key] = t.Value
	}
	marks := matches(annotationRules(), n.Annotations)
	marks = append(marks, matches(labelRules(), n.Labels)...)
	marks = append(marks, matches(taintRules(), taints)...)
	slices.SortFunc(marks, func(a, b capacity.Mark) int { return strings.Compare(a.Key, b.Key) })
	return marks
}

func matches(rules []rule, signs map[string]string) []capacity.Mark {
	var marks []capacity.Mark
	for _, r := range rules {
		for key, value := range signs {
			if r.matches(key, value, signs) {
				marks = append(marks, capacity.Mark{Tool: r.tool, Key: key})
			}
		}
	}
	return marks
}

func (r rule) matches(key, value string, signs map[string]string) bool {
	if ok, err := path.Match(r.key, key); err != nil || !ok {
		return false
	}
	switch {
	case r.unlike != "":
		return value != signs[r.unlike]
	case r.busy != nil:
		return r.busy(value)
	}
	return true
}
