package survey

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Inspector reads of a guest what is looked at only before the first change.
type Inspector interface {
	Inspect(ctx context.Context, target rollout.Target) (capacity.Inspection, error)
}

// Inspect inspects the guests of these observations, all at the same time, and keeps what it finds in them. It costs a guest several times what a
// reading costs, so it is not part of Read. A guest that can't be inspected says so there: what rests on it is then not checked.
func Inspect(ctx context.Context, guests Inspector, seen []*rollout.Observation) {
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	var g errgroup.Group
	for _, o := range seen {
		g.Go(func() error {
			inspection, err := guests.Inspect(ctx, o.Target)
			if err != nil {
				inspection = capacity.Inspection{Unread: err.Error()}
			}
			o.Inspection = &inspection
			return nil
		})
	}
	_ = g.Wait() // what failed stands in the inspection
}
