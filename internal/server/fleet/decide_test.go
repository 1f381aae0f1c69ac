package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// shut is a window that opens in an hour.
type shut struct{}

func (shut) Open(time.Time) bool         { return false }
func (shut) Next(at time.Time) time.Time { return at.Add(time.Hour) }

// drifting is a cluster under heal in which a Node has lagged for an hour.
func drifting(changes ...func(*Situation)) Situation {
	s := Situation{Listed: Listed{ID: "c1", Name: "prod", State: "Running", Policy: Policy{Heal: true, DriftAfter: 10 * time.Minute}},
		Drift: []Drift{{Node: "w1", InstanceID: "vm-1", View: capacity.ViewNode, Why: "2 CPU", For: time.Hour}}}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// left is a cluster in which a healing was begun and nobody is at work, with a claim on a node.
func left(changes ...func(*Situation)) Situation {
	return drifting(append([]func(*Situation){func(s *Situation) {
		s.Open, s.Claimed, s.OpenFor = rollout.LeaseState{Run: "run-1", Command: CommandHeal, Actor: "trueup@a"}, 1, time.Hour
	}}, changes...)...)
}

func byHand(s *Situation)  { s.Open.Command, s.Open.Actor = "scale", "ann@desk" }
func observe(s *Situation) { s.Policy.Heal = false }
func paused(s *Situation)  { s.Policy.Paused = true }
func closed(s *Situation)  { s.Policy.Windows = shut{} }

func TestDecide(t *testing.T) {
	fault := func(l capacity.Layer) func(*Situation) {
		return func(s *Situation) { s.Faults = []*rollout.Fault{{Layer: l, Summary: "it broke"}} }
	}
	for _, tt := range []struct {
		name      string
		situation Situation
		want      Verdict
		says      string
	}{
		{"all agree", drifting(func(s *Situation) { s.Drift = nil }), Fine, "agree"},
		{"another tool's cluster", drifting(func(s *Situation) { s.Foreign = true }), Foreign, ""},
		{"stopped", drifting(func(s *Situation) { s.State = "Stopped" }), Asleep, "Stopped"},
		{"CloudStack scales it", drifting(func(s *Situation) { s.State = "Scaling" }), Busy, "Scaling"},
		{"in Alert", drifting(func(s *Situation) { s.State = "Alert" }), Busy, "Alert"},
		{"can't be read", drifting(func(s *Situation) { s.Unread = "denied" }), Blind, "denied"},
		{"CloudStack's job", drifting(func(s *Situation) { s.Busy = true }), Busy, "CloudStack works"},
		{"somebody holds it", drifting(func(s *Situation) { s.Holder = "run-9" }), Busy, "run-9"},
		{"somebody holds it and has begun", left(func(s *Situation) { s.Holder = "run-1" }), Busy, "run-1"},
		{"a rollout and a job", left(func(s *Situation) { s.Busy = true }), Busy, ""},
		{"lags not long enough", drifting(func(s *Situation) { s.Drift[0].For = 9 * time.Minute }), Settling, "w1"},
		{"lags just long enough", drifting(func(s *Situation) { s.Drift[0].For = 10 * time.Minute }), Heal, "w1"},
		{"lags under observe", drifting(observe), Drifting, "w1"},
		{"lags while paused", drifting(paused), Drifting, "paused"},
		{"lags while the window is closed", drifting(closed), Closed, "w1"},
		{"failed, to be tried later", drifting(func(s *Situation) { s.Failed = &Failure{Again: noon.Add(time.Minute), Text: "no answer"} }), Later, "no answer"},
		{"failed, to be tried now", drifting(func(s *Situation) { s.Failed = &Failure{Again: noon, Text: "no answer"} }), Heal, "w1"},
		{"failed for good", drifting(func(s *Situation) { s.Failed = &Failure{Text: "kubelet is down"} }), Person, "kubelet is down"},
		{"a healing was left", left(), Finish, "run-1"},
		{"a healing was left, and the window is closed: a claimed node is finished", left(closed), Finish, "run-1"},
		{"a healing was left between nodes, and the window is closed", left(closed, func(s *Situation) { s.Claimed = 0 }), Closed, "run-1"},
		{"a healing was left, and the policy is to observe now", left(observe), Person, "observe"},
		{"a healing was left, and is paused now", left(paused), Person, "paused"},
		{"a healing was left by a fault of kubelet", left(fault(capacity.LayerKubelet)), Person, "it broke"},
		{"a healing was left because the guest did not answer", left(fault(capacity.LayerAccess)), Finish, "run-1"},
		{"a healing was left because its Lease was lost", left(fault(capacity.LayerLock)), Finish, "run-1"},
		{"a healing was left, and an offering was changed since", left(func(s *Situation) { s.Changed = []string{"w1"} }), Person, "offering of w1"},
		{"somebody's rollout was left a moment ago", left(byHand, func(s *Situation) { s.OpenFor = time.Minute }), Settling, "ann@desk"},
		{"somebody's rollout was left", left(byHand), Person, "ann@desk"},
		{"claims without a rollout", left(func(s *Situation) { s.Open = rollout.LeaseState{} }), Person, "claim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.situation, noon)
			if d.Verdict != tt.want || !strings.Contains(d.Why, tt.says) {
				t.Errorf("%s: %q; want %s with %q", d.Verdict, d.Why, tt.want, tt.says)
			}
			if needs := d.Verdict == Person && tt.situation.Failed == nil || d.Verdict == Drifting || d.Verdict == Blind; needs && !strings.HasPrefix(d.Next, "trueup ") {
				t.Errorf("the next command is %q", d.Next)
			}
			if d.Verdict == Closed && !d.Until.Equal(noon.Add(time.Hour)) {
				t.Errorf("until %s", d.Until)
			}
		})
	}
}

// Only what has lagged long enough is healed, each node once.
func TestDecideNodes(t *testing.T) {
	s := drifting(func(s *Situation) {
		s.Drift = append(s.Drift, Drift{Node: "w1", InstanceID: "vm-1", View: capacity.ViewGuest, For: time.Hour},
			Drift{Node: "w2", InstanceID: "vm-2", View: capacity.ViewNode, For: time.Minute}, Drift{Node: "w3", InstanceID: "vm-3", View: capacity.ViewGuest, For: time.Hour})
	})
	if d := Decide(s, noon); !slices.Equal(d.Nodes, []string{"vm-1", "vm-3"}) {
		t.Errorf("%v", d.Nodes)
	}
}
