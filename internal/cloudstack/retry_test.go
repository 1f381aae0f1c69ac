package cloudstack

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestReadsAreRepeated(t *testing.T) {
	const command = "listServiceOfferings"
	for _, tt := range []struct {
		name   string
		effect standin.Effect
		times  int
		sent   int // requests that arrive
		want   error
	}{
		{"lost request", standin.LoseRequest{}, 2, 3, nil},
		{"lost reply", standin.LoseReply{}, 1, 2, nil},
		{"502", standin.ProxyError{}, 3, 4, nil},
		{"503", standin.ProxyError{Status: 503}, 1, 2, nil},
		{"504", standin.ProxyError{Status: 504}, 1, 2, nil},
		{"429", standin.TooManyRequests{RetryAfter: 2 * time.Second}, 1, 2, nil},
		{"502 for ever", standin.ProxyError{}, standin.Always, maxAttempts, rollout.ErrUnreachable},
		{"cut for ever", standin.LoseRequest{}, standin.Always, maxAttempts, rollout.ErrUnreachable},
		{"429 that asks for too much", standin.TooManyRequests{RetryAfter: time.Hour}, standin.Always, 1, rollout.ErrUnreachable},
		{"500 of a proxy", standin.ProxyError{Status: 500}, 1, 1, rollout.ErrUnreachable},
		{"530", standin.Refuse{Code: 530, Text: "internal"}, 1, 1, rollout.ErrUnreachable},
		{"432", standin.Refuse{Code: 432, Text: "no"}, 1, 1, rollout.ErrDenied},
		{"531", standin.Refuse{Code: 531, Text: "no"}, 1, 1, rollout.ErrDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.Script(standin.Fault{Command: command, Times: tt.times, Effect: tt.effect})
			c := f.client()
			// Without kept connections net/http itself never repeats a request, which it may do on a broken one.
			c.transport.(*http.Transport).DisableKeepAlives = true
			_, err := c.Offerings(context.Background())
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if got := f.count(command); got != tt.sent {
				t.Errorf("%d requests arrived, want %d", got, tt.sent)
			}
		})
	}
}

func TestWaitsBetweenAttempts(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	waited := waits(c)
	f.Script(standin.Fault{Times: 2, Effect: standin.ProxyError{}}, standin.Fault{Effect: standin.TooManyRequests{RetryAfter: 7 * time.Second}})
	if _, err := c.Offerings(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := waited()
	if len(got) != 3 || got[2] != 7*time.Second {
		t.Fatalf("waits %v, want three, the last of them the 7 s that CloudStack asked for", got)
	}
	for i, full := range []time.Duration{firstWait, 2 * firstWait} {
		if got[i] < full/2 || got[i] > full {
			t.Errorf("wait %d was %s, want between %s and %s", i+1, got[i], full/2, full)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	served := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                              0,
		"5":                             5 * time.Second,
		"-5":                            0,
		"soon":                          0,
		"Sat, 31 Jan 2026 12:00:09 GMT": 9 * time.Second,
		"Sat, 31 Jan 2026 11:00:00 GMT": 0,
	} {
		resp := &http.Response{Header: http.Header{"Retry-After": {text}}}
		if diff := cmp.Diff(want, retryAfter(resp, served)); diff != "" {
			t.Errorf("Retry-After %q (-want +got):\n%s", text, diff)
		}
	}
}

func TestChangesAreSentOnce(t *testing.T) {
	for command, send := range map[string]func(*fixture, *Client) error{
		"scaleVirtualMachine": func(f *fixture, c *Client) error {
			_, err := c.Resize(context.Background(), f.vm(1), f.big.ID, f.clock.Now().Add(time.Minute))
			return err
		},
		"stopVirtualMachine": func(f *fixture, c *Client) error {
			_, err := c.Stop(context.Background(), f.vm(1), f.clock.Now().Add(time.Minute))
			return err
		},
		"startVirtualMachine": func(f *fixture, c *Client) error {
			_, err := c.Start(context.Background(), f.vm(1), f.clock.Now().Add(time.Minute))
			return err
		},
		"updateVirtualMachine": func(f *fixture, c *Client) error { return c.SetDynamicallyScalable(context.Background(), f.vm(1)) },
	} {
		for name, effect := range map[string]standin.Effect{
			"lost request": standin.LoseRequest{},
			"lost reply":   standin.LoseReply{},
			"502":          standin.ProxyError{},
			"429":          standin.TooManyRequests{RetryAfter: time.Second},
		} {
			t.Run(command+" "+name, func(t *testing.T) {
				f := newFixture(t)
				f.Script(standin.Fault{Command: command, Times: standin.Always, Effect: effect})
				c := f.client()
				if _, err := c.Instance(context.Background(), f.vm(1)); err != nil { // leaves a connection that may be reused
					t.Fatal(err)
				}
				if err := send(f, c); !errors.Is(err, rollout.ErrUnreachable) {
					t.Errorf("error %v, want ErrUnreachable", err)
				}
				if got := f.count(command); got != 1 {
					t.Errorf("%d requests arrived, want 1", got)
				}
			})
		}
	}
}

func TestNobodyListens(t *testing.T) {
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	url := "http://" + listener.Addr().String() + "/client/api"
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, url, "key", "secret")
	_, err := c.Offerings(context.Background())
	var silence *NoAnswerError
	if !errors.As(err, &silence) || !errors.Is(err, rollout.ErrUnreachable) || silence.Write {
		t.Fatalf("error %v, want a NoAnswerError of a read", err)
	}
}

func TestEndOfContext(t *testing.T) {
	arrived := make(chan struct{}, 1)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body
		arrived <- struct{}{}
		<-r.Context().Done()
	}
	for name, call := range map[string]func(context.Context, *Client) error{
		"read": func(ctx context.Context, c *Client) error { _, err := c.Offerings(ctx); return err },
		"job":  func(ctx context.Context, c *Client) error { _, err := c.Job(ctx, "x"); return err },
		"change": func(ctx context.Context, c *Client) error {
			_, err := c.Resize(ctx, "vm", "offering", time.Now().Add(time.Minute))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newHandlerClient(t, hang)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- call(ctx, c) }()
			<-arrived
			cancel()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) || !errors.Is(err, rollout.ErrUnreachable) {
					t.Errorf("error %v, want both context.Canceled and ErrUnreachable", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the call did not return")
			}
		})
	}
}

func TestEndOfContextBetweenAttempts(t *testing.T) {
	f := newFixture(t)
	f.Script(standin.Fault{Times: standin.Always, Effect: standin.ProxyError{}})
	c := f.client()
	ctx, cancel := context.WithCancel(context.Background())
	c.sleep = func(ctx context.Context, _ time.Duration) error {
		cancel()
		return sleep(ctx, time.Hour)
	}
	_, err := c.Offerings(ctx)
	if !errors.Is(err, rollout.ErrUnreachable) || f.count("listServiceOfferings") != 1 {
		t.Fatalf("error %v after %d requests, want ErrUnreachable after one", err, f.count("listServiceOfferings"))
	}
}

func TestAttemptTimesOut(t *testing.T) {
	c := newHandlerClient(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c.timeout = time.Millisecond
	_, err := c.Offerings(context.Background())
	if !errors.Is(err, rollout.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want ErrUnreachable for the attempt's deadline", err)
	}
}
