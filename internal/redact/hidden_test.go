package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/redact"
)

func TestWhatAProviderSaysIsShownWithoutWhatGivesSomethingAway(t *testing.T) {
	h := redact.Hidden{"s3cr3t-value", "v1"}
	for said, want := range map[string]string{
		"the size is none of these":                         "the size is none of these",
		"the key s3cr3t-value, at v1, is wrong":             "the key at v1, is wrong",
		"see https://docs.acme.com/x?sig=S1 , or ask":       "see , or ask",
		"api.acme.com refused, as did 10.0.0.7":             "refused, as did",
		"you sent sk-abcdefgh12345678":                      "you sent",
		strings.Repeat("long ", 60):                         strings.Repeat("long ", 39) + "long…",
		"did you mean 8? or seconds@second, 3.5 s and a.b.": "did you mean 8? or seconds@second, 3.5 s and a.b.",
	} {
		assert.Equal(t, want, h.Quote(said))
	}
	for said, want := range map[string]string{"invalid_value": "invalid_value", "messages[0].content": "messages[0].content", "s3cr3t-value": "", "two words": "",
		"api.acme.com": "", strings.Repeat("x", 81): "", "": ""} {
		assert.Equal(t, want, h.Word(said))
	}
}
