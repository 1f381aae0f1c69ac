package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/survey"
)

// memory is what is remembered of a cluster from scan to scan. Nothing of it is needed for correctness: after a restart the same is seen again, and
// drift must last anew before it is acted on. One goroutine at a time uses it.
type memory struct {
	listed Listed
	nodes  map[string]*nodeMemory // by instance id

	unread      string    // why the last scan could not read it
	unreadSince time.Time // zero while it can be read
	read        time.Time // when it last was

	share float64 // of a guest that is due by sampling

	lease      Lease
	leaseSince time.Time // since when the Lease has been seen as it is
	openSince  time.Time // since when an unfinished rollout has been seen without a living holder
}

// nodeMemory is what is remembered of a machine.
type nodeMemory struct {
	seen survey.Node // the last reading; its guest may be older than the rest
	full time.Time   // when the guest was last read, or tried to be; zero for never
	// changed: instance or Node are not what they were when the guest was last read.
	changed bool
	drift   map[capacity.View]time.Time
}

// leaseDuration is for how long a Lease that does not change is still its holder's: that of the kube port, which fences, and a scan's time more
// is waited anyway, since a holder counts as alive when it is first seen.
const leaseDuration = 40 * time.Second

// takeLease notes the Lease, and since when it is as it is by our own clock: the holder's stamps are never compared with it.
func (m *memory) takeLease(l Lease, now time.Time) {
	was := m.lease
	if m.leaseSince.IsZero() || was.Holder != l.Holder || was.Transitions != l.Transitions || !was.Renewed.Equal(l.Renewed) {
		m.leaseSince = now
	}
	m.lease = l
}

// holder is who holds the cluster and is not known to be dead.
func (m *memory) holder(now time.Time) string {
	if m.lease.Holder == "" || now.Sub(m.leaseSince) > leaseDuration {
		return ""
	}
	return m.lease.Holder
}

// take merges the machines as CloudStack lists them with the Nodes. A guest's last reading is kept while it can still be true: the same boot, the
// same instance, the same size of the Node.
func (m *memory) take(c Listed, s Sight, now time.Time) {
	m.unread, m.unreadSince, m.read = "", time.Time{}, now
	old := m.nodes
	m.nodes = make(map[string]*nodeMemory, len(c.Members))
	for _, fresh := range survey.Match(survey.Cluster{ID: c.ID, Name: c.Name, Members: c.Members}, s.Nodes, s.Claims) {
		n := old[fresh.Target.InstanceID]
		if n == nil {
			n = &nodeMemory{seen: fresh}
		}
		m.nodes[fresh.Target.InstanceID] = n
		n.take(fresh)
	}
}

func (n *nodeMemory) take(fresh survey.Node) {
	if n.same(fresh) {
		fresh.Views.Guest = n.seen.Views.Guest
		fresh.Problems = append(fresh.Problems, guestProblems(n.seen.Problems)...)
		fresh.Drifts = fresh.Views.Drifts()
	} else {
		n.changed = true
	}
	n.seen = fresh
}

// same tells whether the last reading of the guest still stands, by what CloudStack and Kubernetes show.
func (n *nodeMemory) same(fresh survey.Node) bool {
	if n.seen.Views.Instance != fresh.Views.Instance {
		return false
	}
	a, b := n.seen.Views.Node, fresh.Views.Node
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.BootID == b.BootID && a.CPUs() == b.CPUs() && a.Memory() == b.Memory() && a.Claim == b.Claim
}

func guestProblems(list []survey.Problem) []survey.Problem {
	return slices.DeleteFunc(slices.Clone(list), func(p survey.Problem) bool { return p.View != capacity.ViewGuest })
}

// suspicious tells whether a look at the guest is due because something looks wrong or has changed. A guest that can't be read is not asked in every
// scan.
func (n *nodeMemory) suspicious(now time.Time) bool {
	if len(guestProblems(n.seen.Problems)) > 0 && !n.changed {
		return now.Sub(n.full) >= askAgain
	}
	return n.changed || len(n.lag()) > 0
}

// askAgain is the pause after a guest could not be read.
const askAgain = 10 * time.Minute

// plausible tells whether the Node may well be what the instance is: its CPUs are the same, and its memory lies where that of such a machine lies.
func plausible(i capacity.Instance, n capacity.Node) bool {
	return n.CPUs() == int64(i.CPUs)*1000 && capacity.CheckMemTotal(nil, capacity.Guest{MemTotal: n.Memory()}, i.Present()).OK
}

// toRead are the machines whose guests are to be read in this scan: of those that look wrong at most some; of the others as many as keep
// each one's last reading about as young as the sample time. Those that were read longest ago come first.
func (m *memory) toRead(every, sample time.Duration, now time.Time) []string {
	var wrong, rest []string
	for id, n := range m.nodes {
		switch {
		case !n.seen.Views.Instance.Running(): // there is nobody to ask
		case n.suspicious(now):
			wrong = append(wrong, id)
		case len(guestProblems(n.seen.Problems)) == 0:
			rest = append(rest, id)
		}
	}
	order := func(a, b string) int { return cmp.Or(m.nodes[a].full.Compare(m.nodes[b].full), cmp.Compare(a, b)) }
	slices.SortFunc(wrong, order)
	slices.SortFunc(rest, order)
	m.share += float64(len(rest)) * float64(every) / float64(max(sample, every))
	whole := min(int(m.share), len(rest))
	m.share = min(m.share-float64(whole), 1)
	return append(wrong[:min(len(wrong), mostSuspects)], rest[:whole]...)
}

// mostSuspects bounds the guests of one cluster that are read in one scan because something looks wrong.
const mostSuspects = 25

// takeFull keeps a full reading.
func (m *memory) takeFull(nodes []survey.Node, now time.Time) {
	for _, fresh := range nodes {
		if n := m.nodes[fresh.Target.InstanceID]; n != nil {
			n.seen, n.full, n.changed = fresh, now, false
		}
	}
}

// age notes since when each guest and Node has lagged.
func (m *memory) age(now time.Time) {
	for _, n := range m.nodes {
		lags := map[capacity.View]time.Time{}
		for _, d := range n.lag() {
			lags[d.View] = now
			if since, was := n.drift[d.View]; was {
				lags[d.View] = since
			}
		}
		n.drift = lags
	}
}

// lag is what lags of a machine, the record aside: that is no fault of a machine. Without a reading of the guest, a Node whose CPUs are not the
// instance's lags all the same: the one or the other of the two has not followed.
func (n *nodeMemory) lag() []capacity.Drift {
	out := slices.DeleteFunc(slices.Clone(n.seen.Drifts), func(d capacity.Drift) bool { return d.View == capacity.ViewRecord })
	v := n.seen.Views
	if v.Guest == nil && v.Node != nil && v.Instance.Running() && !plausible(v.Instance, *v.Node) {
		out = append(out, capacity.Drift{View: capacity.ViewNode, Why: "the Node has " + v.Node.Size() + ", the instance " + v.Instance.Size() + ", and the guest could not be read"})
	}
	return out
}

// ordered are the machines in CloudStack's order.
func (m *memory) ordered() []*nodeMemory {
	out := make([]*nodeMemory, 0, len(m.nodes))
	for _, member := range m.listed.Members {
		if n := m.nodes[member.Instance.ID]; n != nil {
			out = append(out, n)
		}
	}
	return out
}

// situation puts together what a decision rests on.
func (m *memory) situation(failed *Failure, now time.Time) Situation {
	s := Situation{Listed: m.listed, Unread: m.unread, Holder: m.holder(now), Open: m.lease.Open, Failed: failed}
	for _, n := range m.ordered() {
		t := n.seen.Target
		if c := n.seen.Claim; c != nil {
			s.Claimed++
			if c.Fault != nil {
				s.Faults = append(s.Faults, c.Fault)
			}
		}
		if g, ok := s.Open.Goals[t.InstanceID]; ok && !n.seen.Views.Instance.AtOffering(g.Offering) {
			s.Changed = append(s.Changed, t.Name)
		}
		for _, d := range n.lag() {
			s.Drift = append(s.Drift, Drift{Node: t.Name, InstanceID: t.InstanceID, View: d.View, Why: d.Why, For: now.Sub(n.drift[d.View])})
		}
	}
	if s.Holder != "" || s.Open.Run == "" && s.Claimed == 0 {
		m.openSince = time.Time{}
	} else if m.openSince.IsZero() {
		m.openSince = now
	}
	if !m.openSince.IsZero() {
		s.OpenFor = now.Sub(m.openSince)
	}
	return s
}
