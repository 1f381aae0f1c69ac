package cli

import (
	"context"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack"
)

// Pauses between two looks at a cluster that CloudStack is at work on. Its own scanner looks every 30 s.
const (
	firstAwait = 2 * time.Second
	mostAwait  = 15 * time.Second
)

// passing tells whether CloudStack leaves the state by itself.
func passing(state string) bool {
	switch state {
	case "Alert", "Scaling", "ScalingStoppedCluster", "Upgrading", "Starting", "Stopping", "Importing", "RemovingNodes", "Recovering":
		return true
	}
	return false
}

// awaitSettled looks again and again, up to the bound, until CloudStack has left a passing state. A cluster that is still in one then is
// refused by the check of its state, like one that nobody waited for.
func (a *app) awaitSettled(ctx context.Context, s *session, bound time.Duration) error {
	began, pause := a.clock.Now(), firstAwait
	for s.cluster.Type != cloudstack.TypeExternalManaged && passing(s.cluster.State) {
		left := bound - a.clock.Now().Sub(began)
		if left <= 0 {
			return nil
		}
		a.say("Cluster %s is %s; waiting for up to %s more …", s.cluster.Name, s.cluster.State, left.Round(time.Second))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.clock.After(min(pause, left)):
		}
		pause = min(2*pause, mostAwait)
		cluster, err := s.cloudStack.Cluster(ctx, s.cluster.ID)
		if err != nil {
			return inputError(err)
		}
		s.cluster = cluster
		if s.kube == nil {
			s.kube, s.kubeErr = a.openKube(ctx, s)
		}
	}
	return nil
}
