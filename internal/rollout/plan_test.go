package rollout

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
)

var update = flag.Bool("update", false, "write the golden files anew")

// member makes a member of the scene, as another node.
func member(s scene, role Role, name string) Member {
	o := &s.seen
	id := strings.Replace(vm1, "11111111", fmt.Sprintf("%08x", []byte(name)), 1)
	o.Target.Role, o.Target.Name, o.Target.InstanceID = role, name, id
	o.Instance.ID, o.Instance.Name, o.Guest.ProductUUID = id, name, id
	o.Node.Name, o.Node.UID, o.Node.SystemUUID = name, "uid-"+name, id
	o.Node.ControlPlane = role == RoleControl
	if s.claim != nil {
		c := *s.claim
		c.InstanceID = id
		s.claim = &c
	}
	return Member{Seen: *o, Claim: s.claim}
}

// transcript writes a plan as a story.
func transcript(p Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s, changes: %t\n", p.ClusterName, p.Changes())
	for _, n := range p.Nodes {
		fmt.Fprintf(&b, "\n%s %s, now %s, goal %s", n.Target.Role, n.Target.Name, n.Present, n.Goal.Offering)
		if n.Resumes != "" {
			fmt.Fprintf(&b, ", resumes %s", n.Resumes)
		}
		b.WriteString("\n")
		for _, r := range n.Refusals {
			fmt.Fprintf(&b, "  refused (%s): %s\n", r.Check.Layer, r)
		}
		for i, m := range n.Moves {
			fmt.Fprintf(&b, "  %d. %-7s %s\n     because %s\n", i+1, m.Move, m.Sentence, m.Why)
		}
		if len(n.Moves)+len(n.Refusals) == 0 {
			b.WriteString("  nothing to do\n")
		}
	}
	return b.String()
}

func TestPlans(t *testing.T) {
	to := func(o capacity.Offering, roles ...Role) map[Role]Goal {
		goals := map[Role]Goal{}
		for _, r := range roles {
			goals[r] = Goal{Offering: o, Settle: DefaultSettle}
		}
		return goals
	}
	fresh := []Member{member(untouched(), RoleControl, "c1"), member(untouched(), RoleWorker, "w1"), member(untouched(), RoleWorker, "w2")}
	onlyNodeLags := released().with(shows("2", "4021020Ki"))
	onlyGuestLags := released().with(func(s *scene) {
		s.seen.Guest.CPUsOnline, s.seen.Guest.BlocksOnline, s.seen.Guest.BlocksOffline, s.seen.Guest.MemTotal = 2, 32, 32, memSmall
	}, shows("2", "4021020Ki"))
	onlined := released().with(func(s *scene) { // the kernel brought the memory up by itself
		s.seen.Guest.CPUsOnline, s.seen.Guest.MemTotal = 2, memBig
	}, shows("2", "4021020Ki"))
	shrink := untouched().with(func(s *scene) { s.seen.Instance.CPUs, s.seen.Instance.MemoryMiB = 8, 16384 })
	static := untouched().with(func(s *scene) { s.seen.Guest.CPUManagerPolicy, s.seen.Guest.MemoryManagerPolicy = "static", "Static" })
	failedJob := asked().with(func(s *scene) {
		s.seen.Job.Status, s.claim.Run, s.claim.Fault = JobFailed, "run-0", &Fault{Move: MoveResize}
	})
	rows := []struct {
		name    string
		goals   map[Role]Goal
		members []Member
	}{
		{"fresh_cluster", to(big, RoleControl, RoleWorker), fresh},
		{"workers_only", to(big, RoleWorker), fresh},
		{"one_node_done", to(big, RoleWorker), []Member{member(released(), RoleWorker, "w1"), member(untouched(), RoleWorker, "w2")}},
		{"all_done", to(big, RoleWorker), []Member{member(released(), RoleWorker, "w1"), member(released(), RoleWorker, "w2")}},
		{"only_the_node_lags", to(big, RoleWorker), []Member{member(onlyNodeLags, RoleWorker, "w1")}},
		{"only_the_guest_lags", to(big, RoleWorker), []Member{member(onlyGuestLags, RoleWorker, "w1"), member(onlined, RoleWorker, "w2")}},
		{"claimed_node_first", to(big, RoleControl, RoleWorker), []Member{member(untouched(), RoleControl, "c1"), member(untouched(), RoleWorker, "w1"), member(resized(), RoleWorker, "w2"), member(restartedScene(), RoleControl, "c2")}},
		{"failed_job_again", to(big, RoleWorker), []Member{member(failedJob, RoleWorker, "w1")}},
		{"speed_alone", to(faster, RoleWorker), fresh},
		{"cordoned_by_somebody", to(big, RoleWorker), []Member{member(untouched().with(someoneCordoned), RoleWorker, "w1")}},
		{"refused", to(big, RoleWorker), []Member{member(untouched(), RoleWorker, "w1"), member(shrink, RoleWorker, "w2"), member(static, RoleWorker, "w3"),
			member(untouched().with(marked, notReady), RoleWorker, "w4")}},
		{"claimed_for_another_goal", to(faster, RoleWorker), []Member{member(untouched(), RoleWorker, "w1"), member(resized(), RoleWorker, "w2")}},
		{"claimed_node_left_out", to(big, RoleWorker), []Member{member(untouched(), RoleWorker, "w1"), member(resized(), RoleControl, "c1")}},
		{"other_job_pending", to(big, RoleWorker), []Member{member(claimed().with(func(s *scene) { s.seen.Job = &Job{ID: "job-7", Status: JobPending} }), RoleWorker, "w1")}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			golden(t, filepath.Join("testdata", "plan_"+r.name+".golden"), transcript(NewPlan("id-of-prod", "prod", r.goals, r.members)))
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (write it anew with -update):\n%s", file, diff)
	}
}

// A plan does not change what it was made from.
func TestPlanLeavesItsInputAlone(t *testing.T) {
	for name, s := range map[string]scene{"untouched": untouched(), "resized": resized(), "restarted": restartedScene()} {
		fresh := map[string]scene{"untouched": untouched(), "resized": resized(), "restarted": restartedScene()}[name]
		_ = planNode(s.goal, Member{Seen: s.seen, Claim: s.claim})
		if diff := cmp.Diff(fresh.seen, s.seen, sameQuantity) + cmp.Diff(fresh.claim, s.claim, sameQuantity); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRecoverCommandCanBePasted(t *testing.T) {
	rows := map[string][2]string{
		"trueup scale prod --worker big":                   {"prod", "big"},
		"trueup scale prod --worker 'Large Instance'":      {"prod", "Large Instance"},
		"trueup scale 'my cluster' --worker 'it'\\''s $1'": {"my cluster", "it's $1"},
		"trueup scale prod --worker off-big":               {"prod", ""},
	}
	for want, names := range rows {
		got := recoverCommand(Target{ClusterName: names[0], Role: RoleWorker}, Goal{Offering: capacity.Offering{ID: "off-big", Name: names[1]}})
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
