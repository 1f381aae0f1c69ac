package cloudstack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// maxAnswer bounds an answer, in bytes. The largest known, listApis, has about 3 MiB.
const maxAnswer = 64 << 20

// exchange is the RoundTripper of one API call. It lives as long as the call, so it may hold the call's context, which the
// SDK can't carry.
type exchange struct {
	client  *Client
	ctx     context.Context //nolint:containedctx // see above
	command string
	write   bool
	expires time.Time // of a write; zero leaves the SDK's own

	served time.Time // CloudStack's clock: the Date header of the last answer
	err    error     // what ended the call, free of secrets
}

// RoundTrip sends the request that the SDK has built, and returns only answers that are a success in CloudStack's own words.
// It follows no redirect: the request carries a signature that is meant for one server.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := x.send(req)
	x.err = err
	return resp, err
}

func (x *exchange) send(req *http.Request) (*http.Response, error) {
	req = req.Clone(x.ctx)
	req.Header.Set("User-Agent", x.client.userAgent)
	req.Header.Set("Accept", "application/json")
	if !x.write {
		return x.repeat(req)
	}
	if !x.expires.IsZero() {
		signed, err := resign(req, x.client.credentials.SecretKey, x.expires)
		if err != nil {
			return nil, err
		}
		req = signed
	}
	return x.once(req)
}

// repeat sends a read until it succeeds, can't succeed, or has been sent often enough.
func (x *exchange) repeat(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := x.once(req)
		if err == nil || x.ctx.Err() != nil {
			return resp, err
		}
		wait, again := x.client.backoff(attempt, err)
		if !again {
			return nil, err
		}
		if x.client.sleep(x.ctx, wait) != nil {
			return nil, err
		}
	}
}

// once is one attempt. The answer is read to its end here, under the attempt's own bound.
func (x *exchange) once(req *http.Request) (*http.Response, error) {
	if err := x.client.limit.Wait(x.ctx); err != nil {
		return nil, x.noAnswer(err)
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.client.timeout)
	defer cancel()
	start := x.client.now()
	resp, err := x.client.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		x.log(start, 0, err)
		return nil, x.noAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	x.served, _ = http.ParseTime(resp.Header.Get("Date"))
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	}
	x.log(start, resp.StatusCode, err)
	if err != nil {
		return nil, x.noAnswer(err)
	}
	if err := x.judge(resp, body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	return resp, nil
}

func (x *exchange) log(start time.Time, status int, err error) {
	attrs := []any{"command", x.command, "status", status, "elapsed", x.client.now().Sub(start)}
	if err != nil {
		attrs = append(attrs, "error", x.client.redact.clean(err.Error()))
	}
	x.client.log.DebugContext(x.ctx, "cloudstack", attrs...)
}

// noAnswer says that no answer arrived. If the call's own context ended, that is the cause, whatever the network made of it.
func (x *exchange) noAnswer(err error) error {
	if ended := x.ctx.Err(); ended != nil {
		err = ended
	}
	return &NoAnswerError{
		Command: x.command, Host: x.client.host, Write: x.write, Cause: err,
		text: x.client.redact.clean(err.Error()),
	}
}

// unreadable says that a successful answer is not of the shape that was expected. For a write its outcome is unknown.
func (x *exchange) unreadable(err error) error {
	text := x.client.redact.clean(err.Error())
	if x.write {
		return fmt.Errorf("%w: CloudStack accepted %s, but its answer can't be read: %s", rollout.ErrUnreachable, x.command, text)
	}
	return fmt.Errorf("CloudStack's answer to %s can't be read: %s", x.command, text)
}
