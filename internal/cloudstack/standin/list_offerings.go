package standin

// offeringJSON is a serviceoffering.
type offeringJSON struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	DisplayText    string `json:"displaytext"`
	CPUs           *int   `json:"cpunumber,omitempty"` // absent for customized offerings
	MHz            *int   `json:"cpuspeed,omitempty"`
	Memory         *int   `json:"memory,omitempty"`
	LimitCPUUse    bool   `json:"limitcpuuse"`
	OfferHA        bool   `json:"offerha"`
	DynamicScaling bool   `json:"dynamicscalingenabled"`
	Customized     bool   `json:"iscustomized"`
	System         bool   `json:"issystem"`
	HostTags       string `json:"hosttags,omitempty"`
	StorageTags    string `json:"storagetags,omitempty"`
	StorageType    string `json:"storagetype"`
	DiskStrict     bool   `json:"diskofferingstrictness"`
	EncryptRoot    bool   `json:"encryptroot"`
	State          string `json:"state"`
	Provisioning   string `json:"provisioningtype"`
	Created        string `json:"created"`
}

func (o *Offering) json() offeringJSON {
	out := offeringJSON{
		ID: o.ID, Name: o.Name, DisplayText: o.Name, LimitCPUUse: o.LimitCPUUse, DynamicScaling: o.DynamicScaling,
		Customized: o.Customized, System: o.System, HostTags: o.HostTags, StorageTags: o.StorageTags, StorageType: "shared",
		DiskStrict: o.DiskStrict, EncryptRoot: o.EncryptRoot, State: o.state(), Provisioning: "thin", Created: stamp(o.Created),
	}
	if !o.Customized {
		s := o.size()
		out.CPUs, out.MHz, out.Memory = &s.CPUs, &s.MHz, &s.MemoryMiB
	}
	if o.LocalStorage {
		out.StorageType = "local"
	}
	return out
}

func (o *Offering) state() string {
	if o.Inactive {
		return "Inactive"
	}
	return "Active"
}

// listServiceOfferings shows the active offerings, with virtualmachineid only those that the VM could change to.
func listServiceOfferings(c *call) (any, error) {
	var vm *VM
	if id := c.str("virtualmachineid"); id != "" {
		if vm = c.m.vm(id); vm == nil {
			return nil, unknownID(c.command.lower(), "virtualmachineid", id)
		}
		if err := c.mayUse(vm.Owner, vm.ID); err != nil {
			return nil, err
		}
	}
	var out []offeringJSON
	for _, o := range c.m.offerings {
		if c.wantsOffering(o) && (vm == nil || c.m.suits(o, vm)) {
			out = append(out, o.json())
		}
	}
	return listReply(c, "serviceoffering", out), nil
}

func (c *call) wantsOffering(o *Offering) bool {
	state := orDefault(c.str("state"), "Active")
	return matches(c.str("id"), o.ID) && matches(c.str("name"), o.Name) && contains(o.Name, c.str("keyword")) &&
		(state == "all" || state == o.state()) && (!o.System || c.account.Admin && c.bool("issystem"))
}

// suits reports whether CloudStack would offer the change: same storage, tags kept, and for a running VM nothing smaller.
func (m *Model) suits(o *Offering, vm *VM) bool {
	old := m.offering(vm.OfferingID)
	if old == nil || o.ID == old.ID || o.LocalStorage != old.LocalStorage || !includesTags(o.StorageTags, old.StorageTags) {
		return false
	}
	if vm.State != VMRunning {
		return true
	}
	have, get := m.sizeOf(vm), o.size()
	grows := o.Customized || get.CPUs >= have.CPUs && get.MHz >= have.MHz && get.MemoryMiB >= have.MemoryMiB
	return grows && o.DynamicScaling == old.DynamicScaling
}
