package cloudstack

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// CloudStack's error codes that trueup tells apart (ApiErrorCode in its source). CloudStack sends them as HTTP status too.
const (
	codeUnauthorized = 401 // wrong key or signature, or an expired request
	codeSecondFactor = 411
	codeThrottled    = 429
	codeMalformed    = 430
	codeParameter    = 431 // also an id that does not exist
	codeUnsupported  = 432 // unknown command, or one that the account's role may not use
	codeInternal     = 530
	codeAccount      = 531 // no permission on the resource
)

// APIError is an answer that is not a success. errors.Is knows it as rollout.ErrDenied or rollout.ErrUnreachable where it is one.
type APIError struct {
	Command    string
	HTTPStatus int
	// Code, CSCode and Text are CloudStack's errorcode, cserrorcode and errortext. Code is 0 where the answer
	// was not CloudStack's, but that of a proxy or of another server.
	Code   int
	CSCode int
	Text   string
	// RetryAfter is how long the server asks to wait, 0 where it does not.
	RetryAfter time.Duration

	host        string
	contentType string
	keyPrefix   string
	skew        time.Duration // this machine's clock less CloudStack's
}

// Error says what was refused and why. It holds no secret.
func (e *APIError) Error() string {
	switch e.Code {
	case 0:
		return e.foreign()
	case codeUnauthorized:
		return fmt.Sprintf("CloudStack refused the credentials for %s (401, API key %s): wrong API key or secret key, a disabled user, or an expired request%s: %s",
			e.Command, e.keyPrefix, e.skewed(), e.Text)
	case codeUnsupported:
		return fmt.Sprintf("CloudStack refused %s (432): not permitted for this account's role, or unknown to this CloudStack version: %s", e.Command, e.Text)
	case codeAccount:
		return fmt.Sprintf("CloudStack refused %s (531): the account may not use this resource: %s", e.Command, e.Text)
	}
	return fmt.Sprintf("CloudStack answered %s with error %d: %s", e.Command, e.Code, e.Text)
}

func (e *APIError) foreign() string {
	hint := "a proxy or load balancer in front of CloudStack may have lost it"
	if e.HTTPStatus < 500 {
		hint = "check the API URL, which usually ends in /client/api"
	}
	return fmt.Sprintf("the answer of %s to %s is not CloudStack's: HTTP %d %s (%s); %s",
		e.host, e.Command, e.HTTPStatus, http.StatusText(e.HTTPStatus), e.contentType, hint)
}

// maxSkew is what may lie between two clocks without a word about it; requests live for 15 minutes.
const maxSkew = 5 * time.Minute

func (e *APIError) skewed() string {
	if e.skew.Abs() < maxSkew {
		return ""
	}
	return fmt.Sprintf(" (this machine's clock differs from CloudStack's by %s)", e.skew.Round(time.Second))
}

// Is places the answer among the errors that the runner branches on.
func (e *APIError) Is(target error) bool {
	switch target {
	case rollout.ErrDenied:
		return e.denied()
	case rollout.ErrUnreachable:
		return e.later()
	}
	return false
}

func (e *APIError) denied() bool {
	switch e.Code {
	case codeUnauthorized, http.StatusForbidden, codeSecondFactor, codeUnsupported, codeAccount:
		return true
	case 0:
		return e.HTTPStatus == http.StatusUnauthorized || e.HTTPStatus == http.StatusForbidden || e.HTTPStatus == http.StatusProxyAuthRequired
	}
	return false
}

// later: the same read may succeed another time. 530 is CloudStack's word for anything that went wrong inside.
func (e *APIError) later() bool {
	if e.Code == 0 {
		return !e.denied()
	}
	return e.Code == codeThrottled || e.Code >= 500 && e.Code <= codeInternal
}

// NoAnswerError means that no answer arrived: refused, reset, timed out, or the call's context ended.
// It is rollout.ErrUnreachable, or rollout.ErrDenied where the server's certificate is not to be trusted.
type NoAnswerError struct {
	Command string
	Host    string // scheme and host of the API
	Write   bool   // the request would have changed something: whether it did is unknown
	Cause   error

	text string // Cause's text without secrets
}

// Error says who did not answer what.
func (e *NoAnswerError) Error() string {
	if e.untrusted() {
		return fmt.Sprintf("the certificate of %s can't be verified (give the authority's certificate with a CA file): %s", e.Host, e.text)
	}
	return fmt.Sprintf("no answer of %s to %s: %s", e.Host, e.Command, e.text)
}

// Is tells the kind of error.
func (e *NoAnswerError) Is(target error) bool {
	switch target {
	case rollout.ErrDenied:
		return e.untrusted()
	case rollout.ErrUnreachable:
		return !e.untrusted()
	}
	return false
}

// Unwrap returns the cause: errors.Is finds context.Canceled and context.DeadlineExceeded in it.
func (e *NoAnswerError) Unwrap() error { return e.Cause }

func (e *NoAnswerError) untrusted() bool {
	var verification *tls.CertificateVerificationError
	return errors.As(e.Cause, &verification)
}

// judge returns nil for a success in CloudStack's own words.
func (x *exchange) judge(resp *http.Response, body []byte) error {
	said, ok := envelope(body)
	if ok && resp.StatusCode == http.StatusOK {
		return nil
	}
	e := &APIError{
		Command: x.command, HTTPStatus: resp.StatusCode, RetryAfter: retryAfter(resp, x.served),
		host: x.client.host, contentType: contentType(resp), keyPrefix: x.client.credentials.APIKey.prefix(),
	}
	if !x.served.IsZero() {
		e.skew = x.client.now().Sub(x.served)
	}
	if ok {
		e.Code, e.CSCode, e.Text = said.Code, said.CSCode, x.client.redact.clean(said.Text)
	}
	return e
}

// failure is what CloudStack says in place of a result.
type failure struct {
	Code   int    `json:"errorcode"`
	CSCode int    `json:"cserrorcode"`
	Text   string `json:"errortext"`
}

// envelope opens CloudStack's envelope, a JSON object with one object in it. Nothing else is an answer of CloudStack.
func envelope(body []byte) (failure, bool) {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil || len(outer) != 1 {
		return failure{}, false
	}
	for _, inner := range outer {
		var f failure
		return f, json.Unmarshal(inner, &f) == nil
	}
	return failure{}, false
}

// contentType names the kind of answer without quoting from it.
func contentType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return "no content type"
	}
	return kind
}
