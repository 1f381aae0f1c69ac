package standin

import "strings"

// AddAccount adds an account; id and keys are made up where they are empty.
func (m *Model) AddAccount(a Account) Account {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.ID, a.UserID = m.idOr(a.ID), m.idOr(a.UserID)
	if a.APIKey == "" {
		a.APIKey = "key-" + m.newID()
	}
	if a.SecretKey == "" {
		a.SecretKey = "secret-" + m.newID()
	}
	m.accounts = append(m.accounts, &a)
	return a
}

// AddZone adds a zone.
func (m *Model) AddZone(z Zone) Zone {
	m.mu.Lock()
	defer m.mu.Unlock()
	z.ID = m.idOr(z.ID)
	m.zones = append(m.zones, &z)
	return z
}

// AddHost adds a hypervisor host.
func (m *Model) AddHost(h Host) Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.ID = m.idOr(h.ID)
	m.hosts = append(m.hosts, &h)
	return h
}

// AddTemplate adds a template.
func (m *Model) AddTemplate(t Template) Template {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.ID = m.idOr(t.ID)
	m.templates = append(m.templates, &t)
	return t
}

// AddKubernetesVersion adds a supported Kubernetes version.
func (m *Model) AddKubernetesVersion(v KubernetesVersion) KubernetesVersion {
	m.mu.Lock()
	defer m.mu.Unlock()
	v.ID = m.idOr(v.ID)
	m.versions = append(m.versions, &v)
	return v
}

// AddOffering adds a compute offering. See FixedOffering for the usual kind.
func (m *Model) AddOffering(o Offering) Offering {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.ID = m.idOr(o.ID)
	if o.Created.IsZero() {
		o.Created = m.now()
	}
	m.offerings = append(m.offerings, &o)
	return o
}

// FixedOffering describes a fixed offering with dynamic scaling enabled: cpus at 2000 MHz and mib MiB of memory.
func FixedOffering(name string, cpus, mib int) Offering {
	return Offering{Name: name, CPUs: cpus, MHz: 2000, MemoryMiB: mib, DynamicScaling: true}
}

// AddNetwork adds a guest network.
func (m *Model) AddNetwork(n Network) Network {
	m.mu.Lock()
	defer m.mu.Unlock()
	n.ID = m.idOr(n.ID)
	n.ZoneID = orDefault(n.ZoneID, m.defaults.ZoneID)
	m.networks = append(m.networks, &n)
	return n
}

// AddPublicIP adds an acquired public address.
func (m *Model) AddPublicIP(ip PublicIP) PublicIP {
	m.mu.Lock()
	defer m.mu.Unlock()
	ip.ID = m.idOr(ip.ID)
	ip.ZoneID = orDefault(ip.ZoneID, m.defaults.ZoneID)
	m.addresses = append(m.addresses, &ip)
	return ip
}

// AddPortForwarding adds a port forwarding rule.
func (m *Model) AddPortForwarding(r PortForwardingRule) PortForwardingRule {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.ID = m.idOr(r.ID)
	r.State = orDefault(r.State, "Active")
	m.rules = append(m.rules, &r)
	return r
}

// AddVM adds a VM. Empty references are filled from Defaults; on a SimHypervisor a running VM is booted at the size of
// its offering.
func (m *Model) AddVM(vm VM) VM {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.completeVM(&vm)
	m.vms = append(m.vms, &vm)
	if sim := m.Sim(); sim != nil && vm.State == VMRunning {
		_ = sim.Start(m.ctx, vm.ID, m.boot(&vm)) // it fails only where a test says so, and nobody knows the VM's id yet
	}
	return vm
}

func (m *Model) completeVM(vm *VM) {
	vm.ID = m.idOr(vm.ID)
	vm.DisplayName = orDefault(vm.DisplayName, vm.Name)
	vm.InstanceName = orDefault(vm.InstanceName, "i-2-"+vm.ID[:4]+"-VM")
	vm.State = VMState(orDefault(string(vm.State), string(VMRunning)))
	vm.ZoneID = orDefault(vm.ZoneID, m.defaults.ZoneID)
	vm.TemplateID = orDefault(vm.TemplateID, m.defaults.TemplateID)
	if vm.State == VMRunning {
		vm.HostID = orDefault(vm.HostID, m.defaults.HostID)
	}
	vm.Type = orDefault(vm.Type, "User")
	if vm.Created.IsZero() {
		vm.Created = m.now()
	}
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// contains reports whether s holds part, whatever the case, as CloudStack's database compares.
func contains(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

// startUnprepared boots a VM that runs on a SimHypervisor anew, without room to grow.
func (m *Model) startUnprepared(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sim, vm := m.Sim(), m.vm(id); sim != nil && vm.State == VMRunning {
		boot := m.boot(vm)
		boot.Scalable = false
		_ = sim.Start(m.ctx, id, boot) // nobody has scripted a failure for a VM that is new
	}
}
