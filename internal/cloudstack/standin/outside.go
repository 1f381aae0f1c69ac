package standin

import (
	"context"
	"fmt"
	"slices"
)

// What other people and other parts of CloudStack do, without a call of the API that is under test.

// ScaleVirtualMachine lets an account resize a VM and returns the id of the job.
func (m *Model) ScaleVirtualMachine(ctx context.Context, account, vmID, offeringID string) (string, error) {
	var started struct {
		JobID string `json:"jobid"`
	}
	err := m.Call(ctx, account, "scaleVirtualMachine", map[string]string{"id": vmID, "serviceofferingid": offeringID}, &started)
	return started.JobID, err
}

// UpdateVM changes the record of a VM. It reports whether there is such a VM.
func (m *Model) UpdateVM(id string, change func(*VM)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return update(m.vm(id), change)
}

// UpdateCluster changes the record of a cluster. It reports whether there is such a cluster.
func (m *Model) UpdateCluster(id string, change func(*Cluster)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return update(m.cluster(id), change)
}

// UpdateOffering changes an offering. It reports whether there is such an offering.
func (m *Model) UpdateOffering(id string, change func(*Offering)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return update(m.offering(id), change)
}

// UpdateTemplate changes a template. It reports whether there is such a template.
func (m *Model) UpdateTemplate(id string, change func(*Template)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return update(m.template(id), change)
}

func update[T any](object *T, change func(*T)) bool {
	if object == nil {
		return false
	}
	change(object)
	return true
}

// SetPortForwarding gives the SSH rule of a VM another public port, as a change of the cluster's size does. A VM without
// such a rule is an error.
func (m *Model) SetPortForwarding(vmID string, publicPort int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rules {
		if r.VMID == vmID && r.PrivatePort == sshPort {
			r.ID, r.PublicPort = m.newID(), publicPort
			return nil
		}
	}
	return fmt.Errorf("VM %s has no port forwarding rule for port %d", vmID, sshPort)
}

// RemovePortForwarding removes all rules of a VM.
func (m *Model) RemovePortForwarding(vmID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules = slices.DeleteFunc(m.rules, func(r *PortForwardingRule) bool { return r.VMID == vmID })
}

// StopVirtualMachine lets an account stop a VM and returns the id of the job.
func (m *Model) StopVirtualMachine(ctx context.Context, account, vmID string) (string, error) {
	return m.startVMJob(ctx, account, "stopVirtualMachine", vmID)
}

// StartVirtualMachine lets an account start a VM and returns the id of the job.
func (m *Model) StartVirtualMachine(ctx context.Context, account, vmID string) (string, error) {
	return m.startVMJob(ctx, account, "startVirtualMachine", vmID)
}

func (m *Model) startVMJob(ctx context.Context, account, command, vmID string) (string, error) {
	var started struct {
		JobID string `json:"jobid"`
	}
	err := m.Call(ctx, account, command, map[string]string{"id": vmID}, &started)
	return started.JobID, err
}

// StopVM turns a VM off, without a job. One that is off stays so.
func (m *Model) StopVM(ctx context.Context, id string) error {
	if vm, _ := m.VM(id); vm.State == VMStopped {
		return nil
	}
	if p, ok := m.cfg.Hypervisor.(PowerSwitch); ok {
		if err := p.Stop(ctx, id); err != nil {
			return fmt.Errorf("stop VM %s: %w", id, err)
		}
	}
	m.UpdateVM(id, (*VM).stopped)
	return nil
}

// StartVM boots a VM at the size of its offering, without a job and whatever its host has room for.
func (m *Model) StartVM(ctx context.Context, id string) error {
	m.mu.Lock()
	vm := m.vm(id)
	if vm == nil {
		m.mu.Unlock()
		return fmt.Errorf("start VM %s: there is no such VM", id)
	}
	boot := m.boot(vm)
	m.mu.Unlock()
	if p, ok := m.cfg.Hypervisor.(PowerSwitch); ok {
		if err := p.Start(ctx, id, boot); err != nil {
			return fmt.Errorf("start VM %s: %w", id, err)
		}
	}
	m.UpdateVM(id, func(vm *VM) { vm.State, vm.HostID = VMRunning, orDefault(vm.LastHostID, m.defaults.HostID) })
	return nil
}
