package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/doctor"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// A cluster where nothing stands in the way.
func TestDoctorFindsNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trueup(t, "doctor prod").want(t, ExitOK).prints(t, "live")
		s.trueup(t, "doctor").want(t, ExitOK)
		s.trueup(t, "doctor nosuch").want(t, ExitUsage)
		if got := s.changes(); got != nil {
			t.Errorf("doctor changed: %v", got)
		}
	})
}

// verdicts are those of a JSON document, by cluster, or cluster and node.
func verdicts(t *testing.T, text string) map[string]doctor.Verdict {
	t.Helper()
	var doc examination
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]doctor.Verdict{}
	for _, c := range doc.Clusters {
		out[c.Name] = c.Verdict
		for _, n := range c.Nodes {
			out[c.Name+"/"+n.Name] = n.Verdict
		}
	}
	return out
}

// Every verdict in one fleet: what can't be read hides no other, each finding has its remedy, and nothing is changed.
func TestDoctorOfAFleet(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(0).inside.DIMMSlots = 0
		s.resizeBehind(t, 1, "big")
		s.claim(t, 2, nil)
		owner := standin.Owner{Account: "owner"}
		s.AddCluster(standin.ClusterSpec{Name: "asleep", State: standin.ClusterCreated, Owner: owner, OfferingID: s.offeringID("small"), Control: standin.Nodes(1), Workers: standin.Nodes(1)})
		s.AddCluster(standin.ClusterSpec{Name: "theirs", ExternallyManaged: true, Owner: owner})
		p := s.trueup(t, "doctor -o json").want(t, ExitDrift)
		want := map[string]doctor.Verdict{
			"prod": doctor.Unfinished, "prod/prod-control-18f3c0d2a1": doctor.Prepare, "prod/prod-node-18f3c0d7b2": doctor.Drifting, "prod/prod-node-18f3c0dbc3": doctor.Unfinished,
			"asleep": doctor.NotRunning, "theirs": doctor.NotManaged,
		}
		if diff := cmp.Diff(want, verdicts(t, p.out.String())); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		golden(t, "doctor-80.txt", s.trueup(t, "doctor", on(80, 24)).want(t, ExitDrift).out.String())
		golden(t, "doctor-140.txt", s.trueup(t, "doctor", on(140, 40)).want(t, ExitDrift).out.String())

		s.node(1).lost = rollout.ErrUnreachable
		s.Set(standin.SettingDynamicScaling, s.Defaults().ZoneID, "false")
		p = s.trueup(t, "doctor prod").want(t, ExitUnreachable).prints(t, "enable.dynamic.scale.vm", "--method cold", "trueup status prod")
		if got := s.changes(); got != nil {
			t.Errorf("doctor changed: %v", got)
		}
		_ = p
	})
}

// The record alone may lag: CloudStack changes it only with the cluster's size.
func TestDoctorLeavesTheRecordAlone(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK)
		time.Sleep(time.Minute)
		s.trueup(t, "doctor prod").want(t, ExitOK)
		for _, m := range s.nodes {
			if c := capacity.CheckReady(m.node); !c.OK {
				t.Error(c)
			}
		}
	})
}
