package cli

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// withEtcd adds the cluster db: a control-plane node, a worker and three dedicated etcd machines, which it returns.
func (s *stage) withEtcd() (etcd []*node) {
	spec := standin.ClusterSpec{ID: "d0000000-0000-4000-8000-000000000000", Name: "db", Owner: standin.Owner{Account: "owner"}, OfferingID: s.offeringID("small"), KeyPair: "ops", Kubeconfig: kubeconfigText,
		Control: []standin.NodeSpec{{ID: idOf(11), Name: "db-control-18f3c0d2a1"}}, Workers: []standin.NodeSpec{{ID: idOf(12), Name: "db-node-18f3c0d7b2"}}}
	for i := range 3 {
		spec.Etcd = append(spec.Etcd, standin.NodeSpec{ID: idOf(20 + i), Name: fmt.Sprintf("db-etcd-%d-18f3c0e%d", i+1, i)})
	}
	for _, n := range s.AddCluster(spec).Nodes {
		vm, _ := s.VM(n.VMID)
		if n.Role != standin.RoleEtcd {
			s.nodes = append(s.nodes, s.newNode(vm))
			continue
		}
		m := s.newEtcd(vm, 3)
		s.nodes, etcd = append(s.nodes, m), append(etcd, m)
	}
	return etcd
}

// status reads the Lease once, for who holds the cluster and for the claims on etcd machines.
func TestStatusReadsTheLeaseOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.withEtcd()
		s.trueup(t, "status db").want(t, ExitOK)
		if s.leaseReads != 1 {
			t.Errorf("read %d times", s.leaseReads)
		}
	})
}

// Dedicated etcd machines are resized one after the other, and verified; none of it is about a Node or a kubelet.
func TestScaleOfDedicatedEtcd(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		etcd := s.withEtcd()
		golden(t, "plan-etcd.txt", s.trueup(t, "plan db --etcd big", on(80, 24)).want(t, ExitOK).out.String())
		if got := s.changes(); got != nil {
			t.Errorf("plan changed: %v", got)
		}
		p := s.trueup(t, "scale db --etcd big --yes").want(t, ExitOK)
		golden(t, "scale-etcd.stderr.txt", p.err.String())
		golden(t, "scale-etcd.txt", p.out.String())
		for _, m := range etcd {
			if m.starts != 1 || m.guest.CPUsOnline != 4 || s.shelf[m.id] != "" {
				t.Errorf("%s: %d starts of kubelet, %d CPUs, claim %q", m.name, m.starts, m.guest.CPUsOnline, s.shelf[m.id])
			}
		}
		for _, call := range s.changes() {
			if slices.Contains([]string{"patch db-control-18f3c0d2a1", "patch db-node-18f3c0d7b2"}, call) {
				t.Errorf("a Node was changed: %s", call)
			}
		}
		s.trueup(t, "verify db").want(t, ExitOK).prints(t, etcd[0].name+": all views agree")
		golden(t, "status-etcd.txt", s.trueup(t, "status db", on(100, 24)).want(t, ExitOK).out.String())
	})
}

// What somebody resized by hand is brought up by reconcile, etcd machines included.
func TestReconcileOfDedicatedEtcd(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		etcd := s.withEtcd()
		s.resizeBehind(t, slices.Index(s.nodes, etcd[1]), "big")
		s.trueup(t, "verify db").want(t, ExitDrift)
		s.trueup(t, "reconcile db --yes").want(t, ExitOK)
		if etcd[1].guest.CPUsOnline != 4 || etcd[1].starts != 1 {
			t.Errorf("%+v", etcd[1].guest)
		}
		s.trueup(t, "verify db").want(t, ExitOK)
	})
}

// An ill member is shown, fails verify, and is a refusal.
func TestIllEtcdMember(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		etcd := s.withEtcd()
		for _, m := range etcd {
			m.etcd.Members[2] = capacity.EtcdMember{Endpoint: "http://10.1.1.4:2379", Problem: "context deadline exceeded"}
		}
		const says = "1 of 3 members are not healthy: http://10.1.1.4:2379: context deadline exceeded"
		s.trueup(t, "status db").want(t, ExitOK).prints(t, etcd[0].name+": etcd is not healthy: "+says)
		s.trueup(t, "verify db").want(t, ExitDrift).prints(t, says)
		s.trueup(t, "scale db --etcd big --yes").want(t, ExitRefused).oneError(t).says(t, "observed "+says, "etcd may lose its quorum")
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

// A rollout of etcd machines that was stopped is resumed from the Lease; another goal is refused, and abort gives back.
func TestEtcdClaimIsKeptOnTheLease(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		etcd := s.withEtcd()
		s.upon["online "+etcd[0].name] = func() { etcd[0].etcd.Unit.SubState = "failed" }
		s.trueup(t, "scale db --etcd big --yes --verify-timeout 10s").want(t, ExitPartly).says(t, etcd[0].name, "etcd: not within 10s")
		s.trueup(t, "status db").want(t, ExitOK).prints(t, etcd[0].name+": claimed by run", "A rollout is not finished")
		s.trueup(t, "scale db --etcd huge --yes").want(t, ExitRefused).says(t, "claimed for another goal")
		s.trueup(t, "abort db --yes").want(t, ExitRefused).says(t, "not given back: etcd")
		etcd[0].etcd.Unit.SubState = "running"
		s.trueup(t, "resume db --yes").want(t, ExitOK)
		s.trueup(t, "verify db").want(t, ExitOK)
	})
}
