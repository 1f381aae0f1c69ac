package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Errors that the ports return, wrapped with what happened where. The runner branches on them with errors.Is.
var (
	// ErrConflict: a conditional write lost against another one. Nothing was written: look again, decide again.
	ErrConflict = errors.New("changed meanwhile")
	// ErrNotFound: the thing that was asked for does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnreachable: no answer, or an answer that says "later" (refused, reset, time-out, 429, 5xx). The same read may succeed later.
	// After a write it means that its outcome is unknown.
	ErrUnreachable = errors.New("unreachable")
	// ErrDenied: the other side knows us and refuses (401, 403, 432, host key mismatch, no accepted SSH key). Trying again is useless.
	ErrDenied = errors.New("denied")
	// ErrHeld: another rollout holds the cluster's Lease.
	ErrHeld = errors.New("held by another run")
	// ErrLost: the Lease is no longer ours; no effect may follow.
	ErrLost = errors.New("lease lost")
)

// CloudStack is what the runner needs of CloudStack.
type CloudStack interface {
	// Instance reads the VM, the server's clock, and the id of a job that is pending on it.
	Instance(ctx context.Context, instanceID string) (InstanceReading, error)
	// Resize asks for the offering and returns the id of the started job without waiting for it. The request is signed to
	// expire at expires (CloudStack's clock). ErrUnreachable means that the request may have arrived or may not.
	// A refusal is a *RefusedError.
	Resize(ctx context.Context, instanceID, offeringID string, expires time.Time) (jobID string, err error)
	// Job reads an async job. ErrNotFound if CloudStack does not know it (any more).
	Job(ctx context.Context, jobID string) (Job, error)
	// FindJob looks for a resize job of the VM whose id was lost. ErrNotFound if none is pending or recent, or if the account may not list jobs.
	FindJob(ctx context.Context, instanceID string) (Job, error)
}

// RefusedError is CloudStack's refusal of a request: it was understood, and nothing was done.
type RefusedError struct {
	Command string // the API command
	Code    int    // CloudStack's errorcode, for example 431
	Text    string // CloudStack's errortext
}

// Guests opens the way into guests. Implementations keep one connection per node open and reuse it.
type Guests interface {
	Guest(ctx context.Context, target Target) (Guest, error)
}

// Guest is one guest. Every method runs one fixed command under its own deadline.
type Guest interface {
	// Probe reads everything that the checks need, in one command.
	Probe(ctx context.Context) (capacity.Guest, error)
	// Online brings up every plugged CPU and memory block that is offline. It is safe to repeat.
	Online(ctx context.Context) error
	// RestartKubelet restarts kubelet if and only if its InvocationID is still the one given, under a guest-wide lock.
	RestartKubelet(ctx context.Context, invocationID string) (RestartResult, error)
	// Diagnose collects the lines that tell a person why: kubelet's journal, the kernel's hotplug messages. Best effort.
	Diagnose(ctx context.Context) ([]string, error)
}

// RestartResult is what the guarded restart script did.
type RestartResult int

// The outcomes of the guarded restart script.
const (
	RestartIssued   RestartResult = iota + 1 // the InvocationID matched and the restart was done
	RestartNotOurs                           // the InvocationID had changed already: nothing was done
	RestartLockBusy                          // another restart script is running in this guest: nothing was done
)

// Nodes is what the runner needs of the Kubernetes API for one Node.
type Nodes interface {
	// Node reads the Node from etcd, never from a cache.
	Node(ctx context.Context, name string) (capacity.Node, error)
	// Watch calls for a fresh look: the channel gets a value, never blocking the sender, whenever the Node has changed. It is closed when ctx ends.
	Watch(ctx context.Context, name string) (<-chan struct{}, error)
	// Patch applies the patch in one conditional request. ErrConflict if the Node has changed since ResourceVersion.
	Patch(ctx context.Context, patch NodePatch) (capacity.Node, error)
	// Record writes a Kubernetes Event about the Node. Best effort, for people.
	Record(ctx context.Context, event NodeEvent) error
}

// NodePatch is one conditional change of a Node. What is nil stays as it is.
type NodePatch struct {
	Name            string
	UID             string
	ResourceVersion string
	// Claim is the claim's text; a pointer to "" removes the annotation.
	Claim *string
	// Unschedulable sets (true) or clears (false) spec.unschedulable.
	Unschedulable *bool
	// ScaleDownDisabled sets or removes the cluster autoscaler's scale-down-disabled annotation.
	ScaleDownDisabled *bool
}

// NodeEvent is an Event about a Node.
type NodeEvent struct {
	NodeName, NodeUID string
	Warning           bool
	Reason, Message   string
}

// Pods is what the runner needs to know of a node's pods: for evidence and warnings. Whatever it can't tell ends no rollout.
type Pods interface {
	// Pods reads the pods that are bound to the Node, finished ones included.
	Pods(ctx context.Context, node string) ([]capacity.Pod, error)
}

// Health is what the runner needs to know of the control plane as a whole.
type Health interface {
	// ControlPlane returns "" if the API server calls itself ready, its etcd included, else what is not.
	ControlPlane(ctx context.Context) (string, error)
}

// Lock is the cluster's Lease.
type Lock interface {
	// Acquire takes the Lease for the run, and keeps renewing it until Release or ctx ends. ErrHeld (a *HeldError) if another run holds it.
	// An expired holder is taken over: expired means seen unchanged for its leaseDuration on this observer's own clock.
	// *OpenError if the Lease shows an unfinished rollout that the state does not continue.
	Acquire(ctx context.Context, state LeaseState) (Tenure, error)
	// Check reads the Lease and returns ErrLost unless it still shows the tenure. It must come before every effect.
	Check(ctx context.Context, tenure Tenure) error
	// Release gives the Lease back. If the rollout is finished, its state is removed in the same patch, else it stays for resume. A
	// Lease that is no longer ours is left alone.
	Release(ctx context.Context, tenure Tenure, finished bool) error
}

// Shelf keeps, on the cluster's Lease, the claims of machines that have no Node: dedicated etcd machines.
type Shelf interface {
	// Shelved reads the claim's text; empty if there is none.
	Shelved(ctx context.Context, instanceID string) (text string, err error)
	// Shelve writes the claim's text, and removes it if it is empty, only while the Lease shows the tenure; else ErrLost. It may be repeated.
	Shelve(ctx context.Context, tenure Tenure, instanceID, text string) error
}

// LeaseState is what hangs on the Lease as an annotation, so that resume needs only the cluster. Ids, no names to look up, no secret.
type LeaseState struct {
	Run       string    `json:"run"`
	Actor     string    `json:"actor"`
	Why       string    `json:"why,omitempty"`
	Since     time.Time `json:"since"`
	ClusterID string    `json:"clusterID"`
	Command   string    `json:"command"` // scale, reconcile, abort
	// Goals are what each node shall become, by instance id.
	Goals map[string]Goal `json:"goals"`
	// Continues is the run id of an unfinished rollout that this one goes on with, or gives up. It is not written.
	Continues string `json:"-"`
}

// OpenError means that an earlier rollout of the cluster has not been finished, and that another one was asked for.
type OpenError struct{ State LeaseState }

// Error says which rollout is open.
func (e *OpenError) Error() string {
	return fmt.Sprintf("run %s of %s since %s has not been finished", e.State.Run, e.State.Actor, e.State.Since.UTC().Format(time.RFC3339))
}

// Unwrap makes errors.Is(err, ErrHeld) true: the cluster belongs to another rollout until that one is finished or given up.
func (e *OpenError) Unwrap() error { return ErrHeld }

// HeldError says who holds the Lease.
type HeldError struct {
	State  LeaseState
	Holder string
	// Since is when the present holder took the Lease, by the holder's clock.
	Since time.Time
}

// Clock is time, so that tests can run on a virtual one.
type Clock interface {
	Now() time.Time
	// After sends the time on the returned channel once d has passed.
	After(d time.Duration) <-chan time.Time
}
