package kube

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestAnswersOfTheServer(t *testing.T) {
	tests := []struct {
		code  int
		want  error
		reads int32 // requests that one read makes
	}{
		{http.StatusUnauthorized, rollout.ErrDenied, 1},
		{http.StatusForbidden, rollout.ErrDenied, 1},
		{http.StatusNotFound, rollout.ErrNotFound, 1},
		{http.StatusConflict, rollout.ErrConflict, 1},
		{http.StatusTooManyRequests, rollout.ErrUnreachable, readAttempts},
		{http.StatusInternalServerError, rollout.ErrUnreachable, readAttempts},
		{http.StatusServiceUnavailable, rollout.ErrUnreachable, readAttempts},
		{http.StatusGatewayTimeout, rollout.ErrUnreachable, readAttempts},
		{http.StatusBadRequest, nil, 1},
	}
	for _, tt := range tests {
		t.Run(http.StatusText(tt.code), func(t *testing.T) {
			c := newClient(t, Options{}) // before Parallel: envtest makes one user at a time
			t.Parallel()
			count := onWire(c, func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
				return statusAnswer(r, tt.code), nil
			})
			_, err := c.Node(t.Context(), "n")
			checkSentinel(t, err, tt.want)
			if got := count.Swap(0); got != tt.reads {
				t.Errorf("a read made %d requests, want %d", got, tt.reads)
			}
			_, err = c.Patch(t.Context(), rollout.NodePatch{Name: "n", UID: "u", ResourceVersion: "1", Claim: new("c")})
			checkSentinel(t, err, tt.want)
			if got := count.Load(); got != 1 {
				t.Errorf("a patch made %d requests, want 1", got)
			}
		})
	}
}

// checkSentinel demands that err is the one sentinel and none of the others.
func checkSentinel(t *testing.T, err, want error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
	}
	for _, s := range []error{rollout.ErrConflict, rollout.ErrNotFound, rollout.ErrUnreachable, rollout.ErrDenied} {
		if got := errors.Is(err, s); got != (errors.Is(want, s)) {
			t.Errorf("%v: is %q: %t", err, s, got)
		}
	}
}

func TestNoAnswerIsUnreachable(t *testing.T) {
	tests := map[string]error{
		"refused":  &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"reset":    &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"EOF":      io.EOF,
		"no route": &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH},
	}
	for name, cause := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Options{}) // before Parallel: envtest makes one user at a time
			t.Parallel()
			onWire(c, func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, cause })
			_, err := c.Patch(t.Context(), rollout.NodePatch{Name: "n", UID: "u", ResourceVersion: "1", Claim: new("c")})
			checkSentinel(t, err, rollout.ErrUnreachable)
			if !strings.Contains(err.Error(), c.Server()) {
				t.Errorf("%v does not name the server", err)
			}
		})
	}
}

func TestReadSurvivesAHiccup(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	first := true
	onWire(c, func(r *http.Request, pass http.RoundTripper) (*http.Response, error) {
		if first {
			first = false
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return pass.RoundTrip(r)
	})
	if n := readNode(t, c, name); n.Name != name {
		t.Errorf("read %q", n.Name)
	}
}

func TestReadsComeFromEtcd(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	onWire(c, func(r *http.Request, pass http.RoundTripper) (*http.Response, error) {
		if v, there := r.URL.Query()["resourceVersion"]; there {
			t.Errorf("%s %s asks for resourceVersion %q: that may be served from a cache", r.Method, r.URL.Path, v)
		}
		return pass.RoundTrip(r)
	})
	readNode(t, c, name)
	if _, err := c.Holder(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestEndedContext(t *testing.T) {
	c := newClient(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Node(ctx, "n"); !errors.Is(err, context.Canceled) || errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("read after a cancel: %v, want context.Canceled alone", err)
	}
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := c.Node(expired, "n"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("read after the deadline: %v, want ErrUnreachable and context.DeadlineExceeded", err)
	}
}

func TestUserAgentNamesTheVersion(t *testing.T) {
	for version, want := range map[string]string{"1.2.3": "trueup/1.2.3", "": "trueup/dev"} {
		var config rest.Config
		configure(&config, Options{Version: version})
		if config.UserAgent != want {
			t.Errorf("user agent %q, want %q", config.UserAgent, want)
		}
	}
}

// A server with another certificate is refused at once: to try again is useless.
func TestUnknownCertificateIsDenied(t *testing.T) {
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0) // it will note that its handshake was refused
	stranger.StartTLS()
	defer stranger.Close()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, stranger.Listener.Addr().String())
	}
	_, err := newClient(t, Options{Dial: dial}).Node(t.Context(), "n")
	checkSentinel(t, err, rollout.ErrDenied)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v does not name the certificate", err)
	}
}

func TestUnknownCredentialsAreDenied(t *testing.T) {
	k, err := clientcmd.Load(kubeconfigOf(t, "someone"))
	fatal(t, err)
	for _, user := range k.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, "s3cr3t-token"
	}
	kubeconfig, err := clientcmd.Write(*k)
	fatal(t, err)
	_, err = clientOf(t, Options{}, kubeconfig).Node(t.Context(), "n")
	checkSentinel(t, err, rollout.ErrDenied)
	if err != nil && strings.Contains(err.Error(), "s3cr3t-token") {
		t.Errorf("the error tells the token: %v", err)
	}
}

// What the real API server refuses is told apart: what is not there, what has changed, what is another object, and what the account may not do.
func TestErrorsOfTheServer(t *testing.T) {
	c, name := newClient(t, Options{}), makeNode(t)
	_, err := c.Node(t.Context(), "nobody")
	checkSentinel(t, err, rollout.ErrNotFound)
	n := readNode(t, c, name)
	p := patchFor(n)
	p.Claim = new("c")
	_, err = c.Patch(t.Context(), p)
	fatal(t, err)
	_, err = c.Patch(t.Context(), p) // its resourceVersion is of the past now
	checkSentinel(t, err, rollout.ErrConflict)
	another := patchFor(readNode(t, c, name))
	another.UID, another.Claim = "of-another", new("c")
	_, err = c.Patch(t.Context(), another)
	checkSentinel(t, err, rollout.ErrConflict)
	another.Name = "nobody"
	_, err = c.Patch(t.Context(), another)
	checkSentinel(t, err, rollout.ErrNotFound)

	stranger := clientAs(t, Options{}, "nobody")
	_, err = stranger.Node(t.Context(), name)
	checkSentinel(t, err, rollout.ErrDenied)
	_, err = stranger.Patch(t.Context(), p)
	checkSentinel(t, err, rollout.ErrDenied)
	_, err = stranger.Watch(t.Context(), name)
	checkSentinel(t, err, rollout.ErrDenied)
}

// An API server that is not there says nothing: nobody knows what became of a write.
func TestNobodyAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	fatal(t, listener.Close())
	k, err := clientcmd.Load(kubeconfigOf(t, "someone"))
	fatal(t, err)
	for _, cluster := range k.Clusters {
		cluster.Server = "https://" + listener.Addr().String()
	}
	kubeconfig, err := clientcmd.Write(*k)
	fatal(t, err)
	c := clientOf(t, Options{}, kubeconfig)
	_, err = c.Patch(t.Context(), rollout.NodePatch{Name: "n", UID: "u", ResourceVersion: "1", Claim: new("c")})
	checkSentinel(t, err, rollout.ErrUnreachable)
	_, err = c.Node(t.Context(), "n")
	checkSentinel(t, err, rollout.ErrUnreachable)
}

func TestCallNamesVerbAndResource(t *testing.T) {
	for want, c := range map[string]call{
		"list nodes":                         {verb: "list", resource: "nodes"},
		"get nodes/w-1":                      {verb: "get", resource: "nodes", name: "w-1"},
		"patch leases/trueup in kube-system": leaseCall("patch"),
		"create events in default":           {verb: "create", resource: "events", namespace: metav1.NamespaceDefault},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
