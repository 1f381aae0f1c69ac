package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// client is one run's way to the cluster, through all ports. Once it is dead, nothing that it calls has any effect.
type client struct {
	*cluster

	run    string
	cancel context.CancelFunc
	dead   bool
}

// The ports are split over small types, because their methods' names would collide.
type (
	simCloudStack struct{ *client }
	simGuests     struct{ *client }
	simGuest      struct {
		*client

		m *machine
	}
	simNodes  struct{ *client }
	simLocker struct{ *client }
	simPods   struct{ *client }
	simClock  struct{}
)

var (
	_ CloudStack = simCloudStack{}
	_ Guests     = simGuests{}
	_ Guest      = simGuest{}
	_ Nodes      = simNodes{}
	_ Lock       = simLocker{}
	_ Pods       = simPods{}
	_ Clock      = simClock{}
)

func (simClock) Now() time.Time                         { return time.Now() }
func (simClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// mostCalls is far more than any rollout in these tests needs.
const mostCalls = 20000

// call is one call to a port: it takes time, may be upset before and after its effect, and do runs under the cluster's lock.
func (c *client) call(ctx context.Context, name string, do func() error) error {
	c.mu.Lock()
	c.calls = append(c.calls, name)
	if len(c.calls) == mostCalls { // a loop without pauses: end it, so that the test ends
		c.broken = append(c.broken, fmt.Sprintf("%d calls, the last one %s", mostCalls, name))
		c.dead = true
		c.cancel()
	}
	before, after := c.upsets(len(c.calls), name)
	c.mu.Unlock()
	if err := c.suffer(ctx, before); err != nil {
		return err
	}
	if err := c.travel(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	err := do()
	c.mu.Unlock()
	if e := c.suffer(ctx, after); e != nil {
		return e
	}
	if e := c.travel(ctx); e != nil {
		return e
	}
	return err
}

func (c *client) travel(ctx context.Context) error {
	select {
	case <-time.After(simCall):
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return context.Canceled
	}
	return ctx.Err()
}

// upsets says how the n-th call goes wrong, before and after its effect.
func (c *cluster) upsets(n int, name string) (before, after error) {
	u := &c.upset
	if u.err == nil || (u.n != 0 && u.n != n) || (u.n == 0 && !strings.HasPrefix(name, u.name)) {
		return nil, nil
	}
	err := u.err
	if u.times--; u.times == 0 {
		u.err = nil
	}
	if u.after {
		return nil, err
	}
	return err, nil
}

func (c *client) suffer(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errCrash):
		c.mu.Lock()
		c.dead = true
		c.mu.Unlock()
		c.cancel()
		return context.Canceled
	case errors.Is(err, errHang):
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (c simCloudStack) Instance(ctx context.Context, id string) (r InstanceReading, err error) {
	err = c.call(ctx, "Instance", func() error {
		m := c.machine(id)
		r = InstanceReading{Instance: m.instance, ServerTime: time.Now().Truncate(time.Second), PendingJobID: m.pending()}
		return nil
	})
	return r, err
}

func (c simCloudStack) Resize(ctx context.Context, id, offering string, expires time.Time) (job string, err error) {
	err = c.call(ctx, "Resize "+c.machine(id).node.Name, func() error {
		m := c.machine(id)
		switch {
		case time.Now().After(expires):
			return &RefusedError{Command: "scaleVirtualMachine", Code: 401, Text: "expired"}
		case m.instance.OfferingID == offering:
			return &RefusedError{Command: "scaleVirtualMachine", Code: 431, Text: "Already has the requested service offering"}
		}
		claim := m.claim()
		announced := claim != nil && claim.Resize != nil && claim.Resize.Expires.Equal(expires) && claim.Run == c.run
		c.promise(announced, "%s resized without an announcement", m.node.Name)
		c.promise(claim == nil || !claim.Cordoned || m.node.Unschedulable || !m.disturbed.IsZero(), "%s resized without its cordon", m.node.Name)
		c.promise(m.pending() == "", "%s: two jobs in flight", m.node.Name)
		c.did("resize %s", m.node.Name)
		job = m.resize(claim.Goal).ID
		return nil
	})
	return job, err
}

func (c simCloudStack) Job(ctx context.Context, id string) (job Job, err error) {
	err = c.call(ctx, "Job", func() error {
		for _, m := range c.machines {
			for _, j := range m.jobs {
				if j.ID == id {
					job = *j
					return nil
				}
			}
		}
		return ErrNotFound
	})
	return job, err
}

func (c simCloudStack) FindJob(ctx context.Context, id string) (job Job, err error) {
	err = c.call(ctx, "FindJob", func() error {
		jobs := c.machine(id).jobs
		if c.noLists || len(jobs) == 0 {
			return ErrNotFound
		}
		job = *jobs[len(jobs)-1]
		return nil
	})
	return job, err
}

func (c simGuests) Guest(ctx context.Context, target Target) (Guest, error) {
	err := c.call(ctx, "Guest", func() error { return nil })
	return simGuest{c.client, c.machine(target.InstanceID)}, err
}

func (c simGuest) Probe(ctx context.Context) (g capacity.Guest, err error) {
	err = c.call(ctx, "Probe", func() error { g = c.m.reading(); return nil })
	return g, err
}

func (c simGuest) Online(ctx context.Context) error {
	return c.call(ctx, "Online "+c.m.node.Name, func() error {
		g := &c.m.guest
		c.promise(c.m.node.Claim != "", "%s: hardware brought up without a claim", c.m.node.Name)
		g.MemTotal += int64(g.BlocksOffline) * g.BlockSize
		g.CPUsOnline, g.BlocksOnline, g.BlocksOffline = g.CPUsPresent, g.BlocksOnline+g.BlocksOffline, 0
		c.did("online %s", c.m.node.Name)
		return nil
	})
}

func (c simGuest) RestartKubelet(ctx context.Context, invocation string) (result RestartResult, err error) {
	err = c.call(ctx, "Restart "+c.m.node.Name, func() error {
		if c.m.lockBusy {
			result = RestartLockBusy
			return nil
		}
		if c.m.guest.Kubelet.InvocationID != invocation {
			result = RestartNotOurs
			return nil
		}
		claim := c.m.claim()
		c.promise(claim != nil && claim.Restart != nil && claim.Restart.InvocationID == invocation, "%s restarted without an announcement", c.m.node.Name)
		c.promise(claim != nil && c.m.guest.CPUsOnline == claim.Goal.CPUs && c.m.guest.MemoryOnline() == claim.Goal.MemoryMiB*capacity.MiB, "%s restarted before its hardware was online", c.m.node.Name)
		c.promise(c.m.found != c.m.hardware(), "%s restarted although its kubelet had found the hardware", c.m.node.Name)
		c.did("restart %s", c.m.node.Name)
		c.m.startKubelet()
		result = RestartIssued
		return nil
	})
	return result, err
}

func (c simGuest) Diagnose(ctx context.Context) (lines []string, err error) {
	err = c.call(ctx, "Diagnose", func() error { lines = []string{"a telling line"}; return nil })
	return lines, err
}

func (c simNodes) Node(ctx context.Context, name string) (n capacity.Node, err error) {
	err = c.call(ctx, "Node", func() error {
		if m := c.machine(name); m != nil {
			n = m.node
			return nil
		}
		return ErrNotFound
	})
	return n, err
}

func (c simNodes) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	ch := make(chan struct{}, 1)
	err := c.call(ctx, "Watch", func() error {
		m := c.machine(name)
		m.watchers = append(m.watchers, ch)
		context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			m.watchers = slices.DeleteFunc(m.watchers, func(w chan struct{}) bool { return w == ch })
			close(ch)
		})
		return nil
	})
	return ch, err
}

func (c simNodes) Patch(ctx context.Context, p NodePatch) (n capacity.Node, err error) {
	err = c.call(ctx, "Patch "+p.Name, func() error {
		m := c.machine(p.Name)
		if p.ResourceVersion != m.node.ResourceVersion || p.UID != m.node.UID {
			return fmt.Errorf("node %s: %w", p.Name, ErrConflict)
		}
		m.apply(p)
		n = m.node
		return nil
	})
	return n, err
}

// apply writes the patch, and checks what every write must keep.
func (m *machine) apply(p NodePatch) {
	before, name := m.claim(), m.node.Name
	if p.Claim != nil {
		m.node.Claim = *p.Claim
		m.changeOfClaim(before)
	}
	if p.Unschedulable != nil {
		m.promise(!*p.Unschedulable || (before == nil && m.claim() != nil && m.claim().Cordoned), "%s cordoned without a claim in the same patch", name)
		m.promise(*p.Unschedulable || (before != nil && before.Cordoned && m.node.UnschedulableBy == FieldManager), "%s uncordoned, but the cordon was not ours", name)
		m.node.Unschedulable, m.node.UnschedulableBy = *p.Unschedulable, FieldManager
		if !*p.Unschedulable {
			m.node.UnschedulableBy = ""
		}
	}
	if p.ScaleDownDisabled != nil {
		m.node.ScaleDownDisabled = *p.ScaleDownDisabled
	}
	m.promise(m.node.UnschedulableBy != FieldManager || m.node.Claim != "", "%s left cordoned without a claim", name)
	m.changed()
}

// changeOfClaim checks the beginning and the end of a claim.
func (m *machine) changeOfClaim(before *Claim) {
	if before == nil && m.node.Claim != "" {
		m.did("claim %s", m.node.Name)
	}
	if m.node.Claim == "" && before != nil {
		m.did("release %s", m.node.Name)
		// What happens between the last look and the patch, and does not change the Node, can't be known to it.
		unseen := time.Since(m.disturbed) < 10*simCall
		m.promise(m.finished(before.Goal) || m.asBefore(before.Before) || unseen, "%s released before it was finished: %s, %s, Node %s", m.node.Name, m.instance.OfferingName, m.hardware(), m.node.Size())
		m.promise(m.pending() == "", "%s released while a job was pending", m.node.Name)
	}
	claimed := 0
	for _, other := range m.machines {
		if other.node.Claim != "" {
			claimed++
		}
	}
	m.promise(claimed <= 1, "%d nodes claimed at once", claimed)
}

func (c simNodes) Record(ctx context.Context, e NodeEvent) error {
	return c.call(ctx, "Record", func() error { c.events = append(c.events, e.Reason+": "+e.Message); return nil })
}

func (c simPods) Pods(ctx context.Context, name string) (pods []capacity.Pod, err error) {
	err = c.call(ctx, "Pods "+name, func() error { pods = slices.Clone(c.machine(name).pods); return nil })
	return pods, err
}

func (c simLocker) Acquire(ctx context.Context, s LeaseState) (t Tenure, err error) {
	expired := false
	for {
		err = c.call(ctx, "Acquire", func() error {
			l := &c.lease
			if l.holder != nil && l.holder != c.client && (!expired || !l.holder.dead) {
				return &HeldError{Holder: l.holder.run, State: LeaseState{Run: l.holder.run, Actor: "somebody"}}
			}
			l.holder, l.transitions = c.client, l.transitions+1
			t = Tenure{Run: s.Run, Transitions: l.transitions}
			return nil
		})
		if expired || !errors.Is(err, ErrHeld) {
			return t, err
		}
		time.Sleep(simExpiry)
		expired = true
	}
}

func (c simLocker) Check(ctx context.Context, t Tenure) error {
	return c.call(ctx, "Check", func() error {
		if c.lease.stolen || c.lease.holder != c.client || c.lease.transitions != t.Transitions {
			return ErrLost
		}
		return nil
	})
}

func (c simLocker) Release(ctx context.Context, _ Tenure, _ bool) error {
	return c.call(ctx, "Release", func() error {
		if c.lease.holder == c.client && !c.lease.stolen {
			c.lease.holder = nil
		}
		return nil
	})
}
