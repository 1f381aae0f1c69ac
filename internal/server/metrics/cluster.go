package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Result is how a rollout ended, in one word.
type Result string

// The results.
const (
	Done        Result = "done"        // every node is verified
	Failed      Result = "failed"      // a fault stopped it after something was changed
	Refused     Result = "refused"     // it ended before any change
	Interrupted Result = "interrupted" // it was asked to stop, and can be resumed
)

// results lists every result.
func results() []Result { return []Result{Done, Failed, Refused, Interrupted} }

// ResultOf says how a rollout ended.
func ResultOf(report rollout.Report, err error) Result {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, rollout.ErrInterrupted), errors.Is(err, context.Canceled):
		return Interrupted
	case len(report.Effects) == 0:
		return Refused
	}
	return Failed
}

// Scan is what one scan saw of a cluster.
type Scan struct {
	Took time.Duration
	// Readable is false if CloudStack or Kubernetes could not be read: the other figures are then those of the last scan that could.
	Readable bool
	Nodes    int
	// Drift is how many nodes have each lagging view.
	Drift   map[capacity.View]int
	Claimed int
	// Abandoned is how many nodes are cordoned by a claim while nobody holds the cluster's Lease.
	Abandoned int
	// Waiting is true if nothing goes on without a person.
	Waiting bool
}

// Cluster is the figures of one cluster. Methods of a nil *Cluster do nothing.
type Cluster struct {
	mu  *sync.Mutex // that of the Metrics
	now func() time.Time

	id, name string
	scanned  bool // at least once
	read     time.Time
	scan     Scan
	node     string // in whose turn the present move is
	move     rollout.Move
	since    time.Time
	results  map[Result]int
	restarts int
}

// Scanned takes what a scan saw.
func (c *Cluster) Scanned(s Scan) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scanned = true
	if s.Readable {
		c.scan, c.read = s, c.now()
		return
	}
	c.scan.Readable, c.scan.Took = false, s.Took
}

// Watch follows a rollout by its events, to know the present move.
func (c *Cluster) Watch(e rollout.Event) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.Done || e.Fault != nil:
		c.node, c.move = "", ""
	case e.Move != c.move || e.Target.InstanceID != c.node:
		c.node, c.move, c.since = e.Target.InstanceID, e.Move, e.At
	}
}

// Ended counts a rollout that has ended, and the restarts of kubelet in it: those that were answered, and those whose answer was lost.
func (c *Cluster) Ended(report rollout.Report, err error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node, c.move = "", ""
	c.results[ResultOf(report, err)]++
	for _, e := range report.Effects {
		if e.Action == rollout.ActionRestart {
			c.restarts++
		}
	}
}
