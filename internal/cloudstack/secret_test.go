package cloudstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	const text = "h1dden-canary-text-of-a-key"
	s := NewSecret(text)
	around := struct {
		Public  Secret
		private Secret
		Creds   *Credentials
	}{s, s, &Credentials{APIKey: s, SecretKey: s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", s, &s, around)
	}
	fmt.Fprintln(&out, s.String(), s.GoString(), s, around, *around.Creds)
	for _, value := range []any{s, around, map[string]Secret{"k": s}} {
		if err := json.NewEncoder(&out).Encode(value); err != nil {
			t.Fatal(err)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("login", "secret", s, "around", around, slog.Group("g", "s", &s))
	}
	if printed := out.String(); strings.Contains(printed, text) || strings.Contains(printed, fmt.Sprintf("%x", text)) || strings.Contains(printed, fmt.Sprintf("%X", text)) {
		t.Errorf("the secret was printed:\n%s", printed)
	}
	if s.reveal() != text || s.IsZero() || !(Secret{}).IsZero() || !NewSecret("").IsZero() {
		t.Error("the secret is lost")
	}
}

func TestPrefixOfAKey(t *testing.T) {
	for text, want := range map[string]string{
		"":                            hidden,
		"short":                       hidden,
		"abcdefghijklmnopqrs":         hidden, // 19: so short that its beginning says too much
		"abcdefghijklmnopqrstuvwxyz":  "abcdef…",
		"ab\ndefghijklmnopqrstuvwxyz": hidden,
	} {
		if got := NewSecret(text).prefix(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
