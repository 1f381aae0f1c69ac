package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// failedResize is one growth whose resize CloudStack does not bring to its end.
type failedResize struct {
	growth

	role  string
	fault standin.Effect
}

// begin lets trueup run into the fault and returns what it did and the claim that is left.
func (c failedResize) begin(t *testing.T, f *fixture, code int) (node *cluster.Node, r *run, left *claimDocument) {
	t.Helper()
	node = f.ofRole(c.role)[0]
	_, args := c.goals(t, f)
	f.Cloud.Model.Script(standin.Fault{Command: "scaleVirtualMachine", VM: node.VMID(), Effect: c.fault})
	r = f.trueup(t, code, append([]string{"scale", f.Options.Name, "--yes", settle}, args...)...)
	if unstruck := f.Cloud.Model.Unstruck(); len(unstruck) > 0 {
		t.Errorf("faults that did not happen: %+v", unstruck)
	}
	f.expectSaid(t, r, node)
	return node, r, f.claim(t, node)
}

// expectSaid: the error and the Event on the Node have CloudStack's own words and the job's id.
func (f *fixture) expectSaid(t *testing.T, r *run, node *cluster.Node) {
	t.Helper()
	jobs := f.Cloud.Model.Jobs()
	job := jobs[len(jobs)-1]
	words, ok := job.Result.(map[string]any)["errortext"].(string)
	if !ok || words == "" {
		t.Fatalf("the last job has not failed: %+v", job)
	}
	events, err := f.Kube.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=TrueupFault,involvedObject.name=" + node.Name()})
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	for _, e := range events.Items {
		told += e.Message + "\n"
	}
	for _, text := range []string{words, job.ID} {
		if stderr := r.stderr.String(); !strings.Contains(stderr, text) {
			t.Errorf("standard error does not say %q:\n%s", text, stderr)
		}
		if !strings.Contains(told, text) {
			t.Errorf("no Event on the Node says %q:\n%s", text, told)
		}
	}
}

// expectKept: the node is cordoned, and its claim says in one word why.
func (f *fixture) expectKept(t *testing.T, node *cluster.Node, claim *claimDocument, phase string) {
	t.Helper()
	now := f.readNode(t, node.Name())
	if claim == nil || claim.Phase != phase || claim.Fault == nil || claim.Fault.Layer != "cloudstack" || !now.Unschedulable {
		t.Errorf("%s: %+v, claim %+v; want it cordoned, phase %s, and a fault in the layer cloudstack", node.Name(), now, claim, phase)
	}
}

// testNoCapacity: no host has room. After two readings 30 s apart that show that nothing was changed, the node is given back.
func testNoCapacity(t *testing.T, f *fixture) {
	before, pods, record := f.read(t), f.pods(t), f.record(t)
	node, _, left := failedResize{role: "worker", growth: growth{cpus: 1, roles: []string{"worker"}}, fault: standin.NoCapacity{}}.begin(t, f, 1)
	if left != nil {
		t.Errorf("the claim is still there: %+v", left)
	}
	sights := record.stop(t)
	expectOneAtATime(t, sights)
	if apart := unchangedFor(t, sights, node); apart < 30*time.Second {
		t.Errorf("the node was given back %s after the first reading, want at least 30 s", apart)
	}
	f.expectUntouched(t, before)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// unchangedFor is the time from the note of a first reading, in the claim, to the release.
func unchangedFor(t *testing.T, sights []cluster.Sight, node *cluster.Node) time.Duration {
	t.Helper()
	var first, gone time.Time
	for _, s := range sights {
		if s.Node.Name != node.Name() {
			continue
		}
		claim := claimOf(t, s.Node)
		if noted := claim != nil && claim.Resize != nil && claim.Resize.Unchanged != nil; noted && first.IsZero() {
			first = s.At
		}
		if claim == nil && !first.IsZero() {
			gone = s.At
			break
		}
	}
	if first.IsZero() || gone.IsZero() {
		t.Fatalf("%s: first reading noted at %v, released at %v: want both", node.Name(), first, gone)
	}
	return gone.Sub(first)
}

// testPartial: the memory was attached, the CPUs were not, and the record has the old offering. The same command finishes it later.
func testPartial(t *testing.T, f *fixture) {
	g := growth{cpus: 1, mib: 128, roles: []string{"control"}}
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
	node, r, left := failedResize{role: "control", growth: g, fault: standin.CPUFailure{}}.begin(t, f, 5)
	f.expectKept(t, node, left, "resize-partial")
	f.trueup(t, 0, r.args...)
	f.expectFinished(t, g, before, pods, asked, record, node, node)
}

// expectFinished looks at everything that a growth promises, where the nodes' resizes were asked for in this order.
func (f *fixture) expectFinished(t *testing.T, g growth, before map[string]layers, pods map[string]string, asked changes, record *recorder, resized ...*cluster.Node) {
	t.Helper()
	expectOneAtATime(t, record.stop(t))
	goals, names := map[string]standin.Offering{}, []string{}
	for _, node := range resized {
		names, goals[node.Role()] = append(names, node.Name()), f.offeringOf(t, node)
		if had := before[node.Name()].QEMU; goals[node.Role()].CPUs != had.VCPUs+g.cpus || goals[node.Role()].MemoryMiB != had.MemoryMiB+g.mib {
			t.Errorf("%s has offering %+v, had %+v: want %d CPUs and %d MiB more", node.Name(), goals[node.Role()], had, g.cpus, g.mib)
		}
	}
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), names)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// downtime is short: that the server is away is not what is tested.
const downtime = 2 * time.Second

// testServerRestart: the management server is restarted in the middle of a job, which it then gives up without knowing what became of it.
func testServerRestart(t *testing.T, f *fixture) {
	t.Run("before the host did anything: abort gives the node back", func(t *testing.T) {
		before, pods, record := f.read(t), f.pods(t), f.record(t)
		node, _, left := failedResize{role: "worker", growth: growth{cpus: 1, mib: 128, roles: []string{"worker"}},
			fault: standin.RestartServer{At: standin.BeforeAgent, Downtime: downtime}}.begin(t, f, 5)
		f.expectKept(t, node, left, "resize-unclear")
		begin(t, f.another(t), "abort", f.Options.Name, "--yes").wait().expectCode(t, 0)
		expectOneAtATime(t, record.stop(t))
		f.expectUntouched(t, before)
		f.expectPodsUntouched(t, pods)
		f.expectLeaseFree(t)
	})
	t.Run("after the memory: abort keeps the node, resume finishes it", func(t *testing.T) {
		g := growth{cpus: 1, mib: 128, roles: []string{"worker"}}
		before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
		node, _, left := failedResize{role: "worker", growth: g, fault: standin.RestartServer{At: standin.AfterMemory, Downtime: downtime}}.begin(t, f, 5)
		f.expectKept(t, node, left, "resize-unclear")
		begin(t, f.another(t), "abort", f.Options.Name, "--yes").wait().expectCode(t, 4)
		if now := f.readNode(t, node.Name()); !now.Claimed || !now.Unschedulable {
			t.Errorf("%s after an abort that was refused: %+v, want it claimed and cordoned", node.Name(), now)
		}
		begin(t, f.another(t), "resume", f.Options.Name, "--yes").wait().expectCode(t, 0)
		f.expectFinished(t, g, before, pods, asked, record, node, node)
	})
}
