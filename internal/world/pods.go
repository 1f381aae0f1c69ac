package world

import (
	"context"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// probedAfter is from kubelet's first post to the first success of a readiness probe: up to one period of it, which is 10 s by default.
const probedAfter = 6 * time.Second

// addPods gives the machine its pods: one with a readiness probe, one without.
func (m *machine) addPods() {
	pod := func(name string, probed bool) capacity.Pod {
		return capacity.Pod{UID: "pod-" + m.name + "-" + name, Namespace: "default", Name: name + "-" + m.name, Phase: "Running", Ready: true, Probed: probed}
	}
	m.pods = []capacity.Pod{pod("agent", false), pod("web", true)}
	m.pods[0].Controller, m.pods[1].Controller = "DaemonSet", "ReplicaSet"
}

// admitPods is what a starting kubelet does: it admits all pods anew, those that it rejects fail; and up to 1.34 it forgets what
// readiness probes had found.
func (m *machine) admitPods(life int) {
	m.eachPod(func(p *capacity.Pod) {
		switch {
		case p.Finished():
		case m.kubelet.rejects != "":
			p.Phase, p.Reason, p.Ready = "Failed", m.kubelet.rejects, false
		case p.Probed, !m.hadPods:
			p.Ready = false
		}
	})
	m.hadPods = true
	m.w.after(m.w.jitter(probedAfter, "probes", m.name, life), func() {
		if m.kubelet.life == life && !m.kubelet.unprobed {
			m.eachPod(func(p *capacity.Pod) { p.Ready = !p.Finished() })
		}
	})
}

// eachPod changes the pods; earlier readings keep theirs.
func (m *machine) eachPod(change func(*capacity.Pod)) {
	m.pods = slices.Clone(m.pods)
	for i := range m.pods {
		change(&m.pods[i])
	}
}

// RejectPods lets every later start of kubelet reject the node's pods for that reason.
func (w *World) RejectPods(name, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machine(name).kubelet.rejects = reason
}

// FailProbes lets no readiness probe succeed any more.
func (w *World) FailProbes(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machine(name).kubelet.unprobed = true
}

// Pods implements rollout.Pods.
func (p pods) Pods(_ context.Context, name string) (out []capacity.Pod, err error) {
	err = p.run.do(func() error {
		m, err := p.run.w.get(name)
		if err == nil {
			out = m.pods
			p.run.unready[name] = slices.ContainsFunc(out, func(p capacity.Pod) bool { return p.Probed && !p.Ready && !p.Finished() })
		}
		return err
	})
	return out, err
}

// lost notes that a reading of the pods came to nothing: what can't be read is not waited for.
func (p pods) lost(name string) {
	p.run.w.mu.Lock()
	defer p.run.w.mu.Unlock()
	delete(p.run.unready, name)
}

// judgePods: a node is given back only when the pods that have readiness probes are ready again, as far as the run could know, or when it has waited
// long enough.
func (r *Run) judgePods(m *machine, before *rollout.Claim) {
	if before.Restart == nil || before.Restart.Pods == nil || before.Restart.Pods.Unknown != "" || r.aborts || !m.ledger.disturbed.IsZero() {
		return
	}
	r.w.promise(!r.unready[m.name] || m.uptime()-m.guest.Kubelet.Start >= rollout.DefaultPatience, "%s is released while pods on it are not ready again", m.name)
}
