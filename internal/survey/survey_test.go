package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

var (
	small = capacity.Offering{ID: "small", Name: "small", CPUs: 2, MemoryMiB: 2048}
	big   = capacity.Offering{ID: "big", Name: "big", CPUs: 4, MemoryMiB: 4096}
)

// site is one machine as its systems show it; a test changes what it is about.
type site struct {
	Member

	guest    capacity.Guest
	guestErr error
	wayErr   error // no way into the guest
	hang     bool  // the guest does not answer
	node     *capacity.Node
}

// healthy is a machine of which every view agrees.
func healthy(name string, role rollout.Role, o capacity.Offering) *site {
	id := "id-of-" + name
	s := &site{Member: Member{Role: role, Record: capacity.Record{Offering: o},
		Instance: capacity.Instance{ID: id, Name: name, State: "Running", OfferingID: o.ID, OfferingName: o.Name, CPUs: o.CPUs, MemoryMiB: o.MemoryMiB}}}
	memory := o.MemoryMiB - 120
	s.guest = capacity.Guest{ProductUUID: id, CPUsOnline: o.CPUs, CPUsPresent: o.CPUs, BlockSize: 128 * capacity.MiB, BlocksOnline: int(o.MemoryMiB / 128), MemTotal: memory * capacity.MiB}
	size := capacity.Resources{"cpu": resource.MustParse(fmt.Sprint(o.CPUs)), "memory": resource.MustParse(fmt.Sprintf("%dMi", memory))}
	s.node = &capacity.Node{Name: strings.ToLower(name), SystemUUID: id, Capacity: size, Allocatable: size, Ready: capacity.Condition{Status: "True"}}
	if role == rollout.RoleEtcd {
		s.node = nil
	}
	return s
}

// cluster is all sites; it answers for guests and Nodes.
type cluster struct {
	sites     []*site
	nodesErr  error
	claims    map[string]string
	claimsErr error
}

func (c *cluster) Claims(context.Context) (map[string]string, error) { return c.claims, c.claimsErr }

func (c *cluster) Guest(_ context.Context, t rollout.Target) (rollout.Guest, error) {
	for _, s := range c.sites {
		if s.Instance.ID == t.InstanceID {
			return prober{site: s}, s.wayErr
		}
	}
	return nil, fmt.Errorf("no machine %s", t.InstanceID)
}

// prober is a guest of which only Probe may be called.
type prober struct {
	rollout.Guest

	site *site
}

func (p prober) Probe(ctx context.Context) (capacity.Guest, error) {
	if p.site.hang {
		<-ctx.Done()
		return capacity.Guest{}, ctx.Err()
	}
	return p.site.guest, p.site.guestErr
}

func (c *cluster) Nodes(context.Context) (out []capacity.Node, err error) {
	for i := range c.sites { // another order than CloudStack's
		if n := c.sites[len(c.sites)-1-i].node; n != nil {
			out = append(out, *n)
		}
	}
	return out, c.nodesErr
}

func (c *cluster) read(t *testing.T) []Node {
	t.Helper()
	in := Cluster{ID: "c1", Name: "prod"}
	for _, s := range c.sites {
		in.Members = append(in.Members, s.Member)
	}
	nodes, err := Read(t.Context(), in, c, c)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func claimFor(s *site) string {
	text, err := (rollout.Claim{Run: "run-1", InstanceID: s.Instance.ID, Goal: big}).Encode()
	if err != nil {
		panic(err)
	}
	return text
}

func TestAllViewsInTheOrderOfCloudStack(t *testing.T) {
	c := &cluster{sites: []*site{healthy("etcd-1", rollout.RoleEtcd, small), healthy("Control-1", rollout.RoleControl, small), healthy("node-1", rollout.RoleWorker, big)}}
	nodes := c.read(t)
	for i, name := range []string{"etcd-1", "control-1", "node-1"} {
		n := nodes[i]
		if n.Target.Name != name || n.Target.ClusterID != "c1" || n.Target.ClusterName != "prod" || n.Target.InstanceID != c.sites[i].Instance.ID || !n.Agrees() {
			t.Errorf("%d: %+v", i, n)
		}
		if seen := n.Observation(); seen.Guest != c.sites[i].guest || (seen.Node.Name != name && n.Target.Role != rollout.RoleEtcd) {
			t.Errorf("observation of %s: %+v", name, seen)
		}
	}
	if nodes[0].Views.Node != nil {
		t.Error("an etcd machine has no Node")
	}
}

func TestProblemsAndDrifts(t *testing.T) {
	for _, r := range []struct {
		name     string
		role     rollout.Role
		change   func(*cluster, *site)
		problems []string
		drifts   []capacity.View
		is       error // what the first problem is, for errors.Is
	}{
		{name: "well"},
		{name: "no way into the guest", change: func(_ *cluster, s *site) { s.wayErr = fmt.Errorf("host key: %w", rollout.ErrDenied) },
			problems: []string{"the guest could not be read: host key: denied"}, is: rollout.ErrDenied},
		{name: "probe fails", change: func(_ *cluster, s *site) { s.guestErr = rollout.ErrUnreachable },
			problems: []string{"the guest could not be read: unreachable"}, is: rollout.ErrUnreachable},
		{name: "guest hangs", change: func(_ *cluster, s *site) { s.hang = true },
			problems: []string{"the guest could not be read: unreachable: no answer within 20s"}, is: rollout.ErrUnreachable},
		{name: "SSH leads to another machine", change: func(_ *cluster, s *site) { s.guest.ProductUUID = "other"; s.guest.CPUsOnline = 9 },
			problems: []string{"the guest could not be read: SSH leads to another machine: its DMI UUID is other, expected id-of-node-1; check the port forwarding rules"}},
		{name: "instance stopped", change: func(_ *cluster, s *site) { s.Instance.State = "Stopped" },
			problems: []string{"the guest could not be read: the instance is Stopped"}},
		{name: "no Node", change: func(_ *cluster, s *site) { s.node = nil },
			problems: []string{"the node could not be read: node node-1: not found in the cluster's 1 Nodes"}, is: rollout.ErrNotFound},
		{name: "Node of another machine", change: func(_ *cluster, s *site) { s.node.SystemUUID = "other" },
			problems: []string{"the node could not be read: the Node of this name is another machine: its systemUUID is other, expected id-of-node-1"}},
		{name: "no Kubernetes API", change: func(c *cluster, _ *site) { c.nodesErr = rollout.ErrUnreachable },
			problems: []string{"the node could not be read: unreachable"}, is: rollout.ErrUnreachable},
		{name: "claim of a newer version", change: func(_ *cluster, s *site) { s.node.Claim = `{"version":99}` },
			problems: []string{"the node could not be read: the claim on it: unreadable claim: version 99, this program knows versions up to 1; use the version of trueup that wrote it"}, is: rollout.ErrClaimUnreadable},
		{name: "claim that is no JSON", change: func(_ *cluster, s *site) { s.node.Claim = "{" },
			problems: []string{"the node could not be read: the claim on it: unreadable claim: unexpected end of JSON input; use the version of trueup that wrote it"}, is: rollout.ErrClaimUnreadable},
		{name: "role in doubt", change: func(_ *cluster, s *site) { s.Doubt = "two lists disagree" },
			problems: []string{"the role is not certain: two lists disagree"}},
		{name: "guest and API away", change: func(c *cluster, s *site) { s.wayErr, c.nodesErr = rollout.ErrUnreachable, rollout.ErrUnreachable },
			problems: []string{"the guest could not be read: unreachable", "the node could not be read: unreachable"}, is: rollout.ErrUnreachable},
		{name: "etcd without the API", role: rollout.RoleEtcd, change: func(c *cluster, _ *site) { c.nodesErr = rollout.ErrUnreachable }},
		{name: "record lags", change: func(_ *cluster, s *site) { s.Record.Offering = small }, drifts: []capacity.View{capacity.ViewRecord}},
		{name: "record says nothing", change: func(_ *cluster, s *site) { s.Record = capacity.Record{} }},
		{name: "external node beside another record", change: func(_ *cluster, s *site) { s.Record.Offering, s.External = small, true }},
		{name: "plugged but offline", change: func(_ *cluster, s *site) { s.guest.CPUsOnline = 2; s.node.Capacity["cpu"] = resource.MustParse("2") }, drifts: []capacity.View{capacity.ViewGuest}},
		{name: "kubelet not restarted", change: func(_ *cluster, s *site) { s.node.Capacity["cpu"] = resource.MustParse("2") }, drifts: []capacity.View{capacity.ViewNode}},
	} {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := healthy("node-1", rollout.RoleWorker, big)
				if r.role != "" {
					s = healthy("node-1", r.role, big)
				}
				c := &cluster{sites: []*site{healthy("control-1", rollout.RoleControl, big), s}}
				if r.change != nil {
					r.change(c, s)
				}
				n := c.read(t)[1]
				var problems []string
				for _, p := range n.Problems {
					problems = append(problems, p.Error())
				}
				var drifts []capacity.View
				for _, d := range n.Drifts {
					drifts = append(drifts, d.View)
				}
				if diff := cmp.Diff(r.problems, problems); diff != "" {
					t.Errorf("problems (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(r.drifts, drifts); diff != "" {
					t.Errorf("drifts (-want +got):\n%s", diff)
				}
				if r.is != nil && !errors.Is(n.Problems[0], r.is) {
					t.Errorf("%v is not %v", n.Problems[0], r.is)
				}
				if n.Agrees() != (r.problems == nil && r.drifts == nil) {
					t.Errorf("agrees: %t", n.Agrees())
				}
			})
		})
	}
}

// TestUnbelievedViewsAreNotShown: figures of another machine, or of none, never appear.
func TestUnbelievedViewsAreNotShown(t *testing.T) {
	s := healthy("node-1", rollout.RoleWorker, big)
	s.guest.ProductUUID, s.node.SystemUUID = "other", "other"
	n := (&cluster{sites: []*site{s}}).read(t)[0]
	if n.Views.Guest != nil || n.Views.Node != nil || n.Observation().Guest.CPUsOnline != 0 {
		t.Errorf("%+v", n.Views)
	}
}

func TestClaimIsRead(t *testing.T) {
	s := healthy("node-1", rollout.RoleWorker, big)
	s.node.Claim = claimFor(s)
	n := (&cluster{sites: []*site{s}}).read(t)[0]
	if n.Claim == nil || n.Claim.Run != "run-1" {
		t.Errorf("%+v", n.Claim)
	}
}

// TestGuestsAreReadTogether: twenty guests that do not answer cost no more than one.
func TestGuestsAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cluster
		for i := range 20 {
			s := healthy(fmt.Sprintf("node-%d", i), rollout.RoleWorker, small)
			s.hang = true
			c.sites = append(c.sites, s)
		}
		began := time.Now()
		c.read(t)
		if took := time.Since(began); took != guestTimeout {
			t.Errorf("took %s, want %s", took, guestTimeout)
		}
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	s := healthy("node-1", rollout.RoleWorker, small)
	s.hang = true
	c := &cluster{sites: []*site{s}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, Cluster{Members: []Member{s.Member}}, c, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestPeers(t *testing.T) {
	c := &cluster{sites: []*site{healthy("control-1", rollout.RoleControl, small), healthy("control-2", rollout.RoleControl, small), healthy("control-3", rollout.RoleControl, small), healthy("node-1", rollout.RoleWorker, small)}}
	c.sites[2].node = nil
	nodes := c.read(t)
	want := []rollout.Peer{{Name: "control-2", Ready: capacity.Condition{Status: "True"}}, {Name: "control-3"}}
	if diff := cmp.Diff(want, Peers(nodes, nodes[0])); diff != "" {
		t.Errorf("peers of control-1 (-want +got):\n%s", diff)
	}
	if got := Peers(nodes, nodes[3]); got != nil {
		t.Errorf("peers of a worker: %v", got)
	}
}

// The claim on a dedicated etcd machine is read where it is kept; one that can't be read is a problem of that machine alone.
func TestClaimOfAnEtcdMachine(t *testing.T) {
	etcd, worker := healthy("etcd-1", rollout.RoleEtcd, small), healthy("node-1", rollout.RoleWorker, small)
	c := &cluster{sites: []*site{etcd, worker}, claims: map[string]string{etcd.Instance.ID: claimFor(etcd)}}
	nodes := c.read(t)
	if nodes[0].Claim == nil || nodes[0].Claim.Run != "run-1" || !nodes[0].Agrees() || nodes[1].Claim != nil {
		t.Errorf("%+v", nodes)
	}
	for _, spoil := range []func(){
		func() { c.claims[etcd.Instance.ID] = "{" },
		func() { c.claims, c.claimsErr = nil, errors.New("no route to host") },
	} {
		spoil()
		nodes := c.read(t)
		if len(nodes[0].Problems) != 1 || !strings.Contains(nodes[0].Problems[0].Text, "on the Lease") || !nodes[1].Agrees() {
			t.Errorf("%+v", nodes)
		}
	}
}
