package cli

import (
	"testing"
)

func TestScaleTakesTheClusterToItsGoal(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		p := s.trueup(t, "scale prod --worker big --control big --yes").want(t, ExitOK)
		golden(t, "scale.err", p.err.String())
		golden(t, "scale.out", p.out.String())
		s.trueup(t, "verify prod").want(t, ExitOK)
		golden(t, "status-after.out", s.trueup(t, "status prod").want(t, ExitOK).out.String())
	})
}
