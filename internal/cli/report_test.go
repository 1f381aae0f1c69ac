package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// What a person should know of a node that is done stands in the summary, in the report and in the history, and is no failure.
func TestPodsThatWereRejectedAreReported(t *testing.T) {
	const node = "prod-node-18f3c0d7b2"
	want := []string{"the restarted kubelet rejected pods that had run here: shop/web (NodeAffinity)"}
	play(t, func(t *testing.T, s *stage) {
		s.node(1).pods, s.node(1).reject = []capacity.Pod{{UID: "p1", Namespace: "shop", Name: "web", Phase: "Running", Ready: true}}, "NodeAffinity"
		text := s.trueup(t, "scale prod --yes --offering big --node "+node).want(t, ExitOK).out.String()
		if line := node + ": note: " + want[0] + "."; !strings.Contains(text, line) {
			t.Errorf("%s\nlacks %s", text, line)
		}
		if text := s.trueup(t, "history prod").want(t, ExitOK).out.String(); !strings.Contains(text, "done, 1 note") {
			t.Errorf("%s", text)
		}
		entries, _, err := history.Open(s.history()).Read()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(entries, func(e history.Entry) bool { return e.Node != nil })
		if n := entries[i].Node; !slices.Equal(n.Warnings, want) || n.Outcome != rollout.OutcomeDone || len(n.Claim.Restart.Pods.Pods) != 1 || n.Final.Pods.Pods[0].Reason != "NodeAffinity" {
			t.Errorf("%+v", n)
		}
	})
	play(t, func(t *testing.T, s *stage) {
		s.node(1).pods, s.node(1).reject = []capacity.Pod{{UID: "p1", Namespace: "shop", Name: "web", Phase: "Running", Ready: true}}, "NodeAffinity"
		var report reportDocument
		if err := json.Unmarshal([]byte(s.trueup(t, "scale prod --yes -o json --offering big --node "+node).want(t, ExitOK).out.String()), &report); err != nil {
			t.Fatal(err)
		}
		if got := report.Nodes[0].Warnings; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}
