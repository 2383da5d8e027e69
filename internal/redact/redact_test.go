package redact_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/redact"
)

// exported and unexported hold a secret the way structs of ours do; fmt asks the methods of the first only.
type (
	exported   struct{ Secret redact.Secret }
	unexported struct{ secret redact.Secret }
)

// printed is everything that printing and encoding a secret can give.
func printed(s redact.Secret) string {
	var out bytes.Buffer
	values := []any{s, &s, exported{s}, &exported{s}, unexported{s}, &unexported{s}, []redact.Secret{s},
		map[string]redact.Secret{"k": s}, map[string]any{"k": unexported{s}}, [1]any{s}}
	for _, v := range values {
		for _, verb := range "vsqxXdtbcoOUeEfgGpTw" {
			for _, flag := range []string{"", "+", "#", "8.3"} {
				fmt.Fprintf(&out, "%"+flag+string(verb)+"\n", v)
			}
		}
		fmt.Fprintln(&out, v, fmt.Sprint(v), fmt.Errorf("a cause: %v", v))
		for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			slog.New(handler).Info("record", "value", v, slog.Group("group", "value", v))
		}
		encode := json.NewEncoder(&out)
		_ = encode.Encode(v) // an encoder that refuses the value shows nothing of it either
		_ = jsonv2.MarshalWrite(&out, v)
		_ = xml.NewEncoder(&out).Encode(v)
		_ = gob.NewEncoder(&out).Encode(v)
	}
	return out.String()
}

func TestNoWayOfPrintingReveals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Letters that no verb, mask, address or number can hold by itself.
		value := rapid.StringMatching(`[G-Z]{3,40}`).Draw(t, "value")
		out := strings.ToUpper(printed(redact.NewSecret(value)))
		for i := range len(value) - 2 {
			if part := value[i : i+3]; strings.Contains(out, part) {
				// "SECRET", the names of our types and of fmt's complaints are capital letters here, too.
				if strings.Contains(strings.ToUpper(printed(redact.NewSecret("00000000000000000000"[:min(20, len(value))]))), part) {
					continue
				}
				t.Fatalf("%q of %q was printed", part, value)
			}
		}
	})
}

func TestHexadecimalFormsRevealNothing(t *testing.T) {
	const value = "sk-live-0123456789"
	out := strings.ToLower(printed(redact.NewSecret(value)))
	assert.NotContains(t, out, fmt.Sprintf("%x", value)[:12])
	assert.NotContains(t, out, fmt.Sprintf("% x", value)[:12])
	assert.NotContains(t, out, strings.TrimPrefix(fmt.Sprintf("%d", []byte(value)[:6]), "["))
}

func TestMask(t *testing.T) {
	for name, c := range map[string]struct{ value, want string }{
		"the absent secret says so":                   {"", "secret(none)"},
		"a short secret shows its length only":        {"12345678901", "secret(11)"},
		"a long secret shows its last two characters": {"sk-live-0123456789", "secret(…89, 18)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := redact.NewSecret(c.value)
			text, err := s.MarshalText()
			assert.NoError(t, err)
			encoded, err := json.Marshal(exported{s})
			assert.NoError(t, err)
			assert.Equal(t, c.want, s.String())
			assert.Equal(t, c.want, string(text))
			assert.Equal(t, c.want, s.LogValue().String())
			assert.Equal(t, c.want, fmt.Sprintf("%v", s))
			assert.Equal(t, c.want, fmt.Sprintf("%#v", s))
			assert.JSONEq(t, `{"Secret":"`+c.want+`"}`, string(encoded))
			assert.Equal(t, c.value, s.Reveal(), "the one way to the value")
			assert.Equal(t, c.value == "", s.Empty())
		})
	}
}

func TestZeroSecret(t *testing.T) {
	var s redact.Secret
	assert.True(t, s.Empty())
	assert.Empty(t, s.Reveal())
	assert.Equal(t, "secret(none)", s.String())
	assert.NotPanics(t, func() { fmt.Fprintf(io.Discard, "%v %d %p", s, s, s) })
}

func TestDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "key")
		a, b := rapid.SliceOf(rapid.Byte()).Draw(t, "a"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		d := redact.Digest(key, a)
		assert.Regexp(t, `^[0-9a-f]{16}$`, d)
		assert.Equal(t, bytes.Equal(a, b), d == redact.Digest(key, b), "equal data, and no other, have equal digests")
		assert.NotEqual(t, d, redact.Digest(append([]byte{0x55}, key...), a), "another key gives another digest")
	})
}
