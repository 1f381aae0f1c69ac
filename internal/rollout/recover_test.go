package rollout

import (
	"errors"
	"testing"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// The command that a fault prints must be one that the Lease lets go on: with all goals of the rollout, not with that of the node alone.
func TestGoOn(t *testing.T) {
	node := func(role Role, offering string) NodeReport {
		return NodeReport{Target: Target{Role: role}, Goal: Goal{Offering: capacity.Offering{ID: "id-" + offering, Name: offering}}}
	}
	rows := []struct {
		name  string
		nodes []NodeReport
		want  string
	}{
		{"one role", []NodeReport{node(RoleWorker, "big"), node(RoleWorker, "big")}, "trueup scale prod --worker big"},
		{"two roles", []NodeReport{node(RoleControl, "big"), node(RoleWorker, "very big")}, "trueup scale prod --worker 'very big' --control big"},
		{"goals by node", []NodeReport{node(RoleWorker, "big"), node(RoleWorker, "small")}, "trueup resume prod"},
		{"against a check", []NodeReport{{Target: Target{Role: RoleWorker}, Goal: Goal{Offering: big, Ignore: []string{"memtotal"}}}}, "trueup resume prod"},
		{"no goal", []NodeReport{{Target: Target{Role: RoleWorker}}}, "trueup resume prod"},
	}
	for _, r := range rows {
		if got := goOn(r.nodes, "prod"); got != r.want {
			t.Errorf("%s: %s", r.name, got)
		}
	}
}

func TestFaultNamesAllGoals(t *testing.T) {
	simulate(t, two, func(t *testing.T, tr *trial) {
		tr.machine("w1").crashes = true
		if f, _ := tr.fault(t); f.Recover != "trueup scale prod --worker big --control big" {
			t.Errorf("%s", f.Recover)
		}
	})
}

// Where nodes were chosen by name, the same roles would be more nodes.
func TestFaultOfChosenNodesNamesResume(t *testing.T) {
	simulate(t, two, func(t *testing.T, tr *trial) {
		tr.machine("w1").crashes = true
		r, _ := tr.runner(func() {})
		r.ByNode = true
		_, err := r.Walk(t.Context(), NewPlan("c1", "prod", tr.goals, tr.members()))
		tr.close()
		var f *Fault
		if !errors.As(err, &f) || f.Recover != "trueup resume prod" {
			t.Errorf("%v: %+v", err, f)
		}
	})
}

// A claimed node on which nothing was done is given back on the way out of an error, but not while somebody else's job is under way on its instance.
func TestNothingDone(t *testing.T) {
	pending := func(s *scene) { s.seen.Job = &Job{ID: "theirs", Status: JobPending} }
	for name, c := range map[string]struct {
		in   scene
		want bool
	}{
		"claimed":                    {claimed(), true},
		"no claim":                   {untouched(), false},
		"asked for":                  {asked(), false},
		"a job of somebody else":     {claimed().with(pending), false},
		"one that has ended":         {claimed().with(pending, func(s *scene) { s.seen.Job.Status = JobSucceeded }), true},
		"hardware was brought up":    {claimed().with(func(s *scene) { s.seen.Guest.CPUsOnline-- }), false},
		"hardware was plugged":       {claimed().with(func(s *scene) { s.seen.Guest.BlocksOffline++ }), false},
		"not Ready":                  {claimed().with(notReady), false},
		"a restart was announced":    {announced(), false},
		"etcd machine":               {claimed().with(asEtcd), true},
		"etcd machine, a member ill": {claimed().with(asEtcd, memberIll), false},
	} {
		if got := nothingDone(c.in.claim, c.in.seen); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
