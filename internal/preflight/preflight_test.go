package preflight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func healthy() Cluster {
	yes := true
	return Cluster{Name: "demo", State: "Running", Type: "CloudManaged", Version: "4.23.0.0", Hypervisors: []string{"KVM"}, DynamicScaling: &yes, Commands: []string{"listVirtualMachines", "scaleVirtualMachine"}, Needed: []string{"listVirtualMachines", "scaleVirtualMachine"},
		Nodes: map[rollout.Role]int{rollout.RoleControl: 1, rollout.RoleWorker: 2}}
}

func big() capacity.Offering {
	return capacity.Offering{ID: "o-big", Name: "big", CPUs: 4, MemoryMiB: 4096, DynamicScaling: true}
}

func TestChecks(t *testing.T) {
	no := false
	tests := map[string]struct {
		change func(*Cluster, map[rollout.Role]capacity.Offering)
		want   []string // names of failed checks
		remedy string   // in the first failure's remedy
	}{
		"a healthy cluster passes": {change: func(*Cluster, map[rollout.Role]capacity.Offering) {}},
		"external clusters are refused": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.Type = "ExternalManaged" },
			want:   []string{"cluster type"}, remedy: "the tool that made it"},
		"Alert is refused, and comes back by itself": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.State = "Alert" },
			want:   []string{"cluster state"}, remedy: "scanner"},
		"Scaling is refused": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.State = "Scaling" },
			want:   []string{"cluster state"}, remedy: "at work"},
		"Stopped is refused": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.State = "Stopped" },
			want:   []string{"cluster state"}, remedy: "startKubernetesCluster"},
		"a state that nobody knows is refused": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.State = "Dreaming" },
			want:   []string{"cluster state"}, remedy: "Only a Running cluster"},
		"a goal for a role that the cluster has not got": {
			change: func(_ *Cluster, g map[rollout.Role]capacity.Offering) { g[rollout.RoleEtcd] = big() },
			want:   []string{"etcd nodes"}, remedy: "leave out --etcd"},
		"custom offerings are refused": {
			change: func(_ *Cluster, g map[rollout.Role]capacity.Offering) {
				o := big()
				o.Custom = true
				g[rollout.RoleWorker] = o
			},
			want: []string{"offering for worker"}, remedy: "fixed CPU"},
		"a CloudStack that can't do it yet": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.Version = "4.22.0.0" },
			want:   []string{"CloudStack's version"}, remedy: "4.23"},
		"machines on another hypervisor": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.Hypervisors = []string{"KVM", "VMware"} },
			want:   []string{"hypervisor of the machines"}, remedy: "KVM alone"},
		"a zone without dynamic scaling": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.DynamicScaling = &no },
			want:   []string{"dynamic scaling in the zone"}, remedy: "administrator"},
		"an account without scaleVirtualMachine": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.Commands = []string{"listVirtualMachines"} },
			want:   []string{"permissions in CloudStack"}, remedy: "role"},
		"what can't be read does not fail": {
			change: func(c *Cluster, _ map[rollout.Role]capacity.Offering) { c.DynamicScaling, c.Commands = nil, nil }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, goals := healthy(), map[rollout.Role]capacity.Offering{rollout.RoleWorker: big()}
			tt.change(&c, goals)
			failures := Failures(Checks(c, goals))
			var got []string
			for _, f := range failures {
				got = append(got, f.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatalf("failed checks (-want +got):\n%s", diff)
			}
			if len(failures) > 0 && !strings.Contains(failures[0].Remedy, tt.remedy) {
				t.Errorf("remedy %q does not say %q", failures[0].Remedy, tt.remedy)
			}
		})
	}
}

func TestUnknownIsNotPassed(t *testing.T) {
	c := healthy()
	c.DynamicScaling, c.Commands = nil, nil
	unknown := 0
	for _, check := range Checks(c, nil) {
		if check.Verdict == Unknown {
			unknown++
		}
	}
	if unknown != 2 {
		t.Errorf("%d unknown checks, want 2", unknown)
	}
}
