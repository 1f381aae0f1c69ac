package world

import (
	"context"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The ports as the engine gets them. Each wraps another implementation and lets the interceptor have every call. None embeds what it
// wraps: a port that gets another method does not compile until the method is here, and a test calls each one.
type (
	cloudStackPort struct {
		run  *Run
		next rollout.CloudStack
	}
	guestsPort struct {
		run  *Run
		next rollout.Guests
	}
	guestPort struct {
		run  *Run
		node string
		next rollout.Guest
	}
	nodesPort struct {
		run  *Run
		next rollout.Nodes
	}
	lockPort struct {
		run  *Run
		next rollout.Lock
	}
	shelfPort struct {
		run  *Run
		next rollout.Shelf
	}
	podsPort struct {
		run  *Run
		next rollout.Pods
	}
	healthPort struct {
		run  *Run
		next rollout.Health
	}
)

var (
	_ rollout.CloudStack = cloudStackPort{}
	_ rollout.Guests     = guestsPort{}
	_ rollout.Guest      = guestPort{}
	_ rollout.Nodes      = nodesPort{}
	_ rollout.Lock       = lockPort{}
	_ rollout.Shelf      = shelfPort{}
	_ rollout.Health     = healthPort{}
	_ rollout.Pods       = podsPort{}
)

// Instance implements rollout.CloudStack.
func (p cloudStackPort) Instance(ctx context.Context, id string) (out rollout.InstanceReading, err error) {
	err = p.run.call(ctx, Call{Port: "CloudStack", Method: "Instance", Node: p.run.w.nameOf(id)}, func(ctx context.Context) (err error) {
		p.run.look("instance", id)
		out, err = p.next.Instance(ctx, id)
		return err
	})
	return out, err
}

// Resize implements rollout.CloudStack.
func (p cloudStackPort) Resize(ctx context.Context, id, offering string, expires time.Time) (job string, err error) {
	c := Call{Port: "CloudStack", Method: "Resize", Node: p.run.w.nameOf(id), Write: true}
	c.late = func() {
		pending := p.run.w.pendingJob(id, ownerAccount)
		_, err := p.next.Resize(context.Background(), id, offering, expires)
		p.run.judgeLateResize(id, offering, pending, err)
	}
	err = p.run.call(ctx, c, func(ctx context.Context) (err error) {
		if err := p.run.judgeResize(id, offering, expires); err != nil {
			return err
		}
		job, err = p.next.Resize(ctx, id, offering, expires)
		return err
	})
	return job, err
}

// Job implements rollout.CloudStack.
func (p cloudStackPort) Job(ctx context.Context, id string) (out rollout.Job, err error) {
	err = p.run.call(ctx, Call{Port: "CloudStack", Method: "Job"}, func(ctx context.Context) (err error) {
		out, err = p.next.Job(ctx, id)
		return err
	})
	return out, err
}

// FindJob implements rollout.CloudStack.
func (p cloudStackPort) FindJob(ctx context.Context, id string) (out rollout.Job, err error) {
	err = p.run.call(ctx, Call{Port: "CloudStack", Method: "FindJob", Node: p.run.w.nameOf(id)}, func(ctx context.Context) (err error) {
		out, err = p.next.FindJob(ctx, id)
		return err
	})
	return out, err
}

// Guest implements rollout.Guests.
func (p guestsPort) Guest(ctx context.Context, t rollout.Target) (out rollout.Guest, err error) {
	err = p.run.call(ctx, Call{Port: "Guests", Method: "Guest", Node: t.Name}, func(ctx context.Context) error {
		next, err := p.next.Guest(ctx, t)
		out = guestPort{p.run, t.Name, next}
		return err
	})
	return out, err
}

// Probe implements rollout.Guest.
func (p guestPort) Probe(ctx context.Context) (out capacity.Guest, err error) {
	err = p.run.call(ctx, Call{Port: "Guest", Method: "Probe", Node: p.node}, func(ctx context.Context) (err error) {
		out, err = p.next.Probe(ctx)
		return err
	})
	return out, err
}

// Online implements rollout.Guest.
func (p guestPort) Online(ctx context.Context) error {
	return p.run.call(ctx, Call{Port: "Guest", Method: "Online", Node: p.node, Write: true}, p.next.Online)
}

// RestartKubelet implements rollout.Guest.
func (p guestPort) RestartKubelet(ctx context.Context, invocation string) (out rollout.RestartResult, err error) {
	err = p.run.call(ctx, Call{Port: "Guest", Method: "RestartKubelet", Node: p.node, Write: true}, func(ctx context.Context) (err error) {
		out, err = p.next.RestartKubelet(ctx, invocation)
		return err
	})
	return out, err
}

// Diagnose implements rollout.Guest.
func (p guestPort) Diagnose(ctx context.Context) (out []string, err error) {
	err = p.run.call(ctx, Call{Port: "Guest", Method: "Diagnose", Node: p.node}, func(ctx context.Context) (err error) {
		out, err = p.next.Diagnose(ctx)
		return err
	})
	return out, err
}

// Node implements rollout.Nodes.
func (p nodesPort) Node(ctx context.Context, name string) (out capacity.Node, err error) {
	err = p.run.call(ctx, Call{Port: "Nodes", Method: "Node", Node: name}, func(ctx context.Context) (err error) {
		out, err = p.next.Node(ctx, name)
		return err
	})
	return out, err
}

// Watch implements rollout.Nodes.
func (p nodesPort) Watch(ctx context.Context, name string) (out <-chan struct{}, err error) {
	err = p.run.call(ctx, Call{Port: "Nodes", Method: "Watch", Node: name}, func(context.Context) (err error) {
		out, err = p.next.Watch(ctx, name)
		return err
	})
	return out, err
}

// Patch implements rollout.Nodes.
func (p nodesPort) Patch(ctx context.Context, patch rollout.NodePatch) (out capacity.Node, err error) {
	err = p.run.call(ctx, Call{Port: "Nodes", Method: "Patch", Node: patch.Name, Write: true}, func(ctx context.Context) (err error) {
		out, err = p.next.Patch(ctx, patch)
		return err
	})
	return out, err
}

// Record implements rollout.Nodes.
func (p nodesPort) Record(ctx context.Context, e rollout.NodeEvent) error {
	return p.run.call(ctx, Call{Port: "Nodes", Method: "Record", Node: e.NodeName, Write: true}, func(ctx context.Context) error { return p.next.Record(ctx, e) })
}

// Acquire implements rollout.Lock.
func (p lockPort) Acquire(ctx context.Context, s rollout.LeaseState) (out rollout.Tenure, err error) {
	err = p.run.call(ctx, Call{Port: "Lock", Method: "Acquire", Write: true}, func(ctx context.Context) (err error) {
		out, err = p.next.Acquire(ctx, s)
		return err
	})
	return out, err
}

// Check implements rollout.Lock.
func (p lockPort) Check(ctx context.Context, t rollout.Tenure) error {
	return p.run.call(ctx, Call{Port: "Lock", Method: "Check"}, func(ctx context.Context) error { return p.next.Check(ctx, t) })
}

// Release implements rollout.Lock.
func (p lockPort) Release(ctx context.Context, t rollout.Tenure, finished bool) error {
	return p.run.call(ctx, Call{Port: "Lock", Method: "Release", Write: true}, func(ctx context.Context) error { return p.next.Release(ctx, t, finished) })
}

// Shelved implements rollout.Shelf.
func (p shelfPort) Shelved(ctx context.Context, id string) (out string, err error) {
	err = p.run.call(ctx, Call{Port: "Shelf", Method: "Shelved", Node: p.run.w.nameOf(id)}, func(ctx context.Context) (err error) {
		out, err = p.next.Shelved(ctx, id)
		return err
	})
	return out, err
}

// Shelve implements rollout.Shelf.
func (p shelfPort) Shelve(ctx context.Context, t rollout.Tenure, id, text string) error {
	return p.run.call(ctx, Call{Port: "Shelf", Method: "Shelve", Node: p.run.w.nameOf(id), Write: true}, func(ctx context.Context) error { return p.next.Shelve(ctx, t, id, text) })
}

// Pods implements rollout.Pods.
func (p podsPort) Pods(ctx context.Context, node string) (out []capacity.Pod, err error) {
	err = p.run.call(ctx, Call{Port: "Pods", Method: "Pods", Node: node}, func(ctx context.Context) (err error) {
		out, err = p.next.Pods(ctx, node)
		return err
	})
	if err != nil {
		pods{p.run}.lost(node)
	}
	return out, err
}

// ControlPlane implements rollout.Health.
func (p healthPort) ControlPlane(ctx context.Context) (out string, err error) {
	err = p.run.call(ctx, Call{Port: "Health", Method: "ControlPlane"}, func(ctx context.Context) (err error) {
		out, err = p.next.ControlPlane(ctx)
		return err
	})
	return out, err
}

// nameOf is the node's name for an instance's id.
func (w *World) nameOf(instance string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.machine(instance); m != nil {
		return m.name
	}
	return ""
}
