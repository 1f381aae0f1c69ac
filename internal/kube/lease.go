package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// The Lease and its times. They fence together: a holder starts no effect later than LeaseDuration after it began its
// last renewal, and none lasts longer than EffectDeadline; whoever takes over has seen the Lease unchanged
// for both together. So the last effect of a lost holder has ended before the first one of its successor.
const (
	LeaseNamespace = "kube-system"
	LeaseName      = "trueup"
	// LeaseState is the annotation of the Lease that holds the rollout.LeaseState.
	LeaseState = rollout.Prefix + "/rollout"

	// LeaseDuration lets three renewals in a row fail, as kubelet's Lease of 40 s does.
	LeaseDuration = 40 * time.Second
	// RenewInterval is the time between renewals.
	RenewInterval = 10 * time.Second
	// EffectDeadline bounds every effect that follows a Check.
	EffectDeadline = 20 * time.Second

	// renewAgain is the pause after a renewal that failed.
	renewAgain = 2 * time.Second
	// observeEvery is the pause between two looks at a Lease that somebody holds.
	observeEvery = 2 * time.Second
	// writeAttempts bounds the writes of one Acquire, renewal or Release that lose a race or whose outcome is unknown.
	writeAttempts = 5
)

// ErrLeaseUnreadable means that the Lease's annotation can't be read, so that its rollout can't be resumed.
var ErrLeaseUnreadable = errors.New("unreadable rollout annotation")

// Holding is what the Lease shows to a reader. The zero value is a Lease that nobody holds.
type Holding struct {
	rollout.Tenure

	// State is what the holder left on the Lease.
	State rollout.LeaseState
	// Claims are those of machines without a Node, by instance id.
	Claims map[string]string
	// Since is when the holder took the Lease and Renewed when it last renewed it, both by the holder's own clock: for people,
	// not to tell whether it is alive.
	Since, Renewed time.Time
}

// Held reports whether a run holds the Lease, dead or alive.
func (h Holding) Held() bool { return h.Run != "" }

// Holder reads who holds the Lease. A Lease that does not exist is held by nobody.
func (c *Client) Holder(ctx context.Context) (Holding, error) {
	lease, err := c.getLease(ctx)
	if errors.Is(err, rollout.ErrNotFound) {
		return Holding{}, nil
	}
	if err != nil {
		return Holding{}, err
	}
	return holding(lease)
}

func holding(lease *coordinationv1.Lease) (Holding, error) {
	h := Holding{Tenure: tenureOf(lease)}
	if t := lease.Spec.AcquireTime; t != nil {
		h.Since = t.UTC()
	}
	if t := lease.Spec.RenewTime; t != nil {
		h.Renewed = t.UTC()
	}
	h.Claims = claimsOn(lease)
	text := lease.Annotations[LeaseState]
	if text == "" {
		return h, nil
	}
	if err := json.Unmarshal([]byte(text), &h.State); err != nil {
		return h, fmt.Errorf("%w %s on leases/%s in %s: %w", ErrLeaseUnreadable, LeaseState, LeaseName, LeaseNamespace, err)
	}
	return h, nil
}

func tenureOf(lease *coordinationv1.Lease) rollout.Tenure {
	var t rollout.Tenure
	if lease.Spec.HolderIdentity != nil {
		t.Run = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseTransitions != nil {
		t.Transitions = *lease.Spec.LeaseTransitions
	}
	return t
}

// heldError describes the holder. An unreadable annotation leaves out what it would have said.
func heldError(lease *coordinationv1.Lease) *rollout.HeldError {
	h, _ := holding(lease)
	return &rollout.HeldError{State: h.State, Holder: h.Run, Since: h.Since}
}

func (c *Client) getLease(ctx context.Context) (*coordinationv1.Lease, error) {
	var lease *coordinationv1.Lease
	err := c.read(ctx, leaseCall("get"), func(ctx context.Context) (err error) {
		lease, err = c.leases.Get(ctx, LeaseName, metav1.GetOptions{})
		return err
	})
	return lease, err
}

func (c *Client) createLease(ctx context.Context, lease *coordinationv1.Lease) (created *coordinationv1.Lease, err error) {
	err = c.once(ctx, leaseCall("create"), func(ctx context.Context) (err error) {
		created, err = c.leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: rollout.FieldManager})
		return err
	})
	return created, err
}

// leasePatch is what a JSON merge patch of the Lease changes; nil as a value removes a field.
type leasePatch struct {
	annotations map[string]any
	spec        map[string]any
}

// patchLease changes the Lease only if it is still the one that was looked at.
func (c *Client) patchLease(ctx context.Context, seen *coordinationv1.Lease, patch leasePatch) (patched *coordinationv1.Lease, err error) {
	metadata := map[string]any{"uid": seen.UID, "resourceVersion": seen.ResourceVersion}
	if patch.annotations != nil {
		metadata["annotations"] = patch.annotations
	}
	change := map[string]any{"metadata": metadata}
	if patch.spec != nil { // null would remove all of it
		change["spec"] = patch.spec
	}
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", leaseCall("patch"), err)
	}
	err = c.once(ctx, leaseCall("patch"), func(ctx context.Context) (err error) {
		patched, err = c.leases.Patch(ctx, LeaseName, types.MergePatchType, body, metav1.PatchOptions{FieldManager: rollout.FieldManager})
		return err
	})
	return patched, err
}

func leaseCall(verb string) call {
	return call{verb: verb, resource: "leases", namespace: LeaseNamespace, name: LeaseName}
}

// stillShows reads the Lease and returns nil only if it shows the tenure.
func (c *Client) stillShows(ctx context.Context, tenure rollout.Tenure) error {
	lease, err := c.getLease(ctx)
	return showing(lease, err, tenure)
}

// showing judges one look at the Lease. Any failure to look is an error: no effect follows it.
func showing(lease *coordinationv1.Lease, err error, tenure rollout.Tenure) error {
	if errors.Is(err, rollout.ErrNotFound) {
		return fmt.Errorf("%w: leases/%s in %s was deleted while %s held it", rollout.ErrLost, LeaseName, LeaseNamespace, tenure)
	}
	if err != nil {
		return err
	}
	switch now := tenureOf(lease); {
	case now == tenure:
		return nil
	case now.Run == "":
		return fmt.Errorf("%w: expected %s on leases/%s in %s, observed no holder", rollout.ErrLost, tenure, LeaseName, LeaseNamespace)
	default:
		return fmt.Errorf("%w: expected %s on leases/%s in %s, observed %s", rollout.ErrLost, tenure, LeaseName, LeaseNamespace, now)
	}
}

// pause waits on the client's clock. The error is why ctx ended.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case <-c.clock.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
