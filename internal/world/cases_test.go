package world

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// What seeds have found, as cases that stay. A seed's number means another scenario as soon as the scenarios change.

// Seed 2362: the Node was deleted and made anew, without the claim, while CloudStack could not be read: the look that follows the fault
// found no claim, and the engine paniced.
func TestNodeIsMadeAnewWhileItCanNotBeRead(t *testing.T) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		w.Script(Upset{Call: "CloudStack.Instance", Skip: 1, Times: -1, Hang: true})
		w.At(2*time.Second, func(w *World) { w.DeleteNode("w1"); w.RestartKubelet("w1") })
		r := w.Run()
		r.Limits.Access = 10 * time.Second
		var f *rollout.Fault
		if _, err := r.Scale(t.Context(), w.grow()); !errors.As(err, &f) || f.Layer != capacity.LayerAccess {
			t.Errorf("got %v", err)
		}
	})
}

// A rollout that nothing can finish ends, and says why: kubelet's static CPU manager refuses a grown machine, so the node is not begun on.
func TestStaticPolicyIsRefused(t *testing.T) {
	cfg := cluster("w1")
	cfg.Nodes[0].StaticPolicy = true
	simulate(t, cfg, func(t *testing.T, w *World) {
		before := w.State()
		var refused *RefusedError
		if err := scale(t.Context(), w, w.Run()); !errors.As(err, &refused) || w.State() != before {
			t.Errorf("%v\n%s", err, w.State())
		}
	})
}

// A restarted kubelet that can't give its pods the memory that was added: the node is not given back, and another restart is not the cure.
func TestPodsKeptToTheOldMemory(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.CapPods("w1", true)
		var f *rollout.Fault
		if err := scale(t.Context(), w, w.Run()); !errors.As(err, &f) || f.Layer != capacity.LayerKubelet || f.Move != rollout.MoveVerify || !strings.Contains(f.Summary, "memory of the kubepods cgroup") {
			t.Errorf("got %v", err)
		}
		if w.machines[1].ledger.issued > 0 {
			t.Errorf("went on to the next node\n%s", w.State())
		}
		w.CapPods("w1", false)
		if err := scale(t.Context(), w, w.Run()); err != nil || w.machines[0].ledger.issued != 1 {
			t.Errorf("%v\n%s", err, w.State())
		}
	})
}

// Pods that kubelet rejects at its restart are named in the summary; the rollout goes on.
func TestRejectedPodsAreNamed(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.RejectPods("w1", "NodeAffinity")
		report, err := w.Run().Scale(t.Context(), w.grow())
		if err != nil {
			t.Fatal(err)
		}
		want := "the restarted kubelet rejected pods that had run here: default/agent-w1 (NodeAffinity), default/web-w1 (NodeAffinity)"
		if got := report.Nodes[0].Warnings; len(got) != 1 || got[0] != want {
			t.Errorf("%q", got)
		}
		if got := report.Nodes[1].Warnings; got != nil {
			t.Errorf("%q", got)
		}
	})
}

// Whoever gives a rollout up is told of the pods as well.
func TestAbortNamesRejectedPods(t *testing.T) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		w.RejectPods("w1", "OutOfcpu")
		r := w.Run()
		r.Limits.Verify = time.Second
		var f *rollout.Fault
		if _, err := r.Scale(t.Context(), w.grow()); !errors.As(err, &f) {
			t.Fatal(err)
		}
		w.Sleep(time.Minute)
		report, err := w.Run().Abort(t.Context(), false)
		if err != nil || len(report.Nodes) != 1 || len(report.Nodes[0].Warnings) != 1 || !strings.Contains(report.Nodes[0].Warnings[0], "default/web-w1 (OutOfcpu)") {
			t.Errorf("%v %+v", err, report.Nodes)
		}
	})
}

// Pods that do not become ready again hold the next node up for a while, and not for ever.
func TestProbesThatFail(t *testing.T) {
	simulate(t, cluster("w1", "w2"), func(t *testing.T, w *World) {
		w.FailProbes("w1")
		report, err := w.Run().Scale(t.Context(), w.grow())
		if err != nil {
			t.Fatal(err)
		}
		n := report.Nodes[0]
		if len(n.Warnings) != 1 || n.Warnings[0] != "pods that were ready before kubelet's restart are not: default/web-w1" {
			t.Errorf("%q", n.Warnings)
		}
		if took := n.Moves[rollout.MoveVerify]; took < rollout.DefaultPatience-time.Second || took > rollout.DefaultPatience+5*time.Second {
			t.Errorf("verified in %s", took)
		}
	})
}

// A Kubernetes API that does not let pods be listed, at any moment, fails nothing.
func TestPodsThatCanNotBeListed(t *testing.T) {
	for name, c := range map[string]struct {
		upset Upset
		says  string
	}{
		"never":        {Upset{Call: "Pods.Pods", Times: -1, Err: rollout.ErrDenied}, "is not known: before kubelet's restart: denied"},
		"not after":    {Upset{Call: "Pods.Pods", Skip: 1, Times: -1, Err: rollout.ErrUnreachable}, "is not known: after kubelet's restart: unreachable"},
		"hangs always": {Upset{Call: "Pods.Pods", Times: -1, Hang: true}, "is not known: before kubelet's restart"},
		"hangs after":  {Upset{Call: "Pods.Pods", Skip: 1, Times: -1, Hang: true}, "is not known: after kubelet's restart"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, cluster("w1"), func(t *testing.T, w *World) {
				w.Script(c.upset)
				report, err := w.Run().Scale(t.Context(), w.grow())
				if err != nil || len(report.Nodes[0].Warnings) != 1 || !strings.Contains(report.Nodes[0].Warnings[0], c.says) {
					t.Errorf("%v %q", err, report.Nodes[0].Warnings)
				}
			})
		})
	}
}

// Two runs at one time: the second is told who is at work, and does nothing.
func TestSecondRunIsRefused(t *testing.T) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		done := make(chan error, 1)
		w.At(3*time.Second, func(w *World) { done <- scale(t.Context(), w, w.Run()) })
		if err := scale(t.Context(), w, w.Run()); err != nil {
			t.Error(err)
		}
		var held *rollout.HeldError
		if err := <-done; !errors.As(err, &held) || held.Holder != "run-1" {
			t.Errorf("got %v", err)
		}
	})
}

// Another goal while a rollout is open is refused.
func TestAnotherGoalIsRefused(t *testing.T) {
	simulate(t, cluster("c1", "w1"), func(t *testing.T, w *World) {
		w.BreakKubelet("w1", true)
		if err := scale(t.Context(), w, w.Run()); err == nil {
			t.Fatal("kubelet came back")
		}
		before := w.State()
		var open *rollout.OpenError
		_, err := w.Run().Scale(t.Context(), map[rollout.Role]rollout.Goal{rollout.RoleWorker: Goal(w.Big)})
		if !errors.As(err, &open) || w.State() != before {
			t.Errorf("%v\n%s", err, w.State())
		}
	})
}

// Another control-plane node goes away while CloudStack takes its time: kubelet is not restarted then, and the next run finishes.
func TestControlPlaneWaitsForItsPeers(t *testing.T) {
	simulate(t, cluster("c1", "c2", "c3"), func(t *testing.T, w *World) {
		w.CloudStack.Script(standin.Fault{Effect: standin.JobDelay{By: time.Minute}})
		w.At(5*time.Second, func(w *World) { w.StopVM("c3") })
		if err := scale(t.Context(), w, w.Run()); err == nil || w.machines[0].ledger.issued > 0 {
			t.Errorf("%v\n%s", err, w.State())
		}
		w.mend()
		if err := scale(t.Context(), w, w.Run()); err != nil {
			t.Error(err)
		}
	})
}

// Seed 14808: a look at the Lease hung before the onlining, and the Node was deleted meanwhile. The engine acted on its reading of the Node from
// before that wait.
func TestNothingIsDoneOnAReadingFromBeforeAWait(t *testing.T) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		w.Script(Upset{Call: "Lock.Check", Skip: 2, Hang: true})
		w.At(12*time.Second, func(w *World) { w.DeleteNode("w1") })
		if err := scale(t.Context(), w, w.Run()); err == nil {
			t.Error("finished without a Node")
		}
		if g := w.machines[0].guest; g.CPUsOnline != 2 {
			t.Errorf("%d CPUs were brought up without a claim", g.CPUsOnline)
		}
	})
}

// Seed 5442: an administrator scales the VM by hand. The owner of the cluster may not read that job; the engine took that for a node which
// can't be read, and ended.
func TestAdministratorScalesByHand(t *testing.T) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		w.ScaleElsewhere("w1")
		w.Sleep(time.Second)
		if err := scale(t.Context(), w, w.Run()); err != nil {
			t.Error(err)
		}
	})
}

// Abort gives back what is healthy, and ends the rollout. What is not healthy stays cordoned, unless that is forced.
func TestAbort(t *testing.T) {
	asked, restarted := boundary(t, "CloudStack.Resize w1", After), boundary(t, "Guest.RestartKubelet w1", After)
	for _, c := range []struct {
		name   string
		killAt int
		force  bool
		gives  bool
	}{
		{"hardware plugged, nothing brought up", asked, false, false},
		{"the same, forced", asked, true, true},
		{"kubelet restarted", restarted, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, cluster("w1"), func(t *testing.T, w *World) {
				r := w.Run()
				r.KillAt = c.killAt
				_ = scale(t.Context(), w, r) // a killed program says nothing
				w.Sleep(2 * time.Minute)
				_, err := w.Run().Abort(t.Context(), c.force)
				n := w.machines[0].node
				if given := n.Claim == "" && !n.Unschedulable && w.Open() == nil; given != c.gives || (err == nil) != c.gives {
					t.Errorf("%v\n%s", err, w.State())
				}
			})
		})
	}
}

// After a job that CloudStack gave up, abort looks twice: its agent may still be at work. What arrives between the two looks keeps the node.
func TestAbortLooksTwiceAfterAResizeThatCameToNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrives bool
	}{{"nothing arrives", false}, {"a DIMM arrives", true}} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, cluster("w1"), func(t *testing.T, w *World) {
				w.CloudStack.Script(standin.Fault{VM: w.idOf("w1"), Effect: standin.RestartServer{At: standin.BeforeAgent, Downtime: 20 * time.Second}})
				var f *rollout.Fault
				if err := scale(t.Context(), w, w.Run()); !errors.As(err, &f) || f.Phase != rollout.PhaseUnclear {
					t.Fatalf("got %v", err)
				}
				if c.arrives {
					w.At(10*time.Second, func(w *World) { _ = hypervisor{w}.PlugMemory(t.Context(), w.idOf("w1"), 4096) })
				}
				began := w.clock.Now()
				_, err := w.Run().Abort(t.Context(), false)
				if given := w.machines[0].node.Claim == ""; given == c.arrives || (err == nil) != given {
					t.Errorf("%v\n%s", err, w.State())
				}
				if took := w.clock.Now().Sub(began); took < 30*time.Second {
					t.Errorf("after %s", took)
				}
			})
		})
	}
}

// A run that has lost its Lease does nothing more, not even an Event.
func TestNoEventAfterALostLease(t *testing.T) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		w.At(3*time.Second, func(w *World) { w.StealLease() })
		var f *rollout.Fault
		if err := scale(t.Context(), w, w.Run()); !errors.As(err, &f) || f.Layer != capacity.LayerLock {
			t.Errorf("got %v", err)
		}
		if strings.Contains(w.Story(), "writes an Event") {
			t.Error("it writes an Event")
		}
	})
}

// The claim is destroyed right after the restart, before kubelet has posted: nothing remembers the restart, and still there is no second one.
func TestClaimIsDestroyedRightAfterTheRestart(t *testing.T) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		w.At(5*time.Second, func(w *World) {
			if w.machines[0].ledger.issued != 1 || w.machines[0].node.CPUs() != 2000 {
				t.Errorf("not the moment that is meant: %s", w.State())
			}
			w.DropClaim("w1")
		})
		if err := scale(t.Context(), w, w.Run()); err != nil {
			t.Error(err)
		}
		if m := w.machines[0]; m.ledger.issued != 1 || !m.finished(w.Big) {
			t.Errorf("%d restarts\n%s", m.ledger.issued, w.State())
		}
	})
}
