package standin

import "slices"

// vmJSON is a full virtual machine.
type vmJSON struct {
	ID                  string            `json:"id"`
	Name                string            `json:"name"`
	DisplayName         string            `json:"displayname"`
	InstanceName        string            `json:"instancename,omitempty"`
	State               VMState           `json:"state"`
	ZoneID              string            `json:"zoneid"`
	ZoneName            string            `json:"zonename,omitempty"`
	HostID              string            `json:"hostid,omitempty"`
	HostName            string            `json:"hostname,omitempty"`
	Hypervisor          string            `json:"hypervisor"`
	TemplateID          string            `json:"templateid,omitempty"`
	TemplateName        string            `json:"templatename,omitempty"`
	OfferingID          string            `json:"serviceofferingid"`
	OfferingName        string            `json:"serviceofferingname,omitempty"`
	CPUs                int               `json:"cpunumber"`
	MHz                 int               `json:"cpuspeed"`
	Memory              int               `json:"memory"` // MB, which CloudStack means as MiB
	DynamicallyScalable bool              `json:"isdynamicallyscalable"`
	Type                string            `json:"vmtype"`
	KeyPairs            string            `json:"keypairs,omitempty"`
	Details             map[string]string `json:"details,omitempty"`
	NICs                []nicJSON         `json:"nic"`
	Affinity            []string          `json:"affinitygroup"`
	JobID               string            `json:"jobid,omitempty"`
	JobStatus           *JobStatus        `json:"jobstatus,omitempty"`
	ownerJSON
	Created string `json:"created"`
}

type nicJSON struct {
	ID          string `json:"id"`
	NetworkID   string `json:"networkid"`
	NetworkName string `json:"networkname,omitempty"`
	Address     string `json:"ipaddress,omitempty"`
	Netmask     string `json:"netmask,omitempty"`
	Gateway     string `json:"gateway,omitempty"`
	MAC         string `json:"macaddress,omitempty"`
	Default     bool   `json:"isdefault"`
	Type        string `json:"type,omitempty"`
	TrafficType string `json:"traffictype"`
}

// ownerJSON says who an object belongs to: an account, or instead of it a project.
type ownerJSON struct {
	Account    string `json:"account,omitempty"`
	ProjectID  string `json:"projectid,omitempty"`
	Project    string `json:"project,omitempty"`
	DomainID   string `json:"domainid"`
	Domain     string `json:"domain"`
	DomainPath string `json:"domainpath"`
}

func (m *Model) ownerJSON(o Owner) ownerJSON {
	out := ownerJSON{Account: o.Account, DomainID: m.defaults.DomainID, Domain: "ROOT", DomainPath: "ROOT"}
	if o.ProjectID != "" {
		out.Account, out.ProjectID, out.Project = "", o.ProjectID, "project-"+o.ProjectID
	}
	return out
}

// vmJSON shows a VM. Where it runs is for admins only.
func (m *Model) vmJSON(stored *VM, admin bool) vmJSON {
	vm := m.listed(stored)
	s := m.sizeOf(vm)
	out := vmJSON{
		ID: vm.ID, Name: vm.Name, DisplayName: vm.DisplayName, State: vm.State, ZoneID: vm.ZoneID, Hypervisor: orDefault(vm.Hypervisor, "KVM"),
		TemplateID: vm.TemplateID, OfferingID: vm.OfferingID, CPUs: s.CPUs, MHz: s.MHz, Memory: s.MemoryMiB,
		DynamicallyScalable: vm.DynamicallyScalable, Type: vm.Type, KeyPairs: vm.KeyPair, Details: vm.Details,
		NICs: m.nics(vm), Affinity: []string{}, ownerJSON: m.ownerJSON(vm.Owner), Created: stamp(vm.Created),
	}
	m.nameVM(&out, vm, admin)
	if j := m.pendingJob(vm.ID); j != nil {
		status := j.Status
		out.JobID, out.JobStatus = j.ID, &status
	}
	return out
}

// nameVM adds the names of what the VM refers to.
func (m *Model) nameVM(out *vmJSON, vm *VM, admin bool) {
	if z := m.zone(vm.ZoneID); z != nil {
		out.ZoneName = z.Name
	}
	if t := m.template(vm.TemplateID); t != nil {
		out.TemplateName = t.Name
	}
	if o := m.offering(vm.OfferingID); o != nil {
		out.OfferingName = o.Name
	}
	if admin {
		out.InstanceName, out.HostID = vm.InstanceName, vm.HostID
		if h := m.host(vm.HostID); h != nil {
			out.HostName = h.Name
		}
	}
}

// listed returns the VM as lists show it, which a fault may keep behind the truth.
func (m *Model) listed(vm *VM) *VM {
	if late, ok := m.listedLate[vm.ID]; ok && m.now().Before(late.until) {
		return &late.old
	}
	return vm
}

func (m *Model) nics(vm *VM) []nicJSON {
	out := []nicJSON{}
	for i, n := range vm.NICs {
		nic := nicJSON{ID: n.ID, NetworkID: n.NetworkID, Address: n.Address, MAC: n.MAC, Default: i == 0, TrafficType: "Guest"}
		if net := m.network(n.NetworkID); net != nil {
			nic.NetworkName, nic.Gateway, nic.Type = net.Name, net.Gateway, net.Type
		}
		out = append(out, nic)
	}
	return out
}

func listVirtualMachines(c *call) (any, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	if id := c.str("id"); id != "" && c.m.vm(id) == nil {
		return nil, unknownID(c.command.lower(), "id", id)
	}
	var out []vmJSON
	for _, vm := range c.m.vms {
		if scope.includes(vm.Owner) && c.wantsVM(vm) {
			out = append(out, c.m.vmJSON(vm, c.account.Admin))
		}
	}
	return listReply(c, "virtualmachine", out), nil
}

func (c *call) wantsVM(vm *VM) bool {
	if ids := c.list("ids"); ids != nil && !slices.Contains(ids, vm.ID) {
		return false
	}
	inNetwork := func(n NIC) bool { return matches(c.str("networkid"), n.NetworkID) }
	return matches(c.str("id"), vm.ID) && contains(vm.Name, c.str("name")) &&
		(contains(vm.Name, c.str("keyword")) || contains(vm.DisplayName, c.str("keyword"))) &&
		matches(c.str("state"), string(vm.State)) && matches(c.str("zoneid"), vm.ZoneID) &&
		matches(c.str("hostid"), vm.HostID) && (c.str("networkid") == "" || slices.ContainsFunc(vm.NICs, inNetwork))
}
