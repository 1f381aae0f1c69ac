package world

import (
	"context"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// etcd is the process on a dedicated etcd machine.
type etcd struct {
	running  bool
	broken   bool      // it can't run, for a reason of its own
	badSince time.Time // since when it does not run
}

func (m *machine) hasNode() bool { return roleOf(m.name).HasNode() }

func (m *machine) startEtcd() {
	if m.etcd.broken {
		return
	}
	m.etcd.running, m.etcd.badSince = true, time.Time{}
}

func (m *machine) stopEtcd() {
	if m.etcd.running {
		m.etcd.running, m.etcd.badSince = false, m.w.clock.Now()
	}
}

// etcdReading is what etcd on the machine says of its cluster. Without a quorum no member answers a linearizable read.
func (m *machine) etcdReading() *capacity.Etcd {
	e := &capacity.Etcd{Unit: capacity.Unit{ActiveState: "active", SubState: "running", MainPID: 70}}
	if !m.etcd.running {
		e.Unit = capacity.Unit{ActiveState: "failed", SubState: "failed"}
	}
	well := 0
	for _, o := range m.w.etcdMachines() {
		member := capacity.EtcdMember{Endpoint: "http://" + o.name + ":2379", Healthy: o.etcd.running}
		if member.Healthy {
			well++
		} else {
			member.Problem = "context deadline exceeded"
		}
		e.Members = append(e.Members, member)
	}
	if !m.etcd.running || 2*well <= len(e.Members) {
		e.Members, e.Problem = nil, "no answer"
	}
	return e
}

// etcdMachines are all dedicated etcd machines. The lock is held.
func (w *World) etcdMachines() (out []*machine) {
	for _, m := range w.machines {
		if !m.hasNode() {
			out = append(out, m)
		}
	}
	return out
}

// otherMembers: an etcd machine is begun on, resized and given back only while every member runs, as far as the run could know.
func (r *Run) otherMembers(m *machine, what string) {
	for _, o := range r.w.etcdMachines() {
		if since := o.etcd.badSince; !since.IsZero() {
			r.w.promise(r.looked["guest"+m.id].Before(since), "%s %s %s while etcd on %s does not run", r.ID, what, m.name, o.name)
		}
	}
}

// BreakEtcd stops etcd on a machine, and lets it not start again, until it is mended.
func (w *World) BreakEtcd(name string, broken bool) {
	w.on(name, map[bool]string{true: "breaks etcd on", false: "mends etcd on"}[broken], func(m *machine) {
		if m.hasNode() {
			return
		}
		m.etcd.broken = broken
		if broken {
			m.stopEtcd()
		} else if m.on {
			m.startEtcd()
		}
	})
}

// shelf is the run's way to the claims on the Lease.
type shelf struct{ run *Run }

// Shelved implements rollout.Shelf.
func (s shelf) Shelved(_ context.Context, instanceID string) (text string, err error) {
	err = s.run.do(func() error { text = s.run.w.lease.claims[instanceID]; return s.run.w.apiUp() })
	return text, err
}

// Shelve implements rollout.Shelf.
func (s shelf) Shelve(_ context.Context, t rollout.Tenure, instanceID, text string) error {
	return s.run.do(func() error {
		r, w := s.run, s.run.w
		if err := w.apiUp(); err != nil {
			return err
		}
		if !w.holds(t) {
			return fmt.Errorf("%w: held by %q", rollout.ErrLost, w.lease.holder)
		}
		m := w.machine(instanceID)
		if m == nil {
			return nil // a test asks for the boundary alone
		}
		before := m.claim()
		w.lease.version++
		w.lease.claims[instanceID] = text
		r.judgePatch(m, before, rollout.NodePatch{Claim: &text})
		w.check()
		return nil
	})
}
