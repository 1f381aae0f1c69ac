package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// TestCold tells of machines that are stopped and started: one that can't be scaled live is prepared, and grows live then; it shrinks, while a budget
// holds its pod and lets it go; and the program is killed in each phase.
func TestCold(t *testing.T) {
	f := start(t, cluster.Options{Workers: 1, Pods: 1})
	small := f.offeringOf(t, f.ofRole("worker")[0])
	t.Run("prepared", func(t *testing.T) { testPrepared(t, f) })
	f.pinned(t)
	t.Run("a drain that never ends", func(t *testing.T) { testEndlessDrain(t, f, small) })
	t.Run("shrunk once the budget lets go", func(t *testing.T) { testShrunk(t, f, small) })
	for _, c := range coldKills() {
		t.Run("killed: "+c.at, func(t *testing.T) { c.test(t, f, small) })
	}
}

// testPrepared: the machine was started without slots for memory, which its record does not tell.
func testPrepared(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	if err := f.Unprepare(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	recordHotplug(t, node)
	bigger := f.grown(t, "worker", 1, 128)
	asked := f.changes(t)
	if r := f.trueup(t, 4, "scale", f.Options.Name, "--worker", bigger.Name, "--yes"); !strings.Contains(r.stderr.String(), "slots for DIMMs") && !strings.Contains(r.stderr.String(), "CPUs that the guest can ever have") {
		t.Errorf("the refusal does not say what the machine lacks:\n%s", &r.stderr)
	}
	f.expectNoChanges(t, asked)
	f.trueup(t, 0, "prepare", f.Options.Name, "--role", "worker", "--yes", settle)
	f.bootedAnew(t, node)
	f.expectStartedOnce(t, node, f.offeringOf(t, node))
	if r := f.trueup(t, 0, "prepare", f.Options.Name, "--role", "worker", "--yes"); !strings.Contains(r.stderr.String(), "Nothing to prepare") {
		t.Errorf("prepared twice:\n%s", &r.stderr)
	}
	f.trueup(t, 0, "scale", f.Options.Name, "--worker", bigger.Name, "--yes", settle)
	f.trueup(t, 0, "verify", f.Options.Name)
}

// bootedAnew gets the test's own connection to a guest that trueup has stopped and started.
func (f *fixture) bootedAnew(t *testing.T, node *cluster.Node) {
	t.Helper()
	node.Disconnect()
	if err := node.WaitSSH(t.Context()); err != nil {
		t.Fatal(err)
	}
	recordHotplug(t, node)
}

const pinnedName = "pinned"

// pinned runs a Deployment whose one pod runs on the worker or nowhere.
func (f *fixture) pinned(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": pinnedName}
	_, err := f.Kube.AppsV1().Deployments(cluster.PodNamespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pinnedName},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: f.ofRole("worker")[0].Name()},
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers:                    []corev1.Container{{Name: "pause", Image: "lab.local/pause:1", ImagePullPolicy: corev1.PullNever}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.untilPinnedRuns(t)
}

func (f *fixture) untilPinnedRuns(t *testing.T) {
	t.Helper()
	eventually(t, "the pinned pod", func() bool {
		d, err := f.Kube.AppsV1().Deployments(cluster.PodNamespace).Get(t.Context(), pinnedName, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 1
	})
}

// budget lets no pinned pod be evicted. It returns what takes the budget away.
func (f *fixture) budget(t *testing.T) (letGo func()) {
	t.Helper()
	budgets := f.Kube.PolicyV1().PodDisruptionBudgets(cluster.PodNamespace)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: pinnedName},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pinnedName}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the budget in force", func() bool {
		b, err := budgets.Get(t.Context(), pinnedName, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods == 1
	})
	return func() {
		if err := budgets.Delete(t.Context(), pinnedName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// testEndlessDrain: what holds the pod is named, the node is given back, and nothing was stopped.
func testEndlessDrain(t *testing.T, f *fixture, small standin.Offering) {
	defer f.budget(t)()
	before, asked := f.read(t), f.changes(t)
	r := f.trueup(t, 1, "scale", f.Options.Name, "--worker", small.Name, "--method", "cold", "--drain-timeout", "10s", "--yes")
	if said := r.stderr.String(); !strings.Contains(said, pinnedName) || !strings.Contains(said, "disruption budget") {
		t.Errorf("what holds the pod is not told:\n%s", said)
	}
	if got := f.changes(t).since(asked).CloudStack; len(got) > 0 {
		t.Errorf("asked of CloudStack: %+v", got)
	}
	f.expectUntouched(t, before)
	f.expectLeaseFree(t)
}

// testShrunk: no running machine gets smaller; this one does, once its pod may go.
func testShrunk(t *testing.T, f *fixture, small standin.Offering) {
	node, letGo := f.ofRole("worker")[0], f.budget(t)
	was, record := f.read(t)[node.Name()], f.record(t)
	f.trueup(t, 4, "scale", f.Options.Name, "--worker", small.Name, "--yes")
	r := f.begin(t, "scale", f.Options.Name, "--worker", small.Name, "--method", "cold", "--yes", settle)
	f.untilClaim(t, node, "a claim", func(c *claimDocument) bool { return c != nil })
	eventually(t, "the agent's pods to be gone but for the one that is held", func() bool {
		list, err := f.Kube.CoreV1().Pods(cluster.PodNamespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name()})
		return err == nil && len(list.Items) == 1 && list.Items[0].Labels["app"] == pinnedName
	})
	letGo()
	r.wait().expectCode(t, 0)
	expectOneAtATime(t, record.stop(t))
	f.bootedAnew(t, node)
	f.expectStartedOnce(t, node, small)
	if now := f.read(t)[node.Name()]; now.Guest.BootID == was.Guest.BootID || now.Node.Unschedulable || now.Node.Claimed {
		t.Errorf("%+v, want another boot, and the node given back", now)
	}
	f.untilPinnedRuns(t)
	f.expectLeaseFree(t)
	f.trueup(t, 0, "verify", f.Options.Name)
}

// coldKilled is one stop and start whose run is killed at a boundary, and finished by another machine.
type coldKilled struct {
	at string
	// holds is the gate's: it holds the call at which the run is killed.
	holds func(command string, answered bool) bool
	// reached returns when the run is there; nil: when the gate holds it.
	reached func(*testing.T, *fixture, *cluster.Node)
}

func coldKills() []coldKilled {
	return []coldKilled{
		{at: "drained, not stopped", holds: func(command string, answered bool) bool { return command == "stopVirtualMachine" && !answered }},
		{at: "stop asked for, reply lost", holds: func(command string, answered bool) bool { return command == "stopVirtualMachine" && answered }},
		{at: "stopped and changed", holds: func(command string, answered bool) bool { return command == "scaleVirtualMachine" && answered }},
		{at: "start asked for, reply lost", holds: func(command string, answered bool) bool { return command == "startVirtualMachine" && answered }},
		{at: "booting", reached: func(t *testing.T, f *fixture, node *cluster.Node) {
			eventually(t, "the machine to run again", func() bool {
				vm, _ := f.Cloud.Model.VM(node.VMID())
				c := f.claim(t, node)
				return vm.State == standin.VMRunning && c != nil && c.Cold != nil && c.Cold.Power != nil && c.Cold.Power.State == "Running"
			})
		}},
	}
}

// test takes the worker to a bigger offering and back in turn, so that each kill has something to do.
func (c coldKilled) test(t *testing.T, f *fixture, small standin.Offering) {
	node, goal := f.ofRole("worker")[0], small
	if f.offeringOf(t, node).ID == small.ID {
		goal = f.grown(t, "worker", 1, 128)
	}
	command := []string{"scale", f.Options.Name, "--worker", goal.Name, "--method", "cold", "--yes", settle}
	g, on := f.gate(t, f.another(t), func(command string, answered bool) bool { return c.holds != nil && c.holds(command, answered) })
	record := f.record(t)
	guarded, unguard := context.WithCancel(t.Context()) // a boot under emulation hangs now and then
	defer unguard()
	go node.Guard(guarded)
	r := begin(t, on, command...)
	if c.reached != nil {
		c.reached(t, f, node)
	} else {
		g.wait(t, r)
	}
	r.signal(t, syscall.SIGKILL)
	r.wait().expectCode(t, -1)
	f.hastenTakeover(t)
	begin(t, f.another(t), "resume", f.Options.Name, "--yes").wait().expectCode(t, 0)
	unguard()
	expectOneAtATime(t, record.stop(t))
	f.bootedAnew(t, node)
	f.expectStartedOnce(t, node, goal)
	if now := f.read(t)[node.Name()]; now.Node.Unschedulable || now.Node.Claimed {
		t.Errorf("%+v, want the node given back", now)
	}
	f.untilPinnedRuns(t)
	f.expectLeaseFree(t)
}
