package cli

import (
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// A node that was not found at its endpoint is looked up in CloudStack at once, however fresh the answer is.
func TestEndpointsLookedUpAtOnce(t *testing.T) {
	w := newWired(t)
	a := newApp(Streams{Env: func(k string) (string, bool) { v, ok := w.env[k]; return v, ok }})
	client, err := a.cloudStack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cluster, err := client.Cluster(t.Context(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoints{session: &session{cloudStack: client, cluster: cluster}, way: cloudstack.Way{}}
	node := rollout.Target{Name: "node-1", InstanceID: idOf(2)}
	resolve := func(failed guest.Endpoint) string {
		got, err := e.resolve(t.Context(), node, failed)
		if err != nil {
			t.Fatal(err)
		}
		return got.Address
	}
	old := resolve(guest.Endpoint{})
	if err := w.SetPortForwarding(node.InstanceID, 2299); err != nil {
		t.Fatal(err)
	}
	if got := resolve(guest.Endpoint{}); got != old {
		t.Errorf("%s: a fresh answer is used again, want %s", got, old)
	}
	got := resolve(guest.Endpoint{Address: old})
	if got == old {
		t.Errorf("after a failure at %s: still %s", old, got)
	}
	t.Log(old, got)
}
