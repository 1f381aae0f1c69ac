package rollout

import (
	"testing"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// A control-plane node has its turn only while the rest of the control plane is well.
func TestNextPeers(t *testing.T) {
	peers := func(statuses ...string) func(*scene) {
		return func(s *scene) {
			s.seen.Peers = nil
			for _, status := range statuses {
				s.seen.Peers = append(s.seen.Peers, Peer{Name: "cp-" + status, Ready: capacity.Condition{Status: status}})
			}
		}
	}
	etcdDown := func(s *scene) { s.seen.ControlPlane = "etcd failed" }
	checkRules(t, []rule{
		{"all others are Ready", untouched().with(peers("True", "True")), "act: claim"},
		{"another one is not Ready", untouched().with(peers("True", "False")), "stop in claim, preflight: rest of the control plane"},
		{"another one is unknown", untouched().with(peers("Unknown")), "stop in claim, preflight: rest of the control plane"},
		{"another one could not be read", untouched().with(peers("")), "stop in claim, preflight: rest of the control plane"},
		{"the API server's etcd is not well", untouched().with(etcdDown), "stop in claim, preflight: rest of the control plane"},
		{"nothing to do: others don't matter", released().with(peers("False")), "done"},
		{"claimed, then another one fails: no resize", claimed().with(peers("False")), "wait in resize: rest of the control plane"},
		{"about to restart, then another one fails: no restart", online().with(peers("False")), "wait in restart: rest of the control plane"},
		{"about to restart, etcd fails", online().with(etcdDown), "wait in restart: rest of the control plane"},
		{"verified, but another one fails: not given back yet", settled().with(peers("False")), "wait in verify: rest of the control plane"},
		{"verified, the API server is not well after it", settled().with(etcdDown), "wait in verify: rest of the control plane"},
		{"verified, all are well", settled().with(peers("True")), "act: release"},
	})
}
