package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Verdict is what is to be done about a cluster, in one word.
type Verdict string

// The verdicts.
const (
	Fine     Verdict = "fine"     // every view agrees, as far as it was read
	Blind    Verdict = "blind"    // it can't be read
	Asleep   Verdict = "asleep"   // nothing of it runs
	Foreign  Verdict = "foreign"  // CloudStack does not manage it
	Busy     Verdict = "busy"     // somebody is at work on it: it is left alone
	Settling Verdict = "settling" // views disagree, not long enough to be told
	Drifting Verdict = "drifting" // views disagree, and the policy is to watch
	Closed   Verdict = "closed"   // there is something to heal, and the window is closed
	Heal     Verdict = "heal"     // guests and Nodes are to be brought up to their instances
	Finish   Verdict = "finish"   // an unfinished healing is to be finished
	Later    Verdict = "later"    // a healing has failed and is tried again later
	Person   Verdict = "person"   // nothing goes on without a person
)

// Decision is a verdict with its reason.
type Decision struct {
	Verdict Verdict
	// Why says it in a sentence without its full stop.
	Why string
	// Next is the command for a person, if one is needed.
	Next string
	// Until is when it may change by itself: a window's opening, the next try. Zero if that is not known.
	Until time.Time
	// Nodes are the instance ids to heal.
	Nodes []string
}

// Situation is everything that a decision rests on.
type Situation struct {
	Listed

	// Unread is why the cluster can't be read, empty if it can.
	Unread string
	// Holder is whoever holds the Lease and is not known to be dead, empty for nobody.
	Holder string
	// Open is the unfinished rollout on the Lease, and OpenFor how long it has been seen without a living holder.
	Open    rollout.LeaseState
	OpenFor time.Duration
	// Faults are what earlier runs left in the claims on the nodes that they did not finish; Claimed is how many claims there are.
	Claimed int
	Faults  []*rollout.Fault
	// Changed are nodes of the unfinished healing whose instance has got another offering since.
	Changed []string
	// Drift are the lagging guests and Nodes.
	Drift []Drift
	// Failed is the last healing that failed, nil if none did since the cluster last changed.
	Failed *Failure
}

// Drift is a node of which guest or Node lags.
type Drift struct {
	Node, InstanceID string
	View             capacity.View
	Why              string
	// For is how long it has been so.
	For time.Duration
}

// Failure is a healing that failed.
type Failure struct {
	// Again is when the next one is tried; zero if a person must look first.
	Again time.Time
	Text  string
	Next  string

	// picture is how the cluster looked after the failure, once that was seen: while it stays, the same would fail again.
	picture string
	seen    bool
}

// Decide says what is to be done. It is pure.
func Decide(s Situation, now time.Time) Decision {
	switch {
	case s.Foreign:
		return Decision{Verdict: Foreign, Why: "another tool made it: CloudStack neither runs nor scales it"}
	case preflight.NothingRuns(s.State):
		return Decision{Verdict: Asleep, Why: "CloudStack calls it " + s.State}
	case s.State != "Running":
		return Decision{Verdict: Busy, Why: "CloudStack calls it " + s.State}
	case s.Unread != "":
		return Decision{Verdict: Blind, Why: s.Unread, Next: "trueup status " + rollout.Word(s.Name)}
	case s.Busy:
		return Decision{Verdict: Busy, Why: "CloudStack works on one of its machines"}
	case s.Holder != "":
		return Decision{Verdict: Busy, Why: "run " + s.Holder + " holds it"}
	case s.Open.Run != "" || s.Claimed > 0:
		return decideUnfinished(s, now)
	case len(s.Drift) > 0:
		return decideDrift(s, now)
	}
	return Decision{Verdict: Fine, Why: "all views agree"}
}

// decideUnfinished decides about a cluster in which a rollout was begun and nobody is at work.
func decideUnfinished(s Situation, now time.Time) Decision {
	name := rollout.Word(s.Name)
	d := Decision{Verdict: Person, Next: "trueup resume " + name, Why: fmt.Sprintf("run %s (%s by %s) is not finished", s.Open.Run, s.Open.Command, s.Open.Actor)}
	if s.Open.Run == "" {
		d.Why = fmt.Sprintf("%d nodes carry a claim, and no rollout is open", s.Claimed)
	}
	healing := s.Open.Command == CommandHeal
	switch {
	case !healing && s.OpenFor < s.Policy.DriftAfter:
		return Decision{Verdict: Settling, Why: d.Why}
	case !healing:
		return d
	case len(s.Changed) > 0:
		d.Why = fmt.Sprintf("the healing %s is not finished, and somebody has changed the offering of %s since", s.Open.Run, strings.Join(s.Changed, ", "))
		d.Next = "trueup abort " + name + "; then trueup reconcile " + name
		return d
	case len(s.Faults) > 0 && !passes(s.Faults[0].Layer):
		d.Why = fmt.Sprintf("the healing %s ended with a fault: %v", s.Open.Run, s.Faults[0])
		return d
	case !s.Policy.Heal:
		d.Why = fmt.Sprintf("the healing %s is not finished, and the policy is to observe now", s.Open.Run)
		return d
	case s.Policy.Paused:
		d.Why = fmt.Sprintf("the healing %s is not finished, and healing is paused", s.Open.Run)
		return d
	}
	return decideWork(s, now, Decision{Verdict: Finish, Why: fmt.Sprintf("the healing %s is not finished", s.Open.Run)})
}

// decideDrift decides about a cluster in which views disagree and nothing is unfinished.
func decideDrift(s Situation, now time.Time) Decision {
	due := s.due()
	if len(due) == 0 {
		return Decision{Verdict: Settling, Why: lag(s.Drift)}
	}
	d := Decision{Verdict: Drifting, Why: lag(due), Next: "trueup reconcile " + rollout.Word(s.Name)}
	switch {
	case !s.Policy.Heal:
		return d
	case s.Policy.Paused:
		d.Why += "; healing is paused"
		return d
	}
	heal := Decision{Verdict: Heal, Why: lag(due)}
	for _, lags := range due {
		if !slices.Contains(heal.Nodes, lags.InstanceID) {
			heal.Nodes = append(heal.Nodes, lags.InstanceID)
		}
	}
	return decideWork(s, now, heal)
}

// due is the drift that has lasted long enough to be told or acted on.
func (s Situation) due() (due []Drift) {
	for _, d := range s.Drift {
		if d.For >= s.Policy.DriftAfter {
			due = append(due, d)
		}
	}
	return due
}

// decideWork holds work back after a failure, and while the window is closed. What was begun on a node is finished at any time: it would else
// stay cordoned until the window opens.
func decideWork(s Situation, now time.Time, work Decision) Decision {
	switch f := s.Failed; {
	case f != nil && f.Again.IsZero():
		return Decision{Verdict: Person, Why: f.Text, Next: f.Next}
	case f != nil && now.Before(f.Again):
		return Decision{Verdict: Later, Why: f.Text, Until: f.Again}
	case s.Claimed == 0 && !s.Policy.open(now):
		return Decision{Verdict: Closed, Why: work.Why, Until: s.Policy.Windows.Next(now)}
	}
	return work
}

// passes tells whether what failed in a layer may pass by itself: somebody else held the cluster, or something did not answer.
func passes(l capacity.Layer) bool { return l == capacity.LayerAccess || l == capacity.LayerLock }

// lag says in words what lags.
func lag(list []Drift) string {
	d := list[0]
	text := fmt.Sprintf("the %s of %s lags: %s", d.View, d.Node, d.Why)
	if n := len(list) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}
