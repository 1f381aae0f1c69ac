package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels that were right when the pods were bound have changed since.
func TestMisplaced(t *testing.T) {
	serviceAccountOfPods(t)
	node, c := makeNode(t), newClient(t, Options{})
	_, err := admin(t).CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(`{"metadata":{"labels":{"size":"big"}}}`), metav1.PatchOptions{})
	fatal(t, err)
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	required := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "size", Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}}}
		}
	}
	selects := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"size": value} }
	}
	makePod(t, node, "aff-any", running)
	makePod(t, node, "aff-right", running, required("big"))
	makePod(t, node, "aff-wrong", running, required("small"))
	makePod(t, node, "sel-right", running, selects("big"))
	makePod(t, node, "sel-wrong", running, selects("small"))
	makePod(t, node, "sel-done", corev1.PodStatus{Phase: corev1.PodSucceeded}, selects("small"))
	got, err := c.Misplaced(t.Context(), node)
	if want := []string{"default/aff-wrong", "default/sel-wrong"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %q, want %q", err, got, want)
	}
	if _, err := c.Misplaced(t.Context(), "nosuch"); err == nil {
		t.Error("no error for no Node")
	}
}
