package compare

import (
	"errors"
	"fmt"
	"time"
)

// timeline is one node's way, all by the clock of the machine that runs the comparison.
type timeline struct {
	node string
	// begin is the start of the program, or when the node before was given back.
	begin time.Time
	// cordoned and given are when the API server told that the node is unschedulable, and no longer.
	cordoned, given time.Time
	// jobBegan and jobEnded are CloudStack's.
	jobBegan, jobEnded time.Time
	// plugged is when the guest's kernel had brought up the last CPU or memory block.
	plugged time.Time
	// started is when systemd started the kubelet that posted fresh.
	started time.Time
	// fresh is when the API server first told of a Ready Node with the new size.
	fresh time.Time
	// end is given or, for the last node, when the program ended.
	end time.Time
	// notReady is for how long the Node was anything but Ready, from its cordon to the end.
	notReady time.Duration
}

// Phase is a part of a node's way.
type Phase struct {
	Name string
	// Machine tells whether it is the machine's own: no tool can make it shorter.
	Machine bool
	Took    time.Duration
}

// phases are all parts, in order; together they are the whole way.
func (t timeline) phases() []Phase {
	return []Phase{
		{"look", false, t.cordoned.Sub(t.begin)},
		{"ask CloudStack", false, t.jobBegan.Sub(t.cordoned)},
		{"CloudStack's job", true, t.jobEnded.Sub(t.jobBegan)},
		{"guest plugs", true, max(0, t.plugged.Sub(t.jobEnded))},
		{"notice, restart", false, t.started.Sub(later(t.plugged, t.jobEnded))},
		{"kubelet's start", true, t.fresh.Sub(t.started)},
		{"verify, give back", false, t.given.Sub(t.fresh)},
		{"end", false, t.end.Sub(t.given)},
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wall is the whole way.
func (t timeline) wall() time.Duration { return t.end.Sub(t.begin) }

// added is the part that is not the machine's own.
func (t timeline) added() (sum time.Duration) {
	for _, p := range t.phases() {
		if !p.Machine {
			sum += p.Took
		}
	}
	return sum
}

// tolerance is how exactly a guest's clock is placed on this machine's, and how much later a watch may tell than a write returns.
const tolerance = 300 * time.Millisecond

// check fails if the way is not one: something is missing, or came before what it follows from. A measurement of such a run would be wrong.
func (t timeline) check() error {
	var failed error
	before := t.begin
	steps := []struct {
		what string
		at   time.Time
	}{{"begin", t.begin}, {"cordon", t.cordoned}, {"job", t.jobBegan}, {"end of the job", t.jobEnded}, {"start of kubelet", t.started}, {"fresh status", t.fresh}, {"given back", t.given}, {"end", t.end}}
	for _, s := range steps {
		switch {
		case s.at.IsZero():
			failed = errors.Join(failed, fmt.Errorf("%s: no %s", t.node, s.what))
		case s.at.Before(before.Add(-tolerance)):
			failed = errors.Join(failed, fmt.Errorf("%s: %s %s too early", t.node, s.what, before.Sub(s.at)))
		}
		before = s.at
	}
	if t.started.Before(t.plugged.Add(-tolerance)) {
		failed = errors.Join(failed, fmt.Errorf("%s: kubelet was started %s before the last of the hardware came up", t.node, t.plugged.Sub(t.started)))
	}
	return failed
}
