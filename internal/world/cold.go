package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The ports that the cold method alone uses.
type (
	powerPort struct {
		run  *Run
		next rollout.Power
	}
	evictionsPort struct {
		run  *Run
		next rollout.Evictions
	}
	evictions struct{ run *Run }
)

var (
	_ rollout.Power     = powerPort{}
	_ rollout.Evictions = evictionsPort{}
)

// endingAfter is from an eviction until the pod is gone: its own grace period, of which most programs use little.
const endingAfter = 2 * time.Second

// Stop implements rollout.Power.
func (p powerPort) Stop(ctx context.Context, id string, expires time.Time) (string, error) {
	return p.ask(ctx, "Stop", id, expires, p.next.Stop, func(r *Run, m *machine) { r.judgeStop(m, expires) })
}

// Start implements rollout.Power.
func (p powerPort) Start(ctx context.Context, id string, expires time.Time) (string, error) {
	return p.ask(ctx, "Start", id, expires, p.next.Start, func(r *Run, m *machine) { r.judgeStart(m, expires) })
}

func (p powerPort) ask(ctx context.Context, method, id string, expires time.Time, next func(context.Context, string, time.Time) (string, error), judge func(*Run, *machine)) (job string, err error) {
	c := Call{Port: "Power", Method: method, Node: p.run.w.nameOf(id), Write: true}
	c.late = func() {
		_, err := next(context.Background(), id, expires)
		p.run.judgeLatePower(method, id, err)
	}
	err = p.run.call(ctx, c, func(ctx context.Context) (err error) {
		if err := p.run.do(func() error { judge(p.run, p.run.w.machine(id)); return nil }); err != nil {
			return err
		}
		job, err = next(ctx, id, expires)
		return err
	})
	return job, err
}

// Evict implements rollout.Evictions.
func (p evictionsPort) Evict(ctx context.Context, pod capacity.Pod) error {
	return p.run.call(ctx, Call{Port: "Evictions", Method: "Evict", Write: true}, func(ctx context.Context) error { return p.next.Evict(ctx, pod) })
}

// Delete implements rollout.Evictions.
func (p evictionsPort) Delete(ctx context.Context, pod capacity.Pod) error {
	return p.run.call(ctx, Call{Port: "Evictions", Method: "Delete", Write: true}, func(ctx context.Context) error { return p.next.Delete(ctx, pod) })
}

// Evict implements rollout.Evictions.
func (e evictions) Evict(_ context.Context, pod capacity.Pod) error {
	return e.end(pod, func(m *machine) error {
		if m.w.budgets[pod.Name] {
			return &rollout.BlockedError{Pod: pod.String(), Reason: "disruption budget " + pod.Name}
		}
		return nil
	})
}

// Delete implements rollout.Evictions.
func (e evictions) Delete(_ context.Context, pod capacity.Pod) error {
	return e.end(pod, func(*machine) error { return nil })
}

// end ends a pod on whichever node it is, if it may be.
func (e evictions) end(pod capacity.Pod, may func(*machine) error) error {
	return e.run.do(func() error {
		w := e.run.w
		if err := w.apiUp(); err != nil {
			return err
		}
		m := w.carrier(pod.UID)
		if m == nil {
			return fmt.Errorf("pod %s: %w", pod, rollout.ErrNotFound)
		}
		e.run.judgeEviction(m, pod)
		if err := may(m); err != nil {
			return err
		}
		w.tell(e.run.ID, "evicts %s from %s", pod, m.name)
		m.endPod(pod.UID)
		return nil
	})
}

// carrier is the machine on which the pod is.
func (w *World) carrier(uid string) *machine {
	for _, m := range w.machines {
		if slices.ContainsFunc(m.pods, func(p capacity.Pod) bool { return p.UID == uid }) {
			return m
		}
	}
	return nil
}

// endPod lets the pod go, after its grace period, and its controller make another one where there is room.
func (m *machine) endPod(uid string) {
	var ended capacity.Pod
	m.eachPod(func(p *capacity.Pod) {
		if p.UID == uid {
			p.Deleting, ended = true, *p
		}
	})
	m.w.after(m.w.jitter(endingAfter, "end", uid), func() {
		m.pods = slices.DeleteFunc(slices.Clone(m.pods), func(p capacity.Pod) bool { return p.UID == uid })
		if !ended.Stays() && ended.Controller != "" {
			m.w.replace(ended)
		}
	})
}

// replace schedules another pod in place of one that has ended, as soon as there is a node that takes it.
func (w *World) replace(ended capacity.Pod) {
	for _, m := range w.machines {
		if m.node != nil && roleOf(m.name) == rollout.RoleWorker && !m.node.Unschedulable && m.node.Ready.True() {
			w.version++
			p := ended
			p.UID, p.Deleting, p.Ready = fmt.Sprintf("pod-%d", w.version), false, true
			m.pods = append(slices.Clone(m.pods), p)
			return
		}
	}
	w.after(time.Second, func() { w.replace(ended) })
}

// Hold lets a disruption budget hold the pod of that name, or lets it go.
func (w *World) Hold(pod string, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.budgets[pod] = held
}

// judgeEviction: pods are evicted only from a node that is claimed for the cold method, and that takes no new ones, and never those that belong to it.
func (r *Run) judgeEviction(m *machine, pod capacity.Pod) {
	claim, w := m.claim(), r.w
	r.fenced(m, "evicts a pod")
	r.alone(m, "evicts a pod from")
	ours := claim != nil && claim.Run == r.ID && claim.Cold != nil
	w.promise(ours || !m.unchangedSince(r), "%s is evicted from %s, which is not claimed for that", pod, m.name)
	w.promise(m.node == nil || m.node.Unschedulable || m.ledger.lifted, "%s is evicted from %s while pods can be scheduled on it", pod, m.name)
	w.promise(!pod.Stays(), "%s belongs to %s and is evicted", pod, m.name)
}

// judgeStop: an instance is stopped only after this was announced, with nothing left on it that could run elsewhere, and never two at a time.
func (r *Run) judgeStop(m *machine, expires time.Time) {
	claim, w := m.claim(), r.w
	r.fenced(m, "stops")
	r.others(m, "stops")
	r.alone(m, "stops")
	if m.hasNode() && m.node == nil {
		return // it was deleted between the announcement and the request
	}
	w.promise(announces(claim, r, "Stopped", expires) || !m.unchangedSince(r), "%s is stopped without an announcement", m.name)
	for _, p := range m.pods {
		w.promise(p.Stays() || p.Finished() || m.ledger.lifted || !m.unchangedSince(r), "%s is stopped while %s runs on it", m.name, p)
	}
	w.promise(!m.hasNode() || m.node.Unschedulable || m.ledger.lifted, "%s is stopped while pods can be scheduled on it", m.name)
	for _, o := range w.machines {
		w.promise(o == m || o.ledger.stoppedBy == "", "%s is stopped while %s is", m.name, o.name)
	}
	m.ledger.stoppedBy = r.ID
	w.tell(r.ID, "asks CloudStack to stop %s", m.name)
}

// judgeStart: an instance is started only after this was announced, and not before it has its offering, unless that was refused.
func (r *Run) judgeStart(m *machine, expires time.Time) {
	claim, w := m.claim(), r.w
	r.fenced(m, "starts")
	if m.hasNode() && m.node == nil {
		return
	}
	w.promise(announces(claim, r, "Running", expires) || !m.unchangedSince(r), "%s is started without an announcement", m.name)
	refused := claim != nil && claim.Resize != nil && claim.Resize.Refused != ""
	w.promise(claim == nil || refused || w.present(m.id).ID == claim.Goal.ID || !m.unchangedSince(r), "%s is started before it has its offering", m.name)
	m.ledger.stoppedBy = ""
	w.tell(r.ID, "asks CloudStack to start %s", m.name)
}

func announces(c *rollout.Claim, r *Run, state string, expires time.Time) bool {
	return c != nil && c.Run == r.ID && c.Cold != nil && c.Cold.Power != nil && c.Cold.Power.State == state && c.Cold.Power.Expires.Equal(expires)
}

// judgeLatePower: a stop that was held up in the network is accepted only while it does no harm.
func (r *Run) judgeLatePower(method, instance string, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	m := r.w.machine(instance)
	if err != nil {
		r.w.tell("CloudStack", "refuses %s of %s by %s, which was held up: %v", method, m.name, r.ID, err)
		return
	}
	r.w.tell("CloudStack", "accepts %s of %s by %s, which was held up", method, m.name, r.ID)
	claim := m.claim()
	waiting := claim != nil && claim.Cold != nil && claim.Cold.Power != nil && claim.Cold.Power.State == "Stopped"
	r.w.promise(method != "Stop" || waiting || m.ledger.forgotten, "%s is stopped by a request that was held up", m.name)
}
