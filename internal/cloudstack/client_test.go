package cloudstack

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestReadsAreGETAndChangesArePOST(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	ctx := context.Background()
	cluster := must[Cluster](t)(c.Cluster(ctx, "prod"))
	must[map[string]Endpoint](t)(c.Endpoints(ctx, cluster, Way{}))
	must[[]byte](t)(c.Kubeconfig(ctx, cluster.ID))
	must[Facts](t)(c.Facts(ctx, cluster))
	must[string](t)(c.Resize(ctx, f.vm(1), f.big.ID, f.clock.Now().Add(time.Minute)))
	for _, r := range f.Requests() {
		want := http.MethodGet
		if r.Command == "scaleVirtualMachine" {
			want = http.MethodPost
		}
		if r.Method != want {
			t.Errorf("%s was sent by %s, want %s", r.Command, r.Method, want)
		}
		if r.Mutating != (r.Command == "scaleVirtualMachine") {
			t.Errorf("%s changes something: %t", r.Command, r.Mutating)
		}
	}
}

func TestWrongKeysAreDenied(t *testing.T) {
	f := newFixture(t)
	for name, keys := range map[string][2]string{
		"wrong secret": {f.owner.APIKey, "not-the-secret"},
		"unknown key":  {"an-unknown-key-of-some-length", f.owner.SecretKey},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, f.server.URL+standin.Path, keys[0], keys[1])
			_, err := c.Clusters(context.Background(), ClusterFilter{})
			if !errors.Is(err, rollout.ErrDenied) || errors.Is(err, rollout.ErrUnreachable) {
				t.Fatalf("error %v, want it to be ErrDenied alone", err)
			}
			if !strings.Contains(err.Error(), keys[0][:6]+"…") {
				t.Errorf("error %q does not say which key", err)
			}
			if strings.Contains(err.Error(), "clock") {
				t.Errorf("error %q blames clocks that agree", err)
			}
		})
	}
}

func TestDeniedForTheClock(t *testing.T) {
	f := newFixture(t)
	f.clock.Advance(time.Hour) // the SDK signs for 15 minutes of this machine's clock
	_, err := f.client().Offerings(context.Background())
	if !errors.Is(err, rollout.ErrDenied) || !strings.Contains(err.Error(), "clock differs from CloudStack's by -1h0m") &&
		!strings.Contains(err.Error(), "clock differs from CloudStack's by -59m") {
		t.Fatalf("error %v, want ErrDenied with the difference of the clocks", err)
	}
}

func TestCommandNotPermitted(t *testing.T) {
	f := newFixture(t)
	limited := f.AddAccount(standin.Account{Name: "limited", Commands: []string{"listVirtualMachines"}})
	_, err := f.clientOf(limited).Offerings(context.Background())
	var answer *APIError
	if !errors.As(err, &answer) || answer.Code != 432 || answer.HTTPStatus != 432 || answer.Command != "listServiceOfferings" {
		t.Fatalf("error %#v, want an APIError 432 of listServiceOfferings", err)
	}
	if !errors.Is(err, rollout.ErrDenied) || !strings.Contains(err.Error(), "not permitted for this account's role, or unknown to this CloudStack version") {
		t.Errorf("error %q, want ErrDenied that says both reasons", err)
	}
}

func TestAnswersThatAreNotCloudStacks(t *testing.T) {
	const page = "<html><body>it quotes /client/api?apikey=a-key-that-is-long-enough&signature=abc%3D</body></html>"
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   error
		says   string
	}{
		{"bad gateway", 502, page, rollout.ErrUnreachable, "HTTP 502 Bad Gateway (text/html)"},
		{"wrong path", 404, page, rollout.ErrUnreachable, "/client/api"},
		{"login page", 200, page, rollout.ErrUnreachable, "/client/api"},
		{"forbidden by a proxy", 403, page, rollout.ErrDenied, "HTTP 403"},
		{"redirect", 302, "", rollout.ErrUnreachable, "HTTP 302"},
		{"other JSON", 503, `{"message":"no route"}`, rollout.ErrUnreachable, "HTTP 503"},
		{"JSON list", 200, `[]`, rollout.ErrUnreachable, "not CloudStack's"},
		{"cut JSON", 200, `{"listserviceofferingsresponse":{"count":1,`, rollout.ErrUnreachable, "not CloudStack's"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newHandlerClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				w.Header().Set("Location", "https://elsewhere.example/")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			_, err := c.Offerings(context.Background())
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("error %v, want %v that says %q", err, tt.want, tt.says)
			}
			if strings.Contains(err.Error(), "quotes") {
				t.Errorf("error %q quotes the body", err)
			}
		})
	}
}

func TestUserAgent(t *testing.T) {
	var got string
	c := newHandlerClient(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.UserAgent()
		_, _ = w.Write([]byte(`{"listserviceofferingsresponse":{}}`))
	})
	c.userAgent = "trueup/1.2"
	offerings, err := c.Offerings(context.Background())
	if err != nil || len(offerings) != 0 || got != "trueup/1.2" {
		t.Fatalf("offerings %v, error %v, User-Agent %q", offerings, err, got)
	}
}

func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"listserviceofferingsresponse":{}}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the client that does not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	creds := Credentials{URL: server.URL + "/client/api", APIKey: NewSecret("key"), SecretKey: NewSecret("secret")}

	c := must[*Client](t)(New(creds, Options{}))
	defer c.Close()
	_, err := c.Offerings(context.Background())
	if !errors.Is(err, rollout.ErrDenied) || errors.Is(err, rollout.ErrUnreachable) || !strings.Contains(err.Error(), "CA file") {
		t.Fatalf("error %v, want ErrDenied that points to the CA file", err)
	}

	creds.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(creds.CAFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	trusting := must[*Client](t)(New(creds, Options{}))
	defer trusting.Close()
	if _, err := trusting.Offerings(context.Background()); err != nil {
		t.Fatalf("with the CA file: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "https://cloud.example.com/client/api"
	for name, creds := range map[string]Credentials{
		"no URL":           {},
		"no scheme":        {URL: "cloud.example.com/client/api"},
		"other scheme":     {URL: "ftp://cloud.example.com/"},
		"unreadable":       {URL: "https://user:hunter2@[::1/client/api"},
		"password in URL":  {URL: "https://user:hunter2@cloud.example.com/client/api"},
		"query in URL":     {URL: good + "?apikey=hunter2"},
		"CA file missing":  {URL: good, CAFile: filepath.Join(t.TempDir(), "none")},
		"CA file is empty": {URL: good, CAFile: empty},
	} {
		if _, err := New(creds, Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, want one without the password", name, err)
		}
	}
}
