package kube

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// budget holds the pods with that label, as the disruption controller would say it, which does not run here.
func budget(t *testing.T, name string, allowed int32) {
	t.Helper()
	budgets := admin(t).PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	b, err := budgets.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b, err = budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}}}, metav1.CreateOptions{})
		fatal(t, err)
		t.Cleanup(func() { _ = budgets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1 + allowed, DesiredHealthy: 1, ExpectedPods: 1 + allowed}
	_, err = budgets.UpdateStatus(t.Context(), b, metav1.UpdateOptions{})
	fatal(t, err)
}

func labelled(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

func isReady(s *corev1.PodStatus) {
	s.Phase, s.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// evicter may do what the cold method needs beside the rest, and nothing else.
func evicter(t *testing.T) *Client {
	t.Helper()
	name := "evicter-" + strings.ReplaceAll(t.Name(), "/", "-")
	grant(t, name, ColdRights())
	awaitRights(t, name, ColdRights())
	return clientAs(t, Options{}, name)
}

// serviceAccountOfPods makes the account that every pod needs: no controller runs here that would.
func serviceAccountOfPods(t *testing.T) {
	t.Helper()
	_, err := admin(t).CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		fatal(t, err)
	}
}

func asks(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
}

func TestEvict(t *testing.T) {
	serviceAccountOfPods(t)
	node, c := makeNode(t), evicter(t)
	var status corev1.PodStatus
	isReady(&status)
	pod := capacity.Pod{Namespace: "default", Name: "evict-a"}
	pod.UID = string(makePod(t, node, pod.Name, status, labelled("evict-a")))

	budget(t, "evict-a", 0)
	var blocked *rollout.BlockedError
	if err := c.Evict(t.Context(), pod); !errors.As(err, &blocked) || blocked.Pod != "default/evict-a" || !strings.Contains(blocked.Reason, "disruption budget") {
		t.Fatalf("held: %v", err)
	}
	budget(t, "evict-a", 1)
	other := pod
	other.UID = "another"
	for name, call := range map[string]func(context.Context, capacity.Pod) error{"evict": c.Evict, "delete": c.Delete} {
		if err := call(t.Context(), other); !errors.Is(err, rollout.ErrNotFound) {
			t.Errorf("%s of another pod of that name: %v", name, err)
		}
		if err := call(t.Context(), capacity.Pod{Namespace: "default", Name: "nosuch", UID: "x"}); !errors.Is(err, rollout.ErrNotFound) {
			t.Errorf("%s of no pod: %v", name, err)
		}
	}
	budget(t, "evict-a", 1) // the refused ones have counted, too
	if err := c.Evict(t.Context(), pod); err != nil {
		t.Fatalf("let go: %v", err)
	}
	if err := c.Evict(t.Context(), pod); !errors.Is(err, rollout.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
}

func TestEvictNeedsItsRight(t *testing.T) {
	nobody := clientAs(t, Options{}, "nobody")
	for name, call := range map[string]func(context.Context, capacity.Pod) error{"evict": nobody.Evict, "delete": nobody.Delete} {
		if err := call(t.Context(), capacity.Pod{Namespace: "default", Name: "x", UID: "x"}); !errors.Is(err, rollout.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A pod that its budget holds can be deleted all the same.
func TestDeletePastABudget(t *testing.T) {
	serviceAccountOfPods(t)
	node, c := makeNode(t), evicter(t)
	var status corev1.PodStatus
	isReady(&status)
	pod := capacity.Pod{Namespace: "default", Name: "evict-b"}
	pod.UID = string(makePod(t, node, pod.Name, status, labelled("evict-b")))
	budget(t, "evict-b", 0)
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), pod); !errors.Is(err, rollout.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
}

// What the drain and the scheduler's arithmetic go by.
func TestPodsForADrain(t *testing.T) {
	t.Parallel()
	controller := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: "Node", Name: "n"}, {Kind: kind, Name: "c", Controller: new(true)}}
	}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want capacity.Pod
	}{
		"bare":      {corev1.Pod{}, capacity.Pod{}},
		"owned":     {corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: controller("ReplicaSet")}}, capacity.Pod{Controller: "ReplicaSet"}},
		"daemon":    {corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: controller("DaemonSet")}}, capacity.Pod{Controller: "DaemonSet"}},
		"static":    {corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.mirror": "x"}}}, capacity.Pod{Static: true}},
		"empty dir": {corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}, capacity.Pod{LocalData: true}},
		"requests": {corev1.Pod{Spec: corev1.PodSpec{Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")},
			InitContainers: []corev1.Container{{Resources: asks("1", "64Mi")}},
			Containers:     []corev1.Container{{Resources: asks("250m", "128Mi")}, {Resources: asks("100m", "32Mi")}}}},
			capacity.Pod{MilliCPU: 1050, Memory: 160 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, convertPod(&c.pod)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAllPods(t *testing.T) {
	serviceAccountOfPods(t)
	a, b := makeNode(t), makeNode(t)
	makePod(t, a, "all-a", corev1.PodStatus{Phase: corev1.PodRunning})
	makePod(t, b, "all-b", corev1.PodStatus{Phase: corev1.PodRunning})
	makePod(t, "", "all-c", corev1.PodStatus{Phase: corev1.PodPending})
	got, err := newClient(t, Options{}).AllPods(t.Context())
	if err != nil || len(got[a]) != 1 || got[a][0].Name != "all-a" || len(got[b]) != 1 || len(got[""]) != 0 {
		t.Errorf("%v %+v", err, got)
	}
}
