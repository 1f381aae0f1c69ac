package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// testReconcile: somebody resized a VM in CloudStack alone. verify tells by its exit code, reconcile brings guest and Node up to it.
func testReconcile(t *testing.T, f *fixture) {
	node := f.ofRole("worker")[0]
	before, pods, record := f.read(t), f.pods(t), f.record(t)
	f.trueup(t, 0, "verify", f.Options.Name)
	f.behindItsBack(t, node, f.grown(t, "worker", 1, 128))
	asked := f.changes(t)
	f.trueup(t, 3, "verify", f.Options.Name)
	f.expectNoChanges(t, asked)

	f.trueup(t, 0, "reconcile", f.Options.Name, "--yes")
	f.trueup(t, 0, "verify", f.Options.Name)
	expectOneAtATime(t, record.stop(t))
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), nil)
	f.expectGrown(t, before, map[string]standin.Offering{"worker": f.offeringOf(t, node)})
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// behindItsBack lets somebody else resize the node's VM, and waits until the guest has its new hardware, offline.
func (f *fixture) behindItsBack(t *testing.T, node *cluster.Node, offering standin.Offering) {
	t.Helper()
	had := f.offeringOf(t, node)
	job, err := f.Cloud.Model.ScaleVirtualMachine(t.Context(), f.Cloud.Account.Name, node.VMID(), offering.ID)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job of somebody else", func() bool {
		j, _ := f.Cloud.Model.Job(job)
		return j.Status == standin.JobSucceeded
	})
	present, err := readGuest(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the guest sees its new hardware, offline", func() bool {
		present, err = readGuest(t.Context(), node)
		return err == nil && present.CPUsPresent != present.CPUsOnline && present.BlocksOther*present.BlockMiB == offering.MemoryMiB-had.MemoryMiB
	})
}

// historyDocument is what `history -o json` prints.
type historyDocument struct {
	Items []struct {
		Kind    string `json:"kind"`
		Command string `json:"command"`
		Run     string `json:"run"`
		Result  string `json:"result"`
		Node    *struct {
			Target  target         `json:"target"`
			Outcome string         `json:"outcome"`
			Claim   *claimDocument `json:"claim"`
			Final   struct {
				Guest struct {
					BootID  string `json:"bootID"`
					Kubelet struct {
						InvocationID string `json:"invocationID"`
					} `json:"kubelet"`
				} `json:"guest"`
			} `json:"final"`
		} `json:"node"`
	} `json:"items"`
}

// evidence is what the history must prove of a growth.
type evidence struct {
	Kinds                    []string
	Result, Node, Outcome    string
	Job                      string
	BootBefore, BootAfter    string
	StartBefore, StartedLast string // kubelet's InvocationIDs
}

// expectHistory compares the youngest rollout in the history with CloudStack's own record of the job and the guest's own journal.
func (f *fixture) expectHistory(t *testing.T, node *cluster.Node, before layers) {
	t.Helper()
	now, err := readGuest(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	jobs := f.Cloud.Model.Jobs()
	want := evidence{
		Kinds: []string{"begin", "node", "end"}, Result: "done", Node: node.Name(), Outcome: "done", Job: jobs[len(jobs)-1].ID,
		BootBefore: before.Guest.BootID, BootAfter: now.BootID, StartBefore: before.Guest.KubeletID, StartedLast: now.KubeletID,
	}
	var doc historyDocument
	decode(t, f.trueup(t, 0, "history", f.Options.Name, "-o", "json"), &doc)
	if diff := cmp.Diff(want, doc.youngest()); diff != "" {
		t.Errorf("the history's evidence (-want +got):\n%s", diff)
	}
}

// youngest is the evidence of the last rollout.
func (d historyDocument) youngest() (e evidence) {
	if len(d.Items) == 0 {
		return e
	}
	run := d.Items[len(d.Items)-1].Run
	for _, item := range d.Items {
		if item.Run != run {
			continue
		}
		e.Kinds, e.Result = append(e.Kinds, item.Kind), item.Result
		if n := item.Node; n != nil && n.Claim != nil && n.Claim.Resize != nil && n.Claim.Restart != nil {
			e.Node, e.Outcome, e.Job = n.Target.Name, n.Outcome, n.Claim.Resize.JobID
			e.BootBefore, e.StartBefore = n.Claim.Restart.BootID, n.Claim.Restart.InvocationID
			e.BootAfter, e.StartedLast = n.Final.Guest.BootID, n.Final.Guest.Kubelet.InvocationID
		}
	}
	return e
}
