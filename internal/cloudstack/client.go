package cloudstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"golang.org/x/time/rate"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Defaults of Options.
const (
	// defaultTimeout bounds one attempt, reading of the answer included. It is the SDK's own bound.
	defaultTimeout = 60 * time.Second
	// defaultRate stays below CloudStack's throttle, whose default (api.throttling.max) is 25 calls a second and account.
	defaultRate = 15
)

// Client talks to one CloudStack as one account. It is safe for concurrent use.
type Client struct {
	credentials Credentials
	host        string // scheme and host of the API, for errors
	userAgent   string
	timeout     time.Duration
	transport   http.RoundTripper
	limit       *rate.Limiter
	redact      redactor
	log         *slog.Logger

	now    func() time.Time
	sleep  func(context.Context, time.Duration) error
	jitter func(most time.Duration) time.Duration
}

var _ rollout.CloudStack = (*Client)(nil)

// Options are what a Client may be told. The zero value is good for use.
type Options struct {
	// UserAgent is sent with each request; "trueup" if empty.
	UserAgent string
	// Timeout bounds one attempt of one request; 60 s if zero. A call as a whole is bounded by its context.
	Timeout time.Duration
	// Log receives one line at debug level per attempt: command, status, time. Nil discards them.
	Log *slog.Logger
	// Transport carries the requests; if nil, a transport that verifies TLS.
	Transport http.RoundTripper
	// Jitter shortens a pause before a repetition by a part of at most most, to spread clients; random if nil.
	Jitter func(most time.Duration) time.Duration
}

// New returns a client for the credentials. It sends nothing yet.
func New(credentials Credentials, options Options) (*Client, error) {
	endpoint, err := parseEndpoint(credentials.URL)
	if err != nil {
		return nil, err
	}
	transport := options.Transport
	if transport == nil {
		if transport, err = newTransport(credentials.CAFile); err != nil {
			return nil, err
		}
	}
	c := &Client{
		credentials: credentials,
		host:        endpoint.Scheme + "://" + endpoint.Host,
		userAgent:   options.UserAgent,
		timeout:     options.Timeout,
		transport:   transport,
		limit:       rate.NewLimiter(defaultRate, defaultRate),
		redact:      newRedactor(credentials.APIKey, credentials.SecretKey),
		log:         options.Log,
		now:         time.Now,
		sleep:       sleep,
		jitter:      options.Jitter,
	}
	c.setDefaults()
	return c, nil
}

func (c *Client) setDefaults() {
	if c.userAgent == "" {
		c.userAgent = "trueup"
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.jitter == nil {
		c.jitter = randomPart
	}
}

// Close gives back idle connections.
func (c *Client) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// parseEndpoint checks the API's URL. The URL itself is never part of an error: it may hold a password.
func parseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the API URL can't be read as a URL; expected one like https://cloud.example.com/client/api")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the API URL must begin with https:// or http:// and name a host, like https://cloud.example.com/client/api")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the API URL of %s must not hold a user, a query or a fragment; expected one like https://cloud.example.com/client/api", u.Host)
	}
	return u, nil
}

// newTransport verifies TLS always: against the system's authorities and those of the file, if one is given.
func newTransport(caFile string) (*http.Transport, error) {
	roots, err := authorities(caFile)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		ExpectContinueTimeout: time.Second,
	}, nil
}

// authorities returns nil, which means the system's, if no file is given.
func authorities(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA file %s holds no certificate in PEM form", caFile)
	}
	return pool, nil
}

// read performs a call that changes nothing: sent by GET, and again where that can help. It returns CloudStack's clock.
func (c *Client) read(ctx context.Context, command string, call func(*sdk.CloudStackClient) error) (time.Time, error) {
	x := &exchange{client: c, ctx: ctx, command: command}
	err := c.perform(x, call)
	return x.served, err
}

// get is read for commands whose shapes the SDK lacks or has wrong: out receives what is in the envelope.
func (c *Client) get(ctx context.Context, command string, params map[string]string, out any) (time.Time, error) {
	return c.read(ctx, command, func(cs *sdk.CloudStackClient) error { return custom(cs, command, params, out) })
}

// post performs a call that changes something: sent once, by POST, signed to expire at expires.
func (c *Client) post(ctx context.Context, command string, expires time.Time, params map[string]string, out any) error {
	x := &exchange{client: c, ctx: ctx, command: command, write: true, expires: expires}
	return c.perform(x, func(cs *sdk.CloudStackClient) error { return custom(cs, command, params, out) })
}

// perform gives the call an SDK client of its own. That is cheap beside a request, and it is what binds the SDK, which
// knows no context, to the context of this one call.
func (c *Client) perform(x *exchange, call func(*sdk.CloudStackClient) error) error {
	cs := sdk.NewClient(c.credentials.URL, c.credentials.APIKey.reveal(), c.credentials.SecretKey.reveal(), true,
		sdk.WithHTTPClient(&http.Client{Transport: x}))
	cs.HTTPGETOnly = !x.write
	err := call(cs)
	if err == nil {
		return nil
	}
	if x.err != nil {
		return x.err // the SDK's own error would quote the URL with the signature
	}
	return x.unreadable(err)
}

// custom is the SDK's door for shapes of our own.
func custom(cs *sdk.CloudStackClient, command string, params map[string]string, out any) error {
	p := &sdk.CustomServiceParams{}
	for name, value := range params {
		p.SetParam(name, value)
	}
	service, ok := cs.Custom.(interface {
		CustomRequest(api string, p *sdk.CustomServiceParams, result any) error
	})
	if !ok {
		return fmt.Errorf("this version of the CloudStack SDK has no CustomRequest")
	}
	return service.CustomRequest(command, p, out)
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
