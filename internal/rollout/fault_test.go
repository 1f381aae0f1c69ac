package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Every way in which a node can fail: which fault ends the rollout, when, and in what state it leaves the node.
func TestFaults(t *testing.T) {
	limits := DefaultLimits()
	lost := fmt.Errorf("refused: %w", ErrUnreachable)
	denied := fmt.Errorf("forbidden: %w", ErrDenied)
	rows := []struct {
		name     string
		arrange  func(*trial)
		layer    capacity.Layer
		move     Move
		says     string        // part of the fault's text
		after    time.Duration // at the earliest
		cordoned bool
		// givenBack: nothing had been changed, and the node was released on the way out.
		givenBack bool
		phase     string // in the claim; empty: there is none, or it could not be written
	}{
		{name: "the claim may not be written", arrange: func(tr *trial) { tr.upset = upset{name: "Patch", err: denied} },
			layer: capacity.LayerAccess, move: MoveClaim, says: "the instance was not resized"},
		{name: "the claim can't be written", arrange: func(tr *trial) { tr.upset = upset{name: "Patch", err: lost} },
			layer: capacity.LayerAccess, move: MoveClaim, says: "outcome of claim", after: limits.Access},
		{name: "the Lease can't be read", arrange: func(tr *trial) { tr.upset = upset{name: "Check", err: lost} },
			layer: capacity.LayerAccess, move: MoveClaim, says: "reading the Lease", after: limits.Access},
		{name: "the Lease may not be read", arrange: func(tr *trial) { tr.upset = upset{name: "Check", err: denied} },
			layer: capacity.LayerLock, move: MoveClaim, says: "nothing further was done"},
		{name: "the guest can't be reached", arrange: func(tr *trial) { tr.upset = upset{name: "Guest", err: lost} },
			layer: capacity.LayerAccess, says: "guest: refused", after: limits.Access},
		{name: "the guest refuses us", arrange: func(tr *trial) { tr.upset = upset{name: "Probe", err: denied} },
			layer: capacity.LayerAccess, says: "guest: forbidden"},
		{name: "CloudStack can't be reached", arrange: func(tr *trial) { tr.upset = upset{name: "Instance", err: lost} },
			layer: capacity.LayerAccess, says: "CloudStack: refused", after: limits.Access},
		{name: "the Node can't be read", arrange: func(tr *trial) { tr.upset = upset{name: "Node", err: denied} },
			layer: capacity.LayerAccess, says: "Kubernetes: forbidden"},
		{name: "CloudStack refuses the resize", arrange: func(tr *trial) {
			tr.upset = upset{name: "Resize", err: &RefusedError{Command: "scaleVirtualMachine", Code: 431, Text: "no way"}}
		}, layer: capacity.LayerCloudStack, move: MoveResize, says: "code 431): no way", after: unchangedFor, givenBack: true},
		{name: "CloudStack fails the job", arrange: func(tr *trial) { tr.jobFails = true },
			layer: capacity.LayerCloudStack, move: MoveResize, says: "job job-1 failed with code 530: insufficient capacity", after: unchangedFor, givenBack: true},
		{name: "the job never ends", arrange: func(tr *trial) { tr.machine("w1").slowJob = time.Hour },
			layer: capacity.LayerCloudStack, move: MoveResize, says: "job job-1 pending", after: limits.Resize, cordoned: true, phase: PhaseUnclear},
		{name: "the request never arrives", arrange: func(tr *trial) { tr.upset = upset{name: "Resize", err: lost} },
			layer: capacity.LayerCloudStack, move: MoveResize, says: "", after: limits.Resize, cordoned: true, phase: PhaseUnclear},
		{name: "the kernel refuses the DIMM", arrange: func(tr *trial) { tr.machine("w1").refuseDIMM = true },
			layer: capacity.LayerGuest, move: MoveOnline, says: "memory blocks in the guest: not within 2m0s: expected 64 x 128 MiB online, observed 32 x 128 MiB online", after: limits.Online, cordoned: true, phase: "online-guest"},
		{name: "bringing up is switched off, and nobody else does it", arrange: func(tr *trial) { tr.goals[RoleWorker] = Goal{Offering: big, Settle: DefaultSettle, NoOnline: true} },
			layer: capacity.LayerGuest, move: MoveOnline, says: "bringing them up is switched off", after: limits.Online, cordoned: true, phase: "online-guest"},
		{name: "hardware can't be brought up", arrange: func(tr *trial) { tr.upset = upset{name: "Online", err: errors.New("exit status 1: EPERM")} },
			layer: capacity.LayerGuest, move: MoveOnline, says: "EPERM", cordoned: true, phase: "online-guest"},
		{name: "kubelet can't be restarted", arrange: func(tr *trial) { tr.upset = upset{name: "Restart", err: errors.New("exit status 4")} },
			layer: capacity.LayerKubelet, move: MoveRestart, says: "exit status 4", cordoned: true, phase: "restart-kubelet"},
		{name: "the restart's lock is never free", arrange: func(tr *trial) { tr.machine("w1").lockBusy = true },
			layer: capacity.LayerAccess, move: MoveRestart, says: "another restart is running in the guest", after: limits.Restart, cordoned: true, phase: "restart-access"},
		{name: "the restarted kubelet never posts", arrange: func(tr *trial) { tr.machine("w1").muteAfterRestart = true },
			layer: capacity.LayerReadiness, move: MoveVerify, says: "status posted by the running kubelet", after: limits.Verify, cordoned: true, phase: "verify-readiness"},
		{name: "the Node never gets Ready", arrange: func(tr *trial) { tr.machine("w1").slowReady = time.Hour },
			layer: capacity.LayerReadiness, move: MoveVerify, says: "Ready=False (: PLEG is not healthy)", after: limits.Verify, cordoned: true, phase: "verify-readiness"},
		{name: "kubelet crashes after the restart", arrange: func(tr *trial) { tr.machine("w1").crashes = true },
			layer: capacity.LayerKubelet, move: MoveVerify, says: "activating (auto-restart)", after: limits.Verify, cordoned: true, phase: "verify-kubelet"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			simulate(t, []string{"w1", "w2"}, func(t *testing.T, tr *trial) {
				r.arrange(tr)
				began := time.Now()
				f, report := tr.fault(t)
				took := time.Since(began)
				if f.Layer != r.layer || f.Move != r.move || !strings.Contains(f.Error(), r.says) {
					t.Errorf("%s in %q: %v", f.Layer, f.Move, f)
				}
				if took < r.after || took > r.after+2*time.Minute {
					t.Errorf("took %s, want about %s", took, r.after)
				}
				if f.GivenBack != r.givenBack {
					t.Errorf("given back: %t", f.GivenBack)
				}
				checkFault(t, f, report)
				tr.close()
				m := tr.machine("w1")
				if m.node.Unschedulable != r.cordoned || tr.machine("w2").node.Claim != "" {
					t.Errorf("cordoned %t\n%s", m.node.Unschedulable, tr.state())
				}
				if claim := m.claim(); (claim == nil) != (r.phase == "") || claim != nil && (claim.Phase != r.phase || claim.Fault == nil || claim.Fault.Node != "w1") {
					t.Errorf("claim %+v", claim)
				}
				if calls := len(tr.calls); calls > 3000 {
					t.Errorf("%d calls: a loop without pauses", calls)
				}
			})
		})
	}
}

// checkFault checks what every fault of a node must say.
func checkFault(t *testing.T, f *Fault, report Report) {
	t.Helper()
	if f.Cluster != "prod" || f.Node != "w1" || f.Summary == "" || f.Since.IsZero() || f.Recover != "trueup scale prod --worker big" {
		t.Errorf("%+v", f)
	}
	if f.Cause == nil && (f.Expected == "" || f.Observed == "") {
		t.Errorf("neither a cause nor what was expected and observed: %+v", f)
	}
	if report.Nodes[0].Outcome != OutcomeFailed || report.Nodes[0].Fault != f || report.Nodes[1].Outcome != OutcomeWaiting {
		t.Errorf("%+v", report.Nodes)
	}
	if report.Nodes[0].Unneeded != nil {
		t.Errorf("a node that failed had nothing that was not needed: %v", report.Nodes[0].Unneeded)
	}
}

func TestFaultBringsTheTellingLines(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.machine("w1").crashes = true
		f, _ := tr.fault(t)
		if len(f.Details) != 1 || len(tr.events) != 1 || !strings.Contains(tr.events[0], "TrueupFault: w1: kubelet:") {
			t.Errorf("details %v, events %v", f.Details, tr.events)
		}
		tr.close()
		if claim := tr.machine("w1").claim(); claim.Fault.Details != nil {
			t.Error("journals don't belong into an annotation")
		}
	})
}

// After a fault, a new run is a new attempt: what ended the first is tried once more, what was done is not done again.
func TestNewAttemptAfterAFault(t *testing.T) {
	rows := []struct {
		name    string
		arrange func(*trial)
		mend    func(*trial)
		effects []string // of both runs
	}{
		{"the job failed", func(tr *trial) { tr.jobFails = true }, func(tr *trial) { tr.jobFails = false },
			[]string{"claim", "resize", "release", "claim", "resize", "online", "restart", "release"}},
		{"the resize was refused", func(tr *trial) { tr.upset = upset{name: "Resize", err: &RefusedError{Code: 530}} }, func(tr *trial) { tr.upset = upset{} },
			[]string{"claim", "release", "claim", "resize", "online", "restart", "release"}},
		{"CloudStack forgot the job", func(tr *trial) { tr.machine("w1").forgetJobs = true }, func(tr *trial) { tr.machine("w1").forgetJobs = false },
			[]string{"claim", "resize", "resize", "online", "restart", "release"}},
		{"the kernel refused the DIMM; a power cycle cured it", func(tr *trial) { tr.machine("w1").refuseDIMM = true }, func(tr *trial) { tr.later(0, "w1", (*machine).powerCycle); time.Sleep(time.Minute) },
			[]string{"claim", "resize", "online", "release"}},
		{"kubelet was slow", func(tr *trial) { tr.machine("w1").slowReady = 6 * time.Minute }, func(*trial) { time.Sleep(2 * time.Minute) },
			[]string{"claim", "resize", "online", "restart", "release"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				r.arrange(tr)
				tr.fault(t)
				r.mend(tr)
				report := tr.must(t)
				tr.close()
				var want []string
				for _, e := range r.effects {
					want = append(want, e+" w1")
				}
				if got := tr.effectsDone(); strings.Join(got, ",") != strings.Join(want, ",") {
					t.Errorf("got %v, want %v", got, want)
				}
				if m := tr.machine("w1"); m.node.Unschedulable || !m.finished(big) {
					t.Error(tr.state())
				}
				if n := report.Nodes[0]; n.Unplanned != nil {
					t.Errorf("not in the second run's plan: %v", n.Unplanned)
				}
			})
		})
	}
}

// Third parties act at any time of the rollout: before, during and after each move.
func TestThirdParties(t *testing.T) {
	cordon := func(m *machine) {
		if !m.node.Unschedulable { // a kubectl cordon of a cordoned node writes nothing
			m.node.Unschedulable, m.node.UnschedulableBy = true, "kubectl"
			m.changed()
		}
	}
	uncordon := func(m *machine) { m.node.Unschedulable, m.node.UnschedulableBy = false, ""; m.changed() }
	mark := func(m *machine) {
		m.node.Marks = []capacity.Mark{{Tool: "kured", Key: "weave.works/kured-reboot-in-progress"}}
		m.changed()
	}
	rows := []struct {
		name string
		do   func(*machine)
		end  func(t *testing.T, m *machine, err error, at time.Duration)
	}{
		{"uncordons", uncordon, func(t *testing.T, m *machine, err error, _ time.Duration) {
			if err != nil || m.node.Unschedulable || !m.finished(big) {
				t.Errorf("%v %s", err, m.state())
			}
		}},
		{"uncordons and cordons", func(m *machine) { uncordon(m); cordon(m) }, func(t *testing.T, m *machine, err error, _ time.Duration) {
			if err != nil || !m.node.Unschedulable || m.node.UnschedulableBy != "kubectl" || !m.finished(big) {
				t.Errorf("%v %s", err, m.state())
			}
		}},
		{"restarts kubelet", func(m *machine) { m.startKubelet() }, func(t *testing.T, m *machine, err error, _ time.Duration) {
			if err != nil || m.node.Unschedulable || !m.finished(big) || m.starts > 3 {
				t.Errorf("%v %s", err, m.state())
			}
		}},
		{"reboots", func(m *machine) { m.powerCycle() }, func(t *testing.T, m *machine, err error, _ time.Duration) {
			// Right before it is claimed or after it is released, a node in the middle of a boot is refused.
			if f := new(Fault); err != nil && !(errors.As(err, &f) && m.node.Claim == "") {
				t.Errorf("%v %s", err, m.state())
			}
			if m.starts > 4 || m.node.Unschedulable {
				t.Error(m.state())
			}
		}},
		{"marks the node", mark, func(t *testing.T, m *machine, err error, _ time.Duration) {
			f := new(Fault)
			if !errors.As(err, &f) && !m.finished(big) {
				t.Errorf("%v %s", err, m.state())
			}
		}},
		{"scales the instance back", func(m *machine) { m.instance = untouchedInstance(m.instance) }, func(t *testing.T, m *machine, err error, _ time.Duration) {
			f := new(Fault)
			if err != nil && !(errors.As(err, &f) && (f.Layer == capacity.LayerCloudStack || m.node.Claim == "")) || len(m.jobs) > 1 {
				t.Errorf("%v %s", err, m.state())
			}
		}},
		{"deletes the Node", func(m *machine) { m.node.Deleting = true; m.changed() }, func(t *testing.T, m *machine, err error, _ time.Duration) {
			f := new(Fault)
			if !errors.As(err, &f) && !m.finished(big) {
				t.Errorf("%v %s", err, m.state())
			}
		}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			for at := 7 * time.Millisecond; at < 20*time.Second; at += 97 * time.Millisecond {
				simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
					tr.limits.Resize = time.Minute
					tr.later(at, "w1", r.do)
					_, err := tr.walk(t.Context())
					time.Sleep(20 * time.Second)
					tr.close()
					r.end(t, tr.machine("w1"), err, at)
				})
				if t.Failed() {
					t.Fatalf("at %s", at)
				}
			}
		})
	}
}

// A node that comes and goes between two moves does not start their bounds anew.
func TestFlappingEnds(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.goals[RoleWorker] = Goal{Offering: big, Settle: time.Hour} // never settled
		tr.limits.Verify = 3 * time.Minute
		tr.after(10*time.Second, func() { tr.machine("w1").flaps = true })
		_, report := tr.fault(t)
		if took := report.Nodes[0].Took; took > 6*time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

// untouchedInstance is the instance at the small offering again.
func untouchedInstance(i capacity.Instance) capacity.Instance {
	i.OfferingID, i.OfferingName, i.CPUs, i.MemoryMiB = small.ID, small.Name, small.CPUs, small.MemoryMiB
	return i
}

// What had been cordoned by somebody stays so, through faults and new attempts.
func TestForeignCordonStays(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		m := tr.machine("w1")
		m.node.Unschedulable, m.node.UnschedulableBy, m.node.ScaleDownDisabled = true, "kubectl", true
		tr.jobFails = true
		tr.fault(t)
		tr.jobFails = false
		tr.must(t)
		tr.close()
		if !m.finished(big) || !m.node.Unschedulable || m.node.UnschedulableBy != "kubectl" || !m.node.ScaleDownDisabled {
			t.Error(tr.state())
		}
	})
}

// Another goal, while a node is still claimed for the first one, is refused before anything is changed.
func TestAnotherGoalIsRefused(t *testing.T) {
	simulate(t, []string{"w1", "w2"}, func(t *testing.T, tr *trial) {
		tr.limits.Verify = time.Second
		tr.fault(t)
		tr.limits = DefaultLimits()
		before := len(tr.effects)
		tr.goals[RoleWorker] = Goal{Offering: faster}
		f, _ := tr.fault(t)
		if f.Layer != capacity.LayerLock || f.Recover != "trueup scale prod --worker big" || len(tr.effects) != before || len(tr.plan.Refused()) != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// A node that an earlier rollout left claimed is finished before any other one is begun, and a rollout that leaves it out is refused.
func TestClaimedNodeComesFirst(t *testing.T) {
	simulate(t, []string{"w1", "w2"}, func(t *testing.T, tr *trial) {
		tr.limits.Verify = time.Second
		tr.fault(t)
		tr.limits = DefaultLimits()
		tr.cluster.machines[0], tr.cluster.machines[1] = tr.cluster.machines[1], tr.cluster.machines[0]
		control := map[Role]Goal{RoleControl: tr.goals[RoleControl]}
		if p := NewPlan("c1", "prod", control, tr.members()); len(p.Refused()) != 1 || !strings.Contains(p.Refused()[0].Refusals[0].String(), "trueup scale prod --worker big") {
			t.Errorf("%+v", p)
		}
		tr.must(t)
		if n := tr.plan.Nodes[0]; n.Target.Name != "w1" || n.Resumes != "run-1" {
			t.Errorf("first comes %+v", n)
		}
	})
}
