// Package kube is the Kubernetes port: one Node is read, watched and changed, and the Lease that fences a rollout is held.
//
// Its invariant: nothing is written that was not looked at just before. Every change of a Node or of the Lease is one
// request that carries the resourceVersion of the object on which it was decided, so that a lost race is
// rollout.ErrConflict and never a lost update. Nodes and the Lease are read from etcd, never from a cache, and the
// API server's certificate is always verified.
package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/cks-trueup/trueup/internal/rollout"
)

const (
	// requestTimeout bounds one attempt. It outlasts the pause of a single control-plane VM while a DIMM is attached to
	// it, and one renewal of the Lease that takes it whole still leaves time for two more.
	requestTimeout = 10 * time.Second
	// readAttempts is how often a read is tried before it counts as unreachable. With readBackoff the tries are spread over about 2 s:
	// enough for a load balancer to notice a restarted API server's return, short enough for a person who waits.
	readAttempts = 4

	// queriesPerSecond and burst replace client-go's 5 and 10, which would make a look at 20 nodes wait on purpose.
	queriesPerSecond = 50
	burst            = 100
)

// Options are what New needs besides the kubeconfig. The zero value works.
type Options struct {
	// Version is the program's version, for the user agent in the API server's audit log.
	Version string
	// Dial replaces the direct TCP connection, for tests. No HTTP proxy of the environment is used then.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Ways are further ways to the API server.
	Ways Ways
	// HostPodNamespace is where HostPods will be made, so that Missing asks for their rights, too; empty if none will be.
	HostPodNamespace string
	// Clock is time for the Lease and for Events; nil is the system's clock.
	Clock rollout.Clock
	// Waiting, if set, is called once when Acquire finds the Lease held and starts to watch for up to the
	// given time whether its holder is alive.
	Waiting func(held *rollout.HeldError, atMost time.Duration)
}

// Client talks to one cluster's API server. It implements rollout.Nodes and is safe for concurrent use.
type Client struct {
	server  string
	http    *http.Client
	core    corev1.CoreV1Interface
	leases  coordinationv1.LeaseInterface
	reviews authorizationv1.SelfSubjectAccessReviewInterface
	exec    *rest.Config // for what runs in pods
	rights  []Right      // that it needs
	clock   rollout.Clock
	waiting func(*rollout.HeldError, time.Duration)
}

var (
	_ rollout.Nodes  = (*Client)(nil)
	_ rollout.Health = (*Client)(nil)
)

// New makes a client from a kubeconfig. It sends nothing yet.
func New(k Kubeconfig, o Options) (*Client, error) {
	config, err := o.restConfig(k)
	if err != nil {
		return nil, err
	}
	configure(config, o)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.origin, err)
	}
	core, err := corev1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.origin, err)
	}
	coordination, err := coordinationv1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.origin, err)
	}
	authorization, err := authorizationv1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.origin, err)
	}
	c := &Client{
		server: config.Host, http: httpClient,
		core: core, leases: coordination.Leases(LeaseNamespace), reviews: authorization.SelfSubjectAccessReviews(),
		exec: forExec(config), rights: Rights(),
		clock: o.Clock, waiting: o.Waiting,
	}
	if config.Host == kubectlServer {
		c.server = "kubectl on a control-plane node"
	}
	if c.clock == nil {
		c.clock = systemClock{}
	}
	if o.HostPodNamespace != "" {
		c.rights = append(c.rights, HostPodRights(o.HostPodNamespace)...)
	}
	return c, nil
}

func configure(config *rest.Config, o Options) {
	version := o.Version
	if version == "" {
		version = "dev"
	}
	config.UserAgent = "trueup/" + version
	config.QPS, config.Burst = queriesPerSecond, burst
	config.WarningHandlerWithContext = rest.NoWarnings{} // deprecation notes would tear the live lines on stderr
	switch w := o.Ways; {
	case config.Transport != nil: // kubectl alone
	case w.Only != "" && w.Only != ViaDirect, w.Tunnel != nil, w.Kubectl != nil:
		o.useWays(config)
	case o.Dial != nil:
		config.Dial, config.Proxy = o.Dial, noProxy
	}
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// useWays makes the client open connections by the first way that works, and use kubectl where none does.
func (o Options) useWays(config *rest.Config) {
	w := &ways{Ways: o.Ways, dial: o.Dial}
	if w.dial == nil {
		w.dial = new(net.Dialer).DialContext
	} else {
		config.Proxy = noProxy
	}
	config.Dial = w.open
	if w.Only == ViaTunnel {
		config.Proxy = noProxy // it is for connections from here
	}
	if w.has(ViaKubectl) {
		config.ContentConfig = asJSON()
		config.Wrap(func(wire http.RoundTripper) http.RoundTripper { return fallback{w, wire, kubectlTransport{w.Kubectl}} })
	}
}

// kubectlServer is the API server where kubectl alone leads to it.
const kubectlServer = "https://kubectl.invalid"

// restConfig is the kubeconfig's, or one for kubectl alone: that needs none.
func (o Options) restConfig(k Kubeconfig) (*rest.Config, error) {
	if o.Ways.Only == ViaKubectl && o.Ways.Kubectl != nil {
		return &rest.Config{Host: kubectlServer, Transport: kubectlTransport{o.Ways.Kubectl}, ContentConfig: asJSON()}, nil
	}
	return k.restConfig()
}

// asJSON is how requests are written that kubectl may carry: it reads no protobuf.
func asJSON() rest.ContentConfig {
	return rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}
}

// Server is the URL of the API server, for people.
func (c *Client) Server() string { return c.server }

// Close closes the connections that no request uses any more.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// read runs a request that changes nothing, again after a pause while the server is unreachable and ctx allows. A try that
// used up its time is not repeated: client-go has repeated it by then, and whoever waits shall hear of it.
func (c *Client) read(ctx context.Context, what call, do func(context.Context) error) error {
	began, pause := time.Now(), readBackoff()
	for attempt := 1; ; attempt++ {
		err := c.once(ctx, what, do)
		if !errors.Is(err, rollout.ErrUnreachable) || attempt == readAttempts || time.Since(began) >= requestTimeout {
			return err
		}
		if !sleep(ctx, pause.Step()) {
			return err
		}
	}
}

func readBackoff() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: readAttempts}
}

// once runs one request under its own bound. Writes are never repeated here: their caller looks first.
func (c *Client) once(ctx context.Context, what call, do func(context.Context) error) error {
	attempt, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.classify(ctx, what, do(attempt))
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// systemClock is the machine's own clock.
type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
