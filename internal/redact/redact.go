// Package redact keeps secrets out of everything that can be printed. A Secret shows its kind, a short hint and its
// length, never itself; a Digest lets two records be compared without showing what they hold.
package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// Secret is a value that must not be printed. Every way of formatting or encoding it gives its mask. The zero value is
// the absent secret.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal is the value itself, for the one place that sends it.
func (s Secret) Reveal() string { return s.value }

// Empty reports whether there is no secret.
func (s Secret) Empty() bool { return s.value == "" }

// String is the mask: at most the last two characters, and the length.
func (s Secret) String() string {
	switch n := len(s.value); {
	case n == 0:
		return "secret(none)"
	case n < 12:
		return fmt.Sprintf("secret(%d)", n)
	default:
		return fmt.Sprintf("secret(…%s, %d)", s.value[n-2:], n)
	}
}

// GoString is the mask, so that %#v does not reveal the value.
func (s Secret) GoString() string { return s.String() }

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
