package world

import (
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// ledger is what the world itself remembers of a machine. Promises are judged by it, not by what the engine's claim says.
type ledger struct {
	cordon    string         // who cordoned the Node; empty while it is schedulable
	forgotten bool           // somebody has destroyed the claim, and with it what we knew
	lifted    bool           // somebody has uncordoned the Node since it was claimed, which is respected
	disturbed time.Time      // when somebody else last changed the machine
	restarts  map[string]int // of kubelet by the engine, by boot and goal, with the hardware complete
	issued    int            // all restarts of kubelet by the engine
	stoppedBy string         // the run that stopped the instance and has not started it again
}

// Broken lists the promises that were broken.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// promise notes a broken promise. The lock is held.
func (w *World) promise(kept bool, format string, args ...any) {
	if !kept {
		text := fmt.Sprintf(format, args...)
		w.broken = append(w.broken, fmt.Sprintf("%.3fs: %s", w.clock.Now().Sub(w.began).Seconds(), text))
		w.tell("BROKEN", "%s", text)
	}
}

// check holds the world against the promises that can be seen in one moment. The lock is held.
func (w *World) check() {
	held := 0
	for _, m := range w.machines {
		if m.claim() != nil {
			held++
		}
		if m.node == nil {
			continue
		}
		w.promise(m.ledger.cordon != rollout.FieldManager || m.node.Claim != "", "%s is cordoned by us without a claim", m.name)
	}
	w.promise(held <= 1, "%d nodes are held by us at once", held)
}

// look notes that a run reads the machine in one of its systems.
func (r *Run) look(system, instance string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.looked[system+instance] = r.w.clock.Now()
}

// unchangedSince tells whether nobody else has changed the machine since the run last read it in CloudStack and in the guest: what
// changes later can't be known to the decision that follows.
func (m *machine) unchangedSince(r *Run) bool {
	d := m.ledger.disturbed
	return d.IsZero() || d.Before(r.looked["instance"+m.id]) && d.Before(r.looked["guest"+m.id])
}

// fenced: an effect needs a look at the Lease that showed it to be the run's, not longer ago than an effect may last, and none comes
// after a takeover.
func (r *Run) fenced(m *machine, what string) {
	age := r.w.clock.Now().Sub(r.checked)
	r.w.promise(age <= effectDeadline, "%s %s on %s %s after its last look at the Lease", r.ID, what, m.name, age)
	r.w.promise(r.overAt.IsZero(), "%s %s on %s after another run took over", r.ID, what, m.name)
}

// alone: nothing is begun on a node on which another tool was seen at work.
func (r *Run) alone(m *machine, what string) {
	if m.node != nil && (len(m.node.Marks) > 0 || m.node.Deleting) {
		r.w.promise(!m.unchangedSince(r), "%s %s %s, which another tool has marked", r.ID, what, m.name)
	}
}

// others: a control-plane node is begun on, resized and its kubelet restarted only while the other ones are Ready, as far as the run could know.
func (r *Run) others(m *machine, what string) {
	if !m.hasNode() {
		r.otherMembers(m, what)
		return
	}
	if roleOf(m.name) != rollout.RoleControl {
		return
	}
	for _, o := range r.w.machines {
		if o == m || roleOf(o.name) != rollout.RoleControl || o.node == nil || o.node.badSince.IsZero() {
			continue
		}
		r.w.promise(r.read[o.name].Before(o.node.badSince), "%s %s %s while %s is not Ready", r.ID, what, m.name, o.name)
	}
}

// judgePatch holds a patch of the engine against the promises. Before is the claim that was there.
func (r *Run) judgePatch(m *machine, before *rollout.Claim, p rollout.NodePatch) {
	after := m.claim()
	w := r.w
	r.fenced(m, "patches")
	if p.Unschedulable != nil {
		r.judgeCordon(m, before, after, *p.Unschedulable)
	}
	switch {
	case before == nil && after != nil:
		r.others(m, "claims")
		r.alone(m, "claims")
		m.ledger.lifted = false
		w.tell(r.ID, "claims %s%s", m.name, map[bool]string{true: " and cordons it"}[after.Cordoned])
		w.promise(after.Cordoned == (p.Unschedulable != nil && *p.Unschedulable), "%s: the claim says cordoned=%t, the patch does not", m.name, after.Cordoned)
	case before != nil && after == nil:
		w.tell(r.ID, "releases %s%s", m.name, map[bool]string{true: " and uncordons it"}[p.Unschedulable != nil])
		r.judgeRelease(m, before)
	case after != nil && after.Fault != nil && before.Fault == nil:
		w.tell(r.ID, "leaves %s claimed: %s", m.name, after.Phase)
	case after != nil && before.Run != after.Run:
		w.tell(r.ID, "takes over the claim on %s from %s", m.name, before.Run)
	}
}

// judgeCordon: we cordon only together with a claim that says so, and lift only what is ours.
func (r *Run) judgeCordon(m *machine, before, after *rollout.Claim, value bool) {
	owner := &m.ledger.cordon
	if value {
		r.w.promise(*owner == "" && before == nil && after != nil && after.Cordoned, "%s is cordoned without a new claim that says so, or twice (owner %q)", m.name, *owner)
		*owner = rollout.FieldManager
		return
	}
	r.w.promise(*owner == rollout.FieldManager && before != nil && before.Cordoned && after == nil, "%s is uncordoned, but the cordon was of %q", m.name, *owner)
	*owner = ""
}

// judgeRelease: a node is given back only when it is finished, or when nothing was changed on it.
func (r *Run) judgeRelease(m *machine, before *rollout.Claim) {
	w := r.w
	pending := w.pendingJob(m.id, ownerAccount) != ""
	w.promise(!pending || m.ledger.forgotten, "%s is released while a job of ours is pending", m.name)
	m.ledger.forgotten = m.ledger.forgotten && pending
	if !m.hasNode() && !r.forced {
		r.otherMembers(m, "releases")
	}
	r.judgePods(m, before)
	kept := m.finished(before.Goal) || m.asBefore(before.Before) || r.forced || r.aborts && m.finished(w.present(m.id))
	w.promise(kept || !m.unchangedSince(r), "%s is released, and is neither finished nor as before: %s, %s", m.name, m.hardware(), m.nodeState())
}

// finished tells whether instance, guest, kubelet and Node have the offering, as seen by the world itself.
func (m *machine) finished(o capacity.Offering) bool {
	i := m.w.instance(m.id)
	if !m.hasNode() {
		return i.OfferingID == o.ID && m.complete(o)
	}
	n := m.node.Node
	return i.OfferingID == o.ID && m.complete(o) && n.CPUs() == int64(o.CPUs)*1000 && n.Memory() == m.memTotal() &&
		n.Ready.True() && m.kubelet.running && m.kubelet.found == m.hardware()
}

// asBefore tells whether nothing of a resize can be seen anywhere.
func (m *machine) asBefore(b rollout.Before) bool {
	i := m.w.instance(m.id)
	return i.OfferingID == b.Instance.OfferingID && m.guest.CPUsPresent == b.Guest.CPUsPresent && m.guest.MemoryPresent() == b.Guest.MemoryPresent() &&
		(!m.hasNode() || m.node.CPUs() == capacity.Node{Capacity: b.Capacity}.CPUs())
}

// judgeResize: no resize without our claim, which announces this very request, and its cordon written before; never two jobs. An
// error means that the program is dead by now.
func (r *Run) judgeResize(instance, offering string, expires time.Time) error {
	return r.do(func() error {
		m, w := r.w.machine(instance), r.w
		claim := m.claim()
		r.fenced(m, "resizes")
		r.others(m, "resizes")
		r.alone(m, "resizes")
		if m.node != nil || !m.hasNode() {
			announced := claim != nil && claim.Run == r.ID && claim.Goal.ID == offering && claim.Resize != nil && claim.Resize.Expires.Equal(expires)
			w.promise(announced || !m.unchangedSince(r), "%s is resized without an announcement", m.name)
			w.promise(!m.hasNode() || m.node.Unschedulable || m.ledger.lifted, "%s is resized while pods can be scheduled on it", m.name)
		}
		w.promise(claim == nil || (claim.Cold == nil) == m.on || !m.unchangedSince(r), "%s is resized by another method than its claim says", m.name)
		w.promise(w.pendingJob(m.id, ownerAccount) == "", "%s is resized while a job of ours is pending", m.name)
		w.tell(r.ID, "asks CloudStack for the offering %s on %s", w.offeringName(offering), m.name)
		return nil
	})
}

// judgeLateResize: a request that was held up in the network is accepted only while it does no harm.
func (r *Run) judgeLateResize(instance, offering, pending string, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	m := r.w.machine(instance)
	if err != nil {
		r.w.tell("CloudStack", "refuses a request of %s for %s that was held up: %v", r.ID, m.name, err)
		return
	}
	if m.w.present(instance).ID == offering {
		return // CloudStack will find that there is nothing to do
	}
	r.w.tell("CloudStack", "accepts a request of %s for %s that was held up", r.ID, m.name)
	claim := m.claim()
	r.w.promise(pending == "", "%s: a late request makes a second job of ours", m.name)
	r.w.promise(m.hasNode() && m.node == nil || claim != nil && claim.Goal.ID == offering || m.ledger.forgotten, "%s: a late request resizes a node that is not claimed for it", m.name)
}

func (w *World) offeringName(id string) string {
	for _, o := range []capacity.Offering{w.Big, w.Tiny} {
		if o.ID == id {
			return o.Name
		}
	}
	return w.Small.Name
}

// judgeRestart: kubelet is restarted only when it was announced, only with all hardware online, and once.
func (r *Run) judgeRestart(m *machine, invocation string) {
	w, claim := r.w, m.claim()
	w.promise(m.hasNode(), "kubelet is restarted on %s, which has none", m.name)
	r.fenced(m, "restarts kubelet")
	r.others(m, "restarts kubelet on")
	r.alone(m, "restarts kubelet on")
	m.ledger.issued++
	if m.node == nil {
		return // it was deleted between the announcement and the restart
	}
	announced := claim != nil && claim.Run == r.ID && claim.Restart != nil && claim.Restart.InvocationID == invocation
	w.promise(announced || !m.unchangedSince(r), "kubelet on %s is restarted without an announcement", m.name)
	if claim == nil {
		return
	}
	w.promise(claim.Cold == nil, "kubelet on %s is restarted although its machine was started anew", m.name)
	w.promise(m.complete(claim.Goal) || !m.unchangedSince(r), "kubelet on %s is restarted before its hardware is online: %s", m.name, m.hardware())
	if m.ledger.forgotten {
		return
	}
	w.promise(m.kubelet.found != m.hardware() || !m.unchangedSince(r), "kubelet on %s is restarted although it had found %s", m.name, m.hardware())
	key := m.guest.BootID + " " + claim.Goal.ID
	m.ledger.restarts[key]++
	w.promise(m.ledger.restarts[key] <= 1, "kubelet on %s is restarted %d times in one boot for one goal", m.name, m.ledger.restarts[key])
}
