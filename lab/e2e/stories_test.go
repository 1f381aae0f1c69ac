package e2e

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// TestStories tells of clusters, guests and kubelets that are not as most are, one after the other on one lab. The first needs machines that have
// the speed of the lab's offerings, the last leaves other machines behind.
func TestStories(t *testing.T) {
	f := start(t, cluster.Options{Workers: 1, Pods: 1})
	t.Run("speed alone", func(t *testing.T) { testSpeedAlone(t, f) })
	t.Run("a cluster of which nothing was ever started", func(t *testing.T) { testCreated(t, f) })
	t.Run("another machine behind the port", func(t *testing.T) { testAnotherMachine(t, f) })
	t.Run("ports renumbered in the middle", func(t *testing.T) {
		disturbed{role: "worker", growth: growth{mib: 128}, disturb: renumberPorts}.test(t, f)
	})
	t.Run("nodes with addresses of their own", func(t *testing.T) { testDirect(t, f) })
	t.Run("through a jump host, host keys enrolled first", func(t *testing.T) { testJump(t, f) })
	t.Run("an API server that only its nodes can reach", func(t *testing.T) { testWays(t, f) })
	t.Run("nodes without SSH", func(t *testing.T) { testWithoutSSH(t, f) })
	t.Run("a udev rule brings hardware up", func(t *testing.T) { testUdevRule(t, f) })
	t.Run("static CPU manager", func(t *testing.T) { testStaticCPUs(t, f) })
	t.Run("rebooted between resize and restart", func(t *testing.T) { testRebooted(t, f) })
	t.Run("a DIMM that the kernel refuses", func(t *testing.T) { testMisaligned(t, f) })
	t.Run("stopped, changed and started", func(t *testing.T) { testStopped(t, f) })
}

// testSpeedAlone: a share of the host's CPUs is nothing that guest or kubelet could see, so nobody is disturbed for it.
func testSpeedAlone(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	faster := f.offeringOf(t, node)
	faster.ID, faster.Name, faster.MHz, faster.DynamicScaling = "", "worker-faster", faster.MHz+500, true
	faster = f.Cloud.Model.AddOffering(faster)
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
	f.scale(t, "--worker", faster.Name)
	for _, s := range record.stop(t) {
		if s.Node.Spec.Unschedulable {
			t.Errorf("%s was cordoned (resourceVersion %s)", s.Node.Name, s.Node.ResourceVersion)
		}
	}
	changed := before[node.Name()]
	changed.OfferingID = faster.ID
	before[node.Name()] = changed
	f.expectUntouched(t, before)
	f.expectPodsUntouched(t, pods)
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), []string{node.Name()})
	f.expectLeaseFree(t)
}

// testCreated: the record decides what the nodes will be, and there is nothing else yet.
func testCreated(t *testing.T, f *fixture) {
	small, medium := f.Cloud.Offerings["small"], f.Cloud.Offerings["medium"]
	created := f.Cloud.Model.AddCluster(standin.ClusterSpec{
		Name: "created", Owner: standin.Owner{Account: f.Cloud.Account.Name}, State: standin.ClusterCreated,
		OfferingID: small.ID, WorkerOfferingID: small.ID, ControlOfferingID: small.ID, Control: standin.Nodes(1), Workers: standin.Nodes(2),
	})
	before, asked := f.read(t), f.changes(t)
	f.trueup(t, 0, "scale", created.Name, "--worker", medium.Name, "--yes")
	if now, _ := f.Cloud.Model.Cluster(created.ID); now.WorkerOfferingID != medium.ID || now.ControlOfferingID != small.ID || now.State != standin.ClusterCreated {
		t.Errorf("the record: %+v, want medium workers, small control nodes, still Created", now)
	}
	if got := f.changes(t).since(asked); !slices.Equal(commands(got), []string{"scaleKubernetesCluster"}) || len(got.Kubernetes) > 0 {
		t.Errorf("changes asked for: %+v, want one scaleKubernetesCluster", got)
	}
	f.expectUntouched(t, before)
}

// commands are the changes that were asked of CloudStack, by name.
func commands(c changes) (names []string) {
	for _, request := range c.CloudStack {
		names = append(names, request.Command)
	}
	return names
}

// testAnotherMachine: the worker's port leads to the control node. Its host key tells so; and if somebody has recorded that key for the
// worker, the machine itself tells.
func testAnotherMachine(t *testing.T, f *fixture) {
	worker, control := f.ofRole("worker")[0], f.ofRole("control")[0]
	goal := f.grown(t, "worker", 1, 0)
	before, asked := f.read(t), f.changes(t)
	if err := f.Cloud.Model.SetPortForwarding(worker.VMID(), control.SSHPort()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Cloud.Model.SetPortForwarding(worker.VMID(), worker.SSHPort()); err != nil {
			t.Error(err)
		}
	})
	args := []string{"scale", f.Options.Name, "--worker", goal.Name, "--yes"}
	f.trueup(t, 8, args...)

	var hosts strings.Builder
	for _, node := range []*cluster.Node{worker, control} {
		hosts.WriteString(node.VMID() + " " + string(ssh.MarshalAuthorizedKey(control.Identity().HostKey)))
	}
	r := f.beginWith(t, []string{"TRUEUP_KNOWN_HOSTS=" + f.file(t, "wrong-known-hosts", hosts.String())}, args...).wait()
	r.expectCode(t, 4)
	if said := r.stderr.String(); !strings.Contains(said, worker.VMID()) || !strings.Contains(said, control.VMID()) {
		t.Errorf("the refusal does not name the machine that was expected, %s, and the one that answered, %s:\n%s", worker.VMID(), control.VMID(), said)
	}
	f.expectNoChanges(t, asked)
	f.expectUntouched(t, before)
}

// renumberPorts gives the node another port, as a change of the cluster's size does, and closes the one that trueup is connected to.
func renumberPorts(t *testing.T, f *fixture, node *cluster.Node, w *wire) (disturbed func()) {
	other := f.wire(t, node)
	made := w.end()
	return func() {
		if made == 0 || other.made() == 0 {
			t.Errorf("trueup made %d connections to the first port, %d to the second, want some to each", made, other.made())
		}
	}
}

// testDirect: the nodes are reached at addresses of their own, all on one port, though there are rules for forwarded ones.
func testDirect(t *testing.T, f *fixture) {
	port, ways := f.ownAddresses(t)
	goals, args := growth{mib: 128, roles: []string{"worker"}}.goals(t, f)
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
	f.scale(t, append(args, settle, "--ssh-via", "direct", "--ssh-port", strconv.Itoa(port))...)
	for _, w := range ways {
		if w.made() == 0 {
			t.Errorf("trueup made no connection to %s", w.listener.Addr())
		}
	}
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), expectOneAtATime(t, record.stop(t)))
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// ownAddresses gives each node an address of loopback, as its NIC's in CloudStack, until the test ends.
func (f *fixture) ownAddresses(t *testing.T) (port int, ways []*wire) {
	t.Helper()
	for i, node := range f.Nodes {
		address := fmt.Sprintf("127.0.1.%d", 1+i)
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		port = listener.Addr().(*net.TCPAddr).Port // the first is chosen by the kernel, and is free on the other addresses too
		w := &wire{to: fmt.Sprintf("127.0.0.1:%d", node.SSHPort()), listener: listener}
		go w.serve(listener)
		ways = append(ways, w)
		old := ""
		f.Cloud.Model.UpdateVM(node.VMID(), func(vm *standin.VM) { old, vm.NICs[0].Address = vm.NICs[0].Address, address })
		t.Cleanup(func() {
			w.end()
			f.Cloud.Model.UpdateVM(node.VMID(), func(vm *standin.VM) { vm.NICs[0].Address = old })
		})
	}
	return port, ways
}

// hotplugRule is what distributions ship (Ubuntu's 40-vm-hotadd.rules, RHEL's 40-redhat.rules).
const hotplugRule = `SUBSYSTEM=="memory", ACTION=="add", DEVPATH=="/devices/system/memory/memory[0-9]*", TEST=="state", ATTR{state}!="online", ATTR{state}="online"
SUBSYSTEM=="cpu", ACTION=="add", DEVPATH=="/devices/system/cpu/cpu[0-9]*", TEST=="online", ATTR{online}!="1", ATTR{online}="1"
`

// testUdevRule: the guest itself brings up what is plugged, before trueup learns that the job has ended. There is nothing left to bring up then,
// and trueup does not say that it did.
func testUdevRule(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	const path = "/etc/udev/rules.d/40-vm-hotadd.rules"
	inside(t, node, "cat >"+path+" <<'END'\n"+hotplugRule+"END\nudevadm control --reload")
	defer inside(t, node, "rm "+path+" && udevadm control --reload")
	g := growth{cpus: 1, mib: 128, roles: []string{"worker"}}
	goals, args := g.goals(t, f)
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
	plan := f.plan(t, args...)
	r := f.afterResize(t, node, goals["worker"], func() bool {
		now, err := readGuest(t.Context(), node)
		return err == nil && now.Processors == goals["worker"].CPUs && now.BlocksOther == 0
	}, append([]string{"scale", f.Options.Name, "--yes", "-o", "json", settle}, args...)...)
	var report reportDocument
	decode(t, r, &report)
	expectWalked(t, plan, report)
	if i := slices.IndexFunc(report.Effects, func(e effect) bool { return e.Action == "online" }); i >= 0 {
		t.Errorf("the report says %+v, but udev had brought up everything", report.Effects[i])
	}
	order := expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), order)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// afterResize runs trueup to its good end. Once CloudStack has resized the node's VM, no reply reaches trueup before the condition holds.
func (f *fixture) afterResize(t *testing.T, node *cluster.Node, goal standin.Offering, holds func() bool, args ...string) *run {
	t.Helper()
	_, on := f.gate(t, f.another(t), func(_ string, answered bool) bool {
		for vm, _ := f.Cloud.Model.VM(node.VMID()); answered && vm.OfferingID == goal.ID && !holds() && t.Context().Err() == nil; {
			<-time.After(100 * time.Millisecond)
		}
		return false
	})
	r := begin(t, on, args...).wait()
	r.expectCode(t, 0)
	return r
}
