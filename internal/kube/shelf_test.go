package kube

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func shelf(t *testing.T, c *contender) map[string]string {
	t.Helper()
	claims, err := c.client.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// Claims of machines without a Node outlive the run that wrote them, beside the rollout's state; only who holds the Lease writes them.
func TestShelf(t *testing.T) {
	noLease(t)
	first, second := newContender(t, "run-a"), newContender(t, "run-b")
	if claims := shelf(t, first); len(claims) != 0 {
		t.Errorf("without a Lease: %v", claims)
	}
	tenure := first.acquired(t)
	for range 2 { // it may be repeated
		for _, id := range []string{"vm-1", "vm-2"} {
			if err := first.client.Shelve(t.Context(), tenure, id, "claim of "+id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := first.Release(t.Context(), tenure, false); err != nil {
		t.Fatal(err)
	}

	after := second.acquired(t)
	if diff := cmp.Diff(map[string]string{"vm-1": "claim of vm-1", "vm-2": "claim of vm-2"}, shelf(t, second)); diff != "" {
		t.Errorf("after a takeover (-want +got):\n%s", diff)
	}
	if err := first.client.Shelve(t.Context(), tenure, "vm-1", "late"); !errors.Is(err, rollout.ErrLost) {
		t.Errorf("a write of the run before: %v, want ErrLost", err)
	}
	if err := second.client.Shelve(t.Context(), after, "vm-1", ""); err != nil {
		t.Fatal(err)
	}
	if text, err := second.client.Shelved(t.Context(), "vm-1"); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := second.client.Shelved(t.Context(), "vm-2"); text != "claim of vm-2" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	held, err := second.client.Holder(t.Context())
	if diff := cmp.Diff(second.written(), held.State); err != nil || diff != "" {
		t.Errorf("%v, the rollout's state (-want +got):\n%s", err, diff)
	}
}

// Claims and renewals change the Lease at one time, and none is lost.
func TestShelfBesideRenewals(t *testing.T) {
	noLease(t)
	c := newContender(t, "run-a")
	tenure := c.acquired(t)
	var both sync.WaitGroup
	both.Go(func() {
		for range 20 {
			if err := c.client.renew(t.Context(), c.held); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 20 {
		text := fmt.Sprint("claim ", i)
		if err := c.client.Shelve(t.Context(), tenure, "vm-1", text); err != nil {
			t.Error(err)
		}
		if got := shelf(t, c)["vm-1"]; got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	both.Wait()
}
