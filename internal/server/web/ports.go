package web

import (
	"context"
	"errors"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// Errors of the ports, wrapped with what happened: their texts are shown to the person who asked, so they hold no secret. Every other error is
// logged, and shown as "internal error" alone.
var (
	// ErrNotFound: no such cluster, plan or rollout.
	ErrNotFound = errors.New("not found")
	// ErrConflict: not in this state: a rollout is at work already, none is to be paused, the plan is too old or what it rests on has changed.
	ErrConflict = errors.New("conflict")
	// ErrRefused: the request is understood and must not be done: an unknown offering, a plan that refuses, a policy that forbids it.
	ErrRefused = errors.New("refused")
	// ErrUnavailable: it can't be told or done now: the cluster can't be read, the server ends.
	ErrUnavailable = errors.New("unavailable")
)

// Fleet is what the server knows of its clusters. It answers from memory: a reader never causes a request to CloudStack, Kubernetes or a guest.
type Fleet interface {
	// Clusters are all clusters, in the order in which they are shown.
	Clusters(ctx context.Context) ([]Cluster, error)
	// Cluster is one of them with its nodes. ErrNotFound.
	Cluster(ctx context.Context, id string) (Detail, error)
}

// Planner makes plans and keeps them until they expire.
type Planner interface {
	// Plan surveys the cluster, plans, and keeps the plan under an id that can't be guessed. A plan that refuses is no error: it says so itself.
	Plan(ctx context.Context, clusterID string, r Request, actor string) (Plan, error)
	// Planned is the plan of that id. ErrNotFound if there is none, of this cluster, or if it has expired.
	Planned(ctx context.Context, clusterID, planID string) (Plan, error)
}

// Rollouts acts on clusters. The same engine, claims and Lease stand behind it as behind the command line. Each call returns once the thing has begun.
type Rollouts interface {
	// Start begins the rollout of a plan, and returns its run id. ErrConflict if what the plan rests on has changed.
	Start(ctx context.Context, clusterID, planID, actor string) (run string, err error)
	// Pause asks the rollout at work to stop at its next safe point: before its next effect. Its claims and its state on the Lease stay.
	Pause(ctx context.Context, clusterID, actor string) error
	// Resume goes on with the unfinished rollout on the Lease, whoever began it.
	Resume(ctx context.Context, clusterID, actor string) (run string, err error)
	// Release gives the unfinished rollout up: healthy claimed nodes are given back (`trueup abort` without --force). No offering is changed.
	Release(ctx context.Context, clusterID, actor string) (run string, err error)
}

// History tells what was done.
type History interface {
	// History returns the chosen entries, oldest first, and how many could not be read.
	History(ctx context.Context, q Query) (entries []history.Entry, unreadable int, err error)
}

// Auditor keeps who did what. It is asked before the thing is done: if it can't be kept, it is not done.
type Auditor interface {
	Audit(ctx context.Context, r Record) error
}

// Query chooses entries of the history. Zero fields choose all.
type Query struct {
	Cluster string // id or name
	Run     string
	// Limit returns the newest so many.
	Limit int
}

// Record is one act, or one that was refused.
type Record struct {
	Time   time.Time
	Actor  string // name of the token or certificate; "anonymous" where there is none
	Remote string // address of the connection's other end
	// Action is what was asked: plan, start, pause, resume, release, login, logout.
	Action    string
	ClusterID string
	Run       string
	// Outcome is asked, done, refused or failed. An act has one record before (asked) and one after.
	Outcome string
	Detail  string
}

// Policy says what the server may do on a cluster by itself.
type Policy string

// The policies.
const (
	PolicyObserve Policy = "observe"
	PolicyHeal    Policy = "heal"
)

// Cluster is what is shown of a cluster among others.
type Cluster struct {
	ID, Name string
	// Endpoint is the CloudStack endpoint's name in the configuration, State CloudStack's word for the cluster.
	Endpoint, State string
	Policy          Policy
	Paused          bool   // healing is paused by configuration
	Window          string // maintenance window in words ("opens Sat 22:00 Europe/Berlin"), empty if there is none
	// Readable is false if the last scan could not read it; Unread says why. Since is since when it has been so, Read when it was last read.
	Readable    bool
	Unread      string
	Since, Read time.Time
	Nodes       int
	Drift       map[capacity.View]int // nodes with each lagging view
	Claimed     int                   // nodes that carry a claim
	// Waiting says what waits for a person, empty if nothing does; Next is the command for it.
	Waiting, Next string
	// Now is the rollout at work or unfinished, nil if there is none; Last the last one that ended, as far as is known.
	Now, Last *Rollout
}

// Phase says how far a rollout is.
type Phase string

// The phases.
const (
	PhaseRunning    Phase = "running"    // this server is at work on it
	PhasePausing    Phase = "pausing"    // it was asked to stop, and will at its next safe point
	PhaseReleasing  Phase = "releasing"  // this server gives it up
	PhaseElsewhere  Phase = "elsewhere"  // another holder of the Lease is at work on it
	PhaseUnfinished Phase = "unfinished" // nobody is at work on it: paused, failed, or its holder died
	PhaseEnded      Phase = "ended"
)

// Rollout is one rollout in short.
type Rollout struct {
	Run, Command, Actor, Why string
	Phase                    Phase
	Began, Ended             time.Time // Ended is zero until then
	// Node and Move are where it is now; empty if not known.
	Node string
	Move rollout.Move
	// Done of Total nodes are finished.
	Done, Total int
	// Result is done, failed, refused or interrupted, for one that ended; Error its error in full.
	Result, Error string
}

// Detail is one cluster.
type Detail struct {
	Cluster
	// Members are the nodes as last read. Empty if the cluster was never read.
	Members []survey.Node
	// Preflight are the checks that can be made without a goal, as of the last reading; Checked is when.
	Preflight []Check
	Checked   time.Time
	// Offerings are those that can be asked for.
	Offerings []capacity.Offering
}

// Check is a check of the cluster or, if Node is not empty, of one node.
type Check struct {
	Node string
	preflight.Check
}

// Request is what a plan is asked for. The cold method is not among it: it is chosen by name, on the command line.
type Request struct {
	// Command is scale (goals are needed) or reconcile (guest and Node are brought up to what the instance has).
	Command string
	// Goals are the ids or names of offerings by role.
	Goals map[rollout.Role]string
	// Nodes are names or instance ids; empty: all nodes of the roles.
	Nodes []string
	// Ignore names failed checks to go on against.
	Ignore []string
	Why    string
}

// Plan is a plan that can be started until it expires.
type Plan struct {
	ID            string
	Request       Request
	Made, Expires time.Time
	Actor         string
	Preflight     []Check
	// Refused says why it can't be started, empty if it can.
	Refused string
	rollout.Plan
}
