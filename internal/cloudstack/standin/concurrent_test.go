package standin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowHypervisor takes its time, as a real one does, and notices when two steps work on one VM at once.
type slowHypervisor struct {
	*SimHypervisor

	mu   sync.Mutex
	busy map[string]bool
}

func (h *slowHypervisor) PlugMemory(ctx context.Context, vmID string, mib int) error {
	return h.alone(vmID, func() error { return h.SimHypervisor.PlugMemory(ctx, vmID, mib) })
}

func (h *slowHypervisor) SetVCPUs(ctx context.Context, vmID string, count int) error {
	return h.alone(vmID, func() error { return h.SimHypervisor.SetVCPUs(ctx, vmID, count) })
}

func (h *slowHypervisor) alone(vmID string, step func() error) error {
	h.mu.Lock()
	if h.busy[vmID] {
		h.mu.Unlock()
		return fmt.Errorf("two steps work on VM %s at once", vmID)
	}
	h.busy[vmID] = true
	h.mu.Unlock()
	time.Sleep(30 * time.Second) // virtual: the test runs in a synctest bubble
	defer func() { h.mu.Lock(); h.busy[vmID] = false; h.mu.Unlock() }()
	return step()
}

// While the hypervisor works, the API answers, and other VMs are resized at the same time.
func TestSlowHypervisorBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slowHypervisor{SimHypervisor: NewSimHypervisor(), busy: map[string]bool{}}
		m := New(Config{Hypervisor: h})
		defer m.Close()
		m.AddAccount(Account{Name: "owner"})
		small, big := m.AddOffering(FixedOffering("small", 2, 2048)), m.AddOffering(FixedOffering("big", 4, 4096))
		k := m.AddCluster(ClusterSpec{Owner: Owner{Account: "owner"}, OfferingID: small.ID, Control: Nodes(1), Workers: Nodes(7)})
		for _, n := range k.Nodes {
			vm, _ := m.VM(n.VMID)
			_ = h.Start(t.Context(), vm.ID, Boot{MemoryMiB: small.MemoryMiB, VCPUs: small.CPUs, Scalable: true}) // nothing makes it fail here
		}
		var all sync.WaitGroup
		for _, n := range k.Nodes {
			all.Go(func() {
				if _, err := m.ScaleVirtualMachine(t.Context(), "owner", n.VMID, big.ID); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(15 * time.Second) // all are in the middle of their memory step
		began := time.Now()
		if err := m.Call(t.Context(), "owner", "listVirtualMachines", nil, nil); err != nil || time.Since(began) != 0 {
			t.Errorf("a list during the resizes took %s, %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		for _, j := range m.Jobs() {
			if j.Status != JobSucceeded {
				t.Errorf("job = %+v", j)
			}
		}
	})
}
