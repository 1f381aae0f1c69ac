package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Misplaced names the pods of the Node whose nodeSelector or required node affinity does not match the Node's labels any more: a starting kubelet admits
// every pod anew, and rejects these for good (reason NodeAffinity; GeneralPredicates in kubelet's lifecycle package).
func (c *Client) Misplaced(ctx context.Context, node string) (names []string, err error) {
	var n *corev1.Node
	err = c.read(ctx, call{verb: "get", resource: "nodes", name: node}, func(ctx context.Context) (err error) {
		n, err = c.core.Nodes().Get(ctx, node, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	pods, err := c.podsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		// A selector that can't be read matches nothing, as kubelet has it.
		if match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !match {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names, nil
}
