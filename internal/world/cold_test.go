package world

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Cold is the goal of the cold method.
func coldGoal(o capacity.Offering) rollout.Goal {
	g := Goal(o)
	g.Method = rollout.MethodCold
	return g
}

// shrink takes every node to the tiny offering, which no running instance can be taken to.
func (w *World) shrink() map[rollout.Role]rollout.Goal {
	return map[rollout.Role]rollout.Goal{rollout.RoleWorker: coldGoal(w.Tiny), rollout.RoleControl: coldGoal(w.Tiny), rollout.RoleEtcd: coldGoal(w.Tiny)}
}

func shrink(ctx context.Context, w *World, r *Run) error {
	_, err := r.Scale(ctx, w.shrink())
	return err
}

// at fails the test unless the machine has the offering in every view, is free, and kubelet was never restarted by us.
func (w *World) at(t *testing.T, o capacity.Offering, names ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines {
		if !slices.Contains(names, m.name) {
			continue
		}
		if !m.on || !m.finished(o) || m.claim() != nil || m.hasNode() && m.node.Unschedulable || m.ledger.issued != 0 {
			t.Errorf("%s: %s, %s, %d restarts of ours", m.name, m.hardware(), m.nodeState(), m.ledger.issued)
		}
	}
}

func TestColdShrink(t *testing.T) {
	for name, nodes := range map[string][]string{"workers": {"w1", "w2"}, "control plane": {"c1", "c2", "c3"}, "etcd": {"e1", "e2", "e3"}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, cluster(nodes...), func(t *testing.T, w *World) {
				r := w.Run()
				report, err := r.Scale(t.Context(), w.shrink())
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range report.Nodes {
					if n.Outcome != rollout.OutcomeDone || n.Unplanned != nil || n.Unneeded != nil || n.Warnings != nil {
						t.Errorf("%+v", n)
					}
				}
				w.at(t, w.Tiny, nodes...)
			})
		})
	}
}

// A disruption budget that holds a pod is waited for; when it lets go, the rollout goes on by itself.
func TestColdDrainWaitsForABudget(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.Hold("web-w1", true)
		w.At(3*time.Minute, func(w *World) { w.Hold("web-w1", false) })
		var said []string
		r := w.Run()
		r.Watcher = func(e rollout.Event) {
			if e.Move == rollout.MoveDrain && e.Action == "" {
				said = append(said, e.Check.Observed)
			}
		}
		if err := shrink(t.Context(), w, r); err != nil {
			t.Fatal(err)
		}
		w.at(t, w.Tiny, "w1", "w2")
		if !slices.Contains(said, "held: default/web-w1 (disruption budget web-w1)") {
			t.Errorf("what holds it was not told: %q", slices.Compact(said))
		}
	})
}

// A drain that does not end within its bound ends the rollout; the node is given back, with what still runs on it, and nothing was stopped.
func TestColdDrainThatNeverEnds(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.Hold("web-w1", true)
		err := shrink(t.Context(), w, w.Run())
		var f *rollout.Fault
		if !errors.As(err, &f) || f.Move != rollout.MoveDrain || f.Layer != capacity.LayerSchedulability || !strings.Contains(f.Observed, "default/web-w1 (disruption budget") || !f.GivenBack {
			t.Errorf("%v", err)
		}
		w.at(t, w.Small, "w1", "w2")
	})
}

// A pod that the person named is deleted where its budget holds it.
func TestColdDeletesNamedPods(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.Hold("web-w1", true)
		goals := w.shrink()
		g := goals[rollout.RoleWorker]
		g.DeletePods = []string{"default/web-w1"}
		goals[rollout.RoleWorker] = g
		if _, err := w.Run().Scale(t.Context(), goals); err != nil {
			t.Fatal(err)
		}
		w.at(t, w.Tiny, "w1", "w2")
	})
}

// CloudStack refuses the offering of a stopped instance: it is started again as it was, the node is given back, and the rollout says why.
func TestColdRefusedOffering(t *testing.T) {
	for name, f := range map[string]standin.Fault{
		"refused": {Command: "scaleVirtualMachine", Effect: standin.Refuse{Code: 431, Text: "scripted"}},
		"failed":  {Effect: standin.JobFailure{At: standin.BeforeAgent, Text: "scripted"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
				if name == "failed" {
					w.At(8*time.Second, func(w *World) { w.CloudStack.Script(f) })
				} else {
					w.CloudStack.Script(f)
				}
				err := shrink(t.Context(), w, w.Run())
				var fault *rollout.Fault
				if !errors.As(err, &fault) {
					t.Fatalf("%v", err)
				}
				if name == "refused" && (fault.Move != rollout.MoveResize || !fault.GivenBack || !strings.Contains(fault.Error(), "scripted")) {
					t.Errorf("%v", err)
				}
				if name == "refused" {
					w.at(t, w.Small, "w1", "w2")
				}
				if err := shrink(t.Context(), w, w.Run()); err != nil {
					t.Error(err)
				}
				w.at(t, w.Tiny, "w1", "w2")
			})
		})
	}
}

// An instance that CloudStack can't start again stays claimed and cordoned, and the next run starts it.
func TestColdStartFails(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.CloudStack.Script(standin.Fault{Command: "startVirtualMachine", Effect: standin.Refuse{Code: 533, Text: "no host has room"}})
		err := shrink(t.Context(), w, w.Run())
		var f *rollout.Fault
		if !errors.As(err, &f) || f.Move != rollout.MoveStart || f.Layer != capacity.LayerCloudStack || f.Recover != "trueup scale prod --worker tiny --method cold" || !strings.Contains(f.Observed, "no host has room") {
			t.Fatalf("%+v", f)
		}
		if m := w.machines[0]; m.on || m.claim() == nil || !m.node.Unschedulable {
			t.Error(w.State())
		}
		if err := resume(t.Context(), w, w.Run()); err != nil {
			t.Error(err)
		}
		w.at(t, w.Tiny, "w1", "w2")
	})
}

// Whoever asks a run to stop while a node is down gets it back first.
func TestColdInterruptedWhileDown(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		stop := make(chan struct{})
		r := w.Run()
		r.Stop = stop
		r.Watcher = func(e rollout.Event) {
			if e.Action == rollout.ActionStop {
				close(stop)
			}
		}
		if err := shrink(t.Context(), w, r); !errors.Is(err, rollout.ErrInterrupted) {
			t.Fatalf("%v", err)
		}
		w.at(t, w.Tiny, "w1")
		w.at(t, w.Small, "w2")
	})
}

// A node whose size is right is stopped and started all the same where its boot shall be over, and only once.
func TestColdPrepare(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		plan := func() rollout.Plan {
			var members []rollout.Member
			for _, m := range w.Members() {
				g := coldGoal(w.Small)
				g.PastBoot = w.machines[0].guest.BootID
				if m.Seen.Target.Name == "w1" {
					m.Goal = &g
				}
				members = append(members, m)
			}
			return rollout.NewPlan(w.ClusterID, ClusterName, nil, members)
		}
		before := w.machines[0].guest.BootID
		p := plan()
		report, err := w.Run().Perform(t.Context(), p, "prepare")
		if err != nil || report.Nodes[0].Outcome != rollout.OutcomeDone || w.machines[0].guest.BootID == before {
			t.Fatalf("%v %+v", err, report.Nodes)
		}
		if report, err = w.Run().Perform(t.Context(), p, "prepare"); err != nil || report.Nodes[0].Outcome != rollout.OutcomeUnchanged {
			t.Errorf("%v %+v", err, report.Nodes)
		}
		w.at(t, w.Small, "w1", "w2")
	})
}

// The only control-plane node takes the API with it. Whoever accepts that gets it back.
func TestColdOnlyControlPlaneNode(t *testing.T) {
	simulate(t, cluster("c1", "w1"), func(t *testing.T, w *World) {
		goals := map[rollout.Role]rollout.Goal{rollout.RoleControl: coldGoal(w.Tiny)}
		var refused *RefusedError
		if _, err := w.Run().Scale(t.Context(), goals); !errors.As(err, &refused) || refused.Plan.Refused()[0].Refusals[0].Name != "api-outage" {
			t.Fatalf("%v", err)
		}
		g := goals[rollout.RoleControl]
		g.AcceptOutage = true
		goals[rollout.RoleControl] = g
		if _, err := w.Run().Scale(t.Context(), goals); err != nil {
			t.Fatal(err)
		}
		w.at(t, w.Tiny, "c1")
	})
}

// A run that dies in that outage leaves a stopped machine, and no API to go on with. As soon as somebody has started it, anybody can.
func TestColdCrashInTheOutage(t *testing.T) {
	cfg := cluster("c1", "w1")
	outage := func(w *World) map[rollout.Role]rollout.Goal {
		g := coldGoal(w.Tiny)
		g.AcceptOutage = true
		return map[rollout.Role]rollout.Goal{rollout.RoleControl: g}
	}
	var boundaries []Boundary
	simulate(t, cfg, func(t *testing.T, w *World) {
		r := w.Run()
		if _, err := r.Scale(t.Context(), outage(w)); err != nil {
			t.Fatal(err)
		}
		boundaries = r.Boundaries
	})
	began := slices.IndexFunc(boundaries, func(b Boundary) bool { return b.Call.Method == "Stop" })
	for i := began; i < len(boundaries); i += 5 {
		simulate(t, cfg, func(t *testing.T, w *World) {
			r := w.Run()
			r.KillAt = i + 1
			_, _ = r.Scale(t.Context(), outage(w))
			w.Sleep(time.Minute)
			w.StartVM("c1")
			w.Sleep(2 * time.Minute)
			if err := resume(t.Context(), w, w.Run()); err != nil {
				t.Errorf("killed at %s: %v", boundaries[i], err)
			}
			w.at(t, w.Tiny, "c1")
		})
		if t.Failed() {
			return
		}
	}
	if began < 0 || len(boundaries)-began < 100 {
		t.Errorf("%d of %d boundaries are in the outage", len(boundaries)-began, len(boundaries))
	}
}

// Somebody starts the instance before it has its offering: nothing more is done in that run, and the next one begins again.
func TestColdStartedBySomebody(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.CloudStack.Script(standin.Fault{Command: "scaleVirtualMachine", Times: 20, Effect: standin.LoseRequest{}})
		w.At(30*time.Second, func(w *World) { w.StartVM("w1") })
		err := shrink(t.Context(), w, w.Run())
		var f *rollout.Fault
		if !errors.As(err, &f) || f.Summary != "somebody started the instance before it had its offering" {
			t.Fatalf("%v", err)
		}
		w.CloudStack.Script()
		for range 3 {
			if err = resume(t.Context(), w, w.Run()); err == nil {
				break
			}
		}
		if err != nil {
			t.Error(err)
		}
		w.at(t, w.Tiny, "w1", "w2")
	})
}

// A program that is killed anywhere in the cold method leaves a cluster that the next run takes to the end of a run without a crash.
func TestColdCrashAtEveryBoundary(t *testing.T) {
	for _, ref := range []reference{
		{name: "workers", cfg: cluster("w1", "w2"), run: shrink, calls: 200, every: 7},
		{name: "control plane", cfg: cluster("c1", "c2"), run: shrink, calls: 200, every: 7},
		{name: "dedicated etcd", cfg: cluster("e1", "e2", "e3"), run: shrink, calls: 200, every: 7},
		{name: "a budget holds a pod for a while", cfg: cluster("w1", "w2"), run: shrink, calls: 200, every: 7,
			before: func(_ context.Context, w *World) { w.Hold("web-w1", true) },
			during: func(w *World) { w.At(10*time.Second, func(w *World) { w.Hold("web-w1", false) }) }},
	} {
		t.Run(ref.name, func(t *testing.T) { t.Parallel(); ref.sweep(t, shrink) })
	}
}
