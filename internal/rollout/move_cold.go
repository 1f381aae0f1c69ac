package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// cold tells whether the cold method is at work on the node.
func (w *walk) cold() bool { return w.claim != nil && w.claim.Cold != nil }

// down tells whether the instance was stopped, or may have been, and is not back yet: the way on is then shorter than any other.
func (w *walk) down() bool { return w.cold() && w.claim.Cold.Power != nil }

// drain asks for the eviction of every pod that can run elsewhere. What a disruption budget holds is kept for the next look, and tried again after the
// next pause. That nothing could be evicted is no effect.
func (w *walk) drain(ctx context.Context) error {
	if w.seen.Pods == nil || w.Evictions == nil {
		return errors.New("there is no way to read the node's pods, or to evict them")
	}
	w.current.pods = false
	pods, _, _ := toLeave(w.seen)
	w.seen.Held = map[string]string{}
	w.held = map[string]bool{}
	evicted := 0
	for _, p := range pods {
		err := w.remove(ctx, p)
		var blocked *BlockedError
		switch {
		case errors.As(err, &blocked):
			w.seen.Held[p.UID], w.held[p.UID] = blocked.Reason, true
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return fmt.Errorf("pod %s: %w", p, err)
		default:
			evicted++
		}
	}
	if evicted == 0 {
		return errMoot
	}
	return nil
}

// heldOnly tells whether a drain would only ask again for what was held the last time.
func (w *walk) heldOnly() bool {
	if w.seen.Pods == nil {
		return true
	}
	pods, _, _ := toLeave(w.seen)
	return !slices.ContainsFunc(pods, func(p capacity.Pod) bool { return !w.held[p.UID] })
}

// remove evicts the pod, or deletes one that the person named and that can't be evicted.
func (w *walk) remove(ctx context.Context, p capacity.Pod) error {
	err := w.Evictions.Evict(ctx, p)
	if errors.As(err, new(*BlockedError)) && slices.Contains(w.goal.DeletePods, p.String()) {
		return w.Evictions.Delete(ctx, p)
	}
	return err
}

// stopping is the claim that announces a stop of the boot that was seen.
func stopping(claim Claim, seen Observation, expires time.Time) *Claim {
	cold := *claim.Cold
	cold.Ended = cmp.Or(seen.Guest.BootID, cold.Ended, claim.Before.Guest.BootID)
	cold.Pods = keptPods(stayingPods(seen.Pods))
	cold.Power = &PowerIntent{State: stateStopped, Asked: seen.ServerTime, Expires: expires}
	claim.Cold = &cold
	return &claim
}

func stayingPods(seen *PodReading) *PodReading {
	if seen == nil {
		return nil
	}
	out := PodReading{Unknown: seen.Unknown}
	for _, p := range seen.Pods {
		if p.Stays() {
			out.Pods = append(out.Pods, p)
		}
	}
	return &out
}

// starting is the claim that announces a start.
func starting(claim Claim, seen Observation, expires time.Time) *Claim {
	cold := *claim.Cold
	cold.Ended = cmp.Or(cold.Ended, claim.Before.Guest.BootID)
	cold.Power = &PowerIntent{State: stateRunning, Asked: seen.ServerTime, Expires: expires}
	claim.Cold = &cold
	return &claim
}

// noteRefused is the claim that keeps why the offering can't be had.
func noteRefused(claim Claim, why string) *Claim {
	if claim.Resize != nil {
		resize := *claim.Resize
		resize.Refused = why
		claim.Resize = &resize
	}
	return &claim
}

// stopInstance announces the stop in the claim, asks for it, and keeps the job's id.
func (w *walk) stopInstance(ctx context.Context) error {
	expires := w.seen.ServerTime.Add(w.Limits.Request)
	return w.power(ctx, stopping(*w.claim, w.seen, expires), w.Power.Stop)
}

// startInstance announces the start, likewise.
func (w *walk) startInstance(ctx context.Context) error {
	expires := w.seen.ServerTime.Add(w.Limits.Request)
	return w.power(ctx, starting(*w.claim, w.seen, expires), w.Power.Start)
}

func (w *walk) power(ctx context.Context, announced *Claim, ask func(context.Context, string, time.Time) (string, error)) error {
	if err := w.writeClaim(ctx, announced, NodePatch{}); err != nil {
		return notDone{err}
	}
	state := announced.Cold.Power.State
	job, err := ask(ctx, w.target.InstanceID, announced.Cold.Power.Expires)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused), errors.Is(err, ErrDenied):
		return w.powerRefused(ctx, state, err)
	case err != nil:
		return err
	}
	_ = w.amendPower(ctx, func(p *PowerIntent) { p.JobID = job }) // without the id, the instance's state tells
	return nil
}

// powerRefused handles CloudStack's refusal: either the instance is in that state already, or nothing will come of the request.
func (w *walk) powerRefused(ctx context.Context, state string, refusal error) error {
	reading, err := w.CloudStack.Instance(ctx, w.target.InstanceID)
	if err != nil {
		return notDone{err}
	}
	if reading.Instance.State == state {
		return errMoot
	}
	if err := w.amendPower(ctx, func(p *PowerIntent) { p.Refused = refusal.Error() }); err != nil {
		return refusal
	}
	return nil
}

func (w *walk) amendPower(ctx context.Context, change func(*PowerIntent)) error {
	return w.amendClaim(ctx, func(c *Claim) {
		if c.Cold != nil && c.Cold.Power != nil {
			cold, power := *c.Cold, *c.Cold.Power
			change(&power)
			cold.Power = &power
			c.Cold = &cold
		}
	})
}

// readCold reads the instance, and its guest only while it runs. The guest of an instance that is being stopped or started may not answer: that is an
// observation, and no failure. It may take half of the time that the look has, so that the rest is read whatever becomes of it.
func (w *walk) readCold(ctx context.Context, p readings) error {
	if p.instance {
		if err := at("CloudStack", w.readInstance(ctx)); err != nil {
			return err
		}
	}
	if !p.guest {
		return nil
	}
	w.seen.GuestUnread = ""
	if !w.seen.Instance.Running() {
		w.guest = nil // its connection has died with it
		w.unreadGuest("")
		return nil
	}
	short, cancel := context.WithTimeout(ctx, w.Limits.Effect/2)
	defer cancel()
	err := w.readGuest(short)
	if err != nil && ctx.Err() == nil && w.down() && transient(ctx, err) {
		w.unreadGuest(err.Error())
		return nil
	}
	return at("guest", err)
}

func (w *walk) unreadGuest(why string) {
	w.seen.Guest, w.seen.GuestUnread = capacity.Guest{}, why
	w.current.guest, w.probed = true, w.Clock.Now()
}
