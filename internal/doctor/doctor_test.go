package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	slots := capacity.Check{What: "slots for DIMMs", Expected: "a free one", Observed: "0 of 0 taken"}
	guest := capacity.Drift{View: capacity.ViewGuest, Why: "2 CPUs online"}
	record := capacity.Drift{View: capacity.ViewRecord, Why: "small"}
	for name, c := range map[string]struct {
		facts    Facts
		verdict  Verdict
		remedies []string
	}{
		"all is well":               {Facts{}, Live, nil},
		"the record lags":           {Facts{Drifts: []capacity.Drift{record}}, Live, nil},
		"no slots":                  {Facts{Unprepared: []capacity.Check{slots}}, Prepare, []string{"trueup prepare prod --node w1"}},
		"an administrator's matter": {Facts{Unprepared: []capacity.Check{slots}, Obstacles: []string{"the template"}}, Cold, []string{"trueup scale prod --worker OFFERING --node w1 --method cold"}},
		"the guest lags":            {Facts{Drifts: []capacity.Drift{record, guest}}, Drifting, []string{"trueup reconcile prod w1"}},
		"claimed and lagging":       {Facts{Claimed: true, Drifts: []capacity.Drift{guest}}, Unfinished, []string{"trueup resume prod", "trueup reconcile prod w1"}},
		"unread":                    {Facts{Unread: []string{"no answer"}, Claimed: true}, Unreachable, []string{"trueup status prod", "trueup resume prod"}},
		"no host key":               {Facts{Unread: []string{"its host key is unknown"}, Enroll: true}, Unreachable, []string{"trueup ssh enroll prod --node w1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Target = rollout.Target{ClusterName: "prod", Name: "w1", Role: rollout.RoleWorker}
			n := Judge(c.facts)
			var remedies []string
			for _, f := range n.Findings {
				remedies = append(remedies, f.Remedy)
			}
			if diff := cmp.Diff(c.remedies, remedies); diff != "" || n.Verdict != c.verdict {
				t.Errorf("%s, want %s; remedies (-want +got):\n%s", n.Verdict, c.verdict, diff)
			}
		})
	}
}

// The worst verdict is that of the cluster, and every verdict has a rank.
func TestWorst(t *testing.T) {
	t.Parallel()
	order := []Verdict{Live, NotManaged, NotRunning, Prepare, Cold, Drifting, Unfinished, Unreachable}
	for i, v := range order {
		if v.rank() != i {
			t.Errorf("%s ranks %d", v, v.rank())
		}
		if got := Worst([]Node{{Verdict: Live}, {Verdict: v}, {Verdict: Live}}); got != v {
			t.Errorf("%s among live ones is %s", v, got)
		}
	}
	if Worst(nil) != Live {
		t.Error("no nodes")
	}
}
