package standin

import "strconv"

// clusterJSON is a kubernetescluster. CPU and memory totals are numbers in strings, as CloudStack sends them.
type clusterJSON struct {
	ID                  string            `json:"id"`
	Name                string            `json:"name"`
	Description         string            `json:"description"`
	State               ClusterState      `json:"state"`
	ClusterType         string            `json:"clustertype"`
	ZoneID              string            `json:"zoneid"`
	ZoneName            string            `json:"zonename,omitempty"`
	OfferingID          string            `json:"serviceofferingid,omitempty"`
	OfferingName        string            `json:"serviceofferingname,omitempty"`
	WorkerOfferingID    string            `json:"workerofferingid,omitempty"`
	WorkerOfferingName  string            `json:"workerofferingname,omitempty"`
	ControlOfferingID   string            `json:"controlofferingid,omitempty"`
	ControlOfferingName string            `json:"controlofferingname,omitempty"`
	EtcdOfferingID      string            `json:"etcdofferingid,omitempty"`
	EtcdOfferingName    string            `json:"etcdofferingname,omitempty"`
	TemplateID          string            `json:"templateid,omitempty"`
	TemplateName        string            `json:"templatename,omitempty"`
	NetworkID           string            `json:"networkid"`
	NetworkName         string            `json:"associatednetworkname,omitempty"`
	VersionID           string            `json:"kubernetesversionid,omitempty"`
	VersionName         string            `json:"kubernetesversionname,omitempty"`
	Cores               string            `json:"cpunumber"`
	Memory              string            `json:"memory"`
	MasterNodes         int               `json:"masternodes"`
	ControlNodes        int               `json:"controlnodes"`
	EtcdNodes           int               `json:"etcdnodes"`
	EtcdIPs             map[string]string `json:"etcdips,omitempty"`
	Size                int               `json:"size"`
	Autoscaling         bool              `json:"autoscalingenabled"`
	MinSize             int               `json:"minsize,omitempty"`
	MaxSize             int               `json:"maxsize,omitempty"`
	CSI                 bool              `json:"csienabled"`
	Annotations         bool              `json:"hasannotations"`
	KeyPair             string            `json:"keypair,omitempty"`
	Endpoint            string            `json:"endpoint,omitempty"`
	ConsoleEndpoint     string            `json:"consoleendpoint,omitempty"`
	IPAddress           string            `json:"ipaddress,omitempty"`
	IPAddressID         string            `json:"ipaddressid,omitempty"`
	VMs                 []clusterVMJSON   `json:"virtualmachines"`
	ownerJSON
	Created string `json:"created"`
}

// clusterVMJSON is a VM inside a cluster: without offering, size or template.
type clusterVMJSON struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	DisplayName  string    `json:"displayname"`
	InstanceName string    `json:"instancename,omitempty"`
	State        VMState   `json:"state"`
	ZoneID       string    `json:"zoneid"`
	NICs         []nicJSON `json:"nic"`
	Affinity     []string  `json:"affinitygroup"`
	External     bool      `json:"isexternalnode"`
	Etcd         bool      `json:"isetcdnode"`
	Version      string    `json:"kubernetesnodeversion,omitempty"`
}

func (m *Model) clusterJSON(c *Cluster, admin bool) clusterJSON {
	out := clusterJSON{
		ID: c.ID, Name: c.Name, Description: c.Description, State: c.State, ClusterType: "CloudManaged",
		ZoneID: c.ZoneID, OfferingID: c.OfferingID, WorkerOfferingID: c.WorkerOfferingID,
		ControlOfferingID: c.ControlOfferingID, EtcdOfferingID: c.EtcdOfferingID,
		OfferingName: m.offeringName(c.OfferingID), WorkerOfferingName: m.offeringName(c.WorkerOfferingID),
		ControlOfferingName: m.offeringName(c.ControlOfferingID), EtcdOfferingName: m.offeringName(c.EtcdOfferingID),
		TemplateID: c.TemplateID, NetworkID: c.NetworkID, VersionID: c.VersionID,
		Cores: strconv.Itoa(c.Cores), Memory: strconv.Itoa(c.MemoryMiB),
		MasterNodes: c.ControlNodes, ControlNodes: c.ControlNodes, EtcdNodes: c.EtcdNodes, Size: c.Size,
		Autoscaling: c.Autoscaling, MinSize: c.MinSize, MaxSize: c.MaxSize, KeyPair: c.KeyPair,
		Endpoint: c.Endpoint, IPAddress: c.IPAddress, IPAddressID: c.IPAddressID,
		VMs: m.clusterVMs(c, admin), EtcdIPs: m.etcdIPs(c), ownerJSON: m.ownerJSON(c.Owner), Created: stamp(c.Created),
	}
	if c.External {
		out.ClusterType = "ExternalManaged"
	}
	m.nameCluster(&out, c)
	return out
}

// nameCluster adds the names of what the cluster refers to.
func (m *Model) nameCluster(out *clusterJSON, c *Cluster) {
	if z := m.zone(c.ZoneID); z != nil {
		out.ZoneName = z.Name
	}
	if t := m.template(c.TemplateID); t != nil {
		out.TemplateName = t.Name
	}
	if n := m.network(c.NetworkID); n != nil {
		out.NetworkName = n.Name
	}
	if v := m.version(c.VersionID); v != nil {
		out.VersionName = v.Name
	}
}

func (m *Model) offeringName(id string) string {
	if o := m.offering(id); o != nil {
		return o.Name
	}
	return ""
}

func (m *Model) clusterVMs(c *Cluster, admin bool) []clusterVMJSON {
	out := []clusterVMJSON{}
	for _, n := range c.Nodes {
		vm := m.vm(n.VMID)
		if vm == nil {
			continue
		}
		entry := clusterVMJSON{
			ID: vm.ID, Name: vm.Name, DisplayName: vm.DisplayName, State: vm.State, ZoneID: vm.ZoneID,
			NICs: m.nics(vm), Affinity: []string{}, External: n.External, Etcd: n.Role == RoleEtcd, Version: n.Version,
		}
		if admin {
			entry.InstanceName = vm.InstanceName
		}
		out = append(out, entry)
	}
	return out
}

// etcdIPs maps the public addresses that forward to etcd VMs.
func (m *Model) etcdIPs(c *Cluster) map[string]string {
	out := map[string]string{}
	for _, n := range c.Nodes {
		for _, r := range m.rules {
			if ip := m.address(r.PublicIPID); n.Role == RoleEtcd && r.VMID == n.VMID && ip != nil {
				out[ip.ID] = ip.Address
			}
		}
	}
	return out
}

func listKubernetesClusters(c *call) (any, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	if id := c.str("id"); id != "" && c.m.cluster(id) == nil {
		return nil, unknownID(c.command.lower(), "id", id)
	}
	var out []clusterJSON
	for _, k := range c.m.clusters {
		if scope.includes(k.Owner) && c.wantsCluster(k) {
			out = append(out, c.m.clusterJSON(k, c.account.Admin))
		}
	}
	return listReply(c, "kubernetescluster", out), nil
}

func (c *call) wantsCluster(k *Cluster) bool {
	kind := "CloudManaged"
	if k.External {
		kind = "ExternalManaged"
	}
	return matches(c.str("id"), k.ID) && matches(c.str("name"), k.Name) && contains(k.Name, c.str("keyword")) &&
		matches(c.str("state"), string(k.State)) && matches(c.str("clustertype"), kind)
}

func getKubernetesClusterConfig(c *call) (any, error) {
	k := c.m.cluster(c.str("id"))
	if k == nil {
		return nil, unknownID(c.command.lower(), "id", c.str("id"))
	}
	if err := c.mayUse(k.Owner, k.ID); err != nil {
		return nil, err
	}
	if k.Kubeconfig == "" {
		return nil, refusedf("Configuration for Kubernetes cluster : %s can not be found", k.Name)
	}
	return map[string]any{"clusterconfig": map[string]string{"id": k.ID, "name": k.Name, "configdata": k.Kubeconfig}}, nil
}

type versionJSON struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Semantic    string `json:"semanticversion"`
	MinCPUs     int    `json:"mincpunumber"`
	MinMemory   int    `json:"minmemory"`
	HA          bool   `json:"supportsha"`
	Autoscaling bool   `json:"supportsautoscaling"`
	State       string `json:"state"`
	ISOState    string `json:"isostate"`
}

func listKubernetesVersions(c *call) (any, error) {
	var out []versionJSON
	for _, v := range c.m.versions {
		if matches(c.str("id"), v.ID) && contains(v.Name, c.str("keyword")) {
			out = append(out, versionJSON{v.ID, v.Name, v.Semantic, v.MinCPUs, v.MinMemoryMiB, true, true, "Enabled", "Ready"})
		}
	}
	return listReply(c, "kubernetessupportedversion", out), nil
}
