package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// makeNamespace makes a namespace with the labels, and gives the user there what HostPods need.
func makeNamespace(t *testing.T, name, user string, labels map[string]string) {
	t.Helper()
	_, err := admin(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	fatal(t, err)
	if user != "" {
		grant(t, user, HostPodRights(name))
		awaitRights(t, user, HostPodRights(name))
	}
}

// hostPods are those of a user who has their rights, in a namespace of the same name, and nothing else.
func hostPods(t *testing.T, name string, o HostPodOptions) *HostPods {
	t.Helper()
	makeNamespace(t, name, name, nil)
	return hostPodsAs(t, name, name, o)
}

func hostPodsAs(t *testing.T, user, namespace string, o HostPodOptions) *HostPods {
	t.Helper()
	o.Namespace, o.Image, o.Cluster, o.Actor = namespace, "example.org/tools:1", "11111111-2222-3333-4444-555555555555", "ann@desk"
	h := clientAs(t, Options{}, user).HostPods(o)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// onNode are the pods that trueup has made for the node, but for those that are being deleted: no kubelet runs here that would end them.
func onNode(t *testing.T, namespace, node string) (out []corev1.Pod) {
	t.Helper()
	list, err := admin(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: hostPodSelector(), FieldSelector: "spec.nodeName=" + node})
	fatal(t, err)
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// awaitPod waits until there is a pod for the node that does not run yet.
func awaitPod(t *testing.T, namespace, node string) corev1.Pod {
	t.Helper()
	for deadline := time.Now().Add(soon); ; {
		for _, pod := range onNode(t, namespace, node) {
			if pod.Status.Phase == corev1.PodPending {
				return pod
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no pod for node %s in %s within %s", node, namespace, soon)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// say gives the pod a status, as its kubelet would.
func say(t *testing.T, p corev1.Pod, status corev1.PodStatus) {
	t.Helper()
	fatal(t, trySay(t, p, status))
}

func trySay(t *testing.T, p corev1.Pod, status corev1.PodStatus) error {
	t.Helper()
	pods := admin(t).CoreV1().Pods(p.Namespace)
	now, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now.Status = status
	_, err = pods.UpdateStatus(t.Context(), now, metav1.UpdateOptions{})
	return err
}

func runs() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{}, ContainerStatuses: []corev1.ContainerStatus{{Name: hostContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
}

func waits(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, StartTime: &metav1.Time{}, ContainerStatuses: []corev1.ContainerStatus{{Name: hostContainer,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
}

// enter enters the node while the test plays its kubelet.
func enter(t *testing.T, h *HostPods, node string, status corev1.PodStatus) (corev1.Pod, error) {
	t.Helper()
	entered := make(chan error, 1)
	go func() {
		name, err := h.Enter(t.Context(), node)
		if err == nil && !strings.HasPrefix(name, h.o.Namespace+"/trueup-guest-") {
			t.Errorf("pod %q", name)
		}
		entered <- err
	}()
	pod := awaitPod(t, h.o.Namespace, node)
	say(t, pod, status)
	return pod, receive(t, entered, "the end of Enter")
}

// run runs a program in the node's pod.
func run(ctx context.Context, h *HostPods, node, input string, program ...string) (stdout, stderr string, err error) {
	var out, complaints bytes.Buffer
	err = h.Exec(ctx, node, program, strings.NewReader(input), &out, &complaints)
	return out.String(), complaints.String(), err
}

// The pod is what it must be, runs programs, is no part of what is said about the node's pods, and goes at the end.
func TestHostPod(t *testing.T) {
	k := newKubelet(t)
	h := hostPods(t, "host-pod", HostPodOptions{})
	pod, err := enter(t, h, k.node, runs())
	fatal(t, err)
	s, c := pod.Spec, pod.Spec.Containers[0]
	if s.NodeName != k.node || !s.HostPID || !s.HostNetwork || s.RestartPolicy != "Never" || *s.ActiveDeadlineSeconds != 1800 || *s.AutomountServiceAccountToken ||
		!slices.Contains(s.Tolerations, corev1.Toleration{Operator: "Exists"}) || len(s.Volumes) != 0 {
		t.Errorf("pod: %+v", s)
	}
	if c.Image != "example.org/tools:1" || c.ImagePullPolicy != "IfNotPresent" || !*c.SecurityContext.Privileged || *c.SecurityContext.RunAsUser != 0 || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("container: %+v", c)
	}
	want := map[string]string{"app.kubernetes.io/name": "trueup", "app.kubernetes.io/component": "guest", "app.kubernetes.io/managed-by": "trueup",
		"cks-trueup.github.io/cluster": "11111111-2222-3333-4444-555555555555", "cks-trueup.github.io/holder": h.holder}
	if diff := cmp.Diff(want, pod.Labels); diff != "" || pod.Annotations["cks-trueup.github.io/actor"] != "ann@desk" {
		t.Errorf("labels (-want +got):\n%s, annotations %v", diff, pod.Annotations)
	}

	for range 2 { // the second time in the same pod
		out, complaints, err := run(t.Context(), h, k.node, "some input\n", "sh", "-c", `read -r line; echo "got $line $1"; echo problem >&2; exit 7`, "sh", "a b")
		var exit interface{ ExitStatus() int }
		if out != "got some input a b\n" || complaints != "problem\n" || !errors.As(err, &exit) || exit.ExitStatus() != 7 {
			t.Errorf("stdout %q, stderr %q, %v; want the input, the problem and exit status 7", out, complaints, err)
		}
		if !k.marked() {
			t.Error("the pod was not marked as used")
		}
		if name, err := h.Enter(t.Context(), k.node); err != nil || name != "host-pod/"+pod.Name {
			t.Errorf("Enter: %s, %v", name, err)
		}
	}
	if pods, err := newClient(t, Options{}).Pods(t.Context(), k.node); err != nil || len(pods) != 0 {
		t.Errorf("pods of the node: %v, %v; want none", pods, err)
	}
	fatal(t, h.Close())
	if left := onNode(t, "host-pod", k.node); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := h.Enter(t.Context(), k.node); !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("Enter after Close: %v", err)
	}
}

// The script that the container runs ends by itself, and stays while it is used. Its rounds are cut short here.
func TestHostPodEndsByItself(t *testing.T) {
	used := t.TempDir() + "/used"
	script := strings.NewReplacer(usedFile, used, "sleep 5", "[ ! -e "+used+".now ] || : >"+used).Replace(idleScript())
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script+"; echo $n $idle").Output()
	if err != nil || string(out) != "30 30\n" {
		t.Errorf("without use: %q, %v; want 30 rounds of 5 s", out, err)
	}
	fatal(t, os.WriteFile(used+".now", nil, 0o600)) // it is used in every round
	out, err = exec.CommandContext(t.Context(), "sh", "-c", script+"; echo $n $idle").Output()
	if err != nil || string(out) != "360 0\n" {
		t.Errorf("in use: %q, %v; want 360 rounds of 5 s", out, err)
	}
}

// What the cluster's own admission refuses is told with its reason, and is not taken for a missing right.
func TestHostPodIsNotAdmitted(t *testing.T) {
	node := makeNode(t)
	makeNamespace(t, "restricted", "restricted", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	makeNamespace(t, "full", "full", nil)
	quotas := admin(t).CoreV1().ResourceQuotas("full")
	hard := corev1.ResourceList{"pods": resource.MustParse("0")}
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	fatal(t, err)
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard} // as its controller would
	_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	fatal(t, err)
	for namespace, says := range map[string]string{"restricted": `violates PodSecurity "restricted:latest"`, "full": "exceeded quota: none"} {
		h := hostPodsAs(t, namespace, namespace, HostPodOptions{})
		_, err := h.Enter(t.Context(), node)
		checkSentinel(t, err, rollout.ErrDenied)
		for _, part := range []string{says, "--guest-namespace", node} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
		if err != nil && strings.Contains(err.Error(), "docs/rbac.md") {
			t.Errorf("%v blames a right", err)
		}
		fatal(t, h.Close())
	}
}

// Who could make none is asked to remove none.
func TestHostPodsWithoutAnyRight(t *testing.T) {
	h := clientAs(t, Options{}, "nobody").HostPods(HostPodOptions{Namespace: "default"})
	_, err := h.Enter(t.Context(), makeNode(t))
	checkSentinel(t, err, rollout.ErrDenied)
	fatal(t, h.Close())
}

// A pod that does not start is given up after its time, or at once where kubelet will not get over it; with kubelet's reason, and removed.
func TestHostPodDoesNotStart(t *testing.T) {
	h := hostPods(t, "no-start", HostPodOptions{StartTimeout: 2 * time.Second})
	for _, test := range []struct {
		name   string
		status corev1.PodStatus
		want   error
		says   []string
	}{
		{"the image can't be pulled", waits("ImagePullBackOff", "no such host"), rollout.ErrUnreachable, []string{"did not start within 2s", "ImagePullBackOff: no such host", "example.org/tools:1", "--guest-image"}},
		{"kubelet takes no more pods", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node didn't have enough resource"}, rollout.ErrDenied, []string{"OutOfpods: Node didn't"}},
		{"evicted", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node had condition: [DiskPressure]"}, rollout.ErrDenied, []string{"Evicted: The node had condition: [DiskPressure]"}},
		{"the image's name is none", waits("InvalidImageName", "couldn't parse"), rollout.ErrDenied, []string{"InvalidImageName"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := makeNode(t)
			_, err := enter(t, h, node, test.status)
			checkSentinel(t, err, test.want)
			for _, part := range append(test.says, "on node "+node) {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if left := onNode(t, "no-start", node); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			if _, again := h.Enter(t.Context(), node); err != nil && (again == nil || again.Error() != err.Error()) {
				t.Errorf("at once again: %v, want the same", again)
			}
		})
	}
}

// Who waits no longer leaves the pod to start, and the next one goes on waiting for it.
func TestHostPodStartsWhileNobodyWaits(t *testing.T) {
	h, node := hostPods(t, "slow-start", HostPodOptions{}), makeNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan error, 1)
	go func() { _, err := h.Enter(ctx, node); entered <- err }()
	first := awaitPod(t, "slow-start", node)
	cancel()
	if err := receive(t, entered, "the end of Enter"); err == nil {
		t.Error("Enter: want an error")
	}
	second, err := enter(t, h, node, runs())
	if err != nil || second.UID != first.UID {
		t.Errorf("pod %s, %v; want the same, %s", second.Name, err, first.Name)
	}
}

// What has ended is removed at once, whoever made it; what others may still use stays, unless this run inherits it.
func TestHostPodsLeftBehind(t *testing.T) {
	node, other := makeNode(t), makeNode(t)
	makeNamespace(t, "left", "left", nil)
	dead := hostPodsAs(t, "left", "left", HostPodOptions{})
	ended, err := enter(t, dead, node, runs())
	fatal(t, err)
	say(t, ended, rebooted())
	inUse, err := enter(t, dead, other, runs())
	fatal(t, err)

	looks := hostPodsAs(t, "left", "left", HostPodOptions{})
	mine, err := enter(t, looks, node, runs())
	fatal(t, err)
	if mine.UID == ended.UID {
		t.Error("a pod that has ended was entered")
	}
	fatal(t, looks.Close())
	if left := onNode(t, "left", node); len(left) != 0 {
		t.Errorf("left on its node: %v", left)
	}
	if left := onNode(t, "left", other); len(left) != 1 || left[0].UID != inUse.UID {
		t.Errorf("left on the other node: %v, want the pod that may be in use", left)
	}

	heir := hostPodsAs(t, "left", "left", HostPodOptions{})
	_, err = enter(t, heir, node, runs())
	fatal(t, err)
	lives := hostPodsAs(t, "left", "left", HostPodOptions{})
	third := makeNode(t)
	later, err := enter(t, lives, third, runs()) // by somebody who came after the heir
	fatal(t, err)
	heir.Inherit()
	fatal(t, heir.Close())
	if left := append(onNode(t, "left", node), onNode(t, "left", other)...); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if left := onNode(t, "left", third); len(left) != 1 || left[0].UID != later.UID {
		t.Errorf("left on the third node: %v, want the pod of who came later", left)
	}
}

// While kubelet is away, as at its restart, the pod is kept and used again. One in which nothing can be started for long, or that is gone, is replaced.
func TestHostPodOutlivesItsKubelet(t *testing.T) {
	k := newKubelet(t)
	h := hostPods(t, "outlives", HostPodOptions{})
	first, err := enter(t, h, k.node, runs())
	fatal(t, err)
	k.stop(true)
	for range 2 {
		_, _, err = run(t.Context(), h, k.node, "", "true")
		checkSentinel(t, err, rollout.ErrUnreachable)
		if name, err := h.Enter(t.Context(), k.node); err != nil || name != "outlives/"+first.Name {
			t.Errorf("Enter while kubelet is away: %s, %v", name, err)
		}
	}
	k.stop(false)
	if out, _, err := run(t.Context(), h, k.node, "", "echo", "back"); out != "back\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}

	k.stop(true)
	_, _, err = run(t.Context(), h, k.node, "", "true")
	checkSentinel(t, err, rollout.ErrUnreachable)
	h.pods[k.node].failing = time.Now().Add(-podPatience - time.Second)
	second, err := enter(t, h, k.node, runs())
	if err != nil || second.UID == first.UID {
		t.Errorf("after %s: %v, want another pod", podPatience, err)
	}

	k.stop(false)
	fatal(t, admin(t).CoreV1().Pods("outlives").Delete(t.Context(), second.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	_, _, err = run(t.Context(), h, k.node, "", "true")
	checkSentinel(t, err, rollout.ErrNotFound)
	third, err := enter(t, h, k.node, runs())
	fatal(t, err)
	say(t, third, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"})
	h.pods[k.node].used = time.Now().Add(-podIdle) // long enough ago to look before it is used
	fourth, err := enter(t, h, k.node, runs())
	if err != nil || fourth.UID == third.UID {
		t.Errorf("after its end: %v, want another pod", err)
	}

	say(t, fourth, rebooted())
	h.pods[k.node].used = time.Now().Add(-podIdle)
	if fifth, err := enter(t, h, k.node, runs()); err != nil || fifth.UID == fourth.UID {
		t.Errorf("after a reboot of its node: %v, want another pod", err)
	}
}

// rebooted is what a kubelet says of a container that had run before its node was rebooted, with a phase that does not say so.
func rebooted() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{}, ContainerStatuses: []corev1.ContainerStatus{{Name: hostContainer,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown"}}}}}
}

// A stream that breaks in the middle is no good end, and neither is one that is given up.
func TestHostPodStreamBreaks(t *testing.T) {
	k := newKubelet(t)
	h := hostPods(t, "breaks", HostPodOptions{})
	_, err := enter(t, h, k.node, runs())
	fatal(t, err)
	read, write := io.Pipe()
	broken := make(chan error, 1)
	go func() {
		broken <- h.Exec(t.Context(), k.node, []string{"sh", "-c", "echo begun; read -r never"}, blocks{}, write, io.Discard)
	}()
	_, err = io.ReadFull(read, make([]byte, len("begun\n")))
	fatal(t, err)
	k.conns.breakAll()
	err = receive(t, broken, "the end of the broken exec")
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) {
		t.Errorf("err = %v, which looks like an end of the program", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		broken <- h.Exec(ctx, k.node, []string{"sh", "-c", "echo begun; read -r never"}, blocks{}, write, io.Discard)
	}()
	_, err = io.ReadFull(read, make([]byte, len("begun\n")))
	fatal(t, err)
	cancel()
	if err := receive(t, broken, "the end of the exec that was given up"); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// blocks is an input that never comes.
type blocks struct{}

func (blocks) Read([]byte) (int, error) { select {} }

// Every right is needed: without it, its use is denied by name; without the one to get pods/exec it goes by SPDY.
func TestEachHostPodRightIsNeeded(t *testing.T) {
	k := newKubelet(t)
	for i, missing := range HostPodRights("x") {
		t.Run("without "+missing.Verb+" "+missing.Resource, func(t *testing.T) {
			name := "least-pods-" + string(rune('a'+i))
			makeNamespace(t, name, "", nil)
			rest := slices.Delete(HostPodRights(name), i, i+1)
			grant(t, name, rest)
			awaitRights(t, name, rest)
			h := hostPodsAs(t, name, name, HostPodOptions{StartTimeout: soon})
			err := h.wholeUse(t, k)
			if missing.Optional {
				fatal(t, err)
				return
			}
			checkSentinel(t, err, rollout.ErrDenied)
			for _, part := range []string{missing.Verb, missing.Resource, "docs/rbac.md"} {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not name %s", err, part)
				}
			}
		})
	}
}

// wholeUse enters the node, runs something, looks at the pod and removes it. It returns the first error.
func (h *HostPods) wholeUse(t *testing.T, k *kubelet) error {
	t.Helper()
	entered := make(chan error, 1)
	go func() { _, err := h.Enter(t.Context(), k.node); entered <- err }()
	for done := false; !done; {
		select {
		case err := <-entered:
			if done = true; err != nil {
				return err
			}
		case <-time.After(5 * time.Millisecond):
			for _, p := range onNode(t, h.o.Namespace, k.node) {
				if p.Status.Phase != corev1.PodRunning {
					_ = trySay(t, p, runs()) // it may be removed in this moment
				}
			}
		}
	}
	for range 2 {
		if _, _, err := run(t.Context(), h, k.node, "", "true"); err != nil {
			return err
		}
	}
	h.pods[k.node].running = false
	if _, err := h.Enter(t.Context(), k.node); err != nil {
		return err
	}
	return h.Close()
}
