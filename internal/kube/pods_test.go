package kube

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// makePod binds a pod to the node and gives it the status. It goes with the test.
func makePod(t *testing.T, node, name string, status corev1.PodStatus, edit ...func(*corev1.Pod)) types.UID {
	t.Helper()
	pods := admin(t).CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node,
		TerminationGracePeriodSeconds: new(int64(0)), AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{Name: "c", Image: "example.org/none"}}}}
	for _, e := range edit {
		e(pod)
	}
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	fatal(t, err)
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
	made.Status = status
	_, err = pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	fatal(t, err)
	return made.UID
}

func TestPods(t *testing.T) {
	serviceAccountOfPods(t)
	node, other := makeNode(t), makeNode(t)
	ready := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	running := makePod(t, node, "pods-a", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready,
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "i", RestartCount: 1}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "c", RestartCount: 2}}},
		func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
		})
	failed := makePod(t, node, "pods-b", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeAffinity", Message: "Pod was rejected"})
	makePod(t, other, "pods-c", corev1.PodStatus{Phase: corev1.PodRunning})

	got, err := newClient(t, Options{}).Pods(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	want := []capacity.Pod{
		{UID: string(running), Namespace: "default", Name: "pods-a", Phase: "Running", Ready: true, Probed: true, Restarts: 3},
		{UID: string(failed), Namespace: "default", Name: "pods-b", Phase: "Failed", Reason: "NodeAffinity"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods of the node (-want +got):\n%s", diff)
	}
	_, err = clientAs(t, Options{}, "nobody").Pods(t.Context(), node)
	checkSentinel(t, err, rollout.ErrDenied)
}

func TestConvertPod(t *testing.T) {
	probe := &corev1.Probe{}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want capacity.Pod
	}{
		"nothing known":          {corev1.Pod{}, capacity.Pod{}},
		"being deleted":          {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, capacity.Pod{Deleting: true}},
		"a sidecar with a probe": {corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{ReadinessProbe: probe}}}}, capacity.Pod{Probed: true}},
		"the second container":   {corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}, {ReadinessProbe: probe}}}}, capacity.Pod{Probed: true}},
		"a liveness probe":       {corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{LivenessProbe: probe}}}}, capacity.Pod{}},
		"not ready": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}},
			capacity.Pod{Phase: "Pending"}},
	} {
		if diff := cmp.Diff(c.want, convertPod(&c.pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
