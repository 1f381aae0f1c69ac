package cloudstack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestCluster(t *testing.T) {
	f := newFixture(t)
	byName := must[Cluster](t)(f.client().Cluster(context.Background(), "prod"))
	byID := must[Cluster](t)(f.client().Cluster(context.Background(), f.cluster.ID))
	if diff := cmp.Diff(byName, byID); diff != "" {
		t.Errorf("by name and by id differ:\n%s", diff)
	}
	small := capacity.Offering{ID: f.small.ID, Name: "small", CPUs: 2, SpeedMHz: 2000, MemoryMiB: 2048, DynamicScaling: true}
	want := Cluster{
		ID: f.cluster.ID, Name: "prod", State: "Running", Type: TypeCloudManaged,
		ZoneID: f.Defaults().ZoneID, ZoneName: "zone-1", NetworkID: f.cluster.NetworkID, Account: "owner", KeyPair: "ops",
		KubernetesVersion: "v1.36.3", ControlNodes: 1, WorkerNodes: 2,
		Records: map[rollout.Role]capacity.Record{rollout.RoleControl: {Offering: small}, rollout.RoleWorker: {Offering: small}},
	}
	for i, role := range []rollout.Role{rollout.RoleControl, rollout.RoleWorker, rollout.RoleWorker} {
		vm, _ := f.VM(f.vm(i))
		want.VMs = append(want.VMs, VM{Role: role, Address: vm.NICs[0].Address, Hypervisor: "KVM", Instance: capacity.Instance{
			ID: vm.ID, Name: vm.Name, State: "Running", OfferingID: f.small.ID, OfferingName: "small", CPUs: 2, SpeedMHz: 2000, MemoryMiB: 2048,
			DynamicallyScalable: true, TemplateID: f.Defaults().TemplateID, ZoneID: f.Defaults().ZoneID, LoginUser: "core",
		}})
	}
	if diff := cmp.Diff(want, byName); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClusterRecordPerRole(t *testing.T) {
	f := newFixture(t)
	gone := "33333333-3333-4333-8333-333333333333"
	f.AddCluster(standin.ClusterSpec{
		Name: "mixed", Owner: standin.Owner{Account: "owner"}, OfferingID: f.small.ID, WorkerOfferingID: f.big.ID, EtcdOfferingID: gone,
		Control: standin.Nodes(1), Workers: standin.Nodes(1), Etcd: standin.Nodes(3),
	})
	f.AddCluster(standin.ClusterSpec{
		Name: "none", Owner: standin.Owner{Account: "owner"}, WorkerOfferingID: f.big.ID,
		Control: standin.Nodes(1), Workers: standin.Nodes(1),
	})
	size := func(name string, role rollout.Role) string {
		r, ok := must[Cluster](t)(f.client().Cluster(context.Background(), name)).Records[role]
		return fmt.Sprintf("%t %t %s", ok, r.Known(), r.Offering.Size())
	}
	for _, tt := range []struct {
		cluster string
		role    rollout.Role
		want    string
	}{
		{"mixed", rollout.RoleControl, "true true 2 CPU / 2048 MiB"},
		{"mixed", rollout.RoleWorker, "true true 4 CPU / 4096 MiB"},
		{"mixed", rollout.RoleEtcd, "true true 0 CPU / 0 MiB"}, // the offering was deleted: known by its id alone
		{"none", rollout.RoleControl, "true false 0 CPU / 0 MiB"},
		{"none", rollout.RoleWorker, "true true 4 CPU / 4096 MiB"},
		{"none", rollout.RoleEtcd, "false false 0 CPU / 0 MiB"},
	} {
		if got := size(tt.cluster, tt.role); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.cluster, tt.role, got, tt.want)
		}
	}
}

func TestClusterWithEtcdAndExternalNodes(t *testing.T) {
	f := newFixture(t)
	f.AddCluster(standin.ClusterSpec{
		Name: "ha", Owner: standin.Owner{Account: "owner"}, OfferingID: f.small.ID, Etcd: standin.Nodes(3), Control: standin.Nodes(3),
		Workers: []standin.NodeSpec{{}, {Name: "my-own-node", External: true}},
	})
	var got []string
	for _, vm := range must[Cluster](t)(f.client().Cluster(context.Background(), "ha")).VMs {
		got = append(got, fmt.Sprintf("%s %t%s", vm.Role, vm.External, vm.RoleDoubt))
	}
	want := []string{"etcd false", "etcd false", "etcd false", "control false", "control false", "control false", "worker false", "worker true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClusterOfAProjectAndOfSmallPages(t *testing.T) {
	f := newFixture(t)
	f.AddCluster(standin.ClusterSpec{
		Name: "team", Owner: standin.Owner{ProjectID: projectID}, OfferingID: f.small.ID, Control: standin.Nodes(1), Workers: standin.Nodes(70),
	})
	f.AddCluster(standin.ClusterSpec{Name: "third", Owner: standin.Owner{Account: "owner"}, OfferingID: f.small.ID})
	f.Set(standin.SettingPageSize, "", "2")
	c := f.client()
	got := must[Cluster](t)(c.Cluster(context.Background(), "team"))
	if len(got.VMs) != 71 || got.ProjectID != projectID {
		t.Fatalf("%d VMs of project %q", len(got.VMs), got.ProjectID)
	}
	for i, vm := range got.VMs {
		if vm.Instance.CPUs != 2 {
			t.Errorf("VM %d was not read: %+v", i, vm)
		}
	}
	endpoints := must[map[string]Endpoint](t)(c.Endpoints(context.Background(), got, Way{}))
	for i, vm := range got.VMs {
		if e := endpoints[vm.Instance.ID]; e.Port != 2222+i || e.Via != ViaForwarding {
			t.Errorf("VM %d: endpoint %+v", i, e)
		}
	}
	var names []string
	for _, cluster := range must[[]Cluster](t)(c.Clusters(context.Background(), ClusterFilter{})) {
		names = append(names, cluster.Name)
	}
	if diff := cmp.Diff([]string{"prod", "third", "team"}, names); diff != "" {
		t.Errorf("clusters, -want +got:\n%s", diff)
	}
}

func TestClustersFilter(t *testing.T) {
	f := newFixture(t)
	f.AddCluster(standin.ClusterSpec{Name: "stopped", State: "Stopped", Owner: standin.Owner{Account: "owner"}, OfferingID: f.small.ID})
	f.AddCluster(standin.ClusterSpec{Name: "team", Owner: standin.Owner{ProjectID: projectID}, OfferingID: f.small.ID})
	for want, filter := range map[string]ClusterFilter{
		"prod stopped team": {},
		"stopped":           {State: "Stopped"},
		"prod":              {Keyword: "ro"},
		"team":              {ProjectID: projectID},
		"":                  {Keyword: "nothing"},
	} {
		var names []string
		for _, cluster := range must[[]Cluster](t)(f.client().Clusters(context.Background(), filter)) {
			names = append(names, cluster.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("filter %+v: %q, want %q", filter, got, want)
		}
	}
}

// A VM may be destroyed behind the cluster's back: the cluster still lists it, listVirtualMachines does not know it.
func TestClusterWithAVanishedVM(t *testing.T) {
	record := clusterRecord{Control: 1, Size: 1, VMs: []machine{
		{ID: "there", Name: "k8s-a-control-1f", State: "Running"}, {ID: "gone", Name: "k8s-a-node-2f", State: "Expunging"},
	}}
	c := jobServer(t, "")
	vms := must[[]VM](t)(c.vms(context.Background(), record))
	if len(vms) != 2 || vms[1].Instance.State != "Expunging" || vms[1].Instance.OfferingID != "" {
		t.Errorf("got %+v, want the vanished one without a size", vms)
	}
}

func TestLookups(t *testing.T) {
	f := newFixture(t)
	for range 12 {
		f.AddOffering(standin.FixedOffering("twin", 8, 8192))
	}
	f.AddCluster(standin.ClusterSpec{Name: "staging", Owner: standin.Owner{Account: "owner"}, OfferingID: f.small.ID})
	f.AddCluster(standin.ClusterSpec{Name: "prod", Owner: standin.Owner{ProjectID: projectID}, OfferingID: f.small.ID})
	c := f.client()
	cluster := func(name string) error { _, err := c.Cluster(context.Background(), name); return err }
	offering := func(name string) error { _, err := c.Offering(context.Background(), name); return err }
	for _, tt := range []struct {
		err       error
		ambiguous bool
		says      []string
	}{
		{cluster("stagin"), false, []string{`cluster "stagin" is unknown; there are: staging (`, "zone zone-1"}},
		{cluster("PROD"), false, []string{`cluster "PROD" is unknown; there are: prod (` /* names are exact */}},
		{cluster("prod"), true, []string{`cluster "prod" is ambiguous, give the id of one: prod (`, f.cluster.ID}},
		{offering("bigg"), false, []string{`compute offering "bigg" is unknown; there are: big (` + f.big.ID + ", 4 CPU / 4096 MiB)", "and 6 more"}},
		{offering("twin"), true, []string{`compute offering "twin" is ambiguous`, "and 4 more"}},
	} {
		var lookup *LookupError
		if !errors.As(tt.err, &lookup) || lookup.Ambiguous != tt.ambiguous || errors.Is(tt.err, rollout.ErrNotFound) == tt.ambiguous {
			t.Errorf("error %#v, want a LookupError, ambiguous %t", tt.err, tt.ambiguous)
			continue
		}
		for _, says := range tt.says {
			if !strings.Contains(tt.err.Error(), says) {
				t.Errorf("error %q does not say %q", tt.err, says)
			}
		}
	}
	nobody := f.AddAccount(standin.Account{Name: "nobody"})
	_, err := f.clientOf(nobody).Cluster(context.Background(), "prod")
	if err == nil || err.Error() != `cluster "prod" is unknown: this account sees none` {
		t.Errorf("error %v", err)
	}
	if got := must[capacity.Offering](t)(c.Offering(context.Background(), f.big.ID)); got.Name != "big" {
		t.Errorf("by id: %+v", got)
	}
}

func TestKubeconfig(t *testing.T) {
	f := newFixture(t)
	got := must[[]byte](t)(f.client().Kubeconfig(context.Background(), f.cluster.ID))
	if string(got) != f.cluster.Kubeconfig {
		t.Errorf("got %q", got)
	}
	bare := f.AddCluster(standin.ClusterSpec{Name: "bare", Owner: standin.Owner{Account: "owner"}, ExternallyManaged: true})
	if _, err := f.client().Kubeconfig(context.Background(), bare.ID); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("error %v, want one that says what to do", err)
	}
}

func TestRoles(t *testing.T) {
	yes, no := true, false
	plain := func(names ...string) (out []machine) {
		for _, name := range names {
			out = append(out, machine{Name: name, External: &no, Etcd: &no})
		}
		return out
	}
	for _, tt := range []struct {
		name   string
		record clusterRecord
		want   []string // role, and "?" for a doubt
	}{
		{"names and positions agree", clusterRecord{Control: 1, VMs: plain("k8s-a-control-1f", "k8s-a-node-2f", "k8s-a-node-3f")}, []string{"control", "worker", "worker"}},
		{"older count of masters", clusterRecord{Masters: 2, VMs: plain("a-control-1f", "a-control-2f", "a-node-3f")}, []string{"control", "control", "worker"}},
		{"the cluster's name holds a role", clusterRecord{Control: 1, VMs: plain("k8s-my-node-1-control-1f", "k8s-my-control-1-node-2f")}, []string{"control", "worker"}},
		{"order differs from names", clusterRecord{Control: 1, VMs: plain("a-node-1f", "a-control-2f")}, []string{"control?", "worker?"}},
		{"names that say nothing", clusterRecord{Control: 1, VMs: plain("alpha", "beta")}, []string{"control", "worker"}},
		{"etcd leads", clusterRecord{Control: 1, Etcd: 1, VMs: append([]machine{{Name: "a-etcd-1-0f", Etcd: &yes}}, plain("a-control-1f", "a-node-2f")...)}, []string{"etcd", "control", "worker"}},
		{"etcd without marks", clusterRecord{Control: 1, Etcd: 1, VMs: []machine{{Name: "a-etcd-1-0f"}, {Name: "a-control-1f"}, {Name: "a-node-2f"}}}, []string{"etcd", "control", "worker"}},
		{"etcd by name alone", clusterRecord{Control: 1, Etcd: 1, VMs: plain("a-etcd-1-0f", "a-control-1f")}, []string{"control?", "worker?"}},
		{"etcd that the record does not count", clusterRecord{VMs: []machine{{Name: "a-etcd-1-0f", Etcd: &yes}}}, []string{"etcd?"}},
		{"etcd named as a worker", clusterRecord{Etcd: 1, VMs: []machine{{Name: "a-node-0f", Etcd: &yes}}}, []string{"etcd?"}},
		{"external first", clusterRecord{Control: 1, VMs: append([]machine{{Name: "a-control-0f", External: &yes}}, plain("a-control-1f")...)}, []string{"worker", "control"}},
		{"managed by others", clusterRecord{Type: TypeExternalManaged, Control: 1, VMs: plain("x", "y")}, []string{"control?", "worker?"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, a := range assignRoles(tt.record) {
				text := string(a.role)
				if a.doubt != "" {
					text += "?"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
