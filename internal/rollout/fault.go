package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Fault is the error that ends a rollout. It says which layer of which node failed in which move, what was expected and
// observed, since when, and which command comes next.
type Fault struct {
	Layer    capacity.Layer `json:"layer"`
	Cluster  string         `json:"cluster,omitempty"`
	Node     string         `json:"node,omitempty"`
	Move     Move           `json:"move,omitempty"`
	Summary  string         `json:"summary"` // what happened, one sentence without a full stop
	Expected string         `json:"expected,omitempty"`
	Observed string         `json:"observed,omitempty"`
	Since    time.Time      `json:"since,omitzero"`    // when the wait began, or the observation was made
	Recover  string         `json:"recover,omitempty"` // the command that finishes or undoes it
	// Phase is the word that the claim keeps, where the layer and the move alone don't say it: resize-unclear, resize-partial.
	Phase string `json:"phase,omitempty"`
	// GivenBack is true if the node was untouched and healthy, and was given back on the way out.
	GivenBack bool     `json:"givenBack,omitempty"`
	Details   []string `json:"details,omitempty"` // telling lines of journals and kernel logs
	// Cause is the error underneath, if one ended the move.
	Cause error `json:"-"`
}

// Error prints the fault in one line.
func (f *Fault) Error() string {
	var b strings.Builder
	if f.Node != "" {
		fmt.Fprintf(&b, "%s: ", f.Node)
	}
	fmt.Fprintf(&b, "%s: %s", f.Layer, f.Summary)
	if f.Expected != "" || f.Observed != "" {
		fmt.Fprintf(&b, ": expected %s, observed %s", f.Expected, f.Observed)
	}
	if f.Cause != nil {
		fmt.Fprintf(&b, ": %v", f.Cause)
	}
	return b.String()
}

// Unwrap returns the error underneath.
func (f *Fault) Unwrap() error { return f.Cause }

// Error prints CloudStack's own words.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("CloudStack refused %s (code %d): %s", e.Command, e.Code, e.Text)
}

// Error says who holds the Lease.
func (e *HeldError) Error() string {
	return fmt.Sprintf("the cluster is held by run %s of %s since %s", e.Holder, e.State.Actor, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Unwrap() error { return ErrHeld }
