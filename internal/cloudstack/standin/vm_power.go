package standin

import (
	"context"
	"slices"
	"time"
)

// stopVirtualMachine and startVirtualMachine start the job that turns one VM off or on. CloudStack lets neither cluster nor node type
// stand in the way. The parameter `forced` is taken and makes no difference here: no stop waits for a guest that does not end.

func stopVirtualMachine(c *call) (any, error)  { return c.power((*power).stop) }
func startVirtualMachine(c *call) (any, error) { return c.power((*power).start) }

// power starts the job. Everything except the id and the permission is checked in the job, when the VM has nothing else to do.
func (c *call) power(begin func(*power)) (any, error) {
	vm := c.m.vm(c.str("id"))
	if vm == nil {
		return nil, unknownID(c.command.lower(), "id", c.str("id"))
	}
	if err := c.mayUse(vm.Owner, vm.ID); err != nil {
		return nil, err
	}
	p := &power{m: c.m, vm: vm, job: c.m.startJob(c, instanceVM, vm.ID), admin: c.account.Admin, generation: c.m.generation}
	c.m.enqueue(vm.ID, func() {
		c.m.after(c.m.cfg.AgentStep, p.generation, func() { begin(p) })
	})
	return p.job.reply(), nil
}

// power is one stop or start of a VM.
type power struct {
	m          *Model
	vm         *VM
	job        *Job
	admin      bool
	generation int
	before     VM // as it was when the job began
}

func (p *power) end(err *APIError) {
	p.m.finish(p.job, map[string]any{"virtualmachine": p.m.vmJSON(p.vm, p.admin)}, err)
	p.m.release(p.vm.ID)
}

// stop turns the VM off. One that is off already is no error, and why an agent failed is only in the log (VirtualMachineManagerImpl.advanceStop).
func (p *power) stop() {
	switch p.vm.State {
	case VMStopped:
		p.end(nil)
	case VMRunning:
		if p.begin(VMStopping) {
			p.act(PowerSwitch.Stop, (*VM).stopped, refusedf("Unable to stop %s", p.vm))
		}
	default:
		p.end(refusedf("We cannot stop %s when it is in state %s", p.vm, p.vm.State))
	}
}

// start boots the VM with what its record says. CloudStack tries one host after the other, and says in the end only that there is none. It refuses a
// VM that runs (UserVmManagerImpl.startVirtualMachine); what it says of other states is not known.
func (p *power) start() {
	switch p.vm.State {
	case VMStopped:
		if !p.begin(VMStarting) {
			return
		}
		if err := p.findHost(); err != nil {
			p.fail(err)
			return
		}
		boot := p.m.boot(p.vm)
		p.act(func(s PowerSwitch, ctx context.Context, id string) error { return s.Start(ctx, id, boot) },
			func(vm *VM) { vm.State = VMRunning }, noDeployment(p.vm))
	case VMRunning:
		p.end(refusedf("The virtual machine %s (%s) is already running", p.vm.ID, p.vm.DisplayName))
	default:
		p.end(refusedf("Unable to start %s in state %s", p.vm, p.vm.State))
	}
}

func noDeployment(vm *VM) *APIError {
	return apiErrorf(CodeInsufficientCapacity, "Unable to create a deployment for %s", vm)
}

// begin puts the VM into the state that it has meanwhile, and reports whether the job goes on.
func (p *power) begin(meanwhile VMState) bool {
	p.before = *p.vm
	p.vm.State = meanwhile
	return !p.disturbedAt(BeforeAgent)
}

func (p *power) disturbedAt(at Stage) bool {
	failed, over := p.m.disturbAt(p.m.placeOf(p.job), at)
	if failed != nil {
		p.fail(failed)
	}
	return over
}

// fail puts the VM back into the state that it had. What the hypervisor has done all the same shows at its next report.
func (p *power) fail(err *APIError) {
	p.vm.State, p.vm.HostID = p.before.State, p.before.HostID
	p.m.followPower(0, p.vm.ID)
	p.end(err)
}

// act lets the agent do the change, without the lock, and then writes the record. On a hypervisor without a switch the record is all there is.
func (p *power) act(change func(PowerSwitch, context.Context, string) error, commit func(*VM), failure *APIError) {
	step := func() error {
		if s, ok := p.m.cfg.Hypervisor.(PowerSwitch); ok {
			return change(s, p.m.ctx, p.vm.ID)
		}
		return nil
	}
	p.m.after(p.hang(), p.generation, func() {
		p.m.agent(p.generation, step, func(err error) {
			if err != nil {
				p.m.cfg.Log.Warn("Unable to change the power of vm", "vm", p.vm.ID, "reason", err)
				p.fail(failure)
			} else if !p.disturbedAt(AfterAgent) {
				p.m.showLate(&p.before, p.m.placeOf(p.job))
				commit(p.vm)
				p.end(nil)
			}
		})
	})
}

// hang is how much longer than usual the agent takes.
func (p *power) hang() time.Duration {
	f, _ := takeFault[JobDelay](p.m, p.m.placeOf(p.job))
	return f.By
}

// findHost finds a host for the VM: the one where it ran last, else any with room.
func (p *power) findHost() *APIError {
	if _, ok := takeFault[NoCapacity](p.m, p.m.placeOf(p.job)); ok {
		return noDeployment(p.vm)
	}
	goal, hosts, tags := p.m.sizeOf(p.vm), p.m.hosts, ""
	if o := p.m.offering(p.vm.OfferingID); o != nil {
		tags = o.HostTags
	}
	if last := p.m.host(p.vm.LastHostID); last != nil {
		hosts = append([]*Host{last}, hosts...)
	}
	i := slices.IndexFunc(hosts, func(h *Host) bool { return p.m.fits(h, p.vm, goal) && includesTags(h.Tags, tags) })
	if i < 0 {
		return noDeployment(p.vm)
	}
	p.vm.HostID = hosts[i].ID
	return nil
}

// stopped writes into the record that the VM is off.
func (vm *VM) stopped() {
	vm.LastHostID = orDefault(vm.HostID, vm.LastHostID)
	vm.State, vm.HostID = VMStopped, ""
}

// boot is what the VM is started with. It gets room to grow if it may be scaled while it runs: before CloudStack 4.23 only where its
// offering is customized (KVMGuru).
func (m *Model) boot(vm *VM) Boot {
	s, o := m.sizeOf(vm), m.offering(vm.OfferingID)
	allowed := m.settingBool(SettingDynamicScaling, vm.ZoneID) && (m.atLeast(4, 23) || o != nil && o.Customized)
	return Boot{MemoryMiB: s.MemoryMiB, VCPUs: s.CPUs, Scalable: vm.DynamicallyScalable && allowed}
}

// powerReport is after how long CloudStack believes what its hosts report of a VM's power against its own record: their ping interval.
const powerReport = time.Minute

// followPower lets the record of a VM follow its host's report, once that has come: without a job, a VM is then Running or Stopped as the
// hypervisor has it. A hypervisor without a switch reports nothing.
func (m *Model) followPower(later time.Duration, id string) {
	if _, ok := m.cfg.Hypervisor.(PowerSwitch); !ok {
		return
	}
	generation := m.generation
	m.cfg.Clock.AfterFunc(later+powerReport, func() {
		if m.ctx.Err() != nil || m.isStale(generation) {
			return
		}
		_, off := m.cfg.Hypervisor.Domain(m.ctx, id) // without the lock
		m.mu.Lock()
		defer m.mu.Unlock()
		if vm := m.vm(id); vm != nil && m.generation == generation && len(m.queues[id]) == 0 {
			m.writePower(vm, off == nil)
		}
	})
}

func (m *Model) writePower(vm *VM, on bool) {
	if !on {
		vm.stopped()
		return
	}
	vm.State, vm.HostID = VMRunning, orDefault(vm.HostID, orDefault(vm.LastHostID, m.defaults.HostID))
}

// followBroken lets all VMs whose stop or start was given up in the middle follow their hosts' report.
func (m *Model) followBroken(later time.Duration) {
	for _, vm := range m.vms {
		if vm.State == VMStarting || vm.State == VMStopping {
			m.followPower(later, vm.ID)
		}
	}
}
