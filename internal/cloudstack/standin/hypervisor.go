package standin

import (
	"context"
	"fmt"
	"sync"
)

// Hypervisor is what the model needs from the machine that runs the guests.
type Hypervisor interface {
	// Domain returns the VM as the hypervisor has it, not as CloudStack remembers it. It is an error if the VM is off.
	Domain(ctx context.Context, vmID string) (Domain, error)
	// PlugMemory attaches one DIMM of mib MiB to the running VM.
	PlugMemory(ctx context.Context, vmID string, mib int) error
	// SetVCPUs raises the number of live vCPUs to count.
	SetVCPUs(ctx context.Context, vmID string, count int) error
}

// PowerSwitch is what a Hypervisor may offer besides: without it stopping and starting changes only CloudStack's record.
type PowerSwitch interface {
	// Start boots a VM that is off, with a domain made anew from boot: all of its memory is boot memory.
	Start(ctx context.Context, vmID string, boot Boot) error
	// Stop turns the VM off: the guest is asked to end in good order, and cut off after a while. Domain is an error from then on.
	Stop(ctx context.Context, vmID string) error
}

// Boot is what CloudStack's record says of a VM when it is started. Memory is in MiB.
type Boot struct {
	MemoryMiB, VCPUs int
	// Scalable gives the domain room to grow while it runs: maxima above its size, and free memory slots. It is decided at each start,
	// and stays as it is until the next one, whatever becomes of the VM's flag.
	Scalable bool
}

// Domain is the domain that CloudStack writes for the boot, on a host where a VM may grow to maxMiB and maxVCPUs.
func (b Boot) Domain(maxMiB, maxVCPUs int) Domain {
	d := Domain{MemoryMiB: b.MemoryMiB, MaxMemoryMiB: b.MemoryMiB, VCPUs: b.VCPUs, MaxVCPUs: b.VCPUs}
	if b.Scalable {
		d.MaxMemoryMiB, d.MaxVCPUs, d.MaxDIMMs = max(maxMiB, b.MemoryMiB), max(maxVCPUs, b.VCPUs), dimmSlots
	}
	return d
}

// Domain is the size of one VM as its hypervisor sees it. Memory is in MiB.
type Domain struct{ MemoryMiB, MaxMemoryMiB, VCPUs, MaxVCPUs, DIMMs, MaxDIMMs int }

// dimmSlots is the number of memory slots that CloudStack writes into every KVM domain with dynamic scaling.
const dimmSlots = 16

// SimHypervisor keeps domains in memory.
type SimHypervisor struct {
	// MaxMemoryMiB and MaxVCPUs are written into each scalable domain at its start; set them before use.
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
	OpStart      SimOp = "Start"
	OpStop       SimOp = "Stop"
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
func (h *SimHypervisor) Start(_ context.Context, vmID string, boot Boot) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.failure(OpStart, vmID); err != nil {
		return err
	}
	d := boot.Domain(h.MaxMemoryMiB, h.MaxVCPUs)
	h.domains[vmID] = &d
	return nil
}

// Stop implements PowerSwitch.
func (h *SimHypervisor) Stop(_ context.Context, vmID string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.failure(OpStop, vmID); err != nil {
		return err
	}
	delete(h.domains, vmID)
	return nil
}

// lookup returns the next scripted failure of op, or the domain.
func (h *SimHypervisor) lookup(op SimOp, vmID string) (*Domain, error) {
	if err := h.failure(op, vmID); err != nil {
		return nil, err
	}
	d, ok := h.domains[vmID]
	if !ok {
		return nil, fmt.Errorf("domain %s: not running on this hypervisor", vmID)
	}
	return d, nil
}

// failure takes the next scripted failure of op.
func (h *SimHypervisor) failure(op SimOp, vmID string) error {
	key := simCall{op, vmID}
	errs := h.fails[key]
	if len(errs) == 0 {
		return nil
	}
	h.fails[key] = errs[1:]
	return errs[0]
}
