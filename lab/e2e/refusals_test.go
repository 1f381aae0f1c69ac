package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// preflightDocument is what `preflight -o json` prints.
type preflightDocument struct {
	Pass   bool `json:"pass"`
	Checks []struct {
		Node    string `json:"node"`
		Name    string `json:"name"`
		Verdict string `json:"verdict"`
		Remedy  string `json:"remedy"`
	} `json:"checks"`
}

// expectRefused: one check of the node fails, with a remedy, and scale changes nothing.
func (f *fixture) expectRefused(t *testing.T, node *cluster.Node, check string, goal standin.Offering) {
	t.Helper()
	asked := f.changes(t)
	var doc preflightDocument
	decode(t, f.trueup(t, 4, "preflight", f.Options.Name, "--worker", goal.Name, "-o", "json"), &doc)
	var failed []string
	for _, c := range doc.Checks {
		if c.Verdict == "fail" && c.Remedy != "" {
			failed = append(failed, c.Node+" "+c.Name)
		}
	}
	if want := []string{node.Name() + " " + check}; doc.Pass || !slices.Equal(failed, want) {
		t.Errorf("checks that failed: %q, want %q", failed, want)
	}
	f.trueup(t, 4, "scale", f.Options.Name, "--worker", goal.Name, "--yes")
	f.expectNoChanges(t, asked)
}

// expectQuoted: trueup stopped, and told why in the words of the guest's journal.
func expectQuoted(t *testing.T, r *run, node *cluster.Node, pattern string) {
	t.Helper()
	line := inside(t, node, "journalctl --boot --output=cat --grep='"+pattern+"' | tail -n 1")
	if said := r.stderr.String(); line == "" || !strings.Contains(said, line[:min(len(line), 60)]) {
		t.Errorf("the fault does not quote the guest's journal, which has %q:\n%s", line, said)
	}
}

// testMisaligned: a DIMM that is not a multiple of the kernel's memory blocks is taken by everybody but the kernel. After a power cycle, as the
// remedy says, all of it is there at boot, and so is whatever kubelet needs to know.
func testMisaligned(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	goal := f.grown(t, "worker", 0, 1000)
	f.expectRefused(t, node, "memory-alignment", goal)

	record, asked := f.record(t), f.changes(t)
	r := f.trueup(t, 5, "scale", f.Options.Name, "--worker", goal.Name, "--yes", "--ignore", "memory-alignment", "--online-timeout", "20s", settle)
	expectQuoted(t, r, node, "nalign")
	if now := f.readNode(t, node.Name()); !now.Claimed || !now.Unschedulable {
		t.Errorf("%s: %+v, want it claimed and cordoned", node.Name(), now)
	}
	f.cycle(t, node)
	f.trueup(t, 0, "resume", f.Options.Name, "--yes")
	expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), []string{node.Name()})
	f.expectStartedOnce(t, node, goal)
	f.expectLeaseFree(t)
}

// testStaticCPUs: a kubelet with a static CPU manager does not come back on more CPUs until its state file is gone.
func testStaticCPUs(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	inside(t, node, `cp /var/lib/kubelet/config.yaml /run/kubelet-config && printf 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n' >>/var/lib/kubelet/config.yaml`)
	// With this policy kubelet does not pin the pods' cgroup, and leaves alone what it pinned with another one in this boot.
	inside(t, node, "systemctl set-property --runtime kubepods.slice AllowedCPUs=")
	f.restartKubelet(t, node)
	goal := f.grown(t, "worker", 1, 0)
	f.expectRefused(t, node, "cpu-manager", goal)

	record, asked := f.record(t), f.changes(t)
	r := f.trueup(t, 5, "scale", f.Options.Name, "--worker", goal.Name, "--yes", "--ignore", "cpu-manager", "--verify-timeout", "30s", settle)
	expectQuoted(t, r, node, "CPUs in state")
	inside(t, node, "rm /var/lib/kubelet/cpu_manager_state")
	f.trueup(t, 0, "resume", f.Options.Name, "--yes")
	expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), []string{node.Name()})
	now := f.read(t)[node.Name()]
	if now.Guest.Processors != goal.CPUs || now.Node.CPU != int64(goal.CPUs) || now.Node.Claimed || now.Node.Unschedulable || !now.Node.Ready {
		t.Errorf("after the resume: %+v, want a Ready Node with %d CPUs, given back", now, goal.CPUs)
	}
	f.expectLeaseFree(t)

	inside(t, node, "mv /run/kubelet-config /var/lib/kubelet/config.yaml")
	f.restartKubelet(t, node)
}

// restartKubelet restarts kubelet without what it remembers of CPUs, and waits until it has posted that it is Ready.
func (f *fixture) restartKubelet(t *testing.T, node *cluster.Node) {
	t.Helper()
	before := f.heartbeat(t, node)
	inside(t, node, "systemctl stop kubelet && rm -f /var/lib/kubelet/cpu_manager_state && systemctl start kubelet")
	eventually(t, "a status of the new kubelet on "+node.Name(), func() bool {
		return f.heartbeat(t, node) != before && f.readNode(t, node.Name()).Ready
	})
}
