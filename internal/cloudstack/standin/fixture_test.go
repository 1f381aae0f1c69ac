package standin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	cs "github.com/apache/cloudstack-go/v2/cloudstack"
)

// bench is a model on a clock that stands still, with one cluster of one control node and two workers.
type bench struct {
	*Model

	t               *testing.T
	clock           *ManualClock
	owner, stranger Account
	admin           Account
	small, big      Offering
	cluster         Cluster
}

func newBench(t *testing.T, tune ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, clock: NewManualClock(time.Now().Truncate(time.Second))}
	cfg := Config{Clock: b.clock, Seed: 7, AgentStep: time.Second}
	for _, f := range tune {
		f(&cfg)
	}
	b.Model = New(cfg)
	t.Cleanup(b.Close)
	b.owner = b.AddAccount(Account{Name: "owner", Projects: []string{"11111111-1111-4111-8111-111111111111"}})
	b.stranger = b.AddAccount(Account{Name: "stranger"})
	b.admin = b.AddAccount(Account{Name: "admin", Admin: true})
	b.small = b.AddOffering(FixedOffering("small", 2, 2048))
	b.big = b.AddOffering(FixedOffering("big", 4, 4096))
	b.cluster = b.AddCluster(ClusterSpec{
		Name: "prod", Owner: Owner{Account: "owner"}, OfferingID: b.small.ID,
		Control: Nodes(1), Workers: Nodes(2), Kubeconfig: "apiVersion: v1\nkind: Config\n",
	})
	return b
}

// node returns the present record of the i-th VM of the cluster: control first, then workers.
func (b *bench) node(i int) VM {
	b.t.Helper()
	vm, ok := b.VM(b.cluster.Nodes[i].VMID)
	if !ok {
		b.t.Fatalf("cluster node %d has no VM", i)
	}
	return vm
}

// do makes a call without HTTP and returns the inner answer.
func (b *bench) do(account Account, command string, pairs ...string) (map[string]any, error) {
	b.t.Helper()
	out := map[string]any{}
	err := b.Call(context.Background(), account.Name, command, pairsOf(b.t, pairs), &out)
	return out, err
}

func (b *bench) must(account Account, command string, pairs ...string) map[string]any {
	b.t.Helper()
	out, err := b.do(account, command, pairs...)
	if err != nil {
		b.t.Fatalf("%s: %v", command, err)
	}
	return out
}

// start starts a job and returns its id.
func (b *bench) start(command string, pairs ...string) string {
	b.t.Helper()
	id, ok := b.must(b.owner, command, pairs...)["jobid"].(string)
	if !ok {
		b.t.Fatalf("%s: no job id in the answer", command)
	}
	return id
}

// finished lets a minute pass and returns the job.
func (b *bench) finished(id string) Job {
	b.t.Helper()
	b.clock.Advance(time.Minute)
	j, ok := b.Job(id)
	if !ok {
		b.t.Fatalf("there is no job %s", id)
	}
	return j
}

// errorText is the text of a failed job, or "".
func errorText(j Job) string {
	result, _ := j.Result.(map[string]any)
	text, _ := result["errortext"].(string)
	return text
}

func pairsOf(t *testing.T, pairs []string) map[string]string {
	t.Helper()
	if len(pairs)%2 != 0 {
		t.Fatalf("parameters come in pairs: %q", pairs)
	}
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func wantCode(t *testing.T, err error, code int) {
	t.Helper()
	var e *APIError
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error = %v, want an API error with code %d", err, code)
	}
}

// serve starts a HTTP server and returns the address of the API.
func (b *bench) serve() string {
	b.t.Helper()
	s := httptest.NewServer(b.Handler())
	b.t.Cleanup(s.Close)
	return s.URL + Path
}

// sdk returns the official client for the account, over HTTP.
func (b *bench) sdk(a Account) *cs.CloudStackClient {
	b.t.Helper()
	return cs.NewClient(b.serve(), a.APIKey, a.SecretKey, false)
}

// signed returns the parameters with key, expiry and signature.
func (b *bench) signed(a Account, command string, pairs ...string) url.Values {
	b.t.Helper()
	params := pairsOf(b.t, pairs)
	for name, value := range map[string]string{
		"command": command, "apiKey": a.APIKey, "response": "json", "signatureversion": "3",
		"expires": b.clock.Now().UTC().Add(time.Minute).Format("2006-01-02T15:04:05-0700"),
	} {
		if _, given := params[name]; !given {
			params[name] = value
		}
	}
	out := url.Values{"signature": {Sign(params, a.SecretKey)}}
	for name, value := range params {
		out.Set(name, value)
	}
	return out
}

// raw sends the values and returns the answer with its body decoded (nil where it isn't JSON).
func (b *bench) raw(method string, values url.Values) (*http.Response, map[string]any, string) {
	b.t.Helper()
	target, body := b.serve(), io.Reader(nil)
	if method == http.MethodPost {
		body = strings.NewReader(values.Encode())
	} else {
		target += "?" + values.Encode()
	}
	req, err := http.NewRequest(method, target, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var decoded map[string]any
	if json.Unmarshal(text, &decoded) != nil {
		decoded = nil
	}
	return resp, decoded, string(text)
}
