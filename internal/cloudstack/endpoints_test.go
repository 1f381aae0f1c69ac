package cloudstack

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// endpoints returns the endpoints of a new cluster, in the order of its VMs.
func endpoints(t *testing.T, f *fixture, spec standin.ClusterSpec, way Way, change func(standin.Cluster)) []string {
	t.Helper()
	spec.Name, spec.OfferingID, spec.PublicAddress = "other", f.small.ID, "127.0.0.7"
	if spec.Owner == (standin.Owner{}) {
		spec.Owner.Account = "owner"
	}
	cluster := f.AddCluster(spec)
	if change != nil {
		change(cluster)
	}
	c := f.client()
	read := must[Cluster](t)(c.Cluster(context.Background(), cluster.ID))
	found := must[map[string]Endpoint](t)(c.Endpoints(context.Background(), read, way))
	var out []string
	for _, vm := range read.VMs {
		e, ok := found[vm.Instance.ID]
		if !ok {
			out = append(out, "none")
			continue
		}
		out = append(out, e.Address()+" "+e.Via)
	}
	return out
}

func TestEndpoints(t *testing.T) {
	node := func(address string, port int) []standin.NodeSpec {
		return []standin.NodeSpec{{Address: address, SSHPort: port}}
	}
	control, workers := node("10.1.1.2", 0), node("10.1.1.3", 0)
	for _, tt := range []struct {
		name   string
		spec   standin.ClusterSpec
		way    Way
		change func(*fixture, standin.Cluster)
		want   []string
	}{
		{name: "isolated, own addresses", spec: standin.ClusterSpec{Control: control, Workers: workers}, way: Way{Kind: ViaAddress},
			want: []string{"10.1.1.2:22 own address", "10.1.1.3:22 own address"}},
		{name: "another port at own addresses", spec: standin.ClusterSpec{Shape: standin.Shared, Control: control, Workers: workers}, way: Way{Port: 2022},
			want: []string{"10.1.1.2:2022 own address", "10.1.1.3:2022 own address"}},
		{name: "another port changes no rule", spec: standin.ClusterSpec{Control: control, Workers: workers}, way: Way{Port: 2022},
			want: []string{"127.0.0.7:2222 port forwarding", "127.0.0.7:2223 port forwarding"}},
		{name: "rules alone", spec: standin.ClusterSpec{Control: control, Workers: workers}, way: Way{Kind: ViaForwarding},
			change: func(f *fixture, c standin.Cluster) { f.RemovePortForwarding(c.Nodes[1].VMID) },
			want:   []string{"127.0.0.7:2222 port forwarding", "none"}},
		{name: "rules alone where there are none", spec: standin.ClusterSpec{Shape: standin.RoutedMode, Control: control}, way: Way{Kind: ViaForwarding}, want: []string{"none"}},
		{name: "isolated", spec: standin.ClusterSpec{Control: control, Workers: workers},
			want: []string{"127.0.0.7:2222 port forwarding", "127.0.0.7:2223 port forwarding"}},
		{name: "ports of the operator's choice", spec: standin.ClusterSpec{Control: node("10.1.1.2", 41234), Workers: node("10.1.1.3", 31234)},
			want: []string{"127.0.0.7:41234 port forwarding", "127.0.0.7:31234 port forwarding"}},
		{name: "VPC tier", spec: standin.ClusterSpec{Shape: standin.VPCTier, Control: control, Workers: workers},
			want: []string{"127.0.0.7:2222 port forwarding", "127.0.0.7:2223 port forwarding"}},
		{name: "shared", spec: standin.ClusterSpec{Shape: standin.Shared, Control: control, Workers: workers},
			want: []string{"10.1.1.2:22 own address", "10.1.1.3:22 own address"}},
		{name: "routed", spec: standin.ClusterSpec{Shape: standin.RoutedMode, Control: control, Workers: workers},
			want: []string{"10.1.1.2:22 own address", "10.1.1.3:22 own address"}},
		{name: "etcd", spec: standin.ClusterSpec{Etcd: node("10.1.1.4", 0), Control: control, Workers: workers},
			want: []string{"127.0.0.7:50000 port forwarding", "127.0.0.7:2222 port forwarding", "127.0.0.7:2223 port forwarding"}},
		{name: "of a project", spec: standin.ClusterSpec{Owner: standin.Owner{ProjectID: projectID}, Control: control},
			want: []string{"127.0.0.7:2222 port forwarding"}},
		{name: "renumbered", spec: standin.ClusterSpec{Control: control, Workers: workers},
			change: func(f *fixture, c standin.Cluster) { _ = f.SetPortForwarding(c.Nodes[1].VMID, 2299) },
			want:   []string{"127.0.0.7:2222 port forwarding", "127.0.0.7:2299 port forwarding"}},
		{name: "rule removed", spec: standin.ClusterSpec{Control: control, Workers: workers},
			change: func(f *fixture, c standin.Cluster) { f.RemovePortForwarding(c.Nodes[1].VMID) },
			want:   []string{"127.0.0.7:2222 port forwarding", "10.1.1.3:22 own address"}},
		{name: "rule that does not count", spec: standin.ClusterSpec{Control: control, Workers: workers},
			change: func(f *fixture, c standin.Cluster) {
				rule := f.Rules(c.Nodes[1].VMID)[0]
				f.RemovePortForwarding(rule.VMID)
				rule.ID, rule.State = "", "Revoke"
				f.AddPortForwarding(rule)
				rule.State, rule.PrivatePort, rule.PublicPort = "Active", 6443, 6443
				f.AddPortForwarding(rule)
			},
			want: []string{"127.0.0.7:2222 port forwarding", "10.1.1.3:22 own address"}},
		{name: "no way", spec: standin.ClusterSpec{Control: control},
			change: func(f *fixture, c standin.Cluster) {
				f.RemovePortForwarding(c.Nodes[0].VMID)
				f.UpdateVM(c.Nodes[0].VMID, func(vm *standin.VM) { vm.NICs = nil })
			},
			want: []string{"none"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			got := endpoints(t, f, tt.spec, tt.way, func(c standin.Cluster) {
				if tt.change != nil {
					tt.change(f, c)
				}
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEndpointsNotPermitted(t *testing.T) {
	f := newFixture(t)
	limited := f.AddAccount(standin.Account{Name: "limited", Commands: []string{"listVirtualMachines"}})
	got, err := f.clientOf(limited).Endpoints(context.Background(), Cluster{Name: "prod"}, Way{})
	if !errors.Is(err, rollout.ErrDenied) {
		t.Errorf("got %v, error %v, want ErrDenied: own addresses would be a guess", got, err)
	}
}

func TestAddressPrefersTheClustersNetwork(t *testing.T) {
	m := machine{NICs: []nic{{NetworkID: "a", Address: "10.0.0.1"}, {NetworkID: "b", Address: "10.0.1.1", Default: true}, {NetworkID: "c", Address: "10.0.2.1"}, {NetworkID: "d"}}}
	for network, want := range map[string]string{"c": "10.0.2.1", "b": "10.0.1.1", "d": "10.0.1.1", "": "10.0.1.1"} {
		if got := m.address(network); got != want {
			t.Errorf("network %q: %s, want %s", network, got, want)
		}
	}
}
