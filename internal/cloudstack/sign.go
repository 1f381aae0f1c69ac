package cloudstack

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the API's signature version 3 is HMAC-SHA1
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
)

// resign returns the POST request, which the SDK has signed, with another expiry and a new signature.
//
// The SDK lets every request live for 15 minutes by the clock of this machine. A request whose reply was lost may then be
// accepted up to 15 minutes later, so nobody could say soon that it is safe to send it again.
func resign(req *http.Request, secret Secret, expires time.Time) (*http.Request, error) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request's form: %w", err)
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, fmt.Errorf("parse the request's form: malformed")
	}
	form.Set("expires", expires.UTC().Format(time.RFC3339))
	form.Set("signature", signature(form, secret))
	body := form.Encode()
	req.Body = io.NopCloser(strings.NewReader(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	req.ContentLength = int64(len(body))
	return req, nil
}

// signature signs all parameters but a signature: HMAC-SHA1 over the sorted, encoded and lower-cased parameters, in base64.
func signature(form url.Values, secret Secret) string {
	form.Del("signature")
	mac := hmac.New(sha1.New, []byte(secret.reveal()))
	mac.Write([]byte(strings.ToLower(sdk.EncodeValues(form))))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
