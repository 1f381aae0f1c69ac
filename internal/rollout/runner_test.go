package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// trial is one run of a rollout on the simulated cluster, or several.
type trial struct {
	*cluster

	goals  map[Role]Goal
	limits Limits
	stop   chan struct{}
	// endMove and endNode ask for gentler ends; nil unless a test sets them.
	endMove, endNode chan struct{}
	told             []Event
	runs             int
	plan             Plan // the last one
}

func newTrial(names ...string) *trial {
	goal := Goal{Offering: big, Settle: DefaultSettle}
	return &trial{cluster: newCluster(names...), goals: map[Role]Goal{RoleWorker: goal, RoleControl: goal}, limits: DefaultLimits(), stop: make(chan struct{})}
}

// walk plans and walks, as a new run of the program.
func (tr *trial) walk(ctx context.Context) (Report, error) {
	tr.runs++
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &client{cluster: tr.cluster, run: fmt.Sprintf("run-%d", tr.runs), cancel: cancel}
	r := &Runner{CloudStack: simCloudStack{c}, Guests: simGuests{c}, Nodes: simNodes{c}, Lock: simLocker{c}, Pods: simPods{c}, Clock: simClock{},
		Limits: tr.limits, Author: Author{Actor: "me@here"}, Run: c.run, Stop: tr.stop, EndMove: tr.endMove, EndNode: tr.endNode, Watcher: func(e Event) { tr.told = append(tr.told, e) }}
	tr.plan = NewPlan("c1", "prod", tr.goals, tr.members())
	report, err := r.Walk(ctx, tr.plan)
	synctest.Wait()
	return report, err
}

// must walks, and fails the test if that ends with an error.
func (tr *trial) must(t *testing.T) Report {
	t.Helper()
	report, err := tr.walk(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s%v", err, tr.state(), tr.effectsDone())
	}
	return report
}

// fault walks, and returns the fault that it must end with.
func (tr *trial) fault(t *testing.T) (*Fault, Report) {
	t.Helper()
	report, err := tr.walk(t.Context())
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a fault\n%s", err, tr.state())
	}
	return f, report
}

// simulate runs a trial in a bubble of virtual time, and checks at its end that every promise was kept.
func simulate(t *testing.T, names []string, play func(*testing.T, *trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(names...)
		play(t, tr)
		tr.checkKept(t)
		tr.close()
		time.Sleep(time.Minute) // for connections that are opened ahead
	})
}

func TestRolloutOfThreeNodes(t *testing.T) {
	simulate(t, []string{"c1", "w1", "w2"}, func(t *testing.T, tr *trial) {
		report := tr.must(t)
		var want []string
		for _, node := range []string{"w1", "w2", "c1"} { // workers first
			for _, action := range []string{"claim", "resize", "online", "restart", "release"} {
				want = append(want, action+" "+node)
			}
		}
		if diff := cmp.Diff(want, tr.effectsDone()); diff != "" {
			t.Error(diff)
		}
		var reported, planned []string
		for _, e := range report.Effects {
			reported = append(reported, string(e.Action)+" "+e.Node)
		}
		for _, n := range tr.plan.Nodes {
			for _, m := range n.Moves {
				if m.Action != "" {
					planned = append(planned, string(m.Action)+" "+n.Target.Name)
				}
			}
		}
		if diff := cmp.Diff(want, reported) + cmp.Diff(want, planned); diff != "" {
			t.Error(diff)
		}
		for _, n := range report.Nodes {
			checkDone(t, n)
		}
		tr.close()
		for _, m := range tr.machines {
			if !m.finished(big) || m.node.Unschedulable || m.node.ScaleDownDisabled {
				t.Errorf("%s is not finished: %s", m.node.Name, tr.state())
			}
		}
	})
}

// checkDone checks the report of a node on which everything went as planned.
func checkDone(t *testing.T, n NodeReport) {
	t.Helper()
	if n.Outcome != OutcomeDone || n.Fault != nil || n.Unneeded != nil || n.Unplanned != nil || n.Warnings != nil {
		t.Errorf("%+v", n)
	}
	var sum time.Duration
	for _, d := range n.Moves {
		sum += d
	}
	if sum > n.Took || n.Took-sum > time.Second || n.Moves[MoveResize] < simJob || n.Moves[MoveVerify] < DefaultSettle-time.Second {
		t.Errorf("took %s, moves %v", n.Took, n.Moves)
	}
	if n.Final == nil || n.Final.Node.Memory() != n.Final.Guest.MemTotal {
		t.Error("no final observation")
	}
}

// On cgroup v1 the summary says that running pods do not get the new CPUs.
func TestSummaryTellsOfCgroupV1(t *testing.T) {
	simulate(t, two, func(t *testing.T, tr *trial) {
		tr.now("w1", func(m *machine) { m.guest.CgroupVersion = 1 })
		for _, n := range tr.must(t).Nodes {
			if want := n.Target.Name == "w1"; len(n.Warnings) != map[bool]int{true: 1}[want] || want && !strings.Contains(n.Warnings[0], "cgroup v1") {
				t.Errorf("%s: %q", n.Target.Name, n.Warnings)
			}
		}
	})
}

func TestRolloutThatHasNothingToDo(t *testing.T) {
	simulate(t, two, func(t *testing.T, tr *trial) {
		tr.must(t)
		before := len(tr.effects)
		report := tr.must(t)
		if len(tr.effects) != before || len(report.Effects) != 0 || tr.plan.Changes() {
			t.Errorf("did %v", tr.effects[before:])
		}
		for _, n := range report.Nodes {
			if n.Outcome != OutcomeUnchanged {
				t.Errorf("outcome %s", n.Outcome)
			}
		}
	})
}

// What trueup itself adds to a node must stay small; a fixed sleep anywhere would show here.
func TestNoTimeIsWasted(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		report := tr.must(t)
		needed := simJob + simPlug + DefaultSettle
		if own := report.Nodes[0].Took - needed; own > 1500*time.Millisecond {
			t.Errorf("trueup itself took %s: %v", own, report.Nodes[0].Moves)
		}
	})
}

func TestOnlyTheNodeLags(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.now("w1", func(m *machine) { m.resize(big) }) // behind trueup's back
		time.Sleep(time.Minute)
		tr.now("w1", func(m *machine) {
			m.guest.CPUsOnline, m.guest.BlocksOnline, m.guest.BlocksOffline, m.guest.MemTotal = 4, 64, 0, memBig
		})
		tr.must(t)
		if diff := cmp.Diff([]string{"claim w1", "restart w1", "release w1"}, tr.effectsDone()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSpeedAlone(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.goals[RoleWorker] = Goal{Offering: faster, Settle: DefaultSettle}
		var cordoned bool
		tr.later(2*time.Second, "w1", func(m *machine) { cordoned = m.node.Unschedulable })
		tr.must(t)
		if diff := cmp.Diff([]string{"claim w1", "resize w1", "release w1"}, tr.effectsDone()); diff != "" || cordoned {
			t.Error(diff, cordoned)
		}
	})
}

// Replies that are lost after the effect, and requests that never arrive. The report must tell them from what was answered.
func TestLostReplies(t *testing.T) {
	lost := fmt.Errorf("reset: %w", ErrUnreachable)
	rows := []struct {
		name       string
		upset      upset
		noLists    bool
		unanswered []Action
		took       time.Duration // at most
	}{
		{"resize done, reply lost", upset{name: "Resize", times: 1, after: true, err: lost}, false, []Action{ActionResize}, 25 * time.Second},
		{"resize done, reply lost, jobs may not be listed", upset{name: "Resize", times: 1, after: true, err: lost}, true, []Action{ActionResize}, 25 * time.Second},
		{"resize never arrived: sent again once it has expired", upset{name: "Resize", times: 1, err: lost}, false, []Action{ActionResize}, 90 * time.Second},
		{"resize hangs", upset{name: "Resize", times: 1, after: true, err: errHang}, false, []Action{ActionResize}, 45 * time.Second},
		{"restart done, reply lost", upset{name: "Restart", times: 1, after: true, err: lost}, false, []Action{ActionRestart}, 25 * time.Second},
		{"restart never arrived", upset{name: "Restart", times: 1, err: lost}, false, []Action{ActionRestart}, 25 * time.Second},
		{"restart hangs after it was done", upset{name: "Restart", times: 1, after: true, err: errHang}, false, []Action{ActionRestart}, 45 * time.Second},
		{"onlining hangs after it was done", upset{name: "Online", times: 1, after: true, err: errHang}, false, []Action{ActionOnline}, 45 * time.Second},
		{"claim written, reply lost", upset{name: "Patch", times: 1, after: true, err: lost}, false, []Action{ActionClaim}, 25 * time.Second},
		{"the Lease can't be read for a while", upset{name: "Check", times: 5, err: lost}, false, nil, 35 * time.Second},
		{"the Node can't be read for a while", upset{name: "Node", times: 8, err: lost}, false, nil, 40 * time.Second},
		{"the guest can't be reached for a while", upset{name: "Probe", times: 8, err: lost}, false, nil, 40 * time.Second},
		{"no watch can be had at all", upset{name: "Watch", err: lost}, false, nil, 25 * time.Second},
	}
	want, _ := reference(t, []string{"w1"})
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				tr.upset, tr.noLists = r.upset, r.noLists
				report := tr.must(t)
				sameEnd(t, tr, want)
				var unanswered []Action
				for _, e := range report.Effects {
					if e.Unanswered {
						unanswered = append(unanswered, e.Action)
					}
				}
				if diff := cmp.Diff(r.unanswered, unanswered); diff != "" {
					t.Error(diff)
				}
				if took := report.Nodes[0].Took; took > r.took {
					t.Errorf("took %s", took)
				}
				if u := report.Nodes[0].Unneeded; u != nil {
					t.Errorf("unneeded: %v", u)
				}
			})
		})
	}
}

func TestConflictStorm(t *testing.T) {
	for _, storm := range []int{1, 5, 20} {
		t.Run(fmt.Sprint(storm), func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				tr.upset = upset{name: "Patch", times: storm, err: fmt.Errorf("patch: %w", ErrConflict)}
				tr.must(t)
				if n := tr.count("claim"); n != 1 {
					t.Errorf("claimed %d times", n)
				}
			})
		})
	}
	t.Run("without end", func(t *testing.T) {
		simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
			tr.upset = upset{name: "Patch", err: fmt.Errorf("patch: %w", ErrConflict)}
			f, _ := tr.fault(t)
			if f.Layer != capacity.LayerSchedulability || f.Move != MoveClaim || len(tr.effects) > 0 {
				t.Errorf("%+v, effects %v", f, tr.effects)
			}
			if len(tr.calls) > 1000 {
				t.Errorf("%d calls: a loop without pauses", len(tr.calls))
			}
		})
	})
}

// sentence says who takes part in a fault, for people.
func TestEventsTellTheStory(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.must(t)
		var moves []Move
		for _, e := range tr.told {
			if e.At.IsZero() || e.Target.Name != "w1" {
				t.Fatalf("%+v", e)
			}
			moves = append(moves, e.Move)
		}
		want := []Move{MoveClaim, MoveResize, MoveOnline, MoveRestart, MoveVerify, MoveRelease}
		if diff := cmp.Diff(want, slices.Compact(moves)); diff != "" {
			t.Error(diff)
		}
		if last := tr.told[len(tr.told)-1]; !last.Done || last.Fault != nil {
			t.Errorf("ends with %+v", last)
		}
	})
}

func TestHeldByAnotherRun(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.lease.holder = &client{cluster: tr.cluster, run: "theirs"}
		f, report := tr.fault(t)
		if f.Layer != capacity.LayerLock || !errors.Is(f, ErrHeld) || !strings.Contains(f.Error(), "theirs") || len(tr.effects) > 0 {
			t.Errorf("%v, effects %v", f, tr.effects)
		}
		if report.Nodes[0].Outcome != OutcomeWaiting {
			t.Errorf("outcome %s", report.Nodes[0].Outcome)
		}
	})
}

// Once the Lease is somebody else's, nothing more is done, at whatever time that happens.
func TestNoEffectAfterTheLeaseIsLost(t *testing.T) {
	for at := 5 * time.Millisecond; at < 19*time.Second; at += 173 * time.Millisecond {
		t.Run(at.String(), func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				var before int
				tr.after(at, func() { tr.lease.stolen, before = true, len(tr.effects) })
				f, _ := tr.fault(t)
				if f.Layer != capacity.LayerLock || !errors.Is(f, ErrLost) {
					t.Errorf("%v", f)
				}
				// One effect may have passed its look at the Lease just before; its deadline is what fences it.
				if len(tr.effects) > before+1 {
					t.Errorf("did %v after the Lease was lost", tr.effects[before:])
				}
			})
		})
	}
}
