package e2e

import (
	"context"
	"slices"
	"testing"

	"github.com/cks-trueup/trueup/lab/cluster"
)

// recorder is a record of every version of every Node.
type recorder struct{ *cluster.Record }

// record begins with the Nodes as they are now, so that no change after this call is missed.
func (f *fixture) record(t testing.TB) *recorder {
	t.Helper()
	r, err := f.Record(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &recorder{r}
}

// stop waits until the record has reached the present, and returns it.
func (r *recorder) stop(t testing.TB) []cluster.Sight {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventuallyTimeout)
	defer cancel()
	sights, err := r.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return sights
}

// expectOneAtATime replays the record: never two nodes claimed, and none cordoned without a claim but those that people cordoned.
// It returns the nodes in the order in which they were claimed.
func expectOneAtATime(t testing.TB, sights []cluster.Sight, byPeople ...string) (order []string) {
	t.Helper()
	claimed := map[string]bool{}
	for _, s := range sights {
		name, claim := s.Node.Name, s.Node.Annotations[claimAnnotation] != ""
		if claim && !claimed[name] {
			order = append(order, name)
		}
		if claimed[name] = claim; !claim {
			delete(claimed, name)
		}
		if len(claimed) > 1 {
			t.Errorf("claimed at the same time: %v", claimed)
		}
		people := slices.Contains(byPeople, name)
		if s.Node.Spec.Unschedulable != (claim || people) {
			t.Errorf("%s: unschedulable=%t with claim=%t and cordoned by people=%t (resourceVersion %s)",
				name, s.Node.Spec.Unschedulable, claim, people, s.Node.ResourceVersion)
		}
	}
	return order
}
