package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// evictionMiB is kubelet's default threshold of hard eviction, and all that the lab's kubelets hold back from pods.
const evictionMiB = 100

// growth is one rollout: so much more for the nodes of these roles.
type growth struct {
	cpus, mib int
	roles     []string
	flags     []string
	byPeople  []string // nodes that people have cordoned
}

// test lets trueup do the growth and looks at everything that it promises.
func (g growth) test(t *testing.T, f *fixture) {
	goals, args := g.goals(t, f)
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
	plan := f.plan(t, args...)
	f.expectNoChanges(t, asked)
	report := f.scale(t, append(args, g.flags...)...)

	order := expectOneAtATime(t, record.stop(t), g.byPeople...)
	if diff := cmp.Diff(plan.order(), order); diff != "" {
		t.Errorf("order of the nodes (-planned +claimed):\n%s", diff)
	}
	expectWalked(t, plan, report)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), order)
}

// goals makes the offerings, by role, and the arguments that name them.
func (g growth) goals(t testing.TB, f *fixture) (goals map[string]standin.Offering, args []string) {
	t.Helper()
	goals = map[string]standin.Offering{}
	for _, role := range g.roles {
		goals[role] = f.grown(t, role, g.cpus, g.mib)
		args = append(args, "--"+role, goals[role].Name)
	}
	return goals, args
}

// expectGrown compares every layer of every node with the goal of its role; a node without a goal must be as it was.
func (f *fixture) expectGrown(t testing.TB, before map[string]layers, goals map[string]standin.Offering) {
	t.Helper()
	after := f.read(t)
	for _, node := range f.Nodes {
		was, is := before[node.Name()], after[node.Name()]
		if goal, ok := goals[node.Role()]; ok {
			expectReached(t, node, goal, was, is)
		} else if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%s was not to be touched (-before +after):\n%s", node.Name(), diff)
		}
	}
}

func expectReached(t testing.TB, node *cluster.Node, goal standin.Offering, was, is layers) {
	t.Helper()
	if diff := cmp.Diff(wanted(goal, was, is), is); diff != "" {
		t.Errorf("%s: all layers (-want +got):\n%s", node.Name(), diff)
	}
	if len(is.Guest.KubeletStarts) != len(was.Guest.KubeletStarts)+1 {
		t.Errorf("%s: kubelet starts %q, before %q: want exactly one more", node.Name(), is.Guest.KubeletStarts, was.Guest.KubeletStarts)
	}
	expectMemTotal(t, node, goal, was, is)
	expectArrivals(t, node, was, is)
}

// wanted is the node at its goal. What only the guest can know (MemTotal, the new process) is taken from the reading; it is checked apart.
func wanted(goal standin.Offering, was, is layers) layers {
	want, g := was, &is.Guest
	want.OfferingID = goal.ID
	want.QEMU.VCPUs, want.QEMU.MemoryMiB = goal.CPUs, goal.MemoryMiB
	if goal.MemoryMiB > was.QEMU.MemoryMiB {
		want.QEMU.DIMMs++
	}
	cpus := fmt.Sprintf("0-%d", goal.CPUs-1)
	want.Guest.CPUsOnline, want.Guest.CPUsPresent, want.Guest.PodCPUs, want.Guest.Processors = cpus, cpus, cpus, goal.CPUs
	want.Guest.BlocksOnline, want.Guest.BlocksOther = goal.MemoryMiB/g.BlockMiB, 0
	want.Guest.MemTotalKiB, want.Guest.Online = g.MemTotalKiB, g.Online
	want.Guest.KubeletStart, want.Guest.KubeletStarts, want.Guest.KubeletID = g.KubeletStart, g.KubeletStarts, g.KubeletStarts[len(g.KubeletStarts)-1]
	want.Node.Ready, want.Node.Claimed, want.Node.BootID = true, false, g.BootID
	want.Node.CPU, want.Node.AllocatableCPU = int64(goal.CPUs), int64(goal.CPUs)
	want.Node.MemoryKiB, want.Node.AllocatableMemoryKiB = int64(g.MemTotalKiB), int64(g.MemTotalKiB-evictionMiB<<10)
	return want
}

// expectMemTotal: the kernel keeps about 1/64 of what was plugged for its page structures.
func expectMemTotal(t testing.TB, node *cluster.Node, goal standin.Offering, was, is layers) {
	t.Helper()
	plugged, grew := (goal.MemoryMiB-was.QEMU.MemoryMiB)<<10, is.Guest.MemTotalKiB-was.Guest.MemTotalKiB
	if least, most := plugged-plugged/64-4<<10, plugged+4<<10; grew < least || grew > most {
		t.Errorf("%s: MemTotal grew by %d KiB, want between %d and %d", node.Name(), grew, least, most)
	}
}

// expectArrivals: each plugged CPU and block came up once, and none after the last start of kubelet.
func expectArrivals(t testing.TB, node *cluster.Node, was, is layers) {
	t.Helper()
	came := is.Guest.Online[len(was.Guest.Online):]
	if want := is.Guest.Processors - was.Guest.Processors + is.Guest.BlocksOnline - was.Guest.BlocksOnline; len(came) != want {
		t.Errorf("%s: %d CPUs and memory blocks came up, want %d: %v", node.Name(), len(came), want, came)
	}
	for _, a := range came {
		if a.At >= is.Guest.KubeletStart {
			t.Errorf("%s: %s came up %s after boot, kubelet was started at %s, want it before", node.Name(), a.Device, a.At, is.Guest.KubeletStart)
		}
	}
}

func (f *fixture) expectPodsUntouched(t testing.TB, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, f.pods(t)); diff != "" {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
}

// expectOnlyNeededRequests: one resize per node in CloudStack, and in Kubernetes patches of Nodes, the Lease and Events, nothing else:
// no pod was evicted or deleted, by the API server's own record.
func (f *fixture) expectOnlyNeededRequests(t testing.TB, asked changes, names []string) {
	t.Helper()
	var resized, want []string
	for _, request := range asked.CloudStack {
		resized = append(resized, request.Command+" "+request.Params["id"])
	}
	for _, name := range names {
		want = append(want, "scaleVirtualMachine "+f.node(t, name).VMID())
	}
	if diff := cmp.Diff(want, resized); diff != "" {
		t.Errorf("changes asked of CloudStack (-want +got):\n%s", diff)
	}
	for _, write := range asked.Kubernetes {
		kind := write.Verb + " " + write.Resource
		known := []string{"patch nodes", "create leases", "patch leases", "create events"}
		if !slices.Contains(known, kind) || write.Subresource != "" {
			t.Errorf("asked of Kubernetes: %+v, want only %v", write, known)
		}
	}
}
