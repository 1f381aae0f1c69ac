package standin

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Shape is the kind of network that a cluster is in, which decides how its nodes are reached.
type Shape int

// The shapes of networks.
const (
	// Isolated: one source-NAT address; port 2222 and up are forwarded to port 22 of the nodes.
	Isolated Shape = iota
	// VPCTier: an address of its own that the cluster record doesn't show; forwarded ports as above.
	VPCTier
	// Shared: each node has an address that can be reached; no rules.
	Shared
	// RoutedMode: like Shared, in an isolated network whose addresses are routed.
	RoutedMode
)

// The ports that CloudStack gives to the nodes of a cluster.
const (
	firstSSHPort  = 2222
	firstEtcdPort = 50000
	apiPort       = 6443
	sshPort       = 22
)

// NodeSpec describes one node. Everything may be empty.
type NodeSpec struct {
	ID, Name string
	// OfferingID defaults to that of the record for the role.
	OfferingID string
	// Address is the one of its NIC.
	Address string
	// SSHPort is the public port that is forwarded to port 22; 0 takes CloudStack's number.
	SSHPort int
	HostID  string
	// NotScalable clears isdynamicallyscalable.
	NotScalable bool
	// Unprepared: the VM was started without room to grow, for example before CloudStack was upgraded, whatever its flag says now. A
	// SimHypervisor has it so; another one must be told.
	Unprepared bool
	// External marks a worker that was added by hand.
	External bool
}

// ClusterSpec describes a CKS cluster with its VMs, network, address and rules.
type ClusterSpec struct {
	ID, Name string
	Owner    Owner
	// State defaults to Running; in Created there are no VMs, in Stopped they are off.
	State ClusterState
	// ExternallyManaged makes the clustertype ExternalManaged.
	ExternallyManaged bool
	// OfferingID is the record's serviceofferingid; the others are the columns per role.
	OfferingID, WorkerOfferingID, ControlOfferingID, EtcdOfferingID string
	Control, Workers, Etcd                                          []NodeSpec
	Shape                                                           Shape
	// PublicAddress defaults to an address of documentation (RFC 5737).
	PublicAddress string
	// APIPort is the public port of the API server, default 6443.
	APIPort    int
	Kubeconfig string
	KeyPair    string
	TemplateID string
	VersionID  string
	// LoginUser is the VM detail controlNodeLoginUser; empty leaves it out.
	LoginUser string
}

// Nodes returns n empty node specs.
func Nodes(n int) []NodeSpec { return make([]NodeSpec, n) }

// AddCluster adds the cluster of the spec and returns its record.
func (m *Model) AddCluster(spec ClusterSpec) Cluster {
	m.complete(&spec)
	b := &clusterBuilder{m: m, spec: spec, record: spec.record(m)}
	b.addNetwork()
	b.addNodes(RoleEtcd, spec.Etcd) // CloudStack makes etcd VMs first, so they lead the list
	b.addNodes(RoleControl, spec.Control)
	b.addNodes(RoleWorker, spec.Workers)
	b.finishRecord()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clusters = append(m.clusters, b.record)
	out := *b.record
	out.Nodes = slices.Clone(out.Nodes)
	return out
}

func (m *Model) complete(spec *ClusterSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec.ID = m.idOr(spec.ID)
	spec.Name = orDefault(spec.Name, "k8s-"+spec.ID[:4])
	spec.State = ClusterState(orDefault(string(spec.State), string(ClusterRunning)))
	spec.TemplateID = orDefault(spec.TemplateID, m.defaults.TemplateID)
	spec.VersionID = orDefault(spec.VersionID, m.defaults.VersionID)
	spec.PublicAddress = orDefault(spec.PublicAddress, "203.0.113.10")
	spec.APIPort = cmp.Or(spec.APIPort, apiPort)
}

func (spec *ClusterSpec) record(m *Model) *Cluster {
	return &Cluster{
		ID: spec.ID, Name: spec.Name, Description: spec.Name, State: spec.State, External: spec.ExternallyManaged,
		OfferingID: spec.OfferingID, WorkerOfferingID: spec.WorkerOfferingID,
		ControlOfferingID: spec.ControlOfferingID, EtcdOfferingID: spec.EtcdOfferingID,
		Size: len(spec.Workers), ControlNodes: len(spec.Control), EtcdNodes: len(spec.Etcd),
		ZoneID: m.defaults.ZoneID, TemplateID: spec.TemplateID, VersionID: spec.VersionID,
		KeyPair: spec.KeyPair, Kubeconfig: spec.Kubeconfig, Owner: spec.Owner, Created: m.now(),
	}
}

// clusterBuilder builds one cluster.
type clusterBuilder struct {
	m        *Model
	spec     ClusterSpec
	record   *Cluster
	network  Network
	address  PublicIP
	count    int // nodes so far
	sshPorts int // forwarded ports so far, without those of etcd
}

// forwards reports whether nodes are reached through forwarded ports.
func (b *clusterBuilder) forwards() bool { return b.spec.Shape == Isolated || b.spec.Shape == VPCTier }

func (b *clusterBuilder) addNetwork() {
	n := Network{Name: b.spec.Name + "-network", Type: "Isolated", CIDR: "10.1.1.0/24", Gateway: "10.1.1.1", Owner: b.spec.Owner,
		Services: []string{"SourceNat", "PortForwarding", "Lb", "Firewall", "UserData", "Dhcp", "Dns"}}
	switch b.spec.Shape {
	case VPCTier:
		n.VPCID, n.ACLID = b.m.freshID(), b.m.freshID()
		n.Services = []string{"SourceNat", "PortForwarding", "Lb", "NetworkACL", "UserData", "Dhcp", "Dns"}
	case Shared:
		n.Type, n.Services = "Shared", []string{"UserData", "Dhcp", "Dns"}
	case RoutedMode:
		n.Routed, n.Services = true, []string{"Firewall", "UserData", "Dhcp", "Dns"}
	case Isolated:
	}
	b.network = b.m.AddNetwork(n)
	b.record.NetworkID = b.network.ID
	b.addAddress()
}

// addAddress acquires the public address. For a VPC tier it belongs to the VPC, and the record doesn't show it.
func (b *clusterBuilder) addAddress() {
	if !b.forwards() {
		return
	}
	ip := PublicIP{Address: b.spec.PublicAddress, NetworkID: b.network.ID, SourceNAT: true, Owner: b.spec.Owner}
	if b.spec.Shape == VPCTier {
		ip.SourceNAT, ip.VPCID = false, b.network.VPCID
	}
	b.address = b.m.AddPublicIP(ip)
	if b.spec.Shape == Isolated {
		b.record.IPAddress, b.record.IPAddressID = b.address.Address, b.address.ID
	}
}

func (m *Model) freshID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newID()
}

func (b *clusterBuilder) addNodes(role Role, specs []NodeSpec) {
	if b.spec.State == ClusterCreated {
		return
	}
	for i, spec := range specs {
		vm := b.m.AddVM(b.vm(role, i, spec))
		if spec.Unprepared {
			b.m.startUnprepared(vm.ID)
		}
		b.count++
		b.record.Nodes = append(b.record.Nodes, ClusterNode{VMID: vm.ID, Role: role, External: spec.External, Version: b.kubernetes()})
		b.forwardSSH(role, vm.ID, spec.SSHPort)
	}
}

func (b *clusterBuilder) vm(role Role, index int, spec NodeSpec) VM {
	vm := VM{
		ID: orDefault(spec.ID, b.m.freshID()), Name: spec.Name, OfferingID: orDefault(spec.OfferingID, b.record.column(role)),
		HostID: spec.HostID, TemplateID: b.spec.TemplateID, DynamicallyScalable: !spec.NotScalable,
		Type: "cksnode", KeyPair: b.spec.KeyPair, Owner: b.spec.Owner, Details: map[string]string{"cpuOvercommitRatio": "1.0", "memoryOvercommitRatio": "1.0"},
	}
	vm.Name = orDefault(vm.Name, vmName(b.spec.Name, role, index, vm.ID))
	if b.spec.State == ClusterStopped {
		vm.State = VMStopped
	}
	if b.spec.LoginUser != "" {
		vm.Details["controlNodeLoginUser"] = b.spec.LoginUser
	}
	vm.NICs = []NIC{{
		ID: b.m.freshID(), NetworkID: b.network.ID, MAC: fmt.Sprintf("02:00:00:00:00:%02x", b.count+1),
		Address: orDefault(spec.Address, fmt.Sprintf("10.1.1.%d", 10+b.count)),
	}}
	return vm
}

// vmName follows CloudStack's names for cluster VMs; the Kubernetes node name is the same.
func vmName(cluster string, role Role, index int, id string) string {
	hex := strings.ReplaceAll(id, "-", "")[:10]
	switch role {
	case RoleControl:
		return fmt.Sprintf("%s-control-%s", cluster, hex)
	case RoleEtcd:
		return fmt.Sprintf("%s-etcd-%d-%s", cluster, index+1, hex)
	}
	return fmt.Sprintf("%s-node-%s", cluster, hex)
}

func (b *clusterBuilder) kubernetes() string {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	if v := b.m.version(b.spec.VersionID); v != nil {
		return v.Semantic
	}
	return ""
}

// forwardSSH adds the rule for port 22 of the node, numbered as CloudStack does unless the spec says otherwise.
func (b *clusterBuilder) forwardSSH(role Role, vmID string, port int) {
	if !b.forwards() {
		return
	}
	number := firstSSHPort + b.sshPorts
	if role == RoleEtcd {
		number = firstEtcdPort + b.count - 1 - b.sshPorts
	} else {
		b.sshPorts++
	}
	b.m.AddPortForwarding(PortForwardingRule{
		PublicIPID: b.address.ID, PublicPort: cmp.Or(port, number), PrivatePort: sshPort, VMID: vmID, NetworkID: b.network.ID, Owner: b.spec.Owner,
	})
}

// finishRecord adds what depends on the nodes: the endpoint and the totals.
func (b *clusterBuilder) finishRecord() {
	host := b.spec.PublicAddress
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	for _, vm := range b.m.vmsOf(b.record, RoleControl) {
		if !b.forwards() {
			host = vm.NICs[0].Address
			break
		}
	}
	b.record.Endpoint = "https://" + net.JoinHostPort(host, strconv.Itoa(b.spec.APIPort)) + "/"
	for role, n := range map[Role]int{RoleControl: len(b.spec.Control), RoleWorker: len(b.spec.Workers), RoleEtcd: len(b.spec.Etcd)} {
		if o := b.m.offering(b.record.column(role)); o != nil {
			b.record.Cores += n * o.CPUs
			b.record.MemoryMiB += n * o.MemoryMiB
		}
	}
}
