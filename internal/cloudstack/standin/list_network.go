package standin

import "strconv"

// networkJSON is a network.
type networkJSON struct {
	ID           string              `json:"id"`
	Name         string              `json:"name"`
	DisplayText  string              `json:"displaytext"`
	Type         string              `json:"type"`
	State        string              `json:"state"`
	VPCID        string              `json:"vpcid,omitempty"`
	ACLID        string              `json:"aclid,omitempty"`
	Routed       string              `json:"ip4routing,omitempty"`
	CIDR         string              `json:"cidr,omitempty"`
	Gateway      string              `json:"gateway,omitempty"`
	Services     []map[string]string `json:"service"`
	ConserveMode bool                `json:"networkofferingconservemode"`
	ZoneID       string              `json:"zoneid"`
	ownerJSON
}

func (m *Model) networkJSON(n *Network) networkJSON {
	out := networkJSON{
		ID: n.ID, Name: n.Name, DisplayText: n.Name, Type: n.Type, State: "Implemented", VPCID: n.VPCID, ACLID: n.ACLID,
		CIDR: n.CIDR, Gateway: n.Gateway, Services: []map[string]string{}, ConserveMode: n.ConserveMode,
		ZoneID: n.ZoneID, ownerJSON: m.ownerJSON(n.Owner),
	}
	if n.Routed {
		out.Routed = "Static"
	}
	for _, s := range n.Services {
		out.Services = append(out.Services, map[string]string{"name": s})
	}
	return out
}

func listNetworks(c *call) (any, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	if id := c.str("id"); id != "" && c.m.network(id) == nil {
		return nil, unknownID(c.command.lower(), "id", id)
	}
	var out []networkJSON
	for _, n := range c.m.networks {
		if scope.includes(n.Owner) && matches(c.str("id"), n.ID) && matches(c.str("type"), n.Type) &&
			matches(c.str("zoneid"), n.ZoneID) && matches(c.str("vpcid"), n.VPCID) && contains(n.Name, c.str("keyword")) {
			out = append(out, c.m.networkJSON(n))
		}
	}
	return listReply(c, "network", out), nil
}

// addressJSON is a publicipaddress.
type addressJSON struct {
	ID          string `json:"id"`
	Address     string `json:"ipaddress"`
	SourceNAT   bool   `json:"issourcenat"`
	StaticNAT   bool   `json:"isstaticnat"`
	NetworkID   string `json:"associatednetworkid,omitempty"`
	NetworkName string `json:"associatednetworkname,omitempty"`
	VPCID       string `json:"vpcid,omitempty"`
	State       string `json:"state"`
	ZoneID      string `json:"zoneid"`
	ownerJSON
}

func listPublicIPAddresses(c *call) (any, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	if id := c.str("id"); id != "" && c.m.address(id) == nil {
		return nil, unknownID(c.command.lower(), "id", id)
	}
	var out []addressJSON
	for _, ip := range c.m.addresses {
		if scope.includes(ip.Owner) && c.wantsAddress(ip) {
			out = append(out, c.m.addressJSON(ip))
		}
	}
	return listReply(c, "publicipaddress", out), nil
}

func (c *call) wantsAddress(ip *PublicIP) bool {
	return matches(c.str("id"), ip.ID) && matches(c.str("ipaddress"), ip.Address) &&
		matches(c.str("associatednetworkid"), ip.NetworkID) && matches(c.str("vpcid"), ip.VPCID) &&
		matches(c.str("zoneid"), ip.ZoneID) && matches(c.str("issourcenat"), strconv.FormatBool(ip.SourceNAT)) &&
		contains(ip.Address, c.str("keyword"))
}

func (m *Model) addressJSON(ip *PublicIP) addressJSON {
	out := addressJSON{
		ID: ip.ID, Address: ip.Address, SourceNAT: ip.SourceNAT, NetworkID: ip.NetworkID, VPCID: ip.VPCID,
		State: "Allocated", ZoneID: ip.ZoneID, ownerJSON: m.ownerJSON(ip.Owner),
	}
	if n := m.network(ip.NetworkID); n != nil {
		out.NetworkName = n.Name
	}
	return out
}

// ruleJSON is a portforwardingrule, whose ports are numbers in strings.
type ruleJSON struct {
	ID             string `json:"id"`
	PrivatePort    string `json:"privateport"`
	PrivateEndPort string `json:"privateendport"`
	PublicPort     string `json:"publicport"`
	PublicEndPort  string `json:"publicendport"`
	Protocol       string `json:"protocol"`
	VMID           string `json:"virtualmachineid"`
	VMName         string `json:"virtualmachinename,omitempty"`
	GuestAddress   string `json:"vmguestip,omitempty"`
	Address        string `json:"ipaddress"`
	AddressID      string `json:"ipaddressid"`
	NetworkID      string `json:"networkid"`
	State          string `json:"state"`
	CIDRList       string `json:"cidrlist"`
}

func (m *Model) ruleJSON(r *PortForwardingRule) ruleJSON {
	private, public := strconv.Itoa(r.PrivatePort), strconv.Itoa(r.PublicPort)
	out := ruleJSON{
		ID: r.ID, PrivatePort: private, PrivateEndPort: private, PublicPort: public, PublicEndPort: public,
		Protocol: "tcp", VMID: r.VMID, AddressID: r.PublicIPID, NetworkID: r.NetworkID, State: r.State,
	}
	if ip := m.address(r.PublicIPID); ip != nil {
		out.Address = ip.Address
	}
	if vm := m.vm(r.VMID); vm != nil {
		out.VMName = vm.DisplayName
		if len(vm.NICs) > 0 {
			out.GuestAddress = vm.NICs[0].Address
		}
	}
	return out
}

// listPortForwardingRules has no parameter for a VM: CloudStack ignores one.
func listPortForwardingRules(c *call) (any, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	if id := c.str("ipaddressid"); id != "" && c.m.address(id) == nil {
		return nil, unknownID(c.command.lower(), "ipaddressid", id)
	}
	var out []ruleJSON
	for _, r := range c.m.rules {
		if scope.includes(r.Owner) && matches(c.str("id"), r.ID) &&
			matches(c.str("ipaddressid"), r.PublicIPID) && matches(c.str("networkid"), r.NetworkID) {
			out = append(out, c.m.ruleJSON(r))
		}
	}
	return listReply(c, "portforwardingrule", out), nil
}
