package cli

import (
	"context"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/preflight"
)

// Pauses between two looks at a cluster that CloudStack is at work on. Its own scanner looks every 30 s.
const (
	firstAwait = 2 * time.Second
	mostAwait  = 15 * time.Second
)

// awaitSettled looks again and again, up to the bound, until CloudStack has left a passing state. A cluster that is still in one then is
// refused by the check of its state, like one that nobody waited for.
func (a *app) awaitSettled(ctx context.Context, s *session, bound time.Duration) error {
	began, pause := a.clock.Now(), firstAwait
	for s.cluster.Type != cloudstack.TypeExternalManaged && preflight.Passing(s.cluster.State) {
		left := bound - a.clock.Now().Sub(began)
		if left <= 0 {
			return nil
		}
		a.say("Cluster %s is %s; waiting for up to %s more …", s.cluster.Name, s.cluster.State, left.Round(time.Second))
		if err := a.rest(ctx, min(pause, left)); err != nil {
			return err
		}
		pause = min(2*pause, mostAwait)
		if err := a.readAgain(ctx, s); err != nil {
			return inputError(err)
		}
	}
	return nil
}

// rest waits for d, or for the end of ctx.
func (a *app) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.clock.After(d):
		return nil
	}
}

// readAgain reads the cluster anew: its state, and once it runs its instances and ports. Its API server may not have been there before.
func (a *app) readAgain(ctx context.Context, s *session) error {
	cluster, err := s.cloudStack.Cluster(ctx, s.cluster.ID)
	if err != nil {
		return err
	}
	s.cluster = cluster
	if s.kube == nil {
		s.kube, s.kubeErr = a.openKube(ctx, s)
	}
	return nil
}
