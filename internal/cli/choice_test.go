package cli

import (
	"slices"
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// cpus are the CPUs that each node of the fleet has online.
func (s *stage) cpus() (out []int) {
	for _, m := range s.nodes {
		out = append(out, m.guest.CPUsOnline)
	}
	return out
}

// --offering is for workers and control-plane nodes; a flag of the role beats it.
func TestOfferingForAll(t *testing.T) {
	for args, want := range map[string][]int{
		"--offering big":                             {4, 4, 4},
		"--offering big --control huge":              {8, 4, 4},
		"--offering big --node prod-node-18f3c0dbc3": {2, 2, 4},
	} {
		play(t, func(t *testing.T, s *stage) {
			s.trueup(t, "scale prod --yes "+args).want(t, ExitOK)
			if got := s.cpus(); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", args, got, want)
			}
		})
	}
}

// --node limits a rollout to some nodes; the others keep their size, which is shown and is no drift.
func TestChosenNodes(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trueup(t, "scale prod --worker big --node PROD-node-18f3c0d7b2 --node "+idOf(2)+" --yes").want(t, ExitOK)
		if got := s.cpus(); !slices.Equal(got, []int{2, 4, 2}) {
			t.Errorf("%v", got)
		}
		s.trueup(t, "verify prod").want(t, ExitOK)
		s.trueup(t, "plan prod --worker big --node nosuch").want(t, ExitUsage).says(t, `"nosuch" is no node of prod; there are: prod-control-18f3c0d2a1, prod-node-18f3c0d7b2`).oneError(t)
		s.trueup(t, "plan prod --worker big --node prod-control-18f3c0d2a1").want(t, ExitUsage).says(t, "is of role control, and no offering is named for that: add --control").oneError(t)
	})
}

// What was stopped on chosen nodes is resumed on those alone.
func TestChosenNodesAreResumed(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).mute = true
		s.trueup(t, "scale prod --worker big --node prod-node-18f3c0d7b2 --yes --verify-timeout 10s").want(t, ExitPartly).says(t, "next: trueup resume prod")
		s.mend(1)
		s.trueup(t, "resume prod --yes").want(t, ExitOK)
		if got := s.cpus(); !slices.Equal(got, []int{2, 4, 2}) || s.lease.State.Run != "" {
			t.Errorf("%v, %+v", got, s.lease)
		}
	})
}

// A node that was added by hand is shown, and touched only by its name.
func TestExternalNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		added := s.AddCluster(standin.ClusterSpec{Name: "mixed", Owner: standin.Owner{Account: "owner"}, OfferingID: s.offeringID("small"), KeyPair: "ops", Kubeconfig: kubeconfigText,
			Control: []standin.NodeSpec{{ID: idOf(31), Name: "mixed-control-1"}}, Workers: []standin.NodeSpec{{ID: idOf(32), Name: "by-hand", External: true}}})
		for _, n := range added.Nodes {
			vm, _ := s.VM(n.VMID)
			s.nodes = append(s.nodes, s.newNode(vm))
		}
		s.trueup(t, "status mixed").want(t, ExitOK).prints(t, "by-hand")
		s.trueup(t, "scale mixed --offering big --yes").want(t, ExitOK)
		if got := s.cpus(); !slices.Equal(got, []int{2, 2, 2, 4, 2}) {
			t.Errorf("%v", got)
		}
		s.trueup(t, "scale mixed --offering big --node by-hand --yes").want(t, ExitOK)
		if got := s.cpus(); !slices.Equal(got, []int{2, 2, 2, 4, 4}) {
			t.Errorf("%v", got)
		}
	})
}

// CloudStack's list and the Node's label must agree about the role.
func TestRolesThatDisagree(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).node.ControlPlane = true
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused).says(t, "prod-node-18f3c0d7b2: role of the node: expected worker", "kubectl label node").oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}
