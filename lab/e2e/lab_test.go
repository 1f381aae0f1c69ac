package e2e

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// settle is short where the settle window is not what is tested.
const settle = "--settle=3s"

// TestLab tells its stories one after the other on one lab. Each works from whatever size the nodes have by then.
func TestLab(t *testing.T) {
	f := start(t, cluster.Options{Workers: 2, Pods: 3})
	t.Run("looking changes nothing", func(t *testing.T) { testLooking(t, f) })
	t.Run("bad input", func(t *testing.T) { testBadInput(t, f) })
	t.Run("more CPU, one node cordoned by people", func(t *testing.T) { testMoreCPU(t, f) })
	t.Run("more memory", func(t *testing.T) {
		growth{mib: 512, roles: []string{"control"}, flags: []string{settle}}.test(t, f)
	})
	t.Run("more of both, all roles, default settle window", func(t *testing.T) {
		growth{cpus: 1, mib: 1024, roles: []string{"worker", "control"}}.test(t, f)
	})
	t.Run("nothing to do", func(t *testing.T) { testNothingToDo(t, f) })
	t.Run("resized behind trueup's back", func(t *testing.T) { testBehindItsBack(t, f) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, f) })
	t.Run("held, then killed", func(t *testing.T) { testHeldThenKilled(t, f) })
}

// TestDefaultStatusPeriod is the same growth with kubelets that post every 10 s, as they do everywhere but in this lab.
func TestDefaultStatusPeriod(t *testing.T) {
	f := start(t, cluster.Options{Pods: 1, Status: 10 * time.Second, Etcd: 1})
	growth{cpus: 1, mib: 512, roles: []string{"control"}}.test(t, f)
	t.Run("a dedicated etcd machine beside it", func(t *testing.T) { testEtcdMachine(t, f) })
}

// testLooking runs clusters, status and plan as a user who may only look. A change that they tried would be refused, and would
// stand in the API server's audit log all the same.
func testLooking(t *testing.T, f *fixture) {
	before, asked := f.read(t), f.changes(t)
	for _, node := range f.Nodes {
		inside(t, node, "touch "+marker)
	}
	offering, access := f.grown(t, "worker", 1, 512), "--kubeconfig="+f.lookingKubeconfig(t)
	f.trueup(t, 0, "clusters", access)
	var status statusDocument
	decode(t, f.trueup(t, 0, "status", f.Options.Name, "-o", "json", access), &status)
	if !status.Agree || len(status.Nodes) != len(f.Nodes) {
		t.Errorf("status of a new cluster: %+v, want all views of %d nodes to agree", status, len(f.Nodes))
	}
	plan := f.plan(t, "--worker", offering.Name, access)
	for _, node := range f.ofRole("worker") {
		want := []string{"claim", "resize", "online", "restart", "verify", "release"}
		if diff := cmp.Diff(want, plan.moves(node.Name())); diff != "" {
			t.Errorf("moves planned for %s (-want +got):\n%s", node.Name(), diff)
		}
	}
	f.expectNoChanges(t, asked)
	f.expectUntouched(t, before)
	for _, node := range f.Nodes {
		if changed := inside(t, node, changedFiles); changed != "" {
			t.Errorf("%s: files changed in the guest, want none but logs:\n%s", node.Name(), changed)
		}
	}
}

const marker = "/tmp/before-looking"

// changedFiles finds files that were written after the marker, wherever neither the kernel nor a log nor kubelet's own work lies.
const changedFiles = `sudo find / \( -path /proc -o -path /sys -o -path /dev -o -path /var/log -o -path /run/log -o -path /run/systemd -o -path /run/udev ` +
	`-o -path /run/containerd -o -path /var/lib/containerd -o -path /var/lib/kubelet -o -path /var/lib/systemd \) -prune -o -type f -newercm ` + marker + ` -print`

// lookingKubeconfig is of a user with the rights that docs/rbac.md names for status and plan.
func (f *fixture) lookingKubeconfig(t testing.TB) string {
	t.Helper()
	const name = "looker"
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"trueup"}, Verbs: []string{"get"}},
	}
	meta := metav1.ObjectMeta{Name: name}
	if _, err := f.Kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if _, err := f.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := f.Plane.UserKubeconfig(name)
	if err != nil {
		t.Fatal(err)
	}
	return f.file(t, "looking-kubeconfig", string(kubeconfig))
}

// expectUntouched compares all layers of all nodes with an earlier reading.
func (f *fixture) expectUntouched(t testing.TB, before map[string]layers) {
	t.Helper()
	f.expectGrown(t, before, nil)
}

func testMoreCPU(t *testing.T, f *fixture) {
	cordoned := f.ofRole("worker")[1].Name()
	f.kubectl(t, "cordon", cordoned)
	defer f.kubectl(t, "uncordon", cordoned)
	growth{cpus: 1, roles: []string{"worker"}, flags: []string{settle}, byPeople: []string{cordoned}}.test(t, f)
}

// testNothingToDo: exit 0 without a change, because all views agree.
func testNothingToDo(t *testing.T, f *fixture) {
	before, asked := f.read(t), f.changes(t)
	worker, control := f.offeringOf(t, f.ofRole("worker")[0]), f.offeringOf(t, f.ofRole("control")[0])
	report := f.scale(t, "--worker", worker.Name, "--control", control.ID)
	var want []string
	for _, node := range append(f.ofRole("worker"), f.ofRole("control")...) {
		want = append(want, node.Name()+" unchanged")
	}
	if diff := cmp.Diff(want, report.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	f.expectNoChanges(t, asked)
	f.expectUntouched(t, before)
}

// testBehindItsBack: somebody resized a VM in CloudStack alone. The plan has what is missing, and no resize.
func testBehindItsBack(t *testing.T, f *fixture) {
	node := f.ofRole("control")[0]
	before, offering, record := f.read(t), f.grown(t, "control", 1, 512), f.record(t)
	f.behindItsBack(t, node, offering)
	asked, plan := f.changes(t), f.plan(t, "--control", offering.Name)
	if diff := cmp.Diff([]string{"claim", "online", "restart", "verify", "release"}, plan.moves(node.Name())); diff != "" {
		t.Errorf("moves planned (-want +got):\n%s", diff)
	}
	report := f.scale(t, "--control", offering.Name, settle)
	expectWalked(t, plan, report)
	expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), nil)
	f.expectGrown(t, before, map[string]standin.Offering{"control": offering})
	f.expectLeaseFree(t)
}
