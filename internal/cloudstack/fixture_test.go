package cloudstack

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

const projectID = "11111111-1111-4111-8111-111111111111"

// fixture is a stand-in for CloudStack behind HTTP, on a clock that stands still, with one cluster of one control node
// and two workers.
type fixture struct {
	*standin.Model

	t          *testing.T
	clock      *standin.ManualClock
	server     *httptest.Server
	owner      standin.Account
	admin      standin.Account
	small, big standin.Offering
	cluster    standin.Cluster
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: standin.NewManualClock(time.Now().Truncate(time.Second))}
	f.Model = standin.New(standin.Config{Clock: f.clock, Seed: 1, AgentStep: time.Second})
	t.Cleanup(f.Close)
	f.server = httptest.NewServer(f.Handler())
	t.Cleanup(f.server.Close)
	f.owner = f.AddAccount(standin.Account{Name: "owner", Projects: []string{projectID}})
	f.admin = f.AddAccount(standin.Account{Name: "admin", Admin: true})
	f.small = f.AddOffering(standin.FixedOffering("small", 2, 2048))
	f.big = f.AddOffering(standin.FixedOffering("big", 4, 4096))
	f.cluster = f.AddCluster(standin.ClusterSpec{
		Name: "prod", Owner: standin.Owner{Account: "owner"}, OfferingID: f.small.ID, KeyPair: "ops",
		Control: standin.Nodes(1), Workers: standin.Nodes(2), Kubeconfig: "apiVersion: v1\nkind: Config\n", LoginUser: "core",
	})
	return f
}

// vm returns the id of the i-th VM of the cluster: control first, then workers.
func (f *fixture) vm(i int) string { return f.cluster.Nodes[i].VMID }

// client is the owner's client.
func (f *fixture) client() *Client { return f.clientOf(f.owner) }

func (f *fixture) clientOf(a standin.Account) *Client {
	return newTestClient(f.t, f.server.URL+standin.Path, a.APIKey, a.SecretKey)
}

// count is how many calls of the command have arrived, also those that got no answer.
func (f *fixture) count(command string) (n int) {
	for _, r := range f.Requests() {
		if r.Command == command {
			n++
		}
	}
	return n
}

// newTestClient neither waits between attempts nor limits their rate.
func newTestClient(t *testing.T, url, key, secret string) *Client {
	t.Helper()
	c, err := New(Credentials{URL: url, APIKey: NewSecret(key), SecretKey: NewSecret(secret)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.limit = rate.NewLimiter(rate.Inf, 1)
	c.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return c
}

// newHandlerClient talks to the handler, for answers that the stand-in does not give.
func newHandlerClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newTestClient(t, server.URL+"/client/api", "a-key-that-is-long-enough", "a-secret")
}

// waits records the waits between attempts.
func waits(c *Client) func() []time.Duration {
	var mu sync.Mutex
	var list []time.Duration
	c.sleep = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, d)
		return ctx.Err()
	}
	return func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// must fails the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
