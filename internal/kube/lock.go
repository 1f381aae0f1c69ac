package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Lock holds the cluster's Lease for one run at a time. It implements rollout.Lock.
type Lock struct {
	client *Client

	mu   sync.Mutex
	held *tenancy // nil while nothing is held
}

var _ rollout.Lock = (*Lock)(nil)

// Lock returns a lock on the cluster's Lease that nobody holds yet.
func (c *Client) Lock() *Lock { return &Lock{client: c} }

// tenancy is one tenure together with the goroutine that renews it.
type tenancy struct {
	tenure rollout.Tenure
	stop   context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	renewed time.Time // when the last successful renewal began, by our clock
}

// Acquire takes the Lease and keeps renewing it until Release, until it is lost, or until ctx ends. If another run holds it, Acquire
// watches for up to LeaseDuration and EffectDeadline: a *rollout.HeldError as soon as that run shows life, else it is taken over.
// Each process needs a run id of its own.
func (l *Lock) Acquire(ctx context.Context, state rollout.LeaseState) (rollout.Tenure, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state.Run == "" {
		return rollout.Tenure{}, errors.New("acquire the Lease: a run id is needed")
	}
	if l.held != nil {
		return rollout.Tenure{}, fmt.Errorf("acquire the Lease: this process has it for %s", l.held.tenure)
	}
	text, err := json.Marshal(state)
	if err != nil {
		return rollout.Tenure{}, fmt.Errorf("acquire the Lease: %w", err)
	}
	a := acquisition{client: l.client, run: state.Run, continues: state.Continues, state: string(text)}
	tenure, began, err := a.take(ctx)
	if err != nil {
		return rollout.Tenure{}, err
	}
	l.held = l.client.keepRenewing(ctx, tenure, began)
	return tenure, nil
}

// Check reads the Lease. It returns nil only if the Lease shows the tenure and was renewed so recently that an
// effect of at most EffectDeadline ends before anybody may take it over. A Lease that was not (the machine slept, or renewals
// failed) is renewed first. ErrLost means that another run may be at work already.
func (l *Lock) Check(ctx context.Context, tenure rollout.Tenure) error {
	held := l.holding(tenure)
	if held == nil {
		return fmt.Errorf("%w: this process does not hold the Lease for %s", rollout.ErrLost, tenure)
	}
	if err := l.client.stillShows(ctx, tenure); err != nil {
		return err
	}
	if elapsed(held.lastRenewed(), l.client.clock.Now()) <= LeaseDuration {
		return nil
	}
	return l.client.renew(ctx, held)
}

// Release stops the renewing, then removes the holder from the Lease and, if the rollout is finished, its state in the same patch. A
// Lease that is no longer ours is left alone. After an error the Lease stays until it expires.
func (l *Lock) Release(ctx context.Context, tenure rollout.Tenure, finished bool) error {
	l.mu.Lock()
	if l.held != nil && l.held.tenure == tenure {
		l.held.end()
		l.held = nil
	}
	l.mu.Unlock()
	err := l.client.releaseLease(ctx, tenure, finished)
	if errors.Is(err, rollout.ErrLost) {
		return nil
	}
	return err
}

func (l *Lock) holding(tenure rollout.Tenure) *tenancy {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil || l.held.tenure != tenure {
		return nil
	}
	return l.held
}

// keepRenewing starts the goroutine that renews the tenure.
func (c *Client) keepRenewing(ctx context.Context, tenure rollout.Tenure, renewed time.Time) *tenancy {
	ctx, stop := context.WithCancel(ctx)
	t := &tenancy{tenure: tenure, stop: stop, done: make(chan struct{}), renewed: renewed}
	go func() {
		defer close(t.done)
		defer stop()
		wait := RenewInterval
		for c.pause(ctx, wait) == nil {
			wait = RenewInterval
			err := c.renew(ctx, t)
			if errors.Is(err, rollout.ErrLost) {
				return // Check finds the same
			}
			if err != nil {
				wait = renewAgain
			}
		}
	}()
	return t
}

// end stops the renewing and waits until no renewal is under way.
func (t *tenancy) end() {
	t.stop()
	<-t.done
}

func (t *tenancy) lastRenewed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.renewed
}

func (t *tenancy) noteRenewed(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if began.After(t.renewed) {
		t.renewed = began
	}
}

// elapsed is the time between two stamps of our clock. The machine may have slept between them: that shows in the wall
// clock alone, while a wall clock that was set back does not show in the monotonic one. The longer of the two is the safe one.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// renew writes a new renewTime if the Lease still shows the tenure.
func (c *Client) renew(ctx context.Context, t *tenancy) error {
	ctx, cancel := context.WithTimeout(ctx, RenewInterval)
	defer cancel()
	began := c.clock.Now()
	err := c.changeOwn(ctx, t.tenure, leasePatch{spec: map[string]any{"renewTime": metav1.NewMicroTime(began)}})
	if err == nil {
		t.noteRenewed(began)
	}
	return err
}

func (c *Client) releaseLease(ctx context.Context, tenure rollout.Tenure, finished bool) error {
	patch := leasePatch{spec: map[string]any{"holderIdentity": nil, "renewTime": metav1.NewMicroTime(c.clock.Now())}}
	if finished {
		patch.annotations = map[string]any{LeaseState: nil}
	}
	return c.changeOwn(ctx, tenure, patch)
}

// changeOwn looks at the Lease and patches what it saw; again after a lost race, since not only holders write to it, and
// after an unknown outcome, since the look tells.
func (c *Client) changeOwn(ctx context.Context, tenure rollout.Tenure, patch leasePatch) error {
	for attempt := 1; ; attempt++ {
		lease, err := c.getLease(ctx)
		if err := showing(lease, err, tenure); err != nil {
			return err
		}
		_, err = c.patchLease(ctx, lease, patch)
		again := errors.Is(err, rollout.ErrConflict) || errors.Is(err, rollout.ErrUnreachable)
		if !again || attempt == writeAttempts || ctx.Err() != nil {
			return err
		}
	}
}
