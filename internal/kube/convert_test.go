package kube

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestConvertQuantities(t *testing.T) {
	tests := []struct {
		cpu, memory string
		milli, size int64 // millicores, bytes
	}{
		{"4", "8143640Ki", 4000, 8143640 << 10},
		{"7900m", "8131472Ki", 7900, 8131472 << 10},
		{"2", "4Gi", 2000, 4 << 30},
		{"3920m", "7736458240", 3920, 7736458240}, // percentage reservations leave plain bytes
		{"64", "7339087360", 64000, 7339087360},
		{"2000m", "1000M", 2000, 1_000_000_000},
		{"1", "1.5Gi", 1000, 1610612736},
	}
	for _, tt := range tests {
		t.Run(tt.cpu+" "+tt.memory, func(t *testing.T) {
			n := convertNode(&corev1.Node{Status: corev1.NodeStatus{
				Capacity: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse(tt.cpu),
					corev1.ResourceMemory: resource.MustParse(tt.memory),
				},
			}})
			if got := n.CPUs(); got != tt.milli {
				t.Errorf("cpu: %d millicores, want %d", got, tt.milli)
			}
			if got := n.Memory(); got != tt.size {
				t.Errorf("memory: %d bytes, want %d", got, tt.size)
			}
		})
	}
}

func TestConvertNode(t *testing.T) {
	beat := time.Date(2026, 11, 30, 12, 0, 1, 0, time.FixedZone("elsewhere", 3600))
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "w-1", UID: "u-1", ResourceVersion: "42", DeletionTimestamp: &metav1.Time{Time: beat},
			Labels:      map[string]string{controlPlaneLabel: ""},
			Annotations: map[string]string{rollout.ClaimAnnotation: "{}", scaleDownDisabled: "false"},
		},
		Spec: corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{
			NodeInfo:    corev1.NodeSystemInfo{SystemUUID: "0A1B-FF", MachineID: "m", BootID: "b", KubeletVersion: "v1.34.2"},
			Capacity:    corev1.ResourceList{"vendor.example/gpu": resource.MustParse("1")},
			Allocatable: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("0")},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(beat), Reason: "KubeletReady", Message: "ok"},
			},
		},
	}
	want := capacity.Node{
		Name: "w-1", UID: "u-1", ResourceVersion: "42",
		SystemUUID: "0a1b-ff", MachineID: "m", BootID: "b", KubeletVersion: "v1.34.2",
		ControlPlane: true, Unschedulable: true, Deleting: true, ScaleDownDisabled: true, Claim: "{}",
		Capacity:    capacity.Resources{"vendor.example/gpu": resource.MustParse("1")},
		Allocatable: capacity.Resources{"hugepages-2Mi": resource.MustParse("0")},
		Ready:       capacity.Condition{Status: "True", Heartbeat: beat.UTC(), Reason: "KubeletReady", Message: "ok"},
	}
	if diff := cmp.Diff(want, convertNode(node)); diff != "" {
		t.Errorf("converted Node (-want +got):\n%s", diff)
	}
}

func TestConvertNodeWithoutStatus(t *testing.T) {
	n := convertNode(&corev1.Node{})
	if n.Ready.True() || n.Ready.Status != "" || n.CPUs() != 0 || n.Memory() != 0 || n.UnschedulableBy != "" {
		t.Errorf("a Node without status must convert to nothing known: %+v", n)
	}
}

func TestUnschedulableOwner(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const cordon = `{"f:spec":{"f:unschedulable":{}}}`
	tests := []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		{"nobody", nil, ""},
		{"trueup", []metav1.ManagedFieldsEntry{entry("kubelet", "status", `{"f:status":{}}`), entry("trueup", "", cordon)}, "trueup"},
		{"another", []metav1.ManagedFieldsEntry{entry("trueup", "", `{"f:metadata":{}}`), entry("kubectl", "", cordon)}, "kubectl"},
		{"both: theirs", []metav1.ManagedFieldsEntry{entry("argocd", "", cordon), entry("trueup", "", cordon)}, "argocd"},
		{"both, other order: theirs", []metav1.ManagedFieldsEntry{entry("trueup", "", cordon), entry("argocd", "", cordon)}, "argocd"},
		{"a subresource can't own it", []metav1.ManagedFieldsEntry{entry("trueup", "status", cordon)}, ""},
		{"unreadable", []metav1.ManagedFieldsEntry{entry("trueup", "", `[`)}, ""},
		{"no fields", []metav1.ManagedFieldsEntry{{Manager: "trueup"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := unschedulableOwner(tt.entries); got != tt.want {
				t.Errorf("owner %q, want %q", got, tt.want)
			}
		})
	}
}

func TestForeignMarks(t *testing.T) {
	annotate := func(pairs ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		for i := 0; i < len(pairs); i += 2 {
			n.Annotations[pairs[i]] = pairs[i+1]
		}
		return n
	}
	label := func(key, value string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: value}}}
	}
	taint := func(key string) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}}}
	}
	const mco, fluo = "machineconfiguration.openshift.io/", "flatcar-linux-update.v1.flatcar-linux.net/"
	tests := []struct {
		name string
		node *corev1.Node
		want []string
	}{
		{"nothing", &corev1.Node{}, nil},
		{"our claim", annotate(rollout.ClaimAnnotation, "{}", scaleDownDisabled, "true"), nil},
		{"cordon taint", taint("node.kubernetes.io/unschedulable"), nil},
		{"control plane taint", taint("node-role.kubernetes.io/control-plane"), nil},
		{"CloudStack draft", annotate("cloudstack.apache.org/cks-live-resize", "x"), []string{"cloudstack.apache.org/cks-live-resize"}},
		{"kured reboots", annotate("weave.works/kured-reboot-in-progress", "2026-01-01T00:00:00Z"), []string{"weave.works/kured-reboot-in-progress"}},
		{"kured, idle", annotate("weave.works/kured-most-recent-reboot-needed", "2026-01-01T00:00:00Z"), nil},
		{"Talos", annotate("talos.dev/cordoned", "true"), []string{"talos.dev/cordoned"}},
		{"Flatcar reboots", annotate(fluo+"reboot-in-progress", "true", fluo+"status", "UPDATE_STATUS_IDLE"), []string{fluo + "reboot-in-progress"}},
		{"Flatcar, idle", annotate(fluo+"reboot-in-progress", "false", fluo+"reboot-ok", "false", fluo+"agent-made-unschedulable", "false"), nil},
		{"Flatcar before reboot", label(fluo+"before-reboot", "true"), []string{fluo + "before-reboot"}},
		{"MCO works", annotate(mco+"state", "Working"), []string{mco + "state"}},
		{"MCO degraded", annotate(mco+"state", "Degraded"), []string{mco + "state"}},
		{"MCO drains", annotate(mco+"desiredDrain", "drain-b", mco+"lastAppliedDrain", "uncordon-a"), []string{mco + "desiredDrain"}},
		{"MCO has a new config", annotate(mco+"desiredConfig", "b", mco+"currentConfig", "a", mco+"state", "Done"), []string{mco + "desiredConfig"}},
		{"MCO, idle", annotate(mco+"state", "Done", mco+"desiredConfig", "a", mco+"currentConfig", "a", mco+"desiredDrain", "uncordon-a", mco+"lastAppliedDrain", "uncordon-a"), nil},
		{"SR-IOV drains", annotate("sriovnetwork.openshift.io/state", "Draining"), []string{"sriovnetwork.openshift.io/state"}},
		{"SR-IOV, idle", annotate("sriovnetwork.openshift.io/state", "Idle"), nil},
		{"NVIDIA upgrade", label("nvidia.com/gpu-driver-upgrade-state", "cordon-required"), []string{"nvidia.com/gpu-driver-upgrade-state"}},
		{"NVIDIA network driver", label("nvidia.com/ofed-driver-upgrade-state", "upgrade-required"), []string{"nvidia.com/ofed-driver-upgrade-state"}},
		{"NVIDIA, idle", label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done"), nil},
		{"NVIDIA initial state", annotate("nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable", "true"), []string{"nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"}},
		{"NVIDIA, upgrades wanted", annotate("nvidia.com/gpu-driver-upgrade-enabled", "true"), nil},
		{"NVIDIA maintenance", annotate("maintenance.nvidia.com/node-initial-state.unschedulable", "false"), []string{"maintenance.nvidia.com/node-initial-state.unschedulable"}},
		{"out of service", taint("node.kubernetes.io/out-of-service"), []string{"node.kubernetes.io/out-of-service"}},
		{"shut down", taint("node.cloudprovider.kubernetes.io/shutdown"), []string{"node.cloudprovider.kubernetes.io/shutdown"}},
		{"cluster autoscaler", taint("ToBeDeletedByClusterAutoscaler"), []string{"ToBeDeletedByClusterAutoscaler"}},
		{"cluster autoscaler, only a candidate", taint("DeletionCandidateOfClusterAutoscaler"), nil},
		{"Karpenter", taint("karpenter.sh/disrupted"), []string{"karpenter.sh/disrupted"}},
		{"Karpenter before v1", taint("karpenter.sh/disruption"), []string{"karpenter.sh/disruption"}},
		{"Karpenter, told to stay away", annotate("karpenter.sh/do-not-disrupt", "true"), nil},
		{"node maintenance", taint("medik8s.io/drain"), []string{"medik8s.io/drain"}},
		{"remediation", taint("medik8s.io/remediation"), []string{"medik8s.io/remediation"}},
		{"two, sorted", annotate("talos.dev/cordoned", "true", "cloudstack.apache.org/cks-live-resize", ""), []string{"cloudstack.apache.org/cks-live-resize", "talos.dev/cordoned"}},
		{"a foreign name that only looks alike", annotate("example.org/nvidia.com-gpu-driver-upgrade-state", "x"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, m := range foreignMarks(tt.node) {
				if m.Tool == "" {
					t.Errorf("mark %s names no tool", m.Key)
				}
				got = append(got, m.Key)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryRuleNamesItsSource(t *testing.T) {
	for _, rules := range [][]rule{annotationRules(), labelRules(), taintRules()} {
		for _, r := range rules {
			if r.tool == "" || r.source == "" || r.key == "" {
				t.Errorf("incomplete rule: %+v", r)
			}
			if r.busy != nil && r.unlike != "" {
				t.Errorf("%s: only one way to tell work from idleness", r.key)
			}
		}
	}
}
