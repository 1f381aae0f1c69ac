package cli

import (
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// A rollout that would hit the limits of the account in the middle is not begun; ignored, CloudStack refuses the node that goes over, and it is given back.
func TestAccountLimits(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.SetLimit(standin.Owner{Account: "owner"}, standin.Limit{CPUs: 8})
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused).says(t, "limits of the owner: account owner: 6 CPUs used, 4 more, limit 8", "updateResourceLimit").oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
		s.trueup(t, "scale prod --worker big --yes --ignore account-limits").want(t, ExitPartly)
		if s.node(1).guest.CPUsOnline != 4 || s.node(2).guest.CPUsOnline != 2 || s.node(2).node.Unschedulable {
			t.Errorf("%+v %+v", s.node(1).guest, s.node(2).guest)
		}
	})
}
