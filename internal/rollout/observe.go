package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// parts says which systems a look reads anew.
type parts struct{ instance, guest, node bool }

// everything is read before every effect.
func everything() parts { return parts{instance: true, guest: true, node: true} }

// transient tells whether the same read may succeed later. After an effect it means that the outcome is unknown.
func transient(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded))
}

// partsOf is what can make a wait of this move come true: polling the rest would only cost.
func partsOf(m Move) parts {
	switch m {
	case MoveResize:
		return parts{instance: true}
	case MoveOnline:
		return parts{guest: true}
	default:
		return parts{guest: true, node: true}
	}
}

// look reads the named parts, all at once, and repeats while something is unreachable, within the access bound.
func (w *walk) look(ctx context.Context, p parts) error {
	began := w.Clock.Now()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := w.read(ctx, p)
		if err == nil || !transient(ctx, err) || w.stopped() {
			return err
		}
		if w.Clock.Now().Sub(began) >= w.Limits.Access {
			return err
		}
		w.tell(Event{Move: w.move, Check: capacity.Check{Layer: capacity.LayerAccess, What: "reading the node", Expected: "an answer", Observed: err.Error()}})
		select {
		case <-w.Clock.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read reads the named parts once, at the same time, each within one effect's bound.
func (w *walk) read(ctx context.Context, p parts) error {
	ctx, cancel := context.WithTimeout(ctx, w.Limits.Effect)
	defer cancel()
	w.seen.Target = w.target
	g, ctx := errgroup.WithContext(ctx)
	var node capacity.Node
	var guest capacity.Guest
	var reading InstanceReading
	if p.node {
		g.Go(func() (err error) { node, err = w.Nodes.Node(ctx, w.target.Name); return err })
	}
	if p.guest {
		g.Go(func() (err error) { guest, err = w.probe(ctx); return err })
	}
	if p.instance {
		g.Go(func() (err error) { reading, err = w.CloudStack.Instance(ctx, w.target.InstanceID); return err })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if p.node {
		if err := w.took(node); err != nil {
			return err
		}
	}
	if p.guest {
		w.seen.Guest = guest
	}
	if p.instance {
		w.seen.Instance, w.seen.ServerTime = reading.Instance, reading.ServerTime
		return w.readJob(ctx, reading.PendingJobID)
	}
	return nil
}

func (w *walk) probe(ctx context.Context) (capacity.Guest, error) {
	if w.guest == nil {
		g, err := w.Guests.Guest(ctx, w.target)
		if err != nil {
			return capacity.Guest{}, err
		}
		w.guest = g
	}
	return w.guest.Probe(ctx)
}

// took keeps a Node that was read or patched, with the claim on it.
func (w *walk) took(n capacity.Node) error {
	claim, err := DecodeClaim(n.Claim)
	if err != nil {
		return fmt.Errorf("node %s: annotation %s: %w", n.Name, ClaimAnnotation, err)
	}
	w.seen.Node, w.claim = n, claim
	return nil
}

// readJob reads the resize job, where there is one to read: the one that the claim names, else the one pending on the instance,
// else one that the account's list of jobs shows. A claim without a resize intent has none of its own.
func (w *walk) readJob(ctx context.Context, pending string) error {
	w.seen.Job = nil
	if w.seen.Instance.AtOffering(w.goal.Offering) {
		return nil
	}
	var job Job
	var err error
	switch intent := w.intent(); {
	case intent != nil && intent.JobID != "":
		job, err = w.CloudStack.Job(ctx, intent.JobID)
	case pending != "":
		job, err = w.CloudStack.Job(ctx, pending)
	case intent != nil:
		job, err = w.CloudStack.FindJob(ctx, w.target.InstanceID)
	default:
		return nil
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	w.seen.Job = &job
	return nil
}

func (w *walk) intent() *ResizeIntent {
	if w.claim == nil {
		return nil
	}
	return w.claim.Resize
}

// Pauses between two looks where no event can tell: short at first, since most things take well under a second, then longer.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
)
