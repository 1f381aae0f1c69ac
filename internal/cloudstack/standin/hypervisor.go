package standin

import (
	"context"
	"fmt"
	"sync"
)

// Hypervisor is what the model needs from the machine that runs the guests.
type Hypervisor interface {
	// Domain returns the VM as the hypervisor has it, not as CloudStack remembers it.
	Domain(ctx context.Context, vmID string) (Domain, error)
	// PlugMemory attaches one DIMM of mib MiB to the running VM.
	PlugMemory(ctx context.Context, vmID string, mib int) error
	// SetVCPUs raises the number of live vCPUs to count.
	SetVCPUs(ctx context.Context, vmID string, count int) error
}

// PowerSwitch is what a Hypervisor may offer besides: without it stopping and starting changes only CloudStack's record.
type PowerSwitch interface {
	// Start boots the VM with this much boot memory (MiB) and this many vCPUs; DIMM slots start afresh.
	Start(ctx context.Context, vmID string, mib, vcpus int) error
	// Stop turns the VM off.
	Stop(ctx context.Context, vmID string) error
}

// Domain is the size of one VM as its hypervisor sees it. Memory is in MiB.
type Domain struct{ MemoryMiB, MaxMemoryMiB, VCPUs, MaxVCPUs, DIMMs, MaxDIMMs int }

// dimmSlots is the number of memory slots that CloudStack writes into every KVM domain with dynamic scaling.
const dimmSlots = 16

// SimHypervisor keeps domains in memory.
type SimHypervisor struct {
	// MaxMemoryMiB and MaxVCPUs are written into each domain at its start; set them before use.
	MaxMemoryMiB, MaxVCPUs int

	mu      sync.Mutex
	domains map[string]*Domain
	fails   map[simCall][]error
}

// SimOp names an operation of SimHypervisor that can be made to fail.
type SimOp string

// The operations of SimHypervisor.
const (
	OpDomain     SimOp = "Domain"
	OpPlugMemory SimOp = "PlugMemory"
	OpSetVCPUs   SimOp = "SetVCPUs"
)

type simCall struct {
	op SimOp
	vm string
}

// NewSimHypervisor returns an in-memory hypervisor whose domains may grow to 64 GiB and 32 vCPUs.
func NewSimHypervisor() *SimHypervisor {
	return &SimHypervisor{MaxMemoryMiB: 64 << 10, MaxVCPUs: 32, domains: map[string]*Domain{}, fails: map[simCall][]error{}}
}

// Define replaces what the hypervisor knows of the VM.
func (h *SimHypervisor) Define(vmID string, d Domain) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.domains[vmID] = &d
}

// FailNext makes the next call of op for the VM return err; several calls queue up.
func (h *SimHypervisor) FailNext(op SimOp, vmID string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := simCall{op, vmID}
	h.fails[key] = append(h.fails[key], err)
}

// Domain implements Hypervisor.
func (h *SimHypervisor) Domain(_ context.Context, vmID string) (Domain, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.lookup(OpDomain, vmID)
	if err != nil {
		return Domain{}, err
	}
	return *d, nil
}

// PlugMemory implements Hypervisor.
func (h *SimHypervisor) PlugMemory(_ context.Context, vmID string, mib int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.lookup(OpPlugMemory, vmID)
	if err != nil {
		return err
	}
	if d.DIMMs >= d.MaxDIMMs {
		return fmt.Errorf("domain %s: no free memory slot, %d of %d are used", vmID, d.DIMMs, d.MaxDIMMs)
	}
	if d.MemoryMiB+mib > d.MaxMemoryMiB {
		return fmt.Errorf("domain %s: %d MiB more than %d MiB exceeds the maximum memory of %d MiB", vmID, mib, d.MemoryMiB, d.MaxMemoryMiB)
	}
	d.MemoryMiB += mib
	d.DIMMs++
	return nil
}

// SetVCPUs implements Hypervisor.
func (h *SimHypervisor) SetVCPUs(_ context.Context, vmID string, count int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.lookup(OpSetVCPUs, vmID)
	if err != nil {
		return err
	}
	if count > d.MaxVCPUs {
		return fmt.Errorf("domain %s: %d vCPUs exceed the maximum of %d", vmID, count, d.MaxVCPUs)
	}
	d.VCPUs = max(d.VCPUs, count)
	return nil
}

// Start implements PowerSwitch.
func (h *SimHypervisor) Start(_ context.Context, vmID string, mib, vcpus int) error {
	h.Define(vmID, Domain{
		MemoryMiB: mib, MaxMemoryMiB: max(h.MaxMemoryMiB, mib),
		VCPUs: vcpus, MaxVCPUs: max(h.MaxVCPUs, vcpus), MaxDIMMs: dimmSlots,
	})
	return nil
}

// Stop implements PowerSwitch.
func (h *SimHypervisor) Stop(_ context.Context, vmID string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.domains, vmID)
	return nil
}

// lookup returns the next scripted failure of op, or the domain.
func (h *SimHypervisor) lookup(op SimOp, vmID string) (*Domain, error) {
	key := simCall{op, vmID}
	if errs := h.fails[key]; len(errs) > 0 {
		h.fails[key] = errs[1:]
		return nil, errs[0]
	}
	d, ok := h.domains[vmID]
	if !ok {
		return nil, fmt.Errorf("domain %s: not running on this hypervisor", vmID)
	}
	return d, nil
}
