package cli

import (
	"encoding/json"
	"testing"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestExplain(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		golden(t, "explain-80.txt", s.trueup(t, "explain prod prod-node-18f3c0d7b2", on(80, 24)).want(t, ExitOK).out.String())
		s.resizeBehind(t, 1, "big")
		s.claim(t, 2, func(c *rollout.Claim) {
			c.Resize = &rollout.ResizeIntent{JobID: "job-1"}
			c.Phase, c.Fault = "resize-unclear", &rollout.Fault{Layer: "cloudstack", Move: rollout.MoveResize, Summary: "CloudStack gave up"}
		})
		golden(t, "explain-drift.txt", s.trueup(t, "explain prod PROD-node-18f3c0d7b2").want(t, ExitOK).out.String())
		golden(t, "explain-claim.txt", s.trueup(t, "explain prod "+idOf(3)).want(t, ExitOK).out.String())
		var doc struct {
			Kind string `json:"kind"`
			Next []struct {
				Move rollout.Move `json:"move"`
			} `json:"next"`
			Views struct {
				Guest struct {
					CPUsOnline int `json:"cpusOnline"`
				} `json:"guest"`
			} `json:"views"`
		}
		if err := json.Unmarshal([]byte(s.trueup(t, "explain prod prod-node-18f3c0d7b2 -o json").want(t, ExitOK).out.String()), &doc); err != nil ||
			doc.Kind != "NodeExplanation" || len(doc.Next) != 5 || doc.Next[0].Move != rollout.MoveClaim || doc.Views.Guest.CPUsOnline != 2 {
			t.Errorf("%v: %+v", err, doc)
		}
		s.node(0).lost = rollout.ErrUnreachable
		s.trueup(t, "explain prod prod-control-18f3c0d2a1").want(t, ExitOK).prints(t, "unread       the guest could not be read", "can't be told while a view is not read")
		s.trueup(t, "explain prod nosuch").want(t, ExitUsage).says(t, `"nosuch" is no node of prod`).oneError(t)
		s.trueup(t, "explain prod").want(t, ExitUsage).oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("explain changed: %v", got)
		}
	})
}
