package e2e

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// slowJob outlasts the interrupt and the program's end.
const slowJob = 6 * time.Second

// testInterrupted: Ctrl-C while CloudStack works on the first worker. The job goes on; the same command finishes everything.
func testInterrupted(t *testing.T, f *fixture) {
	first := f.ofRole("worker")[0]
	goals, args := growth{cpus: 1, roles: []string{"worker"}}.goals(t, f)
	command := append([]string{"scale", f.Options.Name, "--yes", settle}, args...)
	before, pods, asked, record := f.read(t), f.pods(t), f.changes(t), f.record(t)
	f.Cloud.Model.Script(standin.Fault{Command: "scaleVirtualMachine", VM: first.VMID(), Effect: standin.JobDelay{By: slowJob}})

	r := f.begin(t, command...)
	eventually(t, "the resize of "+first.Name(), func() bool { return f.pendingJob(first.VMID()) })
	r.signal(t, os.Interrupt)
	r.wait().expectCode(t, 130)
	f.expectUnfinished(t)
	if now := f.readNode(t, first.Name()); !now.Claimed || !now.Unschedulable {
		t.Errorf("%s after the interrupt: %+v, want it claimed and cordoned", first.Name(), now)
	}

	f.trueup(t, 0, command...)
	order := expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), order)
	f.expectGrown(t, before, goals)
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

func (f *fixture) pendingJob(vmID string) bool {
	for _, job := range f.Cloud.Model.Jobs() {
		if job.InstanceID == vmID && job.Status == standin.JobPending {
			return true
		}
	}
	return false
}

// testHeldThenKilled: a run that is in the middle of verify holds off a second one, which changes nothing. Then it is killed, and
// the same command takes over once the Lease has run out, and does only what is left.
func testHeldThenKilled(t *testing.T, f *fixture) {
	node := f.ofRole("control")[0]
	goals, args := growth{cpus: 1, roles: []string{"control"}}.goals(t, f)
	command := append([]string{"scale", f.Options.Name, "--yes", "-o", "json"}, args...)
	before, asked, record := f.read(t), f.changes(t), f.record(t)

	first := f.begin(t, append(command, "--settle=10m", "--verify-timeout=11m")...)
	eventually(t, "a kubelet that has found the CPU", func() bool {
		now := f.readNode(t, node.Name())
		return now.Ready && now.CPU == int64(goals["control"].CPUs)
	})
	f.trueup(t, 7, command...)
	first.signal(t, syscall.SIGKILL)
	first.wait().expectCode(t, -1)

	var report reportDocument
	decode(t, f.trueup(t, 0, append(command, settle)...), &report)
	var done []string
	for _, effect := range report.Effects {
		done = append(done, effect.Action)
	}
	if diff := cmp.Diff([]string{"adopt", "release"}, done); diff != "" {
		t.Errorf("effects of the run that took over (-want +got):\n%s", diff)
	}
	order := expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), order)
	f.expectGrown(t, before, goals)
	f.expectLeaseFree(t)
}
