package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/lab/control"
)

const (
	// podNamespace is where trueup makes its pods, podSelector selects them; both are documented.
	podNamespace = "kube-system"
	podSelector  = "app.kubernetes.io/name=trueup,app.kubernetes.io/component=guest"
	toolsImage   = "lab.local/tools:1" // in every guest's image
)

// podEnvironment makes trueup enter guests by pods, with no way to do so by SSH.
func (f *fixture) podEnvironment() []string {
	return []string{"TRUEUP_GUEST_VIA=pod", "TRUEUP_GUEST_IMAGE=" + toolsImage}
}

// ownPod tells whether the change is of a pod by which trueup enters a guest. Where it should use none, nothing is.
func (f *fixture) ownPod(w control.Write) bool {
	return f.viaPods && w.Resource == "pods" && w.Namespace == podNamespace && strings.HasPrefix(w.Name, "trueup-guest-")
}

// trueupsPods are the pods by which trueup enters guests, each with its node.
func (f *fixture) trueupsPods(t testing.TB) (names []string) {
	t.Helper()
	list, err := f.Kube.CoreV1().Pods(podNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: podSelector})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		names = append(names, fmt.Sprintf("%s on %s: %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase))
	}
	return names
}

// untilPodsAreGone waits until kubelets have ended the pods that trueup has removed.
func (f *fixture) untilPodsAreGone(t testing.TB) {
	t.Helper()
	if !f.viaPods {
		return
	}
	var left []string
	eventually(t, "no pod of trueup is left", func() bool {
		left = f.trueupsPods(t)
		return len(left) == 0
	})
}

// testWithoutSSH: nobody is let in over SSH any more; the lab's own connections, which were there before, live on. A whole growth goes through pods, and so
// does what another run finishes after a kill.
func testWithoutSSH(t *testing.T, f *fixture) {
	for _, node := range f.Nodes {
		inside(t, node, "systemctl stop ssh")
		defer inside(t, node, "systemctl start ssh")
	}
	f.trueup(t, 8, "verify", f.Options.Name)
	f.viaPods = true
	defer func() { f.viaPods = false }()

	testNoSuchImage(t, f)
	growth{cpus: 1, mib: 128, roles: []string{"worker", "control"}, flags: []string{settle}}.test(t, f)
	testKilledWithPods(t, f)
	f.trueup(t, 0, "verify", f.Options.Name)
	f.untilPodsAreGone(t)
}

// testNoSuchImage: kubelet's own reason is told for each node, and nothing is left.
func testNoSuchImage(t *testing.T, f *fixture) {
	r := f.beginWith(t, []string{"TRUEUP_GUEST_IMAGE=lab.local/none:1"}, "verify", f.Options.Name).wait()
	r.expectCode(t, 8)
	for _, node := range f.Nodes {
		said := regexp.MustCompile(node.Name() + `: access: .*did not start within 1m0s: .*(ErrImagePull|ImagePullBackOff): .*lab\.local/none:1.*--guest-image`)
		if !said.MatchString(r.stdout.String()) {
			t.Errorf("%s does not say that the image of %s can't be pulled:\n%s", r, node.Name(), &r.stdout)
		}
	}
	f.untilPodsAreGone(t)
}

// testKilledWithPods: the pod of a run that was killed is removed by the one that takes over.
func testKilledWithPods(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	goals, args := growth{mib: 128, roles: []string{"worker"}}.goals(t, f)
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
	r := f.begin(t, append([]string{"scale", f.Options.Name, "--yes", settle}, args...)...)
	eventually(t, "the node is claimed, or the run has ended", func() bool {
		select {
		case <-r.ended:
			return true
		default:
			return f.claim(t, node) != nil
		}
	})
	r.signal(t, syscall.SIGKILL)
	r.wait().expectCode(t, -1)
	left := f.trueupsPods(t)
	if len(left) == 0 {
		t.Error("the killed run has left no pod, so this shows nothing")
	}
	f.hastenTakeover(t)
	f.trueup(t, 0, "resume", f.Options.Name, "--yes")
	f.untilPodsAreGone(t)
	order := expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), order)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}
