package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// runner is a new run of the program, and its way to the cluster.
func (tr *trial) runner(cancel context.CancelFunc) (*Runner, *client) {
	tr.runs++
	c := &client{cluster: tr.cluster, run: fmt.Sprintf("run-%d", tr.runs), cancel: cancel}
	return &Runner{CloudStack: simCloudStack{c}, Guests: simGuests{c}, Nodes: simNodes{c}, Lock: simLocker{c}, Clock: simClock{},
		Limits: tr.limits, Author: Author{Actor: "me@here"}, Run: c.run, Stop: tr.stop}, c
}

// whenAsked runs do once the instance's resize job is there, before the reply has come back.
func (tr *trial) whenAsked(name string, do func(*machine)) {
	tr.after(simCall/2, func() {
		if m := tr.machine(name); len(m.jobs) > 0 {
			do(m)
			return
		}
		tr.whenAsked(name, do)
	})
}

// A claim that another run takes over while our request is on its way is theirs: not even the job's id is written into it.
func TestAmendNotTheClaimOfAnotherRun(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		var theirs string
		tr.whenAsked("w1", func(m *machine) {
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
				_, err := r.Abort(t.Context(), "c1", "prod", tr.members(), row.force)
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
		_, err := r.Abort(t.Context(), "c1", "prod", tr.members(), true)
		tr.close()
		if !errors.Is(err, ErrLost) || tr.count("release") != 0 {
			t.Errorf("%v, effects %v", err, tr.effectsDone())
		}
	})
}
