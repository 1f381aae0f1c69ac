package standin

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cs "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/google/go-cmp/cmp"
)

func TestSDKReadsCluster(t *testing.T) {
	b := newBench(t)
	client := b.sdk(b.owner)
	list, err := client.Kubernetes.ListKubernetesClusters(client.Kubernetes.NewListKubernetesClustersParams())
	if err != nil {
		t.Fatal(err)
	}
	if list.Count != 1 || len(list.KubernetesClusters) != 1 {
		t.Fatalf("count = %d, clusters = %d, want 1 and 1", list.Count, len(list.KubernetesClusters))
	}
	k := list.KubernetesClusters[0]
	got := []any{k.Name, k.State, k.Clustertype, k.Cpunumber, k.Memory, k.Size, k.Controlnodes, k.Endpoint, k.Ipaddress, k.Serviceofferingname, len(k.Virtualmachines)}
	want := []any{"prod", "Running", "CloudManaged", "6", "6144", int64(2), int64(1), "https://203.0.113.10:6443/", "203.0.113.10", "small", 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if vm := k.Virtualmachines[0]; vm.Serviceofferingid != "" || vm.Memory != 0 || vm.Nic[0].Ipaddress != "10.1.1.10" {
		t.Errorf("the VM inside the cluster is not thin: %+v", vm)
	}
}

func TestSDKReadsEverythingElse(t *testing.T) {
	b := newBench(t)
	client, admin := b.sdk(b.owner), b.sdk(b.admin)
	vms, err := client.VirtualMachine.ListVirtualMachines(client.VirtualMachine.NewListVirtualMachinesParams())
	if err != nil || vms.Count != 3 || vms.VirtualMachines[0].Memory != 2048 || vms.VirtualMachines[0].Cpunumber != 2 {
		t.Errorf("VMs = %+v, %v", vms, err)
	}
	ports, err := client.Firewall.ListPortForwardingRules(client.Firewall.NewListPortForwardingRulesParams())
	if err != nil || ports.Count != 3 || ports.PortForwardingRules[2].Publicport != "2224" || ports.PortForwardingRules[2].Privateport != "22" {
		t.Errorf("rules = %+v, %v", ports, err)
	}
	offerings, err := client.ServiceOffering.ListServiceOfferings(client.ServiceOffering.NewListServiceOfferingsParams())
	if err != nil || offerings.Count != 2 || !offerings.ServiceOfferings[1].Dynamicscalingenabled || offerings.ServiceOfferings[1].Memory != 4096 {
		t.Errorf("offerings = %+v, %v", offerings, err)
	}
	config, err := client.Kubernetes.GetKubernetesClusterConfig(func() *cs.GetKubernetesClusterConfigParams {
		p := client.Kubernetes.NewGetKubernetesClusterConfigParams()
		p.SetId(b.cluster.ID)
		return p
	}())
	if err != nil || config.Configdata != b.cluster.Kubeconfig {
		t.Errorf("kubeconfig = %+v, %v", config, err)
	}
	networks, err := client.Network.ListNetworks(client.Network.NewListNetworksParams())
	if err != nil || networks.Count != 1 || networks.Networks[0].Type != "Isolated" {
		t.Errorf("networks = %+v, %v", networks, err)
	}
	addresses, err := client.Address.ListPublicIpAddresses(client.Address.NewListPublicIpAddressesParams())
	if err != nil || addresses.Count != 1 || !addresses.PublicIpAddresses[0].Issourcenat {
		t.Errorf("addresses = %+v, %v", addresses, err)
	}
	templates, err := client.Template.ListTemplates(client.Template.NewListTemplatesParams("executable"))
	if err != nil || templates.Count != 1 || !templates.Templates[0].Isdynamicallyscalable {
		t.Errorf("templates = %+v, %v", templates, err)
	}
	zones, err := client.Zone.ListZones(client.Zone.NewListZonesParams())
	if err != nil || zones.Count != 1 || zones.Zones[0].Id != b.Defaults().ZoneID {
		t.Errorf("zones = %+v, %v", zones, err)
	}
	capabilities, err := client.Configuration.ListCapabilities(client.Configuration.NewListCapabilitiesParams())
	if err != nil || capabilities.Capabilities.Cloudstackversion != "4.23.0.0" || !capabilities.Capabilities.Dynamicscalingenabled {
		t.Errorf("capabilities = %+v, %v", capabilities, err)
	}
	settings, err := admin.Configuration.ListConfigurations(admin.Configuration.NewListConfigurationsParams())
	if err != nil || settings.Count != len(knownSettings()) {
		t.Errorf("settings = %+v, %v", settings, err)
	}
	apis, err := client.APIDiscovery.ListApis(client.APIDiscovery.NewListApisParams())
	if err != nil || apis.Count == 0 {
		t.Errorf("apis = %+v, %v", apis, err)
	}
}

func TestSDKPagesAndEmptyLists(t *testing.T) {
	b := newBench(t)
	client := b.sdk(b.owner)
	p := client.VirtualMachine.NewListVirtualMachinesParams()
	p.SetPagesize(2)
	var sizes []int
	for page := range 3 {
		p.SetPage(page + 1)
		r, err := client.VirtualMachine.ListVirtualMachines(p)
		if err != nil || r.Count != 3 {
			t.Fatalf("page %d: count = %+v, %v, want the total of 3", page+1, r, err)
		}
		sizes = append(sizes, len(r.VirtualMachines))
	}
	if diff := cmp.Diff([]int{2, 1, 0}, sizes); diff != "" {
		t.Errorf("page sizes (-want +got):\n%s", diff)
	}
	none := b.sdk(b.stranger)
	empty, err := none.Kubernetes.ListKubernetesClusters(none.Kubernetes.NewListKubernetesClustersParams())
	if err != nil || empty.Count != 0 || len(empty.KubernetesClusters) != 0 {
		t.Errorf("a stranger's clusters = %+v, %v, want none", empty, err)
	}
}

func TestSDKErrors(t *testing.T) {
	b := newBench(t)
	reader := b.AddAccount(Account{Name: "reader", Commands: []string{"listZones"}})
	forged := b.owner
	forged.SecretKey = "wrong"
	for name, tc := range map[string]struct {
		account Account
		id      string
		want    string
	}{
		"wrong secret": {forged, b.node(1).ID, "CloudStack API error 401 (CSExceptionErrorCode: 0): unable to verify user credentials and/or request signature"},
		"not allowed":  {reader, b.node(1).ID, "CloudStack API error 432"},
		"unknown id":   {b.owner, "no-such-vm", "CloudStack API error 431"},
		"not theirs":   {b.stranger, b.node(1).ID, "CloudStack API error 531"},
	} {
		t.Run(name, func(t *testing.T) {
			client := b.sdk(tc.account)
			_, err := client.VirtualMachine.ScaleVirtualMachine(client.VirtualMachine.NewScaleVirtualMachineParams(tc.id, b.big.ID))
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
	if len(b.Jobs()) != 0 {
		t.Errorf("refused calls left jobs: %+v", b.Jobs())
	}
}

func TestSDKExpiredAndGetOnly(t *testing.T) {
	b := newBench(t)
	client := b.sdk(b.owner)
	client.HTTPGETOnly = true
	_, err := client.VirtualMachine.ScaleVirtualMachine(client.VirtualMachine.NewScaleVirtualMachineParams(b.node(1).ID, b.big.ID))
	if err == nil || !strings.Contains(err.Error(), "error 405") {
		t.Errorf("GET for a change = %v, want 405", err)
	}
	b.clock.Advance(16 * time.Minute) // the SDK's calls expire after 15
	_, err = client.Zone.ListZones(client.Zone.NewListZonesParams())
	if err == nil || !strings.Contains(err.Error(), "error 401") {
		t.Errorf("an expired call = %v, want 401", err)
	}
}

func TestSDKJobOverHTTP(t *testing.T) {
	b := newBench(t)
	client := b.sdk(b.owner)
	vm := b.node(1)
	started, err := client.VirtualMachine.ScaleVirtualMachine(client.VirtualMachine.NewScaleVirtualMachineParams(vm.ID, b.big.ID))
	if err != nil {
		t.Fatal(err)
	}
	query := client.Asyncjob.NewQueryAsyncJobResultParams(started.JobID)
	job, err := client.Asyncjob.QueryAsyncJobResult(query)
	if err != nil || job.Jobstatus != 0 || job.Jobresult != nil || job.Jobinstanceid != vm.ID {
		t.Fatalf("the new job = %+v, %v, want it pending without a result", job, err)
	}
	shown, _, err := client.VirtualMachine.GetVirtualMachineByID(vm.ID)
	if err != nil || shown.JobID != started.JobID {
		t.Errorf("the VM shows job %q, %v, want %q", shown.JobID, err, started.JobID)
	}
	b.clock.Advance(time.Minute)
	job, err = client.Asyncjob.QueryAsyncJobResult(query)
	if err != nil || job.Jobstatus != 1 || !strings.Contains(string(job.Jobresult), `"virtualmachine"`) || job.Completed == "" {
		t.Errorf("the job after its end = %+v, %v", job, err)
	}
	jobs, err := client.Asyncjob.ListAsyncJobs(client.Asyncjob.NewListAsyncJobsParams())
	if err != nil || jobs.Count != 1 || !strings.HasSuffix(jobs.AsyncJobs[0].Cmd, "ScaleVMCmd") {
		t.Errorf("jobs = %+v, %v", jobs, err)
	}
}

// The SDK's own waiting, without a network and on virtual time.
func TestSDKWaitsForJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{AgentStep: 2 * time.Second})
		defer m.Close()
		owner := m.AddAccount(Account{Name: "owner"})
		small, big := m.AddOffering(FixedOffering("small", 2, 2048)), m.AddOffering(FixedOffering("big", 4, 4096))
		k := m.AddCluster(ClusterSpec{Owner: Owner{Account: "owner"}, OfferingID: small.ID, Control: Nodes(1), Workers: Nodes(2)})
		client := cs.NewAsyncClient("http://cloudstack.example"+Path, owner.APIKey, owner.SecretKey, false,
			cs.WithHTTPClient(&http.Client{Transport: m.Transport()}))

		p := client.Kubernetes.NewScaleKubernetesClusterParams(k.ID)
		p.SetNodeofferings(map[string]string{"worker": big.ID})
		r, err := client.Kubernetes.ScaleKubernetesCluster(p)
		if err != nil || r.Workerofferingid != big.ID || r.State != "Running" {
			t.Fatalf("scaled cluster = %+v, %v", r, err)
		}
		_, err = client.VirtualMachine.ScaleVirtualMachine(client.VirtualMachine.NewScaleVirtualMachineParams(k.Nodes[1].VMID, big.ID))
		if err == nil || !strings.Contains(err.Error(), "since it already has the requested service offering (big)") {
			t.Errorf("scaling twice = %v, want the refusal", err)
		}
	})
}

// Stop and start by the SDK's own calls, which wait for their jobs.
func TestSDKStopsAndStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{AgentStep: 2 * time.Second})
		defer m.Close()
		owner := m.AddAccount(Account{Name: "owner"})
		small, big := m.AddOffering(FixedOffering("small", 2, 2048)), m.AddOffering(FixedOffering("big", 4, 4096))
		k := m.AddCluster(ClusterSpec{Owner: Owner{Account: "owner"}, OfferingID: big.ID, Control: Nodes(1), Workers: Nodes(1)})
		client := cs.NewAsyncClient("http://cloudstack.example"+Path, owner.APIKey, owner.SecretKey, false,
			cs.WithHTTPClient(&http.Client{Transport: m.Transport()}))
		vm, id := client.VirtualMachine, k.Nodes[1].VMID

		stopped, err := vm.StopVirtualMachine(vm.NewStopVirtualMachineParams(id))
		if err != nil || stopped.State != "Stopped" || stopped.Id != id {
			t.Fatalf("stopped: %+v, %v", stopped, err)
		}
		update := vm.NewUpdateVirtualMachineParams(id)
		update.SetIsdynamicallyscalable(true)
		if _, err := vm.UpdateVirtualMachine(update); err != nil { // its struct misses that the answer is one level deeper
			t.Fatal(err)
		}
		if _, err := vm.ScaleVirtualMachine(vm.NewScaleVirtualMachineParams(id, small.ID)); err != nil {
			t.Fatal(err)
		}
		started, err := vm.StartVirtualMachine(vm.NewStartVirtualMachineParams(id))
		if err != nil || started.State != "Running" || started.Memory != 2048 {
			t.Fatalf("started: %+v, %v", started, err)
		}
		_, err = vm.StartVirtualMachine(vm.NewStartVirtualMachineParams(id))
		if err == nil || !strings.Contains(err.Error(), "is already running") {
			t.Errorf("started twice: %v, want the refusal", err)
		}
	})
}
