package cli

import (
	"errors"
	"testing"
)

// Pods that the restarted kubelet would reject are told of before anything is changed, and refuse nothing.
func TestMisplacedPods(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).misplaced = []string{"default/old"}
		s.trueup(t, "plan prod --worker big").want(t, ExitOK).prints(t, "Warning: pods' node affinity: prod-node-18f3c0d7b2 does not match what they require any more: default/old")
		s.podsErr = errors.New("may not be listed")
		s.trueup(t, "preflight prod --worker big").want(t, ExitOK).prints(t, "its pods could not be looked at: may not be listed")
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK)
	})
}
