package cli

import (
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/kube"
)

// A right without which a rollout fails refuses it; one without which it only tells less warns.
func TestKubernetesRights(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.denied = []kube.Right{{Verb: "list", Resource: "pods", Optional: true}}
		s.trueup(t, "plan prod --worker big").want(t, ExitOK).prints(t, "Warning: permissions in Kubernetes: not allowed: list pods.")
		s.denied = append(s.denied, kube.Right{Verb: "patch", Resource: "nodes"})
		s.trueup(t, "plan prod --worker big").want(t, ExitOK).prints(t, "Warning: permissions in Kubernetes: not allowed: patch nodes, list pods. Enough for this plan")
		s.trueup(t, "preflight prod --worker big").want(t, ExitRefused).prints(t, "FAIL     kubernetes-permissions")
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused).says(t, "permissions in Kubernetes: not allowed: patch nodes, list pods. Grant what `trueup rights rbac` prints").oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
		s.trueup(t, "scale prod --worker big --yes --ignore kubernetes-permissions").want(t, ExitOK)
	})
}

// Nodes without a goal that are not Ready are told of.
func TestOtherNodesNotReady(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(0).node.Ready.Status = "False"
		s.trueup(t, "plan prod --worker big").want(t, ExitOK).prints(t, "Warning: the cluster's other Nodes: not Ready: prod-control-18f3c0d2a1.")
		s.trueup(t, "preflight prod --worker big").want(t, ExitOK).prints(t, "WARN     other-nodes")
	})
}

// An offering with dynamic scaling for a machine whose own has none: both are named.
func TestDynamicScalingDiffers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.UpdateOffering(s.offeringID("small"), func(o *standin.Offering) { o.DynamicScaling = false })
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused).says(t, "dynamicscalingenabled is false for small, which it has, and true for big", "--method cold").oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

// CloudStack is asked whether it offers the change; tags and storage are its own to know.
func TestOfferingThatDoesNotFit(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		big := s.offeringID("big")
		s.trueup(t, "preflight prod --worker big").want(t, ExitOK).prints(t, "change of prod-node-18f3c0d7b2 to big (4 CPU / 4096 MiB): offered")
		s.UpdateOffering(big, func(o *standin.Offering) { o.LocalStorage = true })
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused).says(t, "change of prod-node-18f3c0d7b2 to big (4 CPU / 4096 MiB): not offered by listServiceOfferings", "storage type").oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
		s.UpdateOffering(big, func(o *standin.Offering) { o.LocalStorage = false })
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK)
		s.trueup(t, "plan prod --worker big").want(t, ExitOK) // there already: nothing to ask
	})
}
