package notice

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Names of a webhook's headers, by the Standard Webhooks specification (standardwebhooks.com), so that its libraries verify our notices.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp" // Unix seconds of the attempt
	headerSignature = "Webhook-Signature" // "v1," and the base64 of HMAC-SHA256 over id.timestamp.body; several separated by spaces
)

// keyPrefix marks a key in base64, by the same specification; other keys are taken as they are.
const keyPrefix = "whsec_"

// shortestKey is the least length of a key, in bytes: the least that the specification allows.
const shortestKey = 24

// WebhookOptions are a webhook's settings.
type WebhookOptions struct {
	Name string
	// URL is where to POST to: https, or http on a loopback address. It is a secret because it often holds a token.
	URL Secret
	// Key signs. Its text may have several lines: each signs, so that a key can be changed without a gap.
	Key Secret
	// CAFile, if not empty, holds the PEM certificates that alone may have signed the receiver's.
	CAFile string
}

// Webhook posts notices as JSON with a signature.
type Webhook struct {
	poster

	key Secret
}

// NewWebhook returns the channel. Its error is about CAFile.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	p, err := newPoster(o.Name, o.URL, o.CAFile)
	return &Webhook{poster: p, key: o.Key}, err
}

// Send implements Channel.
func (w *Webhook) Send(ctx context.Context, id string, n Notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return &Error{Channel: w.name, Reason: err.Error()}
	}
	text, err := w.key()
	if err != nil {
		return &Error{Channel: w.name, Reason: "the key can't be read: " + err.Error()}
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	signatures, err := sign(text, id, stamp, body)
	if err != nil {
		return &Error{Channel: w.name, Reason: err.Error()}
	}
	return w.post(ctx, body, map[string]string{headerID: id, headerTimestamp: stamp, headerSignature: signatures})
}

// sign returns the signatures by each line of keys.
func sign(keys, id, stamp string, body []byte) (string, error) {
	var out []string
	for line := range strings.Lines(keys) {
		key := []byte(strings.TrimSpace(line))
		if len(key) == 0 {
			continue
		}
		if coded, is := bytes.CutPrefix(key, []byte(keyPrefix)); is {
			decoded, err := base64.StdEncoding.DecodeString(string(coded))
			if err != nil {
				return "", errors.New("the key begins with " + keyPrefix + ", and its rest is no base64")
			}
			key = decoded
		}
		if len(key) < shortestKey {
			return "", fmt.Errorf("the key is too short: expected at least %d bytes", shortestKey)
		}
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body) // a hash takes everything
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(out, " "), nil
}

// SlackOptions are the settings of a channel to Slack, or to what takes the same: Mattermost, Rocket.Chat, Discord at its /slack address.
type SlackOptions struct {
	Name   string
	URL    Secret // of the incoming webhook; whoever knows it may post
	CAFile string // as in WebhookOptions
}

// Slack posts notices as text to an incoming webhook.
type Slack struct{ poster }

// NewSlack returns the channel. Its error is about CAFile.
func NewSlack(o SlackOptions) (*Slack, error) {
	p, err := newPoster(o.Name, o.URL, o.CAFile)
	return &Slack{p}, err
}

// Send implements Channel.
func (s *Slack) Send(ctx context.Context, _ string, n Notice) error {
	body, err := json.Marshal(map[string]string{"text": slackText(n)})
	if err != nil {
		return &Error{Channel: s.name, Reason: err.Error()}
	}
	return s.post(ctx, body, nil)
}

// slackText writes a notice in Slack's markup, in which three characters are special.
func slackText(n Notice) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	text := "*" + escape(n.Title()) + "*\n" + escape(n.Text)
	if n.Next != "" {
		text += "\nNext: `" + escape(n.Next) + "`"
	}
	return text
}

// poster posts JSON to one address.
type poster struct {
	name   string
	url    Secret
	client *http.Client
}

func newPoster(name string, address Secret, caFile string) (poster, error) {
	config, err := tlsConfig(caFile)
	if err != nil {
		return poster{}, fmt.Errorf("notice by %s: %w", name, err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: 20 * time.Second, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1, ForceAttemptHTTP2: true}
	// A redirect would carry the notice, its signature and our trust to an address that nobody configured.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return poster{name: name, url: address, client: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// tlsConfig verifies certificates by the system's authorities, or by those of a file alone.
func tlsConfig(caFile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(caFile) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", caFile)
	}
	return config, nil
}

// Name implements Channel.
func (p poster) Name() string { return p.name }

func (p poster) post(ctx context.Context, body []byte, headers map[string]string) error {
	address, err := p.address()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return &Error{Channel: p.name, Reason: "the address is no URL"}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "trueup")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return &Error{Channel: p.name, Reason: reason(err)}
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // read, so that the connection can be used again
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return &Error{Channel: p.name, Reason: fmt.Sprintf("the receiver answered with status %d, expected 2xx", answer.StatusCode),
			RetryAfter: retryAfter(answer.Header.Get("Retry-After"))}
	}
	return nil
}

// address reads the URL and refuses one over which a notice would be readable on the way.
func (p poster) address() (string, error) {
	text, err := p.url()
	if err != nil {
		return "", &Error{Channel: p.name, Reason: "the address can't be read: " + err.Error()}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return "", &Error{Channel: p.name, Reason: "the address is no URL"}
	case u.Scheme == "https", u.Scheme == "http" && Loopback(u.Hostname()):
		return text, nil
	}
	return "", &Error{Channel: p.name, Reason: "the address must be https, or http on a loopback address"}
}

// Loopback tells whether the host is this machine under a name or an address that leads nowhere else.
func Loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// retryAfter reads the header's form in seconds; the other, a date, is rare and is answered by our own pause.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestAsked)
}

// reason says why a request had no answer. Only errors whose text is known to quote neither an address's path nor an answer are shown.
func reason(err error) string {
	if n, is := errors.AsType[net.Error](err); is && n.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if certificate, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return certificate.Error()
	}
	if n, is := errors.AsType[*net.OpError](err); is {
		return n.Error()
	}
	if alert, is := errors.AsType[tls.AlertError](err); is {
		return alert.Error()
	}
	return "the answer was cut, or is not what was expected"
}
