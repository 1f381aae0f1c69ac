package world

import (
	"context"
	"fmt"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The ports as the world implements them. Every effect happens under the world's lock, and none after the program was killed.
type (
	guests struct{ run *Run }
	guest  struct {
		run *Run
		m   *machine
	}
	nodes  struct{ run *Run }
	lock   struct{ run *Run }
	health struct{ run *Run }
	pods   struct{ run *Run }
)

// do runs an effect under the lock, unless the program is dead.
func (r *Run) do(effect func() error) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.dead {
		return errKilled
	}
	return effect()
}

// Guest implements rollout.Guests.
func (g guests) Guest(_ context.Context, t rollout.Target) (out rollout.Guest, err error) {
	err = g.run.do(func() error {
		m := g.run.w.machine(t.InstanceID)
		out = guest{g.run, m}
		return m.ssh()
	})
	return out, err
}

// ssh tells whether the guest can be reached.
func (m *machine) ssh() error {
	if !m.on || m.w.clock.Now().Before(m.sshDown) {
		return fmt.Errorf("ssh %s: connection refused: %w", m.name, rollout.ErrUnreachable)
	}
	return nil
}

// command runs a command in the guest.
func (g guest) command(do func(*machine) error) error {
	return g.run.do(func() error {
		if err := g.m.ssh(); err != nil {
			return err
		}
		return do(g.m)
	})
}

// Probe implements rollout.Guest.
func (g guest) Probe(context.Context) (out capacity.Guest, err error) {
	g.run.look("guest", g.m.id)
	err = g.command(func(m *machine) error { out = m.reading(); return nil })
	return out, err
}

// Online implements rollout.Guest.
func (g guest) Online(ctx context.Context) error {
	if err := g.run.travel(ctx, g.run.w.pace.Online); err != nil {
		return err
	}
	return g.command(func(m *machine) error {
		g.run.fenced(m, "brings up hardware")
		m.w.promise(m.claim() != nil || !m.unchangedSince(g.run), "%s: hardware is brought up without a claim", m.name)
		m.bringUp()
		m.w.tell(g.run.ID, "brings up what is plugged on %s: %s", m.name, m.hardware())
		return nil
	})
}

// RestartKubelet implements rollout.Guest.
func (g guest) RestartKubelet(_ context.Context, invocation string) (out rollout.RestartResult, err error) {
	err = g.command(func(m *machine) error {
		switch {
		case m.scripts > 0:
			out = rollout.RestartLockBusy
		case m.guest.Kubelet.InvocationID != invocation:
			out = rollout.RestartNotOurs
		default:
			g.run.judgeRestart(m, invocation)
			m.w.tell(g.run.ID, "restarts kubelet on %s", m.name)
			m.startKubelet(false)
			out = rollout.RestartIssued
		}
		return nil
	})
	return out, err
}

// Diagnose implements rollout.Guest.
func (g guest) Diagnose(context.Context) (out []string, err error) {
	err = g.command(func(m *machine) error { out = []string{"kubelet: " + m.guest.Kubelet.String()}; return nil })
	return out, err
}

// Node implements rollout.Nodes.
func (n nodes) Node(_ context.Context, name string) (out capacity.Node, err error) {
	err = n.run.do(func() error {
		m, err := n.run.w.get(name)
		if err == nil {
			out, n.run.read[name] = m.node.Node, n.run.w.clock.Now()
		}
		return err
	})
	return out, err
}

// Watch implements rollout.Nodes.
func (n nodes) Watch(ctx context.Context, name string) (out <-chan struct{}, err error) {
	err = n.run.do(func() error { out, err = n.run.w.watch(ctx, name); return err })
	return out, err
}

// Patch implements rollout.Nodes.
func (n nodes) Patch(_ context.Context, p rollout.NodePatch) (out capacity.Node, err error) {
	err = n.run.do(func() error { out, err = n.run.patch(p); return err })
	return out, err
}

// Record implements rollout.Nodes.
func (n nodes) Record(_ context.Context, e rollout.NodeEvent) error {
	return n.run.do(func() error {
		n.run.w.tell(n.run.ID, "writes an Event on %s: %s", e.NodeName, e.Message)
		return n.run.w.apiUp()
	})
}

// Acquire implements rollout.Lock.
func (l lock) Acquire(ctx context.Context, s rollout.LeaseState) (rollout.Tenure, error) {
	return l.run.acquire(ctx, s)
}

// Check implements rollout.Lock.
func (l lock) Check(_ context.Context, t rollout.Tenure) error {
	return l.run.do(func() error { return l.run.checkLease(t) })
}

// Release implements rollout.Lock.
func (l lock) Release(_ context.Context, t rollout.Tenure, finished bool) error {
	return l.run.do(func() error { return l.run.releaseLease(t, finished) })
}

// ControlPlane implements rollout.Health.
func (h health) ControlPlane(context.Context) (said string, err error) {
	err = h.run.do(func() error { said = h.run.w.unwell; return h.run.w.apiUp() })
	return said, err
}
