package standin

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func contextDone(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// entries returns the objects of a list.
func (b *bench) entries(a Account, command, object string, pairs ...string) []map[string]any {
	b.t.Helper()
	list, _ := b.must(a, command, pairs...)[object].([]any)
	var out []map[string]any
	for _, e := range list {
		out = append(out, e.(map[string]any))
	}
	return out
}

func TestNetworkShapes(t *testing.T) {
	for name, tc := range map[string]struct {
		shape     Shape
		ports     []string // public ports of etcd, control, workers
		recordIP  string
		addressIP bool // there is a public address
		inVPC     bool
		endpoint  string
	}{
		"isolated": {Isolated, []string{"50000", "2222", "2223", "2299"}, "203.0.113.10", true, false, "https://203.0.113.10:6443/"},
		"VPC tier": {VPCTier, []string{"50000", "2222", "2223", "2299"}, "", true, true, "https://203.0.113.10:6443/"},
		"shared":   {Shared, nil, "", false, false, "https://10.1.1.11:6443/"},
		"routed":   {RoutedMode, nil, "", false, false, "https://10.1.1.11:6443/"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			owner := b.AddAccount(Account{Name: "other"})
			k := b.AddCluster(ClusterSpec{Owner: Owner{Account: "other"}, OfferingID: b.small.ID, Shape: tc.shape,
				Etcd: Nodes(1), Control: Nodes(1), Workers: []NodeSpec{{}, {SSHPort: 2299, External: true}}})
			var ports []string
			for _, r := range b.entries(owner, "listPortForwardingRules", "portforwardingrule", "networkid", k.NetworkID) {
				ports = append(ports, r["publicport"].(string))
				if r["privateport"] != "22" || r["state"] != "Active" || r["ipaddress"] != "203.0.113.10" {
					t.Errorf("rule = %v", r)
				}
			}
			if diff := cmp.Diff(tc.ports, ports); diff != "" {
				t.Errorf("public ports (-want +got):\n%s", diff)
			}
			addresses := b.entries(owner, "listPublicIpAddresses", "publicipaddress")
			if (len(addresses) == 1) != tc.addressIP {
				t.Errorf("addresses = %v", addresses)
			}
			network := b.entries(owner, "listNetworks", "network", "id", k.NetworkID)[0]
			if _, inVPC := network["vpcid"]; inVPC != tc.inVPC {
				t.Errorf("network = %v", network)
			}
			if k.IPAddress != tc.recordIP || k.Endpoint != tc.endpoint {
				t.Errorf("ipaddress = %q, endpoint = %q, want %q and %q", k.IPAddress, k.Endpoint, tc.recordIP, tc.endpoint)
			}
		})
	}
}

func TestClusterVMsInTheAnswer(t *testing.T) {
	b := newBench(t)
	k := b.AddCluster(ClusterSpec{Name: "mixed", Owner: Owner{Account: "owner"}, OfferingID: b.small.ID, EtcdOfferingID: b.big.ID,
		Etcd: Nodes(1), Control: Nodes(1), Workers: []NodeSpec{{Name: "by-hand", External: true}}, LoginUser: "core"})
	shown := b.entries(b.owner, "listKubernetesClusters", "kubernetescluster", "id", k.ID)[0]
	var got []any
	for _, e := range shown["virtualmachines"].([]any) {
		vm := e.(map[string]any)
		got = append(got, []any{strings.SplitN(vm["name"].(string), "-", 3)[1], vm["isetcdnode"], vm["isexternalnode"], vm["kubernetesnodeversion"]})
	}
	want := []any{[]any{"etcd", true, false, "1.36.3"}, []any{"control", false, false, "1.36.3"}, []any{"hand", false, true, "1.36.3"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("VMs (-want +got):\n%s", diff)
	}
	if ips := shown["etcdips"].(map[string]any); len(ips) != 1 {
		t.Errorf("etcdips = %v", ips)
	}
	etcd, _ := b.VM(k.Nodes[0].VMID)
	if etcd.OfferingID != b.big.ID || etcd.Details["controlNodeLoginUser"] != "core" || etcd.Type != "cksnode" {
		t.Errorf("etcd VM = %+v", etcd)
	}
}

func TestWhoSeesWhat(t *testing.T) {
	b := newBench(t)
	project := b.owner.Projects[0]
	b.AddCluster(ClusterSpec{Name: "team", Owner: Owner{Account: "owner", ProjectID: project}, OfferingID: b.small.ID, Control: Nodes(1)})
	for name, tc := range map[string]struct {
		account Account
		pairs   []string
		want    []string
	}{
		"owner":                {b.owner, nil, []string{"prod"}},
		"owner with listall":   {b.owner, []string{"listall", "true"}, []string{"prod"}},
		"owner in the project": {b.owner, []string{"projectid", project}, []string{"team"}},
		"owner in all":         {b.owner, []string{"projectid", "-1"}, []string{"team"}},
		"stranger":             {b.stranger, []string{"listall", "true"}, nil},
		"stranger in all":      {b.stranger, []string{"projectid", "-1"}, nil},
		"stranger by id":       {b.stranger, []string{"id", b.cluster.ID}, nil},
		"admin":                {b.admin, nil, nil},
		"admin with listall":   {b.admin, []string{"listall", "true"}, []string{"prod"}},
		"admin by id":          {b.admin, []string{"id", b.cluster.ID}, []string{"prod"}},
		"by name":              {b.owner, []string{"name", "prod"}, []string{"prod"}},
		"by part of the name":  {b.owner, []string{"keyword", "RO"}, []string{"prod"}},
		"by other state":       {b.owner, []string{"state", "Stopped"}, nil},
		"by type":              {b.owner, []string{"clustertype", "ExternalManaged"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, k := range b.entries(tc.account, "listKubernetesClusters", "kubernetescluster", tc.pairs...) {
				got = append(got, k["name"].(string))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHypervisorHostIsForAdmins(t *testing.T) {
	b := newBench(t)
	id := b.node(1).ID
	if _, ok := b.entries(b.owner, "listVirtualMachines", "virtualmachine", "id", id)[0]["hostid"]; ok {
		t.Errorf("an ordinary user sees hostid")
	}
	if got := b.entries(b.admin, "listVirtualMachines", "virtualmachine", "id", id)[0]["hostid"]; got != b.Defaults().HostID {
		t.Errorf("the admin sees hostid %v", got)
	}
}

func TestVMFilters(t *testing.T) {
	b := newBench(t)
	control, first, second := b.node(0), b.node(1), b.node(2)
	for name, tc := range map[string]struct {
		pairs []string
		want  []string
	}{
		"ids":         {[]string{"ids", first.ID + "," + second.ID}, []string{first.Name, second.Name}},
		"name's part": {[]string{"name", "-control-"}, []string{control.Name}},
		"keyword":     {[]string{"keyword", "PROD-NODE"}, []string{first.Name, second.Name}},
		"state":       {[]string{"state", "Stopped"}, nil},
		"network":     {[]string{"networkid", b.cluster.NetworkID, "id", second.ID}, []string{second.Name}},
		"no network":  {[]string{"networkid", "none"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, vm := range b.entries(b.owner, "listVirtualMachines", "virtualmachine", tc.pairs...) {
				got = append(got, vm["name"].(string))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("VMs (-want +got):\n%s", diff)
			}
		})
	}
	_, err := b.do(b.owner, "listVirtualMachines", "id", "none")
	wantCode(t, err, CodeParameter)
}

func TestOfferingsForAVM(t *testing.T) {
	b := newBench(t)
	for name, change := range map[string]func(*Offering){
		"less":     func(o *Offering) { o.MemoryMiB = 1024 },
		"static":   func(o *Offering) { o.DynamicScaling = false },
		"local":    func(o *Offering) { o.LocalStorage = true },
		"inactive": func(o *Offering) { o.Inactive = true },
		"system":   func(o *Offering) { o.System = true },
	} {
		o := FixedOffering(name, 4, 4096)
		change(&o)
		b.AddOffering(o)
	}
	var got []any
	for _, o := range b.entries(b.owner, "listServiceOfferings", "serviceoffering", "virtualmachineid", b.node(1).ID) {
		got = append(got, o["name"])
	}
	if diff := cmp.Diff([]any{"big"}, got); diff != "" {
		t.Errorf("offerings for the VM (-want +got):\n%s", diff)
	}
	all := b.entries(b.owner, "listServiceOfferings", "serviceoffering", "state", "all")
	if len(all) != 6 {
		t.Errorf("%d offerings in any state, want 6 without the system offering: %v", len(all), all)
	}
	_, err := b.do(b.stranger, "listServiceOfferings", "virtualmachineid", b.node(1).ID)
	wantCode(t, err, CodeAccount)
}

func TestCatalog(t *testing.T) {
	b := newBench(t)
	b.AddTemplate(Template{Name: "systemvm", System: true})
	if got := b.entries(b.owner, "listTemplates", "template", "templatefilter", "executable"); len(got) != 1 {
		t.Errorf("a user's templates = %v", got)
	}
	if got := b.entries(b.admin, "listTemplates", "template", "templatefilter", "all"); len(got) != 2 || got[1]["templatetype"] != "SYSTEM" {
		t.Errorf("an admin's templates = %v", got)
	}
	_, err := b.do(b.owner, "listTemplates", "templatefilter", "all")
	wantCode(t, err, CodeParameter)
	setting := b.entries(b.admin, "listConfigurations", "configuration", "name", SettingDynamicScaling, "zoneid", b.Defaults().ZoneID)
	if len(setting) != 1 || setting[0]["value"] != "true" || setting[0]["defaultvalue"] != "false" {
		t.Errorf("zone setting = %v", setting)
	}
	reader := b.AddAccount(Account{Name: "reader", Commands: []string{"listApis", "listZones"}})
	apis := b.entries(reader, "listApis", "api")
	if len(apis) != 2 || apis[1]["name"] != "listZones" || apis[1]["isasync"] != false {
		t.Errorf("the reader's commands = %v", apis)
	}
	if v := b.entries(b.owner, "listKubernetesSupportedVersions", "kubernetessupportedversion"); len(v) != 1 || v[0]["mincpunumber"] != 2.0 {
		t.Errorf("versions = %v", v)
	}
	b.UpdateCluster(b.cluster.ID, func(c *Cluster) { c.Kubeconfig = "" })
	_, err = b.do(b.owner, "getKubernetesClusterConfig", "id", b.cluster.ID)
	wantCode(t, err, CodeInternal)
}

func TestPortsChange(t *testing.T) {
	b := newBench(t)
	vm := b.node(1).ID
	if err := b.SetPortForwarding(vm, 2345); err != nil {
		t.Fatal(err)
	}
	if r := b.Rules(vm); len(r) != 1 || r[0].PublicPort != 2345 {
		t.Errorf("rules = %+v", r)
	}
	b.RemovePortForwarding(vm)
	if err := b.SetPortForwarding(vm, 2345); err == nil || len(b.Rules(vm)) != 0 {
		t.Errorf("error = %v, rules = %+v, want an error and none", err, b.Rules(vm))
	}
}

func TestSomebodyElseScales(t *testing.T) {
	b := newBench(t)
	id, err := b.ScaleVirtualMachine(t.Context(), "admin", b.node(1).ID, b.big.ID)
	if err != nil {
		t.Fatal(err)
	}
	if j := b.finished(id); j.Account != "admin" || j.Status != JobSucceeded {
		t.Errorf("job = %+v", j)
	}
	_, err = b.do(b.owner, "queryAsyncJobResult", "jobid", id)
	wantCode(t, err, CodeAccount)
	if got := b.must(b.owner, "listAsyncJobs"); len(got) != 0 {
		t.Errorf("the owner sees the admin's job: %v", got)
	}
}

func TestSameSeedSameIDs(t *testing.T) {
	a, b := newBench(t), newBench(t)
	if diff := cmp.Diff(a.cluster.Nodes, b.cluster.Nodes); diff != "" {
		t.Errorf("ids of two equal models differ:\n%s", diff)
	}
	c := newBench(t, func(c *Config) { c.Seed = 8 })
	if a.cluster.ID == c.cluster.ID {
		t.Errorf("another seed gave the same id")
	}
}
