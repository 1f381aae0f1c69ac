package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// outage is how long something is away: longer than one request may take (10 s), shorter than all bounds of a rollout, and than the time
// after which Kubernetes gives a silent node up (50 s).
const outage = 15 * time.Second

// disturbed is one growth of one node during which something is away for a while. trueup waits and finishes by itself.
type disturbed struct {
	growth

	role string
	// disturb is called while CloudStack works on the job. What it returns is called at the end, to see that there was a disturbance.
	disturb func(*testing.T, *fixture, *cluster.Node, *wire) (disturbed func())
}

func (d disturbed) test(t *testing.T, f *fixture) {
	node := f.ofRole(d.role)[0]
	d.roles = []string{d.role}
	goals, args := d.goals(t, f)
	before, pods, asked, record, w := f.read(t), f.pods(t), f.changes(t), f.record(t), f.wire(t, node)
	f.Cloud.Model.Script(standin.Fault{Command: "scaleVirtualMachine", VM: node.VMID(), Effect: standin.JobDelay{By: slowJob}})

	r := f.begin(t, append([]string{"scale", f.Options.Name, "--yes", settle}, args...)...)
	eventually(t, "the resize of "+node.Name(), func() bool { return f.pendingJob(node.VMID()) })
	disturbed := d.disturb(t, f, node, w)
	r.wait().expectCode(t, 0)
	disturbed()

	order := expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), order)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// stopAPIServer stops the process, not the connections to it: whoever asks gets no answer, not even a refusal.
func stopAPIServer(t *testing.T, f *fixture, _ *cluster.Node, _ *wire) (disturbed func()) {
	began := len(f.changes(t).Kubernetes)
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(f.Plane.APIServer().PID(), s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	<-time.After(outage) // the length of the outage is what is tested
	return func() {
		if len(f.changes(t).Kubernetes) == began {
			t.Error("trueup wrote nothing after the outage")
		}
	}
}

// stopSSHD stops the guest's SSH server and cuts the connection that trueup has, so that it must come in anew. The guest itself starts the
// server again.
func stopSSHD(t *testing.T, _ *fixture, node *cluster.Node, w *wire) (disturbed func()) {
	began := started(t, node)
	inside(t, node, "sudo systemd-run --quiet --on-active="+outage.String()+" systemctl start ssh && sudo systemctl stop ssh")
	made := w.cut()
	return func() {
		// More than one: the first that was made came while the server was away.
		if w.made() < made+2 || made == 0 || started(t, node) == began {
			t.Errorf("the SSH server was not away, or trueup did not ask it: %d connections before, %d in all", made, w.made())
		}
	}
}

// started is when the SSH server was last started.
func started(t testing.TB, node *cluster.Node) string {
	t.Helper()
	return inside(t, node, "systemctl show --property=ExecMainStartTimestampMonotonic --value ssh")
}

// testCutInRestart cuts trueup's connection when systemd is in the middle of the restart: the script gets no chance to answer.
func testCutInRestart(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	slowKubelet(t, node)
	w := f.wire(t, node)
	goals, args := growth{cpus: 1, roles: []string{"worker"}}.goals(t, f)
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)

	r := f.begin(t, append([]string{"scale", f.Options.Name, "--yes", settle, "-o", "json"}, args...)...)
	announced := f.untilClaim(t, node, "a restart in the claim", announcesRestart).Restart.InvocationID
	eventually(t, "systemd at the restart", func() bool {
		return inside(t, node, "systemctl show --property=InvocationID --value kubelet") != announced
	})
	if state := inside(t, node, "systemctl show --property=ActiveState --value kubelet"); state != "activating" {
		t.Errorf("kubelet is %s at the cut, want it activating", state)
	}
	made := w.cut()
	r.wait().expectCode(t, 0)
	if w.made() == made {
		t.Error("trueup made no connection after the cut")
	}
	var report reportDocument
	decode(t, r, &report)
	var restarts []effect
	for _, e := range report.Effects {
		if e.Action == "restart" {
			restarts = append(restarts, effect{Node: e.Node, Action: e.Action, Unanswered: e.Unanswered})
		}
	}
	if diff := cmp.Diff([]effect{{Node: node.Name(), Action: "restart", Unanswered: true}}, restarts); diff != "" {
		t.Errorf("restarts in the report (-want +got):\n%s", diff)
	}

	order := expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), order)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
	f.expectHistory(t, node, before[node.Name()])
}

// slowKubelet makes the start of kubelet's unit take so long that the middle of a restart can be met. It ends with the test.
func slowKubelet(t *testing.T, node *cluster.Node) {
	t.Helper()
	const dropIn = "/run/systemd/system/kubelet.service.d/slow.conf"
	inside(t, node, "sudo mkdir -p $(dirname "+dropIn+") && printf '[Service]\\nExecStartPre=/bin/sleep 6\\n' | sudo tee "+dropIn+" && sudo systemctl daemon-reload")
	t.Cleanup(func() {
		// The test's own context has ended.
		if out, err := node.Run(context.Background(), "sudo rm "+dropIn+" && sudo systemctl daemon-reload"); err != nil {
			t.Errorf("%v: %s", err, strings.TrimSpace(out))
		}
	})
}
