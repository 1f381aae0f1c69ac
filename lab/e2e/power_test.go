package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// testRebooted: the guest reboots after the resize and before anything was brought up in it. What the new boot has, and what its kubelet has
// found, is judged afresh: kubelet is restarted once if it was started before everything was online, else not at all.
func testRebooted(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	g := growth{cpus: 1, mib: 128, roles: []string{"worker"}}
	goals, args := g.goals(t, f)
	was, asked, record := f.read(t)[node.Name()], f.changes(t), f.record(t)
	begun, rebooted := make(chan struct{}, 1), make(chan struct{})
	offline := "" // CPUs and memory blocks of the new boot, once its kubelet has posted a status
	go func() {
		defer close(rebooted)
		<-begun
		offline = f.reboot(t, node, was.Guest.BootID)
	}()
	f.afterResize(t, node, goals["worker"], func() bool {
		select {
		case begun <- struct{}{}:
		default:
		}
		select {
		case <-rebooted:
			return true
		default:
			return false
		}
	}, append([]string{"scale", f.Options.Name, "--yes", settle}, args...)...)
	expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), []string{node.Name()})
	recordHotplug(t, node)
	is := f.read(t)[node.Name()]
	want := wanted(goals["worker"], was, is)
	if is.QEMU != want.QEMU || is.Node != want.Node || is.Guest.CPUsOnline != want.Guest.CPUsOnline || is.Guest.BlocksOther != 0 {
		t.Errorf("%s after the rollout: %+v, want %+v", node.Name(), is, want)
	}
	starts := 1
	if offline != "0" {
		starts = 2
	}
	if len(is.Guest.KubeletStarts) != starts || is.Guest.BootID == was.Guest.BootID {
		t.Errorf("%s: boot %s after %s, %s blocks offline when its kubelet had started, kubelet's starts in it: %q; want another boot, and %d starts",
			node.Name(), is.Guest.BootID, was.Guest.BootID, offline, is.Guest.KubeletStarts, starts)
	}
	f.expectLeaseFree(t)
}

// reboot reboots the guest from inside, as its owner would. It returns when the kubelet of the new boot has posted a status, with the number of
// memory blocks that are offline then, "" if the test ended before. It runs beside the test.
func (f *fixture) reboot(t *testing.T, node *cluster.Node, old string) (offline string) {
	t.Helper()
	cut := time.AfterFunc(20*time.Second, node.Disconnect) // the connection may end before the answer, or with nobody left to end it
	_, _ = node.Run(t.Context(), "systemctl reboot")
	cut.Stop()
	for t.Context().Err() == nil {
		<-time.After(500 * time.Millisecond)
		object, err := f.Kube.CoreV1().Nodes().Get(t.Context(), node.Name(), metav1.GetOptions{})
		if err != nil || object.Status.NodeInfo.BootID == old {
			continue
		}
		node.Disconnect()
		out, err := node.Run(t.Context(), "cat /sys/devices/system/memory/memory*/state | grep -cvx online")
		if out != "" { // grep ends with 1 where there is none
			return strings.TrimSpace(out)
		}
		t.Logf("%s after its reboot: %v", node.Name(), err)
	}
	return ""
}

// cycle turns a VM off and on in CloudStack, as people do, and waits until its kubelet is back.
func (f *fixture) cycle(t *testing.T, node *cluster.Node) {
	t.Helper()
	if err := f.Cloud.Model.StopVM(t.Context(), node.VMID()); err != nil {
		t.Fatal(err)
	}
	before := f.heartbeat(t, node)
	if err := f.Cloud.Model.StartVM(t.Context(), node.VMID()); err != nil {
		t.Fatal(err)
	}
	if err := node.WaitSSH(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a status of the new kubelet on "+node.Name(), func() bool {
		return f.heartbeat(t, node) != before && f.readNode(t, node.Name()).Ready
	})
	recordHotplug(t, node)
}

// heartbeat is when the Node's kubelet last posted that it is Ready.
func (f *fixture) heartbeat(t testing.TB, node *cluster.Node) metav1.Time {
	t.Helper()
	object, err := f.Kube.CoreV1().Nodes().Get(t.Context(), node.Name(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(object.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return object.Status.Conditions[i].LastHeartbeatTime
}

// expectStartedOnce: the VM was booted with the offering, kubelet found all of it, and nobody has restarted kubelet since.
func (f *fixture) expectStartedOnce(t *testing.T, node *cluster.Node, goal standin.Offering) {
	t.Helper()
	now := f.read(t)[node.Name()]
	if len(now.Guest.KubeletStarts) != 1 || now.Guest.KubeletStarts[0] != now.Guest.KubeletID {
		t.Errorf("%s: kubelet's starts in this boot %q, it runs as %s: want that of the boot alone", node.Name(), now.Guest.KubeletStarts, now.Guest.KubeletID)
	}
	if now.OfferingID != goal.ID || now.QEMU.VCPUs != goal.CPUs || now.QEMU.MemoryMiB != goal.MemoryMiB || now.QEMU.DIMMs != 0 {
		t.Errorf("%s: offering %s, in QEMU %+v; want %+v, all of it from the boot", node.Name(), now.OfferingID, now.QEMU, goal)
	}
	want := inKubernetes{
		CPU: int64(goal.CPUs), AllocatableCPU: int64(goal.CPUs), Ready: true, BootID: now.Guest.BootID,
		MemoryKiB: int64(now.Guest.MemTotalKiB), AllocatableMemoryKiB: int64(now.Guest.MemTotalKiB - evictionMiB<<10),
	}
	if now.Node != want || now.Guest.Processors != goal.CPUs {
		t.Errorf("%s: the Node is %+v, the guest has %d CPUs; want %+v", node.Name(), now.Node, now.Guest.Processors, want)
	}
}

// testStopped: of a stopped cluster the offerings are changed, the record's too. After the start every node is looked at, and left alone.
func testStopped(t *testing.T, f *fixture) {
	worker, control := f.grown(t, "worker", 1, 128), f.grown(t, "control", 0, 128)
	booted := map[string]string{}
	for name, layers := range f.read(t) {
		booted[name] = layers.Guest.BootID
	}
	f.stopCluster(t)
	asked := f.changes(t)
	f.trueup(t, 0, "scale", f.Options.Name, "--worker", worker.Name, "--yes")
	if now, _ := f.Cloud.Model.Cluster(f.Cloud.ClusterID); now.WorkerOfferingID != worker.ID || now.State != standin.ClusterStopped {
		t.Errorf("the record: %+v, want workers of %s, still Stopped", now, worker.Name)
	}
	expectOff(t, f)
	f.trueup(t, 0, "scale", f.Options.Name, "--worker", worker.Name, "--control", control.Name, "--yes", "--start", "--verify-timeout", "6m")
	if now, _ := f.Cloud.Model.Cluster(f.Cloud.ClusterID); now.ControlOfferingID != control.ID || now.State != standin.ClusterRunning {
		t.Errorf("the record: %+v, want control nodes of %s, and Running", now, control.Name)
	}
	got := f.changes(t).since(asked)
	if want := []string{"scaleKubernetesCluster", "scaleKubernetesCluster", "startKubernetesCluster"}; !slices.Equal(commands(got), want) {
		t.Errorf("changes asked of CloudStack: %q, want %q", commands(got), want)
	}
	for _, write := range got.Kubernetes {
		if write.Resource == "nodes" {
			t.Errorf("asked of Kubernetes: %+v, want no change of a Node", write)
		}
	}
	for _, node := range f.Nodes {
		recordHotplug(t, node)
	}
	f.expectStartedOnce(t, f.ofRole("worker")[0], worker)
	f.expectStartedOnce(t, f.ofRole("control")[0], control)
	for name, layers := range f.read(t) {
		if layers.Guest.BootID == booted[name] {
			t.Errorf("%s is still in boot %s, want another", name, booted[name])
		}
	}
	f.trueup(t, 0, "verify", f.Options.Name)
}

// stopCluster lets somebody stop the cluster in CloudStack.
func (f *fixture) stopCluster(t *testing.T) {
	t.Helper()
	var started struct {
		JobID string `json:"jobid"`
	}
	err := f.Cloud.Model.Call(t.Context(), f.Cloud.Account.Name, "stopKubernetesCluster", map[string]string{"id": f.Cloud.ClusterID}, &started)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the stop", func() bool {
		job, _ := f.Cloud.Model.Job(started.JobID)
		return job.Status == standin.JobSucceeded
	})
	expectOff(t, f)
}

// expectOff: no guest runs.
func expectOff(t *testing.T, f *fixture) {
	t.Helper()
	for _, node := range f.Nodes {
		select {
		case <-node.Process.Done():
		default:
			t.Errorf("%s still runs", node.Name())
		}
	}
}
