package notice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const canary = "CANARY+secret/with=every kind of sign"

func contextOf(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// TestNoErrorHoldsASecret makes each kind of error there is, from receivers that quote all that they know.
func TestNoErrorHoldsASecret(t *testing.T) {
	quote := func(w http.ResponseWriter, r *http.Request) string {
		return fmt.Sprintf("%s %v %s", r.URL.RequestURI(), r.Header, canary)
	}
	receivers := map[string]http.HandlerFunc{
		"refuses": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", canary)
			w.WriteHeader(403)
			fmt.Fprint(w, quote(w, r))
		},
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "ftp://"+url.PathEscape(canary))
			w.WriteHeader(302)
		},
		"is no HTTP": func(w http.ResponseWriter, r *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = fmt.Fprintf(conn, "%s\r\n", quote(w, r))
				_ = conn.Close()
			}
		},
		"is silent": func(_ http.ResponseWriter, r *http.Request) { saysNothing(r) },
	}
	for name, receiver := range receivers {
		server := httptest.NewServer(receiver)
		searchErrors(t, name, webChannels(t, server.URL+"/"+url.PathEscape(canary)+"?token="+url.QueryEscape(canary), canary))
		server.Close()
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	searchErrors(t, "nobody there", webChannels(t, gone.URL+"/"+url.PathEscape(canary), canary))
	searchErrors(t, "bad address", webChannels(t, "https://%zz"+canary, canary))
	searchErrors(t, "bad scheme", webChannels(t, "ftp://host/"+canary, canary))
	searchErrors(t, "bad key", webChannels(t, gone.URL, "whsec_"+canary))
	for _, verb := range []string{"EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA"} {
		p := opens(t, &postOffice{refuse: map[string]string{verb: "550", "HELO": "550"}, quote: func() string { return canary }})
		searchErrors(t, verb, []Channel{mailer(t, p, func(o *MailOptions) { o.Password = as(canary) })})
	}
}

func webChannels(t *testing.T, address, key string) []Channel {
	t.Helper()
	hook, err := NewWebhook(WebhookOptions{Name: "hook", URL: as(address), Key: as(key)})
	slack, err2 := NewSlack(SlackOptions{Name: "chat", URL: as(address)})
	if errors.Join(err, err2) != nil {
		t.Fatal(err, err2)
	}
	return []Channel{hook, slack}
}

// searchErrors sends once by each channel, and looks for the canary in whatever is printed of it.
func searchErrors(t *testing.T, name string, channels []Channel) {
	t.Helper()
	for _, c := range channels {
		ctx, cancel := contextOf(t, 100*time.Millisecond)
		err := c.Send(ctx, "1", failed())
		cancel()
		if err == nil {
			if name != "bad key" || c.Name() != "chat" {
				t.Errorf("%s by %s gave no error", name, c.Name())
			}
			continue
		}
		searchCanary(t, fmt.Sprintf("%s by %s", name, c.Name()), fmt.Sprintf("%v %+v %#v %+v %#v", err, err, err, c, c))
		if _, is := errors.AsType[*Error](err); !is {
			t.Errorf("%s by %s gave a %T", name, c.Name(), err)
		}
	}
}

func searchCanary(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{canary, url.PathEscape(canary), url.QueryEscape(canary), "CANARY"} {
		if strings.Contains(text, form) {
			t.Errorf("%s: %q holds the secret", where, text)
			return
		}
	}
}

// What the sender logs of a failing channel holds no secret either.
func TestNoLogHoldsASecret(t *testing.T) {
	var log bytes.Buffer
	channels := webChannels(t, "ftp://host/"+canary, "whsec_"+canary)
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t, Options{Outbox: NewMemory(), Routes: []Route{{Channel: channels[0]}, {Channel: channels[1]}},
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		post(t, s, failed())
		time.Sleep(time.Minute)
		stop()
	})
	if !strings.Contains(log.String(), "channel=hook") || !strings.Contains(log.String(), "channel=chat") {
		t.Errorf("the log does not name the channels: %s", log.String())
	}
	searchCanary(t, "log", log.String())
}
