package world

import (
	"fmt"
	"strings"
	"time"
)

// Line is one thing that happened in a world.
type Line struct {
	At   time.Duration // since the world began
	Who  string        // a run, a node, or somebody
	What string
}

// String prints the line for people.
func (l Line) String() string {
	return fmt.Sprintf("%7.1fs  %-9s  %s", l.At.Seconds(), l.Who, l.What)
}

// tell adds a line to the story. The lock is held.
func (w *World) tell(who, format string, args ...any) {
	w.story = append(w.story, Line{At: w.clock.Now().Sub(w.began), Who: who, What: fmt.Sprintf(format, args...)})
}

// Story is all that happened, as a text.
func (w *World) Story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, l := range w.story {
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return b.String()
}

// State is what must be the same at the end, whatever happened on the way.
func (w *World) State() string {
	var b strings.Builder
	w.mu.Lock()
	machines := w.machines
	w.mu.Unlock()
	for _, m := range machines {
		instance := w.instance(m.id)
		resizes := w.resizes(m.id)
		w.mu.Lock()
		fmt.Fprintf(&b, "%s: %s, %s; guest %s; %s; resize jobs of ours %d, restarts of ours %d\n",
			m.name, instance.OfferingName, instance.State, m.hardware(), m.nodeState(), resizes, m.ledger.issued)
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&b, "Lease held %t, rollout open %t\n", w.lease.holder != "", w.lease.state != nil)
	return b.String()
}

func (m *machine) nodeState() string {
	n := m.node
	if !m.hasNode() {
		return fmt.Sprintf("etcd running %t, claimed %t", m.etcd.running, m.claim() != nil)
	}
	if n == nil {
		return "no Node"
	}
	cordon := "schedulable"
	if n.Unschedulable {
		cordon = "cordoned by " + n.UnschedulableBy
	}
	return fmt.Sprintf("Node %s, Ready %s, %s, claimed %t, scale-down disabled %t", n.Size(), n.Ready.Status, cordon, n.Claim != "", n.ScaleDownDisabled)
}
