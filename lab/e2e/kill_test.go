package e2e

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// killed is one growth of one node whose run is killed at a named boundary, and finished by another machine.
type killed struct {
	growth

	at, role string
	by       string // the command that finishes it: scale or resume

	fault standin.Effect // what CloudStack does to the resize, nil: nothing
	// holds is the gate's, nil: everything passes.
	holds func(k *killing, command string, answered bool) bool
	// reached returns when the run is at the boundary; nil: when the gate holds it.
	reached func(*testing.T, *killing)
	// left looks at what the killed run has left, which proves where it was.
	left func(*testing.T, *killing)
}

// killing is a killed growth under way.
type killing struct {
	*fixture

	node    *cluster.Node
	before  layers
	asked   changes
	jobs    int
	claimed atomic.Bool // the gate has seen the claim
}

// longJob is still at work when the run that takes over looks: the wait for a dead holder is an effect's deadline of 20 s, and a second.
const longJob = 30 * time.Second

// kills are the six boundaries, in the order of a node's way.
func kills() []killed {
	return []killed{
		{
			at: "claimed, resize not asked for", role: "worker", growth: growth{mib: 128}, by: "resume",
			holds: func(k *killing, _ string, _ bool) bool { return k.sees(claimOn) },
			left: func(t *testing.T, k *killing) {
				if claim := k.claim(t, k.node); claim == nil || claim.Resize != nil || len(k.requests(t)) != 0 {
					t.Errorf("left: claim %+v, requests %v; want a claim without a resize, and no request", claim, k.requests(t))
				}
			},
		},
		{
			at: "CloudStack at work on the job", role: "control", growth: growth{mib: 128}, by: "scale", fault: standin.JobDelay{By: longJob},
			reached: func(t *testing.T, k *killing) {
				k.untilClaim(t, k.node, "a job in the claim", func(c *claimDocument) bool { return c != nil && c.Resize != nil && c.Resize.JobID != "" })
			},
			left: func(t *testing.T, k *killing) {
				if !k.pendingJob(k.node.VMID()) {
					t.Error("left: no pending job, want one")
				}
			},
		},
		{
			at: "resize asked for, reply lost", role: "worker", growth: growth{cpus: 1}, by: "scale", fault: standin.JobDelay{By: longJob},
			holds: func(_ *killing, command string, answered bool) bool {
				return command == "scaleVirtualMachine" && answered
			},
			left: func(t *testing.T, k *killing) {
				if claim := k.claim(t, k.node); claim == nil || claim.Resize == nil || claim.Resize.JobID != "" || !k.pendingJob(k.node.VMID()) {
					t.Errorf("left: claim %+v, want a resize without a job id, and the job pending", claim)
				}
			},
		},
		{
			at: "restart announced", role: "control", growth: growth{cpus: 1}, by: "resume",
			reached: func(t *testing.T, k *killing) { k.untilClaim(t, k.node, "a restart in the claim", announcesRestart) },
			left: func(t *testing.T, k *killing) {
				if claim := k.claim(t, k.node); !announcesRestart(claim) {
					t.Errorf("left: claim %+v, want one that announces a restart", claim)
				}
			},
		},
		{
			at: "kubelet restarted, not verified", role: "worker", growth: growth{mib: 128, flags: []string{"--settle=4m"}}, by: "scale",
			reached: func(t *testing.T, k *killing) {
				eventually(t, "a kubelet that has found the memory", func() bool { return k.readNode(t, k.node.Name()).MemoryKiB != k.before.Node.MemoryKiB })
			},
			left: func(t *testing.T, k *killing) {
				now, err := k.readLayers(t.Context(), k.node)
				if err != nil || !now.Node.Claimed || len(now.Guest.KubeletStarts) != len(k.before.Guest.KubeletStarts)+1 {
					t.Errorf("left: %+v (%v), want a claimed node whose kubelet was started once more", now, err)
				}
			},
		},
		{
			at: "released", role: "control", growth: growth{mib: 128}, by: "resume",
			holds: func(k *killing, _ string, _ bool) bool { return k.sees(claimGone) },
			left: func(t *testing.T, k *killing) {
				now := k.readNode(t, k.node.Name())
				if now.Claimed || now.Unschedulable || k.leaseHolder(t) == "" {
					t.Errorf("left: %+v, Lease held by %q; want the node given back and the Lease held", now, k.leaseHolder(t))
				}
			},
		},
	}
}

func announcesRestart(c *claimDocument) bool { return c != nil && c.Restart != nil }

// What the gate looks for on the Node.
const (
	claimOn   = true
	claimGone = false // it was there, and is not any more
)

// sees tells, while a call of the run waits at the gate, whether the run's last write to the Node was its claim or its release.
func (k *killing) sees(what bool) bool {
	node, err := k.Kube.CoreV1().Nodes().Get(context.Background(), k.node.Name(), metav1.GetOptions{})
	if err != nil {
		return false // the test fails for want of a held call
	}
	on := node.Annotations[claimAnnotation] != ""
	if on {
		k.claimed.Store(true)
	}
	return k.claimed.Load() && on == what
}

// requests are the resizes that were asked for since the growth began.
func (k *killing) requests(t testing.TB) []standin.Request {
	t.Helper()
	return k.changes(t).since(k.asked).CloudStack
}

// test begins the growth on one machine, kills it, finishes it on another, and then looks at everything that a growth promises.
func (c killed) test(t *testing.T, f *fixture) {
	node := f.ofRole(c.role)[0]
	c.roles = []string{c.role}
	goals, args := c.goals(t, f)
	before, pods, record := f.read(t), f.pods(t), f.record(t)
	k := &killing{fixture: f, node: node, before: before[node.Name()], asked: f.changes(t), jobs: len(f.Cloud.Model.Jobs())}
	if c.fault != nil {
		f.Cloud.Model.Script(standin.Fault{Command: "scaleVirtualMachine", VM: node.VMID(), Effect: c.fault})
	}
	c.runAndKill(t, k, append(append([]string{"scale", f.Options.Name, "--yes", settle}, args...), c.flags...))
	c.left(t, k)

	f.hastenTakeover(t)
	finish := []string{c.by, f.Options.Name, "--yes"}
	if c.by == "scale" {
		finish = append(append(finish, settle), args...)
	}
	begin(t, f.another(t), finish...).wait().expectCode(t, 0)
	order := expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, k.changes(t).since(k.asked), order)
	f.expectOneJob(t, k)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// runAndKill kills the run with a signal that it can't notice, at the boundary.
func (c killed) runAndKill(t *testing.T, k *killing, command []string) {
	t.Helper()
	g, on := k.gate(t, k.another(t), func(command string, answered bool) bool { return c.holds != nil && c.holds(k, command, answered) })
	r := begin(t, on, command...)
	if c.reached != nil {
		c.reached(t, k)
	} else {
		g.wait(t, r)
	}
	r.signal(t, syscall.SIGKILL)
	r.wait().expectCode(t, -1)
}

// wait returns when the gate holds a call of the run.
func (g *gate) wait(t testing.TB, r *run) {
	t.Helper()
	select {
	case <-g.held:
	case <-r.ended:
		t.Fatalf("%s ended before its boundary, with code %d:\n%s", r, r.code, &r.stderr)
	case <-time.After(eventuallyTimeout):
		t.Fatalf("%s: no call was held within %s", r, eventuallyTimeout)
	}
}

// expectOneJob: CloudStack has started one job since the growth began, for the node's VM, and it has succeeded.
func (f *fixture) expectOneJob(t testing.TB, k *killing) {
	t.Helper()
	jobs := f.Cloud.Model.Jobs()[k.jobs:]
	mine := func(j standin.Job) bool { return j.InstanceID == k.node.VMID() && j.Status == standin.JobSucceeded }
	if len(jobs) != 1 || !slices.ContainsFunc(jobs, mine) {
		t.Errorf("jobs: %+v, want one for %s that succeeded", jobs, k.node.Name())
	}
}

// hastenTakeover lets the dead run's Lease expire after a second in place of 40, which saves each of many tests that much. The other part of
// the wait, for the end of a last effect, stays. The whole of it is waited for where TestLab kills.
func (f *fixture) hastenTakeover(t testing.TB) {
	t.Helper()
	_, err := f.Kube.CoordinationV1().Leases("kube-system").Patch(t.Context(), "trueup", types.MergePatchType,
		[]byte(`{"spec":{"leaseDurationSeconds":1}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // a run that was killed early has made none
		t.Fatal(err)
	}
}

// leaseHolder is who the Lease says holds the cluster, "" for nobody.
func (f *fixture) leaseHolder(t testing.TB) string {
	t.Helper()
	lease, err := f.Kube.CoordinationV1().Leases("kube-system").Get(t.Context(), "trueup", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
