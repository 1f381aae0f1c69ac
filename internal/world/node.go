package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// node is a Node object in the API server. Readers get copies; the maps in it are never changed, only replaced.
type node struct {
	capacity.Node
	watchers []chan struct{}
	badSince time.Time // since when it is not Ready; zero while it is
}

// changed gives the Node another resourceVersion and wakes the watchers.
func (n *node) changed(w *World) {
	w.version++
	n.ResourceVersion = fmt.Sprint(w.version)
	switch {
	case n.Ready.True():
		n.badSince = time.Time{}
	case n.badSince.IsZero():
		n.badSince = w.clock.Now()
	}
	for _, c := range n.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// uid is that of a Node which is made now.
func (w *World) uid(name string) string {
	w.version++
	return fmt.Sprintf("uid-%s-%d", name, w.version)
}

// claim reads the claim on the machine's Node, or on the Lease; nil if there is none.
func (m *machine) claim() *rollout.Claim {
	text := m.w.lease.claims[m.id]
	if m.node != nil {
		text = m.node.Claim
	}
	c, err := rollout.DecodeClaim(text)
	m.w.promise(err == nil, "%s: the claim can't be read: %v", m.name, err)
	return c
}

// get reads a Node. The lock is held.
func (w *World) get(name string) (*machine, error) {
	if err := w.apiUp(); err != nil {
		return nil, err
	}
	m := w.machine(name)
	if m == nil || m.node == nil {
		return nil, fmt.Errorf("node %s: %w", name, rollout.ErrNotFound)
	}
	return m, nil
}

// patch applies the engine's patch, if the Node is still the one that it was made for.
func (r *Run) patch(p rollout.NodePatch) (capacity.Node, error) {
	m, err := r.w.get(p.Name)
	if err != nil {
		return capacity.Node{}, err
	}
	n := m.node
	if p.UID != n.UID || p.ResourceVersion != n.ResourceVersion {
		return capacity.Node{}, fmt.Errorf("node %s: %w", p.Name, rollout.ErrConflict)
	}
	before := m.claim()
	if p.Claim != nil {
		n.Claim = *p.Claim
	}
	if p.Unschedulable != nil {
		n.setUnschedulable(*p.Unschedulable, rollout.FieldManager)
	}
	if p.ScaleDownDisabled != nil {
		n.ScaleDownDisabled = *p.ScaleDownDisabled
	}
	n.changed(r.w)
	r.judgePatch(m, before, p)
	r.w.check()
	return n.Node, nil
}

// setUnschedulable writes the field as a patch by that field manager does. To write what is there already changes no owner.
func (n *node) setUnschedulable(value bool, by string) {
	if n.Unschedulable == value {
		return
	}
	n.Unschedulable, n.UnschedulableBy = value, ""
	if value {
		n.UnschedulableBy = by
	}
}

// watch calls on the channel whenever the Node has changed, until ctx ends.
func (w *World) watch(ctx context.Context, name string) (<-chan struct{}, error) {
	m, err := w.get(name)
	if err != nil {
		return nil, err
	}
	n, c := m.node, make(chan struct{}, 1)
	n.watchers = append(n.watchers, c)
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		n.watchers = slices.DeleteFunc(n.watchers, func(other chan struct{}) bool { return other == c })
		close(c)
	})
	return c, nil
}
