package standin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ports returns the public SSH ports of the cluster's nodes in their order.
func (b *bench) ports() []int {
	b.t.Helper()
	var out []int
	for _, n := range b.record().Nodes {
		for _, r := range b.Rules(n.VMID) {
			out = append(out, r.PublicPort)
		}
	}
	return out
}

// New workers get the offering of the record, which lags after VMs were resized one by one.
func TestNewWorkersGetTheOfferingOfTheRecord(t *testing.T) {
	b := newBench(t)
	b.setOffering(1, b.big)
	b.setOffering(2, b.big)
	// The call names a role, so that CloudStack doesn't take the record's offering as the goal of all.
	if j := b.scaleCluster("size", "3", "nodeofferings[0].node", "control", "nodeofferings[0].offering", b.small.ID); j.Status != JobSucceeded {
		t.Fatalf("job = %+v", j)
	}
	b.cluster = b.record()
	wantOfferings(t, b, "small", "big", "big", "small")
	if b.cluster.State != ClusterRunning || b.cluster.Size != 3 {
		t.Errorf("record = %+v", b.cluster)
	}
	if diff := cmp.Diff([]int{2222, 2223, 2224, 2225}, b.ports()); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if d := b.domain(b.node(3).ID); d.VCPUs != 2 || d.MemoryMiB != 2048 {
		t.Errorf("domain of the new worker = %+v", d)
	}
}

// A size alone means the record's offering for everyone; where the VMs are ahead of the record, that is a refused shrink.
func TestSizeAloneFailsWhenTheRecordLags(t *testing.T) {
	b := newBench(t)
	b.setOffering(1, b.big)
	b.setOffering(2, b.big)
	j := b.scaleCluster("size", "3")
	if !strings.Contains(errorText(j), "only scalling up it is supported") || b.record().State != ClusterAlert || b.record().Size != 2 {
		t.Errorf("job = %+v, record = %+v", j, b.record())
	}
}

// The way to mend a lagging record: the offering together with the next growth.
func TestGrowthWithOfferingWritesTheRecord(t *testing.T) {
	b := newBench(t)
	if j := b.scaleCluster("size", "3", "nodeofferings[0].node", "worker", "nodeofferings[0].offering", b.big.ID); j.Status != JobSucceeded {
		t.Fatalf("job = %+v", j)
	}
	b.cluster = b.record()
	wantOfferings(t, b, "small", "big", "big", "big")
	if b.cluster.WorkerOfferingID != b.big.ID {
		t.Errorf("worker column = %s", b.cluster.WorkerOfferingID)
	}
}

func TestRemovedNodeRenumbersThePortsOfTheOthers(t *testing.T) {
	b := newBench(t)
	first, second := b.node(1).ID, b.node(2).ID
	if r := b.Rules(second); r[0].PublicPort != 2224 {
		t.Fatalf("rules before = %+v", r)
	}
	if j := b.scaleCluster("nodeids", first); j.Status != JobSucceeded {
		t.Fatalf("job = %+v", j)
	}
	if r := b.Rules(second); len(r) != 1 || r[0].PublicPort != 2223 {
		t.Errorf("rules of the worker that stays = %+v, want port 2223", r)
	}
	if _, ok := b.VM(first); ok || b.record().Size != 1 {
		t.Errorf("the removed worker is still there: %+v", b.record())
	}
}

func TestShrinkTakesTheLastWorkerBeforeTheOfferingsChange(t *testing.T) {
	b := newBench(t)
	last := b.node(2).ID
	b.Script(Fault{VM: last, Effect: CPUFailure{}}) // would strike if it were resized first
	if j := b.scaleCluster("size", "1", "serviceofferingid", b.big.ID); j.Status != JobSucceeded {
		t.Fatalf("job = %+v", j)
	}
	b.cluster = b.record()
	wantOfferings(t, b, "big", "big")
	if _, ok := b.VM(last); ok {
		t.Errorf("the last worker is still there")
	}
}

func TestSizeOfAStoppedClusterIsRefused(t *testing.T) {
	b := newBench(t)
	b.UpdateCluster(b.cluster.ID, func(c *Cluster) { c.State = ClusterStopped })
	if j := b.scaleCluster("size", "3"); errorText(j) != "Kubernetes cluster : prod cannot be scaled for size in Stopped state" {
		t.Errorf("job = %+v", j)
	}
}

func TestFailedGrowthEndsInAlertWithoutTheNewWorker(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Hypervisor = noStart{NewSimHypervisor()} })
	j := b.scaleCluster("size", "3")
	if k := b.record(); j.Status != JobFailed || k.State != ClusterAlert || len(k.Nodes) != 3 || k.Size != 2 {
		t.Errorf("job = %+v, record = %+v", j, k)
	}
}

// noStart can't boot a VM.
type noStart struct{ *SimHypervisor }

func (noStart) Start(context.Context, string, Boot) error { return errors.New("no host left") }
