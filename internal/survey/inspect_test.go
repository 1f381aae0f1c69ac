package survey

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// together answers only once all of its guests have been asked, so one after the other would never end.
type together struct {
	asked sync.WaitGroup
	bad   string // the instance that can't be inspected
}

func (g *together) Inspect(_ context.Context, t rollout.Target) (capacity.Inspection, error) {
	g.asked.Done()
	g.asked.Wait()
	if t.InstanceID == g.bad {
		return capacity.Inspection{}, errors.New("exit status 1")
	}
	return capacity.Inspection{DIMMSlots: len(t.Name)}, nil
}

// Guests are inspected all at the same time, and one that can't be says so without harm to the others.
func TestInspect(t *testing.T) {
	guests := &together{bad: "b"}
	seen := []*rollout.Observation{{Target: rollout.Target{Name: "x", InstanceID: "a"}}, {Target: rollout.Target{Name: "xx", InstanceID: "b"}}, {Target: rollout.Target{Name: "xxx", InstanceID: "c"}}}
	guests.asked.Add(len(seen))
	Inspect(t.Context(), guests, seen)
	for i, want := range []int{1, 0, 3} {
		got := seen[i].Inspection
		if got == nil || got.DIMMSlots != want || (want == 0) != strings.Contains(got.Unread, "exit status 1") {
			t.Errorf("%s: %+v", seen[i].Target.Name, got)
		}
	}
}
