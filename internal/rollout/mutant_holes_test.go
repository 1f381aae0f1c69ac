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

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// runner is a new run of the program, and its way to the cluster.
func (tr *trial) runner(cancel context.CancelFunc) (*Runner, *client) {
	tr.runs++
	c := &client{cluster: tr.cluster, run: fmt.Sprintf("run-%d", tr.runs), cancel: cancel}
	return &Runner{CloudStack: simCloudStack{c}, Guests: simGuests{c}, Nodes: simNodes{c}, Lock: simLocker{c}, Clock: simClock{},
		Limits: tr.limits, Author: Author{Actor: "me@here"}, Run: c.run, Stop: tr.stop}, c
}

// Hardware that changes after a restart was announced and before it happened is no fault: the restart is still to come.
func TestNextAnnouncedBeforeTheHardware(t *testing.T) {
	checkRules(t, []rule{
		{"announced for a CPU less, not happened: still due", announced().with(func(s *scene) { s.claim.Restart.CPUsOnline = 3 }), "act: restart"},
		{"announced for a block less, not happened: still due", announced().with(func(s *scene) { s.claim.Restart.BlocksOnline = 63 }), "act: restart"},
		{"announced, and a CPU went offline before it happened: brought up first", announced().with(func(s *scene) { s.seen.Guest.CPUsOnline = 3 }), "act: online"},
	})
}

// spoiler is one more thing that may be wrong, at any point of the walk, and what Next must not do then.
type spoiler struct {
	name string
	// where it makes a difference.
	where func(p point) bool
	spoil func(s *scene)
	// mustNot are actions; "" among them is: call it done.
	mustNot []Action
	// must is the only step that is right; nil: whatever is not forbidden.
	must func(Step) bool
}

func spoilers() []spoiler {
	everywhere := func(point) bool { return true }
	ours := func(p point) bool { return p.fenced() }
	complete := func(p point) bool { return p.fenced() && p.instance == instanceGoal && p.hardware() }
	any := []Action{ActionClaim, ActionAdopt, ActionResize, ActionNoteJob, ActionOnline, ActionRestart, ActionRelease, ActionNoteUnchanged, ActionGiveBack, ""}
	touching := []Action{ActionClaim, ActionResize, ActionRestart, ActionRelease}
	asking := func(request int) func(point) bool {
		return func(p point) bool { return p.fenced() && p.instance == instanceOld && p.request == request }
	}
	is := func(a Action) func(Step) bool { return func(s Step) bool { return s.Kind == KindAct && s.Action == a } }
	peer := func(status string) func(*scene) {
		return func(s *scene) { s.seen.Peers = []Peer{{Name: "cp-2", Ready: capacity.Condition{Status: status}}} }
	}
	oldCapacity := func(s *scene) {
		s.seen.Node.Capacity, s.seen.Node.Allocatable = quantities("1", "2Gi"), quantities("900m", "1948Mi")
	}
	return []spoiler{
		{"another control-plane node is not Ready", everywhere, peer("False"), touching, nil},
		{"another control-plane node is unknown", everywhere, peer("Unknown"), touching, nil},
		{"etcd is not well", everywhere, func(s *scene) { s.seen.ControlPlane = "etcd failed" }, touching, nil},
		{"the Node is another machine", everywhere, otherNode, any, nil},
		{"the Node's status is of another boot", everywhere, func(s *scene) { s.seen.Node.BootID = "boot-0" }, []Action{ActionClaim, ActionRelease, ""}, nil},
		{"pods are pinned to one CPU", ours, func(s *scene) { s.seen.Guest.KubepodsCPUs = 1 }, []Action{ActionRelease}, nil},
		{"all pods together are capped at a GiB", ours, func(s *scene) { s.seen.Guest.KubepodsMemory = 1024 * capacity.MiB }, []Action{ActionRelease}, nil},
		{"the memory limit of all pods is the one from before", func(p point) bool { return complete(p) && !p.oldCapacity }, func(s *scene) {
			s.seen.Guest.KubepodsMemory = s.claim.Before.Guest.KubepodsMemory
			s.seen.Node.Allocatable = with(s.seen.Node.Allocatable, s.seen.Node.CPUs()-100, s.seen.Guest.KubepodsMemory)
		}, []Action{ActionRelease}, nil},
		{"a device is not back", ours, func(s *scene) {
			s.claim.Before.Allocatable = with(s.claim.Before.Allocatable, 1900, memSmall)
			s.claim.Before.Allocatable["vendor.example/gpu"] = resource.MustParse("1")
		}, []Action{ActionRelease}, nil},
		{"allocatable is what it was before", complete, func(s *scene) { s.seen.Node.Allocatable = s.claim.Before.Allocatable }, []Action{ActionRelease}, nil},
		{"a balloon took a GiB", everywhere, func(s *scene) {
			s.seen.Guest.MemTotal -= 1024 * capacity.MiB
			s.seen.Node.Capacity = with(s.seen.Node.Capacity, s.seen.Node.CPUs(), s.seen.Guest.MemTotal)
			s.seen.Node.Allocatable = s.seen.Node.Capacity
		}, []Action{ActionClaim, ActionRestart, ActionRelease, ""}, nil},
		{"bringing up is switched off", everywhere, noOnline, []Action{ActionOnline}, nil},
		{"the clock was stepped and the heartbeat is the one before", func(p point) bool { return complete(p) && p.restart == restartHappened }, func(s *scene) {
			s.claim.Restart.BootTime, s.claim.Restart.Heartbeat = s.claim.Restart.BootTime.Add(time.Hour), s.seen.Node.Ready.Heartbeat
		}, []Action{ActionRelease}, nil},
		{"the clock was stepped forward, and the heartbeat is from before that", func(p point) bool { return complete(p) && p.restart == restartHappened }, func(s *scene) {
			s.claim.Restart.BootTime, s.seen.Node.Ready.Heartbeat = s.claim.Restart.BootTime.Add(-time.Hour), s.claim.Restart.Heartbeat.Add(time.Second)
		}, nil, is(ActionRelease)},
		{"the clock was off by two seconds only, and the status is older than the start", func(p point) bool { return complete(p) && p.restart == restartHappened }, func(s *scene) {
			s.claim.Restart.BootTime, s.seen.Node.Ready.Heartbeat = s.claim.Restart.BootTime.Add(clockStep), s.seen.Guest.KubeletStart().Add(-time.Second)
		}, []Action{ActionRelease}, nil},
		{"cgroup v1: the guest does not tell the CPUs and the memory of its pods", point.mayRelease, func(s *scene) { s.seen.Guest.KubepodsCPUs, s.seen.Guest.KubepodsMemory = 0, 0 }, nil, is(ActionRelease)},
		{"somebody restarted kubelet, which has not posted", func(p point) bool { return complete(p) && p.restart == restartNone }, func(s *scene) {
			oldCapacity(s)
			s.seen.Guest.Kubelet.InvocationID, s.seen.Node.Ready.Heartbeat = "inv-x", s.seen.Guest.KubeletStart().Add(-time.Second)
		}, []Action{ActionRestart, ActionRelease}, nil},
		{"rebooted, and kubelet has not posted", complete, func(s *scene) {
			oldCapacity(s)
			s.seen.Guest.BootID, s.seen.Node.Ready.Heartbeat = "boot-2", s.seen.Guest.KubeletStart().Add(-time.Second)
		}, []Action{ActionRestart, ActionRelease}, nil},
		{"rebooted, and kubelet found the old hardware", complete, func(s *scene) {
			oldCapacity(s)
			s.seen.Guest.BootID, s.seen.Node.BootID = "boot-2", "boot-2"
		}, nil, is(ActionRestart)},
		{"another run's claim under the same number", ours, func(s *scene) { s.tenure.Run = "run-2" }, nil, is(ActionAdopt)},
		{"hardware went after the restart", func(p point) bool { return p.fenced() && p.instance == instanceGoal && p.restart == restartHappened }, func(s *scene) { s.claim.Restart.CPUsOnline = 64 }, nil,
			func(s Step) bool { return s.Kind == KindStop }},
		{"CloudStack's clock is at the request's expiry, not after it", asking(requestLostExpired), func(s *scene) { s.claim.Resize.Expires = s.seen.ServerTime }, []Action{ActionResize}, nil},
		{"the job was made in the second of the request", asking(requestLostFound), func(s *scene) { s.claim.Resize.Asked = s.claim.Resize.Asked.Add(999 * time.Millisecond) }, nil, is(ActionNoteJob)},
		{"the job that failed is another one than the named", asking(requestFailedTwiceSeen), func(s *scene) { s.seen.Job.ID = "job-2" }, []Action{ActionGiveBack, ActionNoteUnchanged}, nil},
		{"the first reading is of another boot", asking(requestFailedTwiceSeen), func(s *scene) { s.claim.Resize.Unchanged.BootID = "boot-0" }, []Action{ActionGiveBack}, nil},
		{"announced for less hardware", func(p point) bool { return complete(p) && p.restart == restartAnnounced }, func(s *scene) { s.claim.Restart.CPUsOnline = 3 }, nil, is(ActionRestart)},
	}
}

// One more thing that may be wrong, at every point where kubelet and Node are well otherwise: what the walk has no dimension for.
func TestNextKeepsItsPromisesWhateverElseIsWrong(t *testing.T) {
	t.Parallel()
	for _, sp := range spoilers() {
		t.Run(sp.name, func(t *testing.T) {
			states, wrong := 0, 0
			everyPoint(func(p point) {
				well := !p.down && !p.stale && !p.notReady && !p.oldCapacity && !p.badAllocatable && !p.young
				if wrong > 3 || !well || p.disturbance != undisturbed || p.claim > claimNone || !sp.where(p) {
					return
				}
				states++
				s := p.scene()
				sp.spoil(&s)
				step := s.next()
				did := step.Action // "" with KindDone
				if bad := slices.Contains(sp.mustNot, did) && (step.Kind == KindAct || step.Kind == KindDone); bad || sp.must != nil && !sp.must(step) {
					wrong++
					t.Errorf("%+v\n%s", p, brief(step))
				}
			})
			if states == 0 {
				t.Error("no state")
			}
		})
	}
}

// A claim that another run takes over while our request is on its way is theirs: not even the job's id is written into it.
func TestAmendNotTheClaimOfAnotherRun(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		var theirs string
		m := tr.machine("w1")
		asked := func() bool { return len(m.jobs) > 0 } // before the reply has come back
		tr.when(asked, func() {
			claim := m.claim()
			claim.Run, claim.Transitions = "theirs", claim.Transitions+1
			theirs, _ = claim.Encode()
			m.node.Claim, tr.lease.stolen = theirs, true
			m.changed()
		})
		f, _ := tr.fault(t)
		tr.close()
		if got := tr.machine("w1").node.Claim; theirs == "" || got != theirs || f.Layer != capacity.LayerLock {
			t.Errorf("%v\nclaim is %s\nwant     %s", f, got, theirs)
		}
	})
}

// The look at the Lease comes before every action, each for itself: the Lease is lost right before one, and that one is not done any more.
func TestEachActionLooksAtTheLease(t *testing.T) {
	for _, a := range []Action{ActionClaim, ActionResize, ActionOnline, ActionRestart, ActionRelease} {
		t.Run(string(a), func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				r, c := tr.runner(func() {})
				r.Watcher = func(e Event) {
					if e.Action == a {
						c.mu.Lock()
						tr.lease.stolen = true
						c.mu.Unlock()
					}
				}
				_, err := r.Walk(t.Context(), NewPlan("c1", "prod", tr.goals, tr.members()))
				tr.close()
				if !errors.Is(err, ErrLost) || tr.count(string(a)) != 0 {
					t.Errorf("%v, effects %v", err, tr.effectsDone())
				}
			})
		})
	}
}

// A run that has lost the Lease writes nothing on its way out of another fault either: neither that fault into the claim, nor the claim away.
func TestNothingIsWrittenOnTheWayOutWithoutTheLease(t *testing.T) {
	rows := []struct {
		name    string
		arrange func(tr *trial, m *machine)
		layer   capacity.Layer
	}{
		{"nothing was done yet", func(tr *trial, m *machine) {
			tr.when(func() bool { return m.node.Claim != "" }, func() { m.jobs = []*Job{{ID: "theirs", Status: JobPending, Created: time.Now()}} })
		}, capacity.LayerCloudStack},
		{"something was done", func(_ *trial, m *machine) { m.slowReady = time.Hour }, capacity.LayerReadiness},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				m := tr.machine("w1")
				r.arrange(tr, m)
				tr.after(time.Minute, func() { tr.lease.stolen = true }) // while it waits
				f, _ := tr.fault(t)
				tr.close()
				if claim := m.claim(); f.Layer != r.layer || f.GivenBack || claim == nil || claim.Fault != nil || claim.Phase != "" {
					t.Errorf("%v\nclaim %+v", f, claim)
				}
			})
		})
	}
}

// The same for a node on which nothing was done, which would else be given back: another control-plane node has fallen meanwhile.
func TestNothingIsWrittenOnAnUntouchedNodeWithoutTheLease(t *testing.T) {
	for _, stolen := range []bool{false, true} {
		simulate(t, []string{"c1", "c2"}, func(t *testing.T, tr *trial) {
			tr.limits.Resize = time.Minute
			r, _ := tr.runner(func() {})
			plan := NewPlan("c1", "prod", tr.goals, tr.members())
			plan.Nodes[0].Peers = []string{"c2"}
			theirs := &Job{ID: "theirs", Status: JobPending, Created: time.Now()} // holds it up until the other one has fallen
			tr.when(func() bool { return tr.machine("c1").node.Claim != "" }, func() { tr.machine("c1").jobs = []*Job{theirs} })
			tr.after(5*time.Second, func() { m := tr.machine("c2"); m.node.Ready.Status, m.silent = "Unknown", true; m.changed() })
			tr.after(10*time.Second, func() { theirs.Status = JobSucceeded })
			tr.after(30*time.Second, func() { tr.lease.stolen = stolen }) // while it waits
			_, err := r.Walk(t.Context(), plan)
			tr.close()
			f := new(Fault)
			if held := tr.machine("c1").claim() != nil; !errors.As(err, &f) || f.Layer != capacity.LayerReadiness || tr.count("resize") != 0 || held != stolen || f.GivenBack == stolen {
				t.Errorf("Lease stolen %t: %v, still held %t, given back %t", stolen, err, held, f.GivenBack)
			}
		})
	}
}

// when runs do as soon as the condition holds.
func (tr *trial) when(condition func() bool, do func()) {
	tr.after(simCall/2, func() {
		if condition() {
			do()
			return
		}
		tr.when(condition, do)
	})
}

// A node whose instance is scaled back right after its release is a fault: it is not claimed again and again.
func TestReleasedNodeIsNotClaimedAgain(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		m := tr.machine("w1")
		tr.when(func() bool { return slices.Contains(tr.effects, "release w1") }, func() {
			m.instance = untouchedInstance(m.instance)
		})
		f, _ := tr.fault(t)
		tr.close()
		if f.Layer != capacity.LayerCapacity || tr.count("claim") != 1 {
			t.Errorf("%v, effects %v", f, tr.effectsDone())
		}
	})
}

// A node is not called done on a reading of which a part is old: the claim is gone and the Node agrees, but the instance is another one now.
func TestReadingIsWholeBeforeDone(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		m := tr.machine("w1")
		agrees := func() bool { return m.finished(big) && m.node.Claim != "" }
		tr.when(agrees, func() {
			m.node.Claim, m.node.Unschedulable, m.node.UnschedulableBy = "", false, ""
			m.instance, m.disturbed = untouchedInstance(m.instance), time.Now()
			m.changed()
		})
		_, err := tr.walk(t.Context())
		tr.close()
		if err == nil && !m.finished(big) {
			t.Errorf("called done\n%s", tr.state())
		}
	})
}

// health is an API server's word about itself that changes at a time.
type health struct {
	bad  string
	from time.Time
}

func (h health) ControlPlane(context.Context) (string, error) {
	if time.Now().Before(h.from) {
		return "", nil
	}
	return h.bad, nil
}

// The rest of the control plane is looked at again and again, not only when the plan is made.
func TestControlPlaneIsLookedAtBeforeEachEffect(t *testing.T) {
	const soon = 300 * time.Millisecond // after the claim, before the request
	rows := []struct {
		name    string
		arrange func(*trial, *Runner)
		says    string
	}{
		{"another control-plane node falls", func(tr *trial, _ *Runner) {
			tr.after(soon/10, func() { m := tr.machine("c2"); m.node.Ready.Status, m.silent = "Unknown", true; m.changed() })
		}, "c2 is Ready=Unknown"},
		{"etcd falls", func(_ *trial, r *Runner) { r.Health = health{"etcd failed", time.Now().Add(soon / 10)} }, "the API server says etcd failed"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			simulate(t, []string{"c1", "c2"}, func(t *testing.T, tr *trial) {
				tr.limits.Resize = time.Minute
				r, _ := tr.runner(func() {})
				plan := NewPlan("c1", "prod", tr.goals, tr.members())
				plan.Nodes[0].Peers = []string{"c2"}
				row.arrange(tr, r)
				_, err := r.Walk(t.Context(), plan)
				tr.close()
				if f := new(Fault); !errors.As(err, &f) || !strings.Contains(f.Error(), row.says) || tr.count("resize") != 0 {
					t.Errorf("%v, effects %v", err, tr.effectsDone())
				}
			})
		})
	}
}

// A rollout is open as long as a node holds a claim, or one was changed and others wait.
func TestFinished(t *testing.T) {
	fault := errors.New("fault")
	rows := []struct {
		name  string
		nodes []NodeReport
		err   error
		want  bool
	}{
		{"every node verified", []NodeReport{{Outcome: OutcomeDone}, {Outcome: OutcomeDone}}, nil, true},
		{"refused before any change", []NodeReport{{Outcome: OutcomeFailed}, {Outcome: OutcomeWaiting}}, fault, true},
		{"a claim is left", []NodeReport{{Outcome: OutcomeFailed, claimed: true}, {Outcome: OutcomeWaiting}}, fault, false},
		{"one done, the next given back", []NodeReport{{Outcome: OutcomeDone}, {Outcome: OutcomeFailed}}, fault, false},
		{"interrupted before any change", []NodeReport{{Outcome: OutcomeInterrupted}}, ErrInterrupted, true},
	}
	for _, r := range rows {
		if got := finished(Report{Nodes: r.nodes}, r.err); got != r.want {
			t.Errorf("%s: %t", r.name, got)
		}
	}
}

// Abort gives back what trueup holds, and only what is verified healthy unless it is forced.
func TestAbort(t *testing.T) {
	lost := fmt.Errorf("reset: %w", ErrUnreachable)
	rows := []struct {
		name     string
		unfinish func(*trial) // makes the rollout before end with the node claimed
		before   func(*trial) // what happens between the two
		force    bool
		says     string // of the refusal; empty: it is given back
	}{
		{name: "verified healthy", unfinish: func(tr *trial) { tr.machine("w1").slowReady = 6 * time.Minute }, before: func(*trial) { time.Sleep(5 * time.Minute) }},
		{name: "not Ready", unfinish: func(tr *trial) { tr.machine("w1").slowReady = time.Hour }, says: "Ready condition of the Node"},
		{name: "not Ready, forced", unfinish: func(tr *trial) { tr.machine("w1").slowReady = time.Hour }, force: true},
		{name: "the resize is under way", unfinish: func(tr *trial) { tr.machine("w1").slowJob, tr.limits.Resize = time.Hour, time.Minute }, says: "resize job: expected none pending"},
		{name: "a DIMM was attached, and the resize failed", unfinish: func(tr *trial) {
			tr.jobFails = true
			tr.after(unchangedFor/2, func() { tr.machine("w1").guest.BlocksOffline = 1 })
		}, says: "plugged hardware: expected at most"},
		{name: "the request may still arrive", unfinish: func(tr *trial) {
			tr.upset, tr.limits.Resize = upset{name: "Resize", err: lost}, time.Second
		}, says: "resize request without a reply"},
		{name: "the request never arrived, and has expired", unfinish: func(tr *trial) {
			tr.upset, tr.limits.Resize = upset{name: "Resize", err: lost}, time.Second
		}, before: func(*trial) { time.Sleep(time.Minute) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
				row.unfinish(tr)
				tr.fault(t)
				tr.upset = upset{}
				if row.before != nil {
					row.before(tr)
				}
				r, _ := tr.runner(func() {})
				_, err := r.Abort(t.Context(), Surrender{ClusterID: "c1", ClusterName: "prod", Members: tr.members(), Force: row.force})
				if row.force {
					tr.broken = nil // that is what force is for
				}
				tr.close()
				m := tr.machine("w1")
				givenBack := m.node.Claim == "" && !m.node.Unschedulable
				if givenBack != (row.says == "") || (err == nil) != givenBack || err != nil && !strings.Contains(err.Error(), row.says) {
					t.Errorf("%v\n%s", err, tr.state())
				}
				synctest.Wait()
			})
		})
	}
}

// A run that has lost the Lease gives nothing back, whatever it is asked to do.
func TestAbortWithoutTheLease(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.limits.Verify = time.Second
		tr.fault(t)
		time.Sleep(time.Minute)
		r, _ := tr.runner(func() {})
		tr.after(simCall*3, func() { tr.lease.stolen = true }) // after it was taken, before the look before the release
		_, err := r.Abort(t.Context(), Surrender{ClusterID: "c1", ClusterName: "prod", Members: tr.members(), Force: true})
		tr.close()
		if !errors.Is(err, ErrLost) || tr.count("release") != 0 {
			t.Errorf("%v, effects %v", err, tr.effectsDone())
		}
	})
}
