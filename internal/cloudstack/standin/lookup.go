package standin

import (
	"maps"
	"slices"
)

// find returns the object of the list with that id, or nil.
func find[T any](list []*T, id string, idOf func(*T) string) *T {
	for _, o := range list {
		if idOf(o) == id {
			return o
		}
	}
	return nil
}

func (m *Model) vm(id string) *VM { return find(m.vms, id, func(v *VM) string { return v.ID }) }
func (m *Model) cluster(id string) *Cluster {
	return find(m.clusters, id, func(c *Cluster) string { return c.ID })
}
func (m *Model) offering(id string) *Offering {
	return find(m.offerings, id, func(o *Offering) string { return o.ID })
}
func (m *Model) template(id string) *Template {
	return find(m.templates, id, func(t *Template) string { return t.ID })
}
func (m *Model) version(id string) *KubernetesVersion {
	return find(m.versions, id, func(v *KubernetesVersion) string { return v.ID })
}
func (m *Model) host(id string) *Host { return find(m.hosts, id, func(h *Host) string { return h.ID }) }
func (m *Model) zone(id string) *Zone { return find(m.zones, id, func(z *Zone) string { return z.ID }) }
func (m *Model) network(id string) *Network {
	return find(m.networks, id, func(n *Network) string { return n.ID })
}
func (m *Model) address(id string) *PublicIP {
	return find(m.addresses, id, func(p *PublicIP) string { return p.ID })
}
func (m *Model) job(id string) *Job { return find(m.jobs, id, func(j *Job) string { return j.ID }) }
func (m *Model) account(name string) *Account {
	return find(m.accounts, name, func(a *Account) string { return a.Name })
}

// size is the CPU count, the speed of each (MHz) and the memory (MiB) of a VM.
type size struct{ CPUs, MHz, MemoryMiB int }

func (o *Offering) size() size { return size{o.CPUs, o.MHz, o.MemoryMiB} }

// sizeOf returns what CloudStack shows as the size of the VM.
func (m *Model) sizeOf(vm *VM) size {
	o := m.offering(vm.OfferingID)
	if o == nil {
		return size{}
	}
	s := o.size()
	if o.Customized {
		s = size{vm.CustomCPUs, vm.CustomMHz, vm.CustomMemoryMiB}
	}
	return s
}

// VM returns a copy of the VM as CloudStack has it, and whether there is one.
func (m *Model) VM(id string) (VM, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	vm := m.vm(id)
	if vm == nil {
		return VM{}, false
	}
	out := *vm
	out.Details, out.NICs = maps.Clone(vm.Details), slices.Clone(vm.NICs)
	return out, true
}

// Cluster returns a copy of the cluster record, and whether there is one.
func (m *Model) Cluster(id string) (Cluster, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cluster(id)
	if c == nil {
		return Cluster{}, false
	}
	out := *c
	out.Nodes = slices.Clone(c.Nodes)
	return out, true
}

// Job returns a copy of the job, also if its record was lost to the API, and whether there is one.
func (m *Model) Job(id string) (Job, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.job(id)
	if j == nil {
		return Job{}, false
	}
	return *j, true
}

// Jobs returns copies of all jobs, oldest first.
func (m *Model) Jobs() []Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Job, 0, len(m.jobs))
	for _, j := range m.jobs {
		out = append(out, *j)
	}
	return out
}

// Rules returns copies of the port forwarding rules of the VM.
func (m *Model) Rules(vmID string) []PortForwardingRule {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []PortForwardingRule
	for _, r := range m.rules {
		if r.VMID == vmID {
			out = append(out, *r)
		}
	}
	return out
}
