package standin

import "time"

// Owner is who an object belongs to: an account, or a project when ProjectID is set.
type Owner struct {
	Account   string
	ProjectID string
}

// Account is one user of the API. Names identify accounts in this model.
type Account struct {
	Name      string
	ID        string
	UserID    string
	APIKey    string
	SecretKey string
	// Admin sees every account's objects (with listall, or by id) and may use the admin commands.
	Admin bool
	// Commands are the commands that the role of the account allows; nil means all (admin commands only for admins).
	Commands []string
	// Projects are the ids of the projects that the account is a member of.
	Projects []string
}

// Zone is a CloudStack zone. Its settings (for example enable.dynamic.scale.vm) are set with Model.Set.
type Zone struct{ ID, Name string }

// Host is a hypervisor host. VCPUs and MemoryMiB are what it can give to VMs; 0 means without limit.
type Host struct {
	ID, Name  string
	VCPUs     int
	MemoryMiB int
	// Tags are the host tags, separated by commas. An offering's must all be among them.
	Tags string
}

// Offering is a compute offering.
type Offering struct {
	ID, Name       string
	CPUs           int
	MHz            int
	MemoryMiB      int
	DynamicScaling bool
	Customized     bool // CPU and memory are chosen per VM
	System         bool
	LimitCPUUse    bool
	HostTags       string
	StorageTags    string
	LocalStorage   bool
	Inactive       bool
	DiskStrict     bool
	EncryptRoot    bool
	Created        time.Time
}

// Template is a VM template.
type Template struct {
	ID, Name            string
	DynamicallyScalable bool
	ForCKS              bool
	System              bool // of type SYSTEM: ordinary users don't see it
	OSType              string
}

// KubernetesVersion is a supported Kubernetes version.
type KubernetesVersion struct {
	ID, Name, Semantic string
	MinCPUs            int
	MinMemoryMiB       int
}

// Network is a guest network.
type Network struct {
	ID, Name     string
	Type         string // Isolated, Shared or L2
	VPCID        string
	ACLID        string
	Routed       bool
	CIDR         string
	Gateway      string
	Services     []string
	ConserveMode bool
	ZoneID       string
	Owner        Owner
}

// PublicIP is an acquired public address.
type PublicIP struct {
	ID, Address string
	SourceNAT   bool
	NetworkID   string
	VPCID       string
	ZoneID      string
	Owner       Owner
}

// PortForwardingRule forwards PublicPort of a public address to PrivatePort of a VM.
type PortForwardingRule struct {
	ID          string
	PublicIPID  string
	PublicPort  int
	PrivatePort int
	VMID        string
	NetworkID   string
	State       string // Active, Add, Revoke; empty means Active
	Owner       Owner
}

// NIC is a network card of a VM.
type NIC struct {
	ID, NetworkID, Address, MAC string
}

// VMState is the state of a VM in CloudStack.
type VMState string

// The VM states that this model uses.
const (
	VMStarting VMState = "Starting"
	VMRunning  VMState = "Running"
	VMStopping VMState = "Stopping"
	VMStopped  VMState = "Stopped"
)

// VM is an instance in CloudStack.
type VM struct {
	ID, Name, DisplayName, InstanceName string
	State                               VMState
	ZoneID, HostID                      string
	LastHostID                          string // where a stopped VM ran last, and is started first
	TemplateID, OfferingID              string
	// CustomCPUs, CustomMHz and CustomMemoryMiB hold the size where the offering is customized.
	CustomCPUs, CustomMHz, CustomMemoryMiB int
	DynamicallyScalable                    bool
	// Hypervisor is KVM where it is empty. It is shown only: this model knows KVM's rules alone.
	Hypervisor string
	// Type is cksnode for nodes of a CKS cluster.
	Type    string
	KeyPair string
	Details map[string]string
	NICs    []NIC
	Owner   Owner
	Created time.Time
}

// Role is the job of a VM in a cluster.
type Role string

// The roles of cluster VMs, in the order in which CloudStack scales them.
const (
	RoleControl Role = "control"
	RoleEtcd    Role = "etcd"
	RoleWorker  Role = "worker"
)

// ClusterNode maps a VM into a cluster.
type ClusterNode struct {
	VMID     string
	Role     Role
	External bool
	Version  string // kubernetesnodeversion
}

// ClusterState is the state of a CKS cluster.
type ClusterState string

// The cluster states that this model uses.
const (
	ClusterCreated        ClusterState = "Created"
	ClusterStarting       ClusterState = "Starting"
	ClusterRunning        ClusterState = "Running"
	ClusterStopping       ClusterState = "Stopping"
	ClusterStopped        ClusterState = "Stopped"
	ClusterScaling        ClusterState = "Scaling"
	ClusterScalingStopped ClusterState = "ScalingStoppedCluster"
	ClusterAlert          ClusterState = "Alert"
)

// Cluster is the record of a CKS cluster. The offering columns say what new nodes would get; "" is NULL.
type Cluster struct {
	ID, Name, Description               string
	State                               ClusterState
	External                            bool // clustertype ExternalManaged
	OfferingID                          string
	WorkerOfferingID, ControlOfferingID string
	EtcdOfferingID                      string
	Cores, MemoryMiB                    int // totals of the record, which an offering scale leaves as they were
	Size, ControlNodes, EtcdNodes       int // Size counts workers
	Autoscaling                         bool
	MinSize, MaxSize                    int
	Nodes                               []ClusterNode
	ZoneID, NetworkID, TemplateID       string
	VersionID                           string
	Endpoint                            string
	IPAddress, IPAddressID              string // empty for VPC tiers
	KeyPair                             string
	Kubeconfig                          string // "" makes getKubernetesClusterConfig fail
	Owner                               Owner
	Created                             time.Time
}

// column returns the offering id of the record for new nodes of the role.
func (c *Cluster) column(r Role) string {
	id := map[Role]string{RoleControl: c.ControlOfferingID, RoleEtcd: c.EtcdOfferingID, RoleWorker: c.WorkerOfferingID}[r]
	if id == "" {
		return c.OfferingID
	}
	return id
}

func (c *Cluster) setColumn(r Role, offeringID string) {
	switch r {
	case RoleControl:
		c.ControlOfferingID = offeringID
	case RoleEtcd:
		c.EtcdOfferingID = offeringID
	case RoleWorker:
		c.WorkerOfferingID = offeringID
	}
}

// recorded returns how many VMs of the role the record counts.
func (c *Cluster) recorded(r Role) int {
	return map[Role]int{RoleControl: c.ControlNodes, RoleEtcd: c.EtcdNodes, RoleWorker: c.Size}[r]
}
