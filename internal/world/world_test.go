package world

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// simulate plays in a new world, in a bubble of virtual time, and fails the test if a promise was broken.
func simulate(t *testing.T, cfg Config, play func(*testing.T, *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := New(cfg)
		play(t, w)
		w.Close()
		time.Sleep(3 * time.Minute) // until connections that were opened ahead have ended
		for _, b := range w.Broken() {
			t.Errorf("broken: %s", b)
		}
		if t.Failed() {
			t.Logf("the story:\n%s", w.Story())
		}
	})
}

// cluster has nodes of the usual kind with these names.
func cluster(names ...string) Config {
	var c Config
	for _, name := range names {
		c.Nodes = append(c.Nodes, NodeConfig{Name: name, Blip: true})
	}
	return c
}

// grow is the goal of most tests: every node to the big offering.
func (w *World) grow() map[rollout.Role]rollout.Goal {
	return map[rollout.Role]rollout.Goal{rollout.RoleWorker: Goal(w.Big), rollout.RoleControl: Goal(w.Big), rollout.RoleEtcd: Goal(w.Big)}
}

func TestRolloutWithoutFaults(t *testing.T) {
	simulate(t, cluster("c1", "w1", "w2", "w3"), func(t *testing.T, w *World) {
		r := w.Run()
		report, err := r.Scale(t.Context(), w.grow())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range report.Nodes {
			if n.Outcome != rollout.OutcomeDone || n.Unplanned != nil || n.Unneeded != nil {
				t.Errorf("%+v", n)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, m := range w.machines {
			if !m.finished(w.Big) || m.node.Claim != "" || m.node.Unschedulable || m.ledger.issued != 1 {
				t.Errorf("%s: %s, %d restarts", m.name, m.nodeState(), m.ledger.issued)
			}
		}
		if w.lease.holder != "" || w.lease.state != nil {
			t.Errorf("Lease %+v", w.lease)
		}
	})
}
