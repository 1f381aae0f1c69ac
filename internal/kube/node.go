package kube

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

const (
	// controlPlaneLabel marks control-plane nodes. Its presence counts: kubeadm leaves the value empty, k3s writes "true".
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	// scaleDownDisabled is the cluster autoscaler's annotation that keeps a node from being removed.
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// Node reads the Node from etcd: without a resourceVersion the API server must not answer from its cache.
func (c *Client) Node(ctx context.Context, name string) (capacity.Node, error) {
	var node *corev1.Node
	err := c.read(ctx, call{verb: "get", resource: "nodes", name: name}, func(ctx context.Context) (err error) {
		node, err = c.core.Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return capacity.Node{}, err
	}
	return convertNode(node), nil
}

// Nodes reads all Nodes of the cluster, in the API server's order: by name.
func (c *Client) Nodes(ctx context.Context) ([]capacity.Node, error) {
	var list *corev1.NodeList
	err := c.read(ctx, call{verb: "list", resource: "nodes"}, func(ctx context.Context) (err error) {
		list, err = c.core.Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	nodes := make([]capacity.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = convertNode(&list.Items[i])
	}
	return nodes, nil
}

func convertNode(n *corev1.Node) capacity.Node {
	_, controlPlane := n.Labels[controlPlaneLabel]
	_, noScaleDown := n.Annotations[scaleDownDisabled]
	return capacity.Node{
		Name:              n.Name,
		UID:               string(n.UID),
		ResourceVersion:   n.ResourceVersion,
		SystemUUID:        strings.ToLower(n.Status.NodeInfo.SystemUUID),
		MachineID:         n.Status.NodeInfo.MachineID,
		BootID:            n.Status.NodeInfo.BootID,
		KubeletVersion:    n.Status.NodeInfo.KubeletVersion,
		ControlPlane:      controlPlane,
		Capacity:          convertResources(n.Status.Capacity),
		Allocatable:       convertResources(n.Status.Allocatable),
		Ready:             convertReady(n.Status.Conditions),
		Unschedulable:     n.Spec.Unschedulable,
		UnschedulableBy:   unschedulableOwner(n.ManagedFields),
		Deleting:          n.DeletionTimestamp != nil,
		Marks:             foreignMarks(n),
		ScaleDownDisabled: noScaleDown,
		Claim:             n.Annotations[rollout.ClaimAnnotation],
	}
}

func convertResources(list corev1.ResourceList) capacity.Resources {
	resources := make(capacity.Resources, len(list))
	for name, quantity := range list {
		resources[string(name)] = quantity
	}
	return resources
}

func convertReady(conditions []corev1.NodeCondition) capacity.Condition {
	for _, c := range conditions {
		if c.Type == corev1.NodeReady {
			return capacity.Condition{
				Status:    string(c.Status),
				Heartbeat: c.LastHeartbeatTime.UTC(),
				Reason:    c.Reason,
				Message:   c.Message,
			}
		}
	}
	return capacity.Condition{}
}

// unschedulableOwner returns the field manager that owns spec.unschedulable. A field may have several owners
// once server-side apply is used; then somebody else's name is returned, so that trueup leaves the cordon to them.
func unschedulableOwner(entries []metav1.ManagedFieldsEntry) string {
	owner := ""
	for _, entry := range entries {
		if !ownsUnschedulable(entry) {
			continue
		}
		if entry.Manager != rollout.FieldManager {
			return entry.Manager
		}
		owner = entry.Manager
	}
	return owner
}

func ownsUnschedulable(entry metav1.ManagedFieldsEntry) bool {
	if entry.FieldsV1 == nil || entry.Subresource != "" {
		return false
	}
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return false // an unknown encoding shows no owner, and without an owner nothing is uncordoned
	}
	_, owns := fields.Spec["f:unschedulable"]
	return owns
}
