package cloudstack

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// hidden is what every printed form of a Secret shows.
const hidden = "[hidden]"

// Secret is a text that must not be printed. Every way of formatting, logging or encoding it shows "[hidden]" instead.
//
// The text is held behind a pointer because fmt does not call the methods of unexported fields: printing a struct around a
// Secret then shows an address at worst.
type Secret struct{ text *string }

// NewSecret hides the text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.text == nil || *s.text == "" }

// String hides the text.
func (s Secret) String() string { return hidden }

// GoString hides the text.
func (s Secret) GoString() string { return hidden }

// Format hides the text for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalJSON hides the text.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText hides the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// reveal returns the text, for signing and for removing it from other texts.
func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// prefixLength and prefixOf: an API key names its owner, so errors show its first characters, and only of a key long enough
// (CloudStack's own have 86) that the rest stays a secret.
const (
	prefixLength = 6
	prefixOf     = 20
)

// prefix tells API keys apart in errors without giving them away.
func (s Secret) prefix() string {
	text := s.reveal()
	if len(text) < prefixOf || strings.ContainsAny(text[:prefixLength], "\r\n\t ") {
		return hidden
	}
	return text[:prefixLength] + "…"
}
