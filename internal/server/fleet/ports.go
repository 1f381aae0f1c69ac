// Package fleet keeps an eye on many clusters: it says where their views disagree, and heals by policy.
//
// Its invariants: a cluster is only ever changed by the engine, under the cluster's own Lease, and only to bring guest and Node up to what the instance
// has; a cluster in which anybody else is at work is left alone; one that can't be read is reported as such, with since when, and holds up no other;
// and nothing that it remembers decides anything: after a restart it sees again what is to be done.
package fleet

import (
	"context"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// Endpoint is one CloudStack with the clusters that are watched there.
type Endpoint interface {
	// List lists them with their machines, in pages. Everything else of a cluster is asked of its own API server.
	List(ctx context.Context) ([]Listed, error)
	// Open returns the way to a cluster. It is kept for as long as the cluster is watched, and closed then.
	Open(ctx context.Context, c Listed) (Cluster, error)
	// Heal brings guests and Nodes up to what their instances have, and returns once that has ended.
	Heal(ctx context.Context, c Listed, w Work) (rollout.Report, error)
}

// Listed is a cluster as one listing of its endpoint shows it.
type Listed struct {
	ID, Name string
	State    string // CloudStack's word: Running, Stopped, Scaling, Alert, …
	// Foreign is true if another tool made the cluster: CloudStack neither runs nor scales it.
	Foreign bool
	Members []survey.Member
	// Busy is true while CloudStack works on one of its machines.
	Busy   bool
	Policy Policy
}

// Policy is what may be done to a cluster.
type Policy struct {
	// Heal lets guests and Nodes be brought up to what their instances have; else they are watched.
	Heal bool
	// Paused holds healing back.
	Paused bool
	// DriftAfter is how long views must disagree before that is told or acted on.
	DriftAfter time.Duration
	// Windows are when a healing may begin; nil is always.
	Windows Windows
}

// Windows are maintenance windows.
type Windows interface {
	Open(at time.Time) bool
	// Next is when they close, if they are open, or open, if they are closed. Zero is never.
	Next(at time.Time) time.Time
}

func (p Policy) open(at time.Time) bool { return p.Windows == nil || p.Windows.Open(at) }

// Cluster is the way to one cluster.
type Cluster interface {
	// Look asks the API server for the Nodes and for the Lease: two requests.
	Look(ctx context.Context) (Sight, error)
	// Guests opens the way into the guests, for one reading.
	Guests(ctx context.Context) (Guests, error)
	Close()
}

// Guests is the way into the guests of a cluster.
type Guests interface {
	rollout.Guests
	Close() error
}

// Sight is what the API server shows of a cluster.
type Sight struct {
	Nodes []capacity.Node
	// Claims are those of machines that are no Nodes, by instance id.
	Claims map[string]string
	Lease  Lease
}

// Lease is who holds a cluster, and what is unfinished there.
type Lease struct {
	// Holder is the run that holds it, alive or dead; empty for nobody. Transitions and Renewed change as long as it lives.
	Holder      string
	Transitions int32
	Renewed     time.Time
	// Open is the unfinished rollout. Without a run there is none.
	Open rollout.LeaseState
}

// CommandHeal is the command of a rollout that a fleet begins, as the Lease keeps it: any server may finish it.
const CommandHeal = "heal"

// Work is what is to be healed.
type Work struct {
	// Run is the id of the rollout.
	Run string
	// Finish goes on with the unfinished healing on the Lease; else Nodes are the instance ids of those that drift.
	Finish bool
	Nodes  []string
	// Watch is told what happens, as it happens. It does not block.
	Watch func(rollout.Event)
	// EndMove, EndNode and Stop are closed to ask for an end: with the present move, with the present node, before the next effect.
	EndMove, EndNode, Stop <-chan struct{}
}

// Settings are how an endpoint is scanned.
type Settings struct {
	// Every is the time from one scan's begin to the next one's.
	Every time.Duration
	// Clusters is how many clusters are read at the same time.
	Clusters int
	// Sample is how long a guest at most stays unread while nothing looks wrong.
	Sample time.Duration
	// Timeout bounds the reading of one cluster.
	Timeout time.Duration
}
