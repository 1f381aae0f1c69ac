package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// newBudget makes a budget over the pods with that label, on which the disruption controller has not looked yet.
func newBudget(t *testing.T, name, app string) {
	t.Helper()
	budgets := admin(t).PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}, metav1.CreateOptions{})
	fatal(t, err)
	t.Cleanup(func() { _ = budgets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// runningPod is a ready pod with that name and label.
func runningPod(t *testing.T, name string) capacity.Pod {
	t.Helper()
	serviceAccountOfPods(t)
	var status corev1.PodStatus
	isReady(&status)
	return capacity.Pod{Namespace: metav1.NamespaceDefault, Name: name, UID: string(makePod(t, makeNode(t), name, status, labelled(name)))}
}

// The API server can't evict a pod of two budgets, says so, and ends nothing.
func TestEvictOfTwoBudgets(t *testing.T) {
	c, pod := evicter(t), runningPod(t, "evict-two")
	newBudget(t, "evict-two-a", pod.Name)
	newBudget(t, "evict-two-b", pod.Name)
	var blocked *rollout.BlockedError
	if err := c.Evict(t.Context(), pod); !errors.As(err, &blocked) || blocked.Pod != pod.String() || !strings.Contains(blocked.Reason, "more than one PodDisruptionBudget") {
		t.Errorf("%v", err)
	}
	if got, err := admin(t).CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || got.DeletionTimestamp != nil {
		t.Errorf("the pod was ended: %v", err)
	}
}

// A budget on which the disruption controller has not looked yet allows nothing. The API server asks to come back in 10 s, which is for the caller to do.
func TestEvictUnderANewBudget(t *testing.T) {
	c, pod := evicter(t), runningPod(t, "evict-new")
	newBudget(t, "evict-new", pod.Name)
	began := time.Now()
	var blocked *rollout.BlockedError
	if err := c.Evict(t.Context(), pod); !errors.As(err, &blocked) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took >= requestTimeout/2 {
		t.Errorf("it was waited for: %s", took)
	}
}

// Who holds a pod is told by name.
func TestEvictNamesTheBudget(t *testing.T) {
	c, pod := evicter(t), runningPod(t, "evict-named")
	budget(t, pod.Name, 0)
	var blocked *rollout.BlockedError
	if err := c.Evict(t.Context(), pod); !errors.As(err, &blocked) || !strings.Contains(blocked.Reason, "disruption budget evict-named needs 1 healthy pods and has 1") {
		t.Errorf("%v", err)
	}
}

// A budget that waits for too many evicted pods to end answers 403, which says nothing about the account's rights.
func TestEvictUnderABudgetThatWaits(t *testing.T) {
	c, pod := evicter(t), runningPod(t, "evict-waits")
	budget(t, pod.Name, 1)
	budgets := admin(t).PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	b, err := budgets.Get(t.Context(), pod.Name, metav1.GetOptions{})
	fatal(t, err)
	b.Status.DisruptedPods = map[string]metav1.Time{}
	for i := range 2001 { // the API server's MaxDisruptedPodSize is 2000
		b.Status.DisruptedPods[fmt.Sprintf("p-%d", i)] = metav1.Now()
	}
	_, err = budgets.UpdateStatus(t.Context(), b, metav1.UpdateOptions{})
	fatal(t, err)
	var blocked *rollout.BlockedError
	if err := c.Evict(t.Context(), pod); !errors.As(err, &blocked) || !strings.Contains(blocked.Reason, "evict-waits") {
		t.Errorf("%v", err)
	}
}

// An API server that is overloaded holds no pod: it has the same code, and by kubectl the same reason.
func TestEvictOfAnOverloadedServer(t *testing.T) {
	direct := newClient(t, Options{})
	sent := onWire(direct, func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		answer := statusAnswer(r, http.StatusTooManyRequests)
		answer.Header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Retry-After": {"1"}}
		answer.Body = io.NopCloser(strings.NewReader("Too many requests, please try again later.\n"))
		return answer, nil
	})
	const said = "Error from server (TooManyRequests): the server has received too many requests and has asked us to try again later" // kubectl 1.36, of the same answer
	byKubectl, err := New(Kubeconfig{}, Options{Ways: Ways{Only: ViaKubectl, Kubectl: func(context.Context, []byte) (io.ReadCloser, error) {
		return io.NopCloser(failing{&Complaint{Text: said}}), nil
	}}})
	fatal(t, err)
	for way, c := range map[Via]*Client{ViaDirect: direct, ViaKubectl: byKubectl} {
		err := c.Evict(t.Context(), capacity.Pod{Namespace: "default", Name: "p", UID: "u"})
		if !errors.Is(err, rollout.ErrUnreachable) || errors.As(err, new(*rollout.BlockedError)) {
			t.Errorf("%s: %v", way, err)
		}
	}
	if sent.Load() != 1 {
		t.Errorf("sent %d times: it is for the caller to ask again", sent.Load())
	}
}

// failing is what kubectl prints when it fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
