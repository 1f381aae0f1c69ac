package standin

import (
	"fmt"
	"maps"
	"strconv"
)

// The kinds of things that jobs are about.
const (
	instanceVM      = "VirtualMachine"
	instanceCluster = "KubernetesCluster"
)

// scaleVirtualMachine starts the job that resizes a VM. Everything except the ids and the permission is checked in the job.
func scaleVirtualMachine(c *call) (any, error) {
	vm := c.m.vm(c.str("id"))
	if vm == nil {
		return nil, unknownID(c.command.lower(), "id", c.str("id"))
	}
	o := c.m.offering(c.str("serviceofferingid"))
	if o == nil {
		return nil, unknownID(c.command.lower(), "serviceofferingid", c.str("serviceofferingid"))
	}
	if err := c.mayUse(vm.Owner, vm.ID); err != nil {
		return nil, err
	}
	custom, err := c.customSize(o)
	if err != nil {
		return nil, err
	}
	j := c.m.startJob(c, instanceVM, vm.ID)
	c.m.resize(&resize{m: c.m, vm: vm, offering: o, goal: custom, job: j, done: func(err *APIError) {
		c.m.finish(j, map[string]any{"virtualmachine": c.m.vmJSON(vm, c.account.Admin)}, err)
	}})
	return j.reply(), nil
}

// customSize returns the size that the call asks for: the offering's, or for customized offerings that of details.
func (c *call) customSize(o *Offering) (size, error) {
	goal := o.size()
	if !o.Customized {
		return goal, nil
	}
	details := map[string]string{}
	for _, d := range c.indexed("details") {
		maps.Copy(details, d)
	}
	for key, field := range map[string]*int{"cpunumber": &goal.CPUs, "cpuspeed": &goal.MHz, "memory": &goal.MemoryMiB} {
		if details[key] == "" {
			continue
		}
		n, err := strconv.Atoi(details[key])
		if err != nil {
			return goal, apiErrorf(CodeParameter, "Invalid value for %s: %s", key, details[key])
		}
		*field = n
	}
	return goal, nil
}

// resize is the change of one VM's offering, the same for scaleVirtualMachine and inside scaleKubernetesCluster.
type resize struct {
	m        *Model
	vm       *VM
	offering *Offering
	goal     size
	job      *Job
	done     func(*APIError)

	generation int
	before     Domain // as the hypervisor had it when the agent began
}

// resize puts the change into the VM's queue. The lock is held.
func (m *Model) resize(r *resize) {
	r.generation = m.generation
	m.enqueue(r.vm.ID, func() {
		delay := m.cfg.AgentStep
		if f, ok := takeFault[JobDelay](m, r.place()); ok {
			delay += f.By
		}
		m.after(delay, r.generation, r.check)
	})
}

func (r *resize) place() place {
	at := r.m.placeOf(r.job)
	at.vm = r.vm.ID
	return at
}

func (r *resize) end(err *APIError) {
	r.done(err)
	r.m.release(r.vm.ID)
}

// check holds the change against CloudStack's rules. A VM that is not running only gets its new record.
func (r *resize) check() {
	if err := r.m.checkResize(r.vm, r.offering, r.goal); err != nil {
		r.end(err)
		return
	}
	if err := r.m.checkLimits(r.vm, r.goal); err != nil {
		r.end(err)
		return
	}
	if r.vm.State == VMStopped {
		r.commit()
		return
	}
	if err := r.m.placeOnHost(r); err != nil {
		r.end(err)
		return
	}
	if r.disturbedAt(BeforeAgent) {
		return
	}
	r.agent(r.plugMemory, func() {
		if !r.disturbedAt(AfterMemory) {
			r.agent(r.raiseCPUs, r.report)
		}
	})
}

// report is the agent's success on its way into the record.
func (r *resize) report() {
	if !r.disturbedAt(AfterCPUs) {
		r.commit()
	}
}

// agent lets the hypervisor do one step of the resize.
func (r *resize) agent(step func() error, next func()) {
	r.m.agent(r.generation, step, func(err error) {
		if err != nil {
			r.m.cfg.Log.Warn("Unable to scale vm", "vm", r.vm.ID, "reason", err)
			r.end(refusedf("Unhandled exception"))
			return
		}
		next()
	})
}

// agent lets the hypervisor do one step without the lock, and goes on with then if the management server is still there.
func (m *Model) agent(generation int, step func() error, then func(error)) {
	m.cfg.Clock.AfterFunc(m.cfg.AgentStep, func() {
		if m.ctx.Err() != nil || m.isStale(generation) {
			return
		}
		err := step()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.generation == generation {
			then(err)
		}
	})
}

func (m *Model) isStale(generation int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation != generation
}

// plugMemory attaches what is missing to the goal, counted from the domain itself. It runs without the lock.
func (r *resize) plugMemory() error {
	h := r.m.cfg.Hypervisor
	d, err := h.Domain(r.m.ctx, r.vm.ID)
	if err != nil {
		return err
	}
	r.before = d
	missing := r.goal.MemoryMiB - d.MemoryMiB
	if missing <= 0 {
		return nil
	}
	if struck[MemoryFailure](r) {
		return fmt.Errorf("attach %d MiB: scripted failure of the agent", missing)
	}
	return h.PlugMemory(r.m.ctx, r.vm.ID, missing)
}

// raiseCPUs runs without the lock.
func (r *resize) raiseCPUs() error {
	if r.goal.CPUs <= r.before.VCPUs {
		return nil
	}
	if struck[CPUFailure](r) {
		return fmt.Errorf("set %d vCPUs: scripted failure of the agent", r.goal.CPUs)
	}
	return r.m.cfg.Hypervisor.SetVCPUs(r.m.ctx, r.vm.ID, r.goal.CPUs)
}

// struck takes a fault where the lock is not held.
func struck[E Effect](r *resize) bool {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	_, ok := takeFault[E](r.m, r.place())
	return ok
}

// disturbedAt lets the faults of a stage strike and reports whether the resize is over.
func (r *resize) disturbedAt(at Stage) bool {
	failed, over := r.m.disturbAt(r.place(), at)
	if failed != nil {
		r.end(failed)
	}
	return over
}

// disturbAt lets the faults of a job's stage strike. The job is over if the server was restarted, or has to fail with the error.
func (m *Model) disturbAt(where place, at Stage) (failed *APIError, over bool) {
	if f, ok := takeFaultIf(m, where, func(f RestartServer) bool { return f.At == at }); ok {
		m.restart(f.Downtime)
		return nil, true
	}
	f, ok := takeFaultIf(m, where, func(f JobFailure) bool { return f.At == at })
	if !ok {
		return nil, false
	}
	if f.Code == 0 {
		f.Code = CodeInternal
	}
	return apiErrorf(f.Code, "%s", f.Text), true
}

// commit writes the new offering into the record, and recomputes whether the VM may be scaled again.
func (r *resize) commit() {
	r.m.showLate(r.vm, r.place())
	r.vm.OfferingID = r.offering.ID
	r.vm.CustomCPUs, r.vm.CustomMHz, r.vm.CustomMemoryMiB = 0, 0, 0
	if r.offering.Customized {
		r.vm.CustomCPUs, r.vm.CustomMHz, r.vm.CustomMemoryMiB = r.goal.CPUs, r.goal.MHz, r.goal.MemoryMiB
	}
	t := r.m.template(r.vm.TemplateID)
	r.vm.DynamicallyScalable = r.vm.DynamicallyScalable && r.offering.DynamicScaling && t != nil && t.DynamicallyScalable
	r.end(nil)
}

// showLate lets a fault keep the VM in lists as it is now, whatever becomes of it.
func (m *Model) showLate(vm *VM, at place) {
	if f, ok := takeFault[ListedLate](m, at); ok {
		m.listedLate[vm.ID] = lateListing{until: m.now().Add(f.For), old: *vm}
	}
}
