package cloudstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// The canaries hold what URL encoding changes, so that its forms are looked for too.
const (
	canaryKey    = "CANARY-key+with/every=kind of sign"
	canarySecret = "CANARY-secret+with/every=kind of sign"
)

// TestNoErrorHoldsASecret makes each kind of error there is, from a server that quotes the whole request wherever it can.
func TestNoErrorHoldsASecret(t *testing.T) {
	quoting := func(status int, contentType, format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			quoted := fmt.Sprintf("%s?%s sent by %s with apiKey=%s and secret %s", r.URL.Path, r.Form.Encode(), r.Form.Get("apiKey"), r.Form.Get("apiKey"), canarySecret)
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", "/client/api?"+r.Form.Encode())
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, format, quoted)
		}
	}
	cloudStackSays := func(code int) http.HandlerFunc {
		return quoting(code, "application/json", fmt.Sprintf(`{"errorresponse":{"errorcode":%d,"errortext":%%q}}`, code))
	}
	servers := map[string]http.HandlerFunc{
		"html 502":   quoting(502, "text/html", "<html>%s</html>"),
		"html 200":   quoting(200, "text/html", "<html>%s</html>"),
		"redirect":   quoting(302, "text/html", "%s"),
		"wrong type": quoting(200, "application/json", `{"r":{"count":{"x":%[1]q},"jobid":[%[1]q],"clusterconfig":[%[1]q],"id":{"a":%[1]q}}}`),
		"cut":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no HTTP": func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = fmt.Fprintf(conn, "220 %s\r\n", r.URL.RequestURI())
				_ = conn.Close()
			}
		},
		"time-out": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
	}
	for _, code := range []int{401, 403, 405, 411, 429, 430, 431, 432, 530, 531, 532, 533, 537} {
		servers[fmt.Sprint("code ", code)] = cloudStackSays(code)
	}
	for name, handler := range servers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			for _, text := range everyError(t, server.URL+"/client/api") {
				searchCanaries(t, text)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		for _, text := range everyError(t, server.URL+"/client/api") {
			searchCanaries(t, text)
		}
	})
}

// everyError makes every call and returns what is printed of the errors, and the log.
func everyError(t *testing.T, url string) []string {
	t.Helper()
	var log bytes.Buffer
	c, err := New(Credentials{URL: url, APIKey: NewSecret(canaryKey), SecretKey: NewSecret(canarySecret)}, Options{
		Timeout: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.limit = rate.NewLimiter(rate.Inf, 1)
	c.sleep = func(context.Context, time.Duration) error { return nil }
	ctx := context.Background()
	errs := map[string]error{}
	_, errs["Instance"] = c.Instance(ctx, "vm")
	_, errs["Resize"] = c.Resize(ctx, "vm", "offering", time.Now().Add(time.Minute))
	_, errs["Stop"] = c.Stop(ctx, "vm", time.Now().Add(time.Minute))
	_, errs["Start"] = c.Start(ctx, "vm", time.Now().Add(time.Minute))
	errs["SetDynamicallyScalable"] = c.SetDynamicallyScalable(ctx, "vm")
	_, errs["MarkObstacles"] = c.MarkObstacles(ctx, "vm")
	_, errs["Job"] = c.Job(ctx, "job")
	_, errs["FindJob"] = c.FindJob(ctx, "vm")
	_, errs["Cluster"] = c.Cluster(ctx, "prod")
	_, errs["Offering"] = c.Offering(ctx, "big")
	_, errs["Kubeconfig"] = c.Kubeconfig(ctx, "id")
	_, errs["Endpoints"] = c.Endpoints(ctx, Cluster{}, Way{})
	facts, _ := c.Facts(ctx, Cluster{ZoneID: "zone", VMs: []VM{{}}})
	texts := []string{log.String(), fmt.Sprintf("%+v", facts), fmt.Sprintf("%+v %#v", c, c.credentials)}
	for name, err := range errs {
		if err == nil {
			t.Errorf("%s gave no error", name)
			continue
		}
		texts = append(texts, err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err))
		if answer, ok := errors.AsType[*APIError](err); ok {
			texts = append(texts, answer.Text, fmt.Sprintf("%+v", *answer))
		}
	}
	return texts
}

// searchCanaries looks for the keys in every form that a URL gives them, and for a signature.
func searchCanaries(t *testing.T, text string) {
	t.Helper()
	for _, canary := range []string{canaryKey, canarySecret} {
		for _, form := range []string{canary, url.QueryEscape(canary), url.PathEscape(canary), strings.ReplaceAll(url.QueryEscape(canary), "+", "%20")} {
			if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
				t.Errorf("%q holds %q", text, form)
			}
		}
	}
	lower := strings.ToLower(text)
	for rest := lower; ; {
		_, after, found := strings.Cut(rest, "signature=")
		if !found {
			return
		}
		if !strings.HasPrefix(after, hidden) {
			t.Errorf("%q holds a signature", text)
		}
		rest = after
	}
}
