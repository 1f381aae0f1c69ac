package web

import (
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestStatusOfACluster(t *testing.T) {
	for name, c := range map[string]struct {
		cluster Cluster
		want    status
		can     steering
	}{
		"well":                    {Cluster{Readable: true}, status{"ok", "in agreement"}, steering{Plan: true}},
		"a record differs":        {Cluster{Readable: true, Drift: map[capacity.View]int{capacity.ViewRecord: 3}}, status{"idle", "record differs"}, steering{Plan: true}},
		"drift":                   {Cluster{Readable: true, Drift: map[capacity.View]int{capacity.ViewGuest: 1}}, status{"warn", "drift"}, steering{Plan: true, Reconcile: true}},
		"blind, with old drift":   {Cluster{Drift: map[capacity.View]int{capacity.ViewGuest: 1}}, status{"bad", "can't be read"}, steering{}},
		"at work":                 {Cluster{Readable: true, Now: &Rollout{Phase: PhaseRunning}}, status{"busy", "rollout running"}, steering{Pause: true}},
		"asked to pause":          {Cluster{Readable: true, Now: &Rollout{Phase: PhasePausing}}, status{"busy", "rollout pausing"}, steering{}},
		"another holder's":        {Cluster{Readable: true, Now: &Rollout{Phase: PhaseElsewhere}}, status{"busy", "rollout by another holder"}, steering{}},
		"paused":                  {Cluster{Readable: true, Now: &Rollout{Phase: PhaseUnfinished}}, status{"warn", "rollout unfinished"}, steering{Resume: true, Release: true}},
		"waits, whatever else is": {Cluster{Waiting: "x", Now: &Rollout{Phase: PhaseUnfinished}}, status{"bad", "waits for a person"}, steering{Resume: true, Release: true}},
	} {
		if got := statusOf(c.cluster); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := steeringOf(c.cluster); got != c.can {
			t.Errorf("%s: buttons %+v, want %+v", name, got, c.can)
		}
	}
}

func TestWhatAPersonShouldLookAtComesFirst(t *testing.T) {
	p := newFleet([]Cluster{{Name: "well", Readable: true}, {Name: "drifts", Readable: true, Drift: map[capacity.View]int{capacity.ViewNode: 1}}, {Name: "also well", Readable: true}, {Name: "blind"}})
	got := ""
	for _, c := range p.Clusters {
		got += c.Name + ","
	}
	if got != "blind,drifts,well,also well," || p.Blind != 1 || p.Drifting != 1 {
		t.Errorf("%s with %d blind and %d drifting", got, p.Blind, p.Drifting)
	}
}

func TestBarsShowEachViewBesideTheOthers(t *testing.T) {
	n := member("w", rollout.RoleWorker, 4, 8192, 2, 4096, 2)
	row := newNodeRow(n, newMember(n), 8, 16<<30)
	want := []bar{{View: "record", Width: "25.0%", Text: "2", Lags: true}, {View: "instance", Width: "50.0%", Text: "4"}, {View: "guest", Width: "25.0%", Text: "2", Lags: true}, {View: "node", Width: "25.0%", Text: "2"}}
	for i, b := range row.CPUs {
		if b != want[i] {
			t.Errorf("bar %d: %+v, want %+v", i, b, want[i])
		}
	}
	n.Views.Guest, n.Views.Node, n.Target.Role = nil, nil, rollout.RoleEtcd
	row = newNodeRow(n, newMember(n), 8, 16<<30)
	if b := row.Memory[2]; b.Text != "" || b.Missing != "not read" {
		t.Errorf("an unread guest is shown as %+v", b)
	}
	if b := row.Memory[3]; b.Text != "" || b.Missing != "no Node" {
		t.Errorf("the Node of an etcd machine is shown as %+v", b)
	}
}

func TestTimelineOfARolloutAtWork(t *testing.T) {
	f := newFake(time.Now)
	f.play(run1, 11)
	events := f.hub.eventsOf(prod, run1)
	now := events[10].At.Add(10 * time.Second)
	got := turns(told{Rollout: Rollout{Run: run1, Phase: PhaseRunning}, events: events}, now)
	if len(got) != 2 || got[0].Status != (status{"ok", "done"}) || got[1].Status != (status{"busy", "at work"}) {
		t.Fatalf("turns: %+v", got)
	}
	moves := ""
	for _, m := range got[0].Moves {
		moves += string(m.Move) + " "
	}
	if moves != "claim resize online restart verify release " {
		t.Errorf("the moves of the first: %s", moves)
	}
	last := got[1].Moves[1]
	if last.Move != rollout.MoveResize || last.Took != 11700*time.Millisecond || last.Status.Kind != "busy" {
		t.Errorf("the present move: %+v", last)
	}
	paused := turns(told{Rollout: Rollout{Run: run1, Phase: PhaseUnfinished}, events: events}, now)
	if last := paused[1].Moves[1]; last.Took != 1700*time.Millisecond || paused[1].Status != (status{"warn", "not finished"}) {
		t.Errorf("the clock goes on while nobody is at work: %+v", last)
	}
}
