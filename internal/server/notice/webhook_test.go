package notice

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// as is a secret for tests.
func as(text string) Secret { return func() (string, error) { return text, nil } }

// request is what a receiver got.
type request struct {
	Method string
	Header http.Header
	Body   []byte
}

// listening is a real HTTPS receiver with a certificate of its own authority.
func listening(t *testing.T, answer http.HandlerFunc) (address, caFile string, got func() []request) {
	t.Helper()
	var requests []request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, request{r.Method, r.Header, body})
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL + "/hook/T0KEN", caFile, func() []request { return requests }
}

func taken(http.ResponseWriter, *http.Request) {}

func failed() Notice {
	return Notice{Version: 1, Kind: Failed, Time: time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC), Endpoint: "zone-a", ClusterID: "c1", Cluster: "prod", Run: "run-1",
		Text: "prod-node-1: kubelet: <stopped> & gone", Next: "trueup resume prod"}
}

const key = "a-key-of-at-least-24-bytes\n"

func TestWebhook(t *testing.T) {
	address, ca, got := listening(t, taken)
	hook, err := NewWebhook(WebhookOptions{Name: "ops", URL: as(address), Key: as(key), CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Unix()
	if err := hook.Send(t.Context(), "letter-1", failed()); err != nil {
		t.Fatal(err)
	}
	r := got()[0]
	stamp, err := strconv.ParseInt(r.Header.Get(headerTimestamp), 10, 64)
	if err != nil || stamp < before || stamp > time.Now().Unix() {
		t.Errorf("timestamp %d (%v), want that of the attempt", stamp, err)
	}
	mac := hmac.New(sha256.New, []byte("a-key-of-at-least-24-bytes"))
	mac.Write([]byte("letter-1." + r.Header.Get(headerTimestamp) + "." + string(r.Body)))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if r.Method != http.MethodPost || r.Header.Get(headerID) != "letter-1" || r.Header.Get(headerSignature) != want || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s with %v; want the id letter-1 and the signature %s", r.Method, r.Header, want)
	}
	var n Notice
	if err := json.Unmarshal(r.Body, &n); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(failed(), n); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// The specification's own example: libraries for receivers are tested with it.
func TestSignatureOfTheSpecification(t *testing.T) {
	got, err := sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		keys       string
		signatures int
	}{
		"one":                         {key, 1},
		"two, while keys are changed": {key + "\nanother-key-of-at-least-24-bytes\n", 2},
		"too short":                   {"short", 0},
		"short in base64":             {"whsec_c2hvcnQ=", 0},
		"no base64":                   {"whsec_***************************************", 0},
		"one of two is bad":           {key + "short", 0},
	} {
		got, err := sign(tt.keys, "id", "1", []byte("{}"))
		if n := len(strings.Fields(got)); n != tt.signatures || (err != nil) != (tt.signatures == 0) {
			t.Errorf("%s: %d signatures, %v; want %d", name, n, err, tt.signatures)
		}
	}
}

func TestSlack(t *testing.T) {
	address, ca, got := listening(t, taken)
	slack, err := NewSlack(SlackOptions{Name: "chat", URL: as(address), CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	if err := slack.Send(t.Context(), "letter-1", failed()); err != nil {
		t.Fatal(err)
	}
	want := `{"text":"*prod: rollout failed*\nprod-node-1: kubelet: &lt;stopped&gt; &amp; gone\nNext: ` + "`trueup resume prod`" + `"}`
	var got1, want1 map[string]string
	if err := errors.Join(json.Unmarshal(got()[0].Body, &got1), json.Unmarshal([]byte(want), &want1)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want1, got1); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// saysNothing waits until the client has gone, and does not answer then either: an answer could still reach a client that is about to close.
func saysNothing(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // only then it is seen that the client has gone
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// One table for what a receiver may do, and what is said of it.
func TestAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   Error
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, Error{Reason: "the receiver answered with status 403, expected 2xx"}},
		"busy": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "30"); w.WriteHeader(429) },
			Error{Reason: "the receiver answered with status 429, expected 2xx", RetryAfter: 30 * time.Second}},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(307)
		}, Error{Reason: "the receiver answered with status 307, expected 2xx"}},
		"cut":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Error{Reason: "the answer was cut, or is not what was expected"}},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { saysNothing(r) }, Error{Reason: "no answer in time"}},
	} {
		t.Run(name, func(t *testing.T) {
			address, ca, _ := listening(t, tt.answer)
			hook, err := NewWebhook(WebhookOptions{Name: "ops", URL: as(address), Key: as(key), CAFile: ca})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			got, is := errors.AsType[*Error](hook.Send(ctx, "1", failed()))
			tt.want.Channel = "ops"
			if !is || *got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestUnknownAuthorityIsRefused(t *testing.T) {
	address, _, got := listening(t, taken)
	hook, err := NewWebhook(WebhookOptions{Name: "ops", URL: as(address), Key: as(key)})
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Send(t.Context(), "1", failed()); err == nil || len(got()) != 0 {
		t.Errorf("sent to a receiver that nobody vouches for: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(taken))
	defer plain.Close()
	for name, tt := range map[string]struct {
		address string
		ok      bool
	}{
		"http on this machine":       {plain.URL, true},
		"http to another":            {"http://192.0.2.1/hook", false},
		"http to a name like a loop": {"http://127.0.0.1.example.com/hook", false},
		"no scheme":                  {"example.com/hook", false},
		"a file":                     {"file:///etc/passwd", false},
		"no URL":                     {"https://%zz", false},
	} {
		slack, err := NewSlack(SlackOptions{Name: "chat", URL: as(tt.address)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = slack.address()
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want accepted %v", name, err, tt.ok)
		}
	}
}

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte(" text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return map[string]string{"KEY": "text"}[name], name == "KEY" }
	for name, tt := range map[string]struct {
		secret Secret
		want   string
	}{
		"file": {FromFile(file), "text"}, "environment": {FromEnv(env, "KEY"), "text"},
		"empty file": {FromFile(empty), ""}, "no file": {FromFile(filepath.Join(dir, "none")), ""}, "a folder": {FromFile(dir), ""},
		"a device": {FromFile("/dev/zero"), ""}, "not set": {FromEnv(env, "NONE"), ""},
	} {
		if got, err := tt.secret(); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
	secret := FromFile(file)
	if err := os.WriteFile(file, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := secret(); got != "changed" || err != nil {
		t.Errorf("after the file was changed: %q, %v", got, err)
	}
}
