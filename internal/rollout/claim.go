package rollout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// ClaimAnnotation is the annotation on a Node that holds the claim.
const ClaimAnnotation = Prefix + "/claim"

// claimVersion is the version of the claim's JSON that this program writes, and the newest that it reads.
const claimVersion = 1

// ErrClaimUnreadable means that a Node carries a claim which this program can't read. Nothing is done to such a node.
var ErrClaimUnreadable = errors.New("unreadable claim")

// Claim is what trueup remembers on a Node about what it does there. It is written before each effect that it announces,
// in a patch that is conditional on the Node's resourceVersion. It holds no secret.
type Claim struct {
	Version int `json:"version"`
	// Run and Transitions are the tenure under which the claim was last written.
	Run         string `json:"run"`
	Transitions int32  `json:"transitions"`
	// Actor is who runs the rollout (user@host), Why the reason given, Since the start by the clock of trueup's machine: for people only.
	Actor string    `json:"actor"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`

	InstanceID string            `json:"instanceID"`
	Goal       capacity.Offering `json:"goal"`

	// Cordoned is true if this claim's own patch cordoned the node: only then may release uncordon it.
	Cordoned bool `json:"cordoned"`
	// ScaleDown is true if this claim's own patch set the cluster autoscaler's scale-down-disabled mark.
	ScaleDown bool `json:"scaleDown,omitempty"`

	Before  Before         `json:"before"`
	Resize  *ResizeIntent  `json:"resize,omitempty"`
	Restart *RestartIntent `json:"restart,omitempty"`
	// Cold is what the cold method remembers; nil where the live one is at work.
	Cold *Cold `json:"cold,omitempty"`
	// Phase says in one word where a rollout ended that did not finish the node, empty while one is at work.
	Phase string `json:"phase,omitempty"`
	Fault *Fault `json:"fault,omitempty"`
}

// Before is what was read when the claim was made, before anything was changed.
type Before struct {
	Instance    capacity.Instance  `json:"instance"`
	Guest       capacity.Guest     `json:"guest"`
	Capacity    capacity.Resources `json:"capacity"`
	Allocatable capacity.Resources `json:"allocatable"`
}

// ResizeIntent announces one scaleVirtualMachine request.
type ResizeIntent struct {
	// Asked is CloudStack's clock just before the request: a job created earlier is not this one's.
	Asked time.Time `json:"asked"`
	// Expires is the request's own expiry by CloudStack's clock: after it, a request not yet seen can't be accepted any more.
	Expires time.Time `json:"expires"`
	// JobID is CloudStack's async job, empty until the reply to the request was seen.
	JobID string `json:"jobID,omitempty"`
	// Refused is CloudStack's refusal of the request, empty where there was none: nothing will come of it.
	Refused string `json:"refused,omitempty"`
	// Unchanged is set when, after a failure, everything was first seen to be as before the claim.
	Unchanged *Reading `json:"unchanged,omitempty"`
}

// Reading names one moment in one boot of a guest, by the guest's own clock.
type Reading struct {
	BootID    string        `json:"bootID"`
	Monotonic time.Duration `json:"monotonic"` // since boot
}

// RestartIntent announces one restart of kubelet, with all that later proves whether it happened.
type RestartIntent struct {
	BootID       string        `json:"bootID"`
	InvocationID string        `json:"invocationID"`
	MainPID      int           `json:"mainPID"`
	Start        time.Duration `json:"start"` // of the process before the restart, time since boot
	// BootTime is the guest's boot by its wall clock at the reading: a later difference shows a stepped clock.
	BootTime time.Time `json:"bootTime"`
	// Heartbeat is the Ready condition's lastHeartbeatTime just before the restart.
	Heartbeat time.Time `json:"heartbeat"`
	// CPUsOnline and BlocksOnline are the hardware that the restarted kubelet finds.
	CPUsOnline   int `json:"cpusOnline"`
	BlocksOnline int `json:"blocksOnline"`
	// Pods are the node's pods just before the restart; nil where they were not asked for.
	Pods *KeptPods `json:"pods,omitempty"`
}

// Cold is what the cold method remembers of one node.
type Cold struct {
	// PastBoot is the goal's: the boot that shall be over, empty where the offering alone decides.
	PastBoot string `json:"pastBoot,omitempty"`
	// Outage is true where the Kubernetes API goes away with this instance: from the stop until the start the claim can't be written, and what is
	// done between the two is announced by this.
	Outage bool `json:"outage,omitempty"`
	// Ended is the boot that the announced stop ends: another one shows that the instance was started since.
	Ended string `json:"ended,omitempty"`
	// Power is the last announced stop or start.
	Power *PowerIntent `json:"power,omitempty"`
	// Doubt is until when, by CloudStack's clock, an earlier stop request without a reply could still be accepted.
	Doubt time.Time `json:"doubt,omitzero"`
	// Pods are those that belong to the node, just before the stop; nil where they were not read.
	Pods *KeptPods `json:"pods,omitempty"`
}

// PowerIntent announces one request to stop or to start the instance.
type PowerIntent struct {
	State string `json:"state"` // that was asked for: Stopped or Running
	// Asked, Expires, JobID and Refused are as in ResizeIntent.
	Asked   time.Time `json:"asked"`
	Expires time.Time `json:"expires"`
	JobID   string    `json:"jobID,omitempty"`
	Refused string    `json:"refused,omitempty"`
}

// Tenure returns the tenure under which the claim was last written.
func (c Claim) Tenure() Tenure { return Tenure{Run: c.Run, Transitions: c.Transitions} }

// method is the method that the claim was made for.
func (c Claim) method() Method {
	if c.Cold != nil {
		return MethodCold
	}
	return MethodLive
}

// Asked is the goal that the claim was made for, as far as it knows.
func (c Claim) Asked() Goal {
	g := Goal{Offering: c.Goal, Method: c.method(), Settle: DefaultSettle}
	if c.Cold != nil {
		g.PastBoot, g.AcceptOutage = c.Cold.PastBoot, c.Cold.Outage
	}
	return g
}

// methodName is the method's name for people.
func methodName(m Method) string { return cmp.Or(string(m), "live") }

// Encode returns the claim as the annotation's text.
func (c Claim) Encode() (string, error) {
	c.Version = claimVersion
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode claim: %w", err)
	}
	return string(b), nil
}

// DecodeClaim reads the annotation's text. An empty text is no claim: nil without an error.
// A text that can't be read, or of a newer version, is ErrClaimUnreadable: to guess could lift somebody's cordon.
func DecodeClaim(text string) (*Claim, error) {
	if text == "" {
		return nil, nil
	}
	var c Claim
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClaimUnreadable, err)
	}
	if c.Version < 1 || c.Version > claimVersion {
		return nil, fmt.Errorf("%w: version %d, this program knows versions up to %d", ErrClaimUnreadable, c.Version, claimVersion)
	}
	if c.Run == "" || c.InstanceID == "" || c.Goal.ID == "" {
		return nil, fmt.Errorf("%w: run, instanceID or goal is missing", ErrClaimUnreadable)
	}
	return &c, nil
}
