package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/usage"
)

// noOverrides is an overrides.json that changes nothing.
const noOverrides = `{"date": "2026-11-30"}`

func TestGenerate(t *testing.T) {
	for name, tc := range map[string]struct{ source, overrides, want string }{
		"a model": {
			source: `[{"id":"openai","models":[{"id":"a","match":{"equals":"a"},"prices":{"output_mtok":10,"input_mtok":2}}]}]`,
			want:   "openai/a\tin 2 out 10\n"},
		"amounts have six digits after the point at most": {
			source: `[{"id":"openai","models":[{"id":"a","prices":{"input_mtok":0.08333333333333334,"output_mtok":0.003625,"cache_read_mtok":5e-5}}]}]`,
			want:   "openai/a\tin 0.083333 out 0.003625 read 0.00005\n"},
		"exact names of the tree, not its beginnings": {
			source: `[{"id":"openai","models":[{"id":"a","match":{"or":[{"equals":"a"},{"equals":"a-2"},{"starts_with":"a-"},{"contains":"b"},{"regex":"^c$"},{"and":[{"equals":"d"}]},{"or":[{"equals":"e"}]}]},"prices":{"input_mtok":2}}]}]`,
			want:   "openai/a\tin 2\nopenai/a-2\t=a\nopenai/e\t=a\n"},
		"a name that is the id of another model": {
			source: `[{"id":"openai","models":[{"id":"a","match":{"equals":"b"},"prices":{"input_mtok":2}},{"id":"b","prices":{"input_mtok":3}}]}]`,
			want:   "openai/a\tin 2\nopenai/b\tin 3\n"},
		"tiers of several units": {
			source: `[{"id":"openai","models":[{"id":"a","prices":{"input_mtok":{"base":1,"tiers":[{"start":10,"price":2},{"start":20,"price":3}]},"output_mtok":{"base":4,"tiers":[{"start":20,"price":5}]}}}]}]`,
			want:   "openai/a\tin 1 out 4; over 10 in 2; over 20 in 3 out 5\n"},
		"periods": {
			source: `[{"id":"deepseek","models":[{"id":"a","prices":[{"prices":{"input_mtok":1}},{"constraint":{"type":"start_date","start_date":"2027-01-01"},"prices":{"input_mtok":{"base":2,"tiers":[{"start":10,"price":3}]}}},{"constraint":{"type":"time_of_date","start_time":"00:30:00Z","end_time":"16:30:00Z"},"prices":{"input_mtok":4}}]}]}]`,
			want:   "deepseek/a\tin 1; from 2027-01-01 in 2; over 10 in 3; daily 00:30-16:30 in 4\n"},
		"a model without a price that the table holds": {
			source: `[{"id":"mistral","models":[{"id":"free","prices":{}},{"id":"ocr","prices":{"input_document_kpages":1}},{"id":"a","prices":{"input_mtok":0}}]}]`,
			want:   "mistral/a\tin 0\n"},
		"a provider that the gateway does not speak to": {
			source: `[{"id":"elsewhere","models":[{"id":"a","prices":{"input_mtok":1}}]}]`,
			want:   ""},
		"providers to ask instead, as far as they are wanted": {
			source: `[{"id":"azure","models":[],"fallback_model_providers":["openai","moonshotai"]},{"id":"openai","models":[{"id":"a","prices":{"input_mtok":1}}]}]`,
			want:   "azure/\t=openai\nopenai/a\tin 1\n"},
		"OpenRouter's ids of known vendors": {
			source: `[{"id":"openrouter","models":[{"id":"gpt-4","prices":{"input_mtok":1}},{"id":"openai/gpt-4:free","prices":{"input_mtok":1}},{"id":"nobody/m","prices":{"input_mtok":1}},{"id":"openai/gpt-4","match":{"or":[{"equals":"gpt-4-0314"},{"equals":"openai/gpt-4-0314"}]},"prices":{"input_mtok":2}}]}]`,
			want:   "openrouter/openai/gpt-4\tin 2\nopenrouter/openai/gpt-4-0314\t=openai/gpt-4\n"},
		"Bedrock's profiles in the regions of the tree": {
			source: `[{"id":"aws","models":[{"id":"regional.anthropic.claude-x-1-v1:0","match":{"or":[{"starts_with":"anthropic.claude-x-1"},{"starts_with":"claude-x-1"},{"contains":"us-gov.anthropic.claude-x-1"},{"equals":"eu.anthropic.claude-x-1-v1"}]},"prices":{"input_mtok":1.1}},{"id":"global.anthropic.claude-x-1-v1:0","match":{"contains":"global.anthropic.claude-x-1"},"prices":{"input_mtok":1}},{"id":"amazon.titan-v1","match":{"contains":"titan"},"prices":{"input_mtok":3}},{"id":"regional.openai.gpt-5.6-x","match":{"or":[{"starts_with":"openai.gpt-5.6-x"},{"contains":"us.openai.gpt-5.6-x"}]},"prices":{"input_mtok":4}}]}]`,
			want: "aws/amazon.titan-v1\tin 3\naws/anthropic.claude-x-1\tin 1.1\naws/eu.anthropic.claude-x-1\t=anthropic.claude-x-1\n" +
				"aws/global.anthropic.claude-x-1\tin 1\naws/openai.gpt-5.6-x\tin 4\naws/us-gov.anthropic.claude-x-1\t=anthropic.claude-x-1\n" +
				"aws/us.openai.gpt-5.6-x\t=openai.gpt-5.6-x\n"},
		"overrides add, replace and rename": {
			source:    `[{"id":"openai","models":[{"id":"a","prices":{"input_mtok":1}}]}]`,
			overrides: `{"date":"2026-11-30","providers":[{"provider":"other","same_as":["openai"],"source":"s"},{"provider":"sim","prices":{"input_mtok":5},"source":"s"}],"models":[{"provider":"openai","model":"a","prices":{"input_mtok":2},"source":"s"},{"provider":"openai","model":"b","prices":{"input_mtok":3},"source":"s"}]}`,
			want:      "openai/a\tin 2\nopenai/b\tin 3\nother/\t=openai\nsim/\tin 5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.overrides == "" {
				tc.overrides = noOverrides
			}
			text, err := generate(decode(t, tc.source), []byte(tc.overrides), "A licence.\n\nTwo paragraphs.")
			require.NoError(t, err)
			_, body, _ := strings.Cut(text, "# Two paragraphs.\n")
			assert.Equal(t, tc.want, body)
			_, err = usage.Parse(text)
			assert.NoError(t, err)
		})
	}
}

func TestGenerateRefuses(t *testing.T) {
	const openai = `[{"id":"openai","models":[{"id":"a","prices":%s}]}]`
	for name, tc := range map[string]struct{ source, overrides, want string }{
		"a constraint that it does not know":    {fmt.Sprintf(openai, `[{"prices":{"input_mtok":1}},{"constraint":{"type":"moon"},"prices":{"input_mtok":2}}]`), noOverrides, `"moon"`},
		"a first period that is constrained":    {fmt.Sprintf(openai, `[{"constraint":{"type":"start_date","start_date":"2026-01-01"},"prices":{"input_mtok":1}}]`), noOverrides, "period 0"},
		"a second period that always holds":     {fmt.Sprintf(openai, `[{"prices":{"input_mtok":1}},{"prices":{"input_mtok":2}}]`), noOverrides, "period 1"},
		"a negative price":                      {fmt.Sprintf(openai, `{"input_mtok":-1}`), noOverrides, `"-1"`},
		"an override without a source":          {`[]`, `{"models":[{"provider":"openai","model":"a","prices":{"input_mtok":1}}]}`, "openai/a names no source"},
		"an override without a price":           {`[]`, `{"models":[{"provider":"openai","model":"a","source":"s"}]}`, "openai/a needs"},
		"an override with two meanings":         {`[]`, `{"providers":[{"provider":"x","prices":{"input_mtok":1},"same_as":["openai"],"source":"s"}]}`, "x/ needs"},
		"an override with an unknown member":    {`[]`, `{"models":[{"provider":"openai","name":"a"}]}`, `"name"`},
		"an override with a price that is text": {`[]`, `{"models":[{"provider":"openai","model":"a","prices":[{"prices":{"input_mtok":"x"}}],"source":"s"}]}`, "overrides.json"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := generate(decode(t, tc.source), []byte(tc.overrides), "")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// The committed table is the one that the committed overrides make: nobody has edited one without the other.
func TestTableHasTheOverrides(t *testing.T) {
	text, err := os.ReadFile("../../" + table)
	require.NoError(t, err)
	committed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, list, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		committed[key] = list
	}
	want := map[string]string{}
	date, err := applyOverrides(want, overrides)
	require.NoError(t, err)
	for key, list := range want {
		assert.Equal(t, list, committed[key], key)
	}
	for _, line := range []string{"# overrides: " + date, "# source-sha256: " + sourceSHA256, "# source: npm " + sourceName + " " + sourceVersion} {
		assert.Contains(t, string(text), line)
	}
}

func TestHeaderNamesItsLines(t *testing.T) {
	const body = "a/b\tin 1\n"
	head := header(body, "2026-11-30", "Licence\n\nText\n")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	assert.Contains(t, head, "# body-sha256: "+sum+"\n")
	assert.Contains(t, head, "# version: genai-prices-"+sourceVersion+"+"+sum[:8]+"\n")
	for line := range strings.Lines(head) {
		assert.True(t, strings.HasPrefix(line, "#"), line)
		assert.Equal(t, strings.TrimRight(line, " \n")+"\n", line)
	}
	assert.True(t, strings.HasSuffix(head, "# Licence\n#\n# Text\n"), head)
}

func decode(t *testing.T, source string) []provider {
	t.Helper()
	var out []provider
	require.NoError(t, json.Unmarshal([]byte(source), &out))
	return out
}
