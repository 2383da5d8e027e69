// Package redact keeps secrets out of everything that can be printed. A Secret shows its kind, a short hint and its
// length, never itself; a Digest lets two records be compared without showing what they hold.
package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// Secret is a value that must not be printed. Every way of formatting or encoding it gives its mask; inside an unexported
// field, where package fmt asks no method, it gives an address. The zero value is the absent secret. Two secrets are not
// to be compared with ==.
type Secret struct{ value *string } // a pointer, since fmt prints what it points to for no verb

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal is the value itself, for the one place that sends it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Empty reports whether there is no secret.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// String is the mask: at most the last two characters, and the length.
func (s Secret) String() string {
	value := s.Reveal()
	switch n := len(value); {
	case n == 0:
		return "secret(none)"
	case n < 12:
		return fmt.Sprintf("secret(%d)", n)
	default:
		return fmt.Sprintf("secret(…%s, %d)", value[n-2:], n)
	}
}

// Format writes the mask whatever the verb is.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText is the mask, so that encoders do not reveal the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Digest is a keyed digest of data, 16 hexadecimal digits long: equal data give equal digests under one key, and the
// data cannot be had back or guessed without the key.
func Digest(key, data []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil)[:8])
}
