package standin

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // CloudStack's signatures are HMAC-SHA1
	"encoding/base64"
	"net/url"
	"sort"
	"strings"
	"time"
)

// Sign returns the signature of the parameters: each value percent-encoded, sorted by name, joined, lower-cased, and
// HMAC-SHA1 with the secret key.
func Sign(params map[string]string, secretKey string) string {
	names := make([]string, 0, len(params))
	for name := range params {
		if !strings.EqualFold(name, "signature") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	pairs := make([]string, 0, len(names))
	for _, name := range names {
		pairs = append(pairs, name+"="+javaEncode(params[name]))
	}
	mac := hmac.New(sha1.New, []byte(secretKey))
	mac.Write([]byte(strings.ToLower(strings.Join(pairs, "&"))))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// javaEncode percent-encodes as the server does: Java's URLEncoder with %20 for a space.
func javaEncode(s string) string {
	return strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E").Replace(url.QueryEscape(s))
}

// verify checks the key, the signature and the expiry of a call. raw holds the parameters as they were sent.
func (m *Model) verify(account *Account, raw map[string]string) *APIError {
	if account == nil || !m.fresh(fold(raw)) {
		return errUnauthorized()
	}
	sent := fold(raw)["signature"]
	if !hmac.Equal([]byte(Sign(raw, account.SecretKey)), []byte(sent)) {
		return errUnauthorized()
	}
	return nil
}

// fresh reports whether the call has not expired. Only version 3 carries an expiry; without it a call passes when
// POST and time stamps are not enforced.
func (m *Model) fresh(params map[string]string) bool {
	if params["signatureversion"] != "3" {
		return !m.settingBool(SettingEnforcePost, "")
	}
	expires, err := parseExpires(params["expires"])
	return err == nil && m.now().Before(expires)
}

func parseExpires(s string) (time.Time, error) {
	if t, err := time.Parse("2006-01-02T15:04:05-0700", s); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, s)
}

// fold lower-cases the names of parameters, which CloudStack doesn't distinguish.
func fold(raw map[string]string) map[string]string {
	out := make(map[string]string, len(raw))
	for name, value := range raw {
		out[strings.ToLower(name)] = value
	}
	return out
}

func (m *Model) accountByKey(key string) *Account {
	if key == "" {
		return nil
	}
	return find(m.accounts, key, func(a *Account) string { return a.APIKey })
}
