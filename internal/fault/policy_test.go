package fault_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
)

// TestRules is the table of policy.md §3, written down a second time.
func TestRules(t *testing.T) {
	const (
		limited     = fault.ProviderRateLimited
		unavailable = fault.ProviderUnavailable
		timeout     = fault.ProviderTimeout
		failed      = fault.ProviderError
	)
	want := map[fault.Class]fault.Rule{
		fault.RateLimited:          {Action: fault.Retry, Weight: 0.5, Code: limited, Hold: fault.Throttle, Retryable: true},
		fault.Overloaded:           {Action: fault.Retry, Weight: 1, Code: unavailable, Retryable: true},
		fault.ServerError:          {Action: fault.Retry, Weight: 1, Code: unavailable, Retryable: true},
		fault.Network:              {Action: fault.Retry, Weight: 1, Code: unavailable, Retryable: true},
		fault.Timeout:              {Action: fault.Retry, Weight: 1, Code: timeout, Retryable: true},
		fault.Conflict:             {Action: fault.Retry, Code: unavailable, Retryable: true},
		fault.TooEarly:             {Action: fault.Retry, Code: unavailable, Retryable: true},
		fault.BadResponse:          {Action: fault.Retry, Weight: 1, Code: failed, Retryable: true},
		fault.ContractViolation:    {Action: fault.Regenerate, Code: failed},
		fault.GenerationFailed:     {Action: fault.Fail, Code: failed},
		fault.Auth:                 {Action: fault.NextCredential, Code: failed, Hold: fault.Remember, HoldFor: 5 * time.Minute, Alert: true},
		fault.Quota:                {Action: fault.NextCredential, Code: failed, Hold: fault.Remember, HoldFor: time.Hour, Alert: true},
		fault.ModelUnavailable:     {Action: fault.Fail, Code: failed, Hold: fault.Remember, HoldFor: 5 * time.Minute, Alert: true},
		fault.ContextLength:        {Action: fault.Larger, Code: failed},
		fault.RequestExceedsLimit:  {Action: fault.Fallback, Code: limited},
		fault.ContentPolicy:        {Action: fault.Fail, Code: failed},
		fault.UnsupportedParameter: {Action: fault.Fail, Code: failed},
		fault.InvalidRequest:       {Action: fault.Fail, Code: failed},
		fault.Cancelled:            {Action: fault.Stop, Code: fault.ClientClosed},
		fault.Deadline:             {Action: fault.Stop, Code: timeout, Retryable: true},
		fault.Unknown:              {Action: fault.Fail, Weight: 0.5, Code: failed, Alert: true},
	}
	p := fault.Default()
	require.Len(t, fault.ClassNames(), len(want), "the set of classes is closed")
	for class, rule := range want {
		got := p.Rule(class)
		assert.True(t, class.Known())
		assert.NotEmpty(t, got.Remedy, "an operator must be told what to do about %s", class)
		rule.Class, rule.Remedy = class, got.Remedy
		assert.Equal(t, rule, got)
	}
	assert.False(t, fault.Class("flaky").Known())
}

// TestStatusOfClasses is the status that a chain ending in a class gives the client (policy.md §3, contract.md §2).
func TestStatusOfClasses(t *testing.T) {
	for status, classes := range map[int][]fault.Class{
		429: {fault.RateLimited, fault.RequestExceedsLimit},
		499: {fault.Cancelled},
		502: {fault.Auth, fault.Quota, fault.ModelUnavailable, fault.InvalidRequest, fault.UnsupportedParameter, fault.ContentPolicy,
			fault.ContextLength, fault.GenerationFailed, fault.ContractViolation, fault.BadResponse, fault.Unknown},
		503: {fault.Overloaded, fault.ServerError, fault.Network, fault.Conflict, fault.TooEarly},
		504: {fault.Timeout, fault.Deadline},
	} {
		for _, class := range classes {
			assert.Equal(t, status, fault.Default().Rule(class).Code.Status(), "class %s", class)
		}
	}
}

// TestWhoIsToBlame is B16: what three failures in a row weigh. A circuit opens at three.
func TestWhoIsToBlame(t *testing.T) {
	p := fault.Default()
	for name, c := range map[string]struct {
		failure fault.Observation
		opens   bool
		alert   bool
		hold    fault.HoldKind
	}{
		"404 model_not_found":                {fault.Observation{Status: 404, Code: "model_not_found"}, false, true, fault.Remember},
		"400 of the caller":                  {fault.Observation{Status: 400, Type: "invalid_request_error"}, false, false, ""},
		"cancelled by the client":            {fault.Observation{Local: fault.Left}, false, false, ""},
		"our own deadline":                   {fault.Observation{Local: fault.OutOfTime, Sent: true}, false, false, ""},
		"429 with a hint":                    {fault.Observation{Status: 429, Hint: fault.Hint{Known: true, Wait: 5 * time.Second}}, false, false, fault.Throttle},
		"401":                                {fault.Observation{Status: 401}, false, true, fault.Remember},
		"500":                                {fault.Observation{Status: 500}, true, false, ""},
		"a stream cut before its terminal":   {fault.Observation{Local: fault.Broken, Sent: true, Phase: fault.PhasePostContent}, true, false, ""},
		"200 without choices":                {fault.Observation{Local: fault.NoAnswer, Status: 200, InStream: true}, true, false, ""},
		"silence":                            {fault.Observation{Local: fault.Silent, Sent: true}, true, false, ""},
		"an answer that breaks the contract": {fault.Observation{Local: fault.Breach, Status: 200}, false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rule := p.Rule(p.Classify(c.failure).Class)
			assert.Equal(t, c.opens, 3*rule.Weight >= 3)
			assert.Equal(t, c.alert, rule.Alert)
			assert.Equal(t, c.hold, rule.Hold)
		})
	}
}

func TestEmbeddedTableLoads(t *testing.T) {
	p, err := fault.ParsePolicy(fault.PolicyTable())
	require.NoError(t, err)
	assert.NotEmpty(t, p.Version)
	assert.Equal(t, p.Version, fault.Default().Version)
	assert.Same(t, fault.Default(), fault.Default(), "it is loaded once")
}

// TestBrokenTables changes the embedded table in one place each.
func TestBrokenTables(t *testing.T) {
	type table = map[string]any
	class := func(tb table, name string) table {
		for _, row := range tb["classes"].([]any) {
			if row := row.(table); row["class"] == name {
				return row
			}
		}
		panic("no class " + name)
	}
	add := func(tb table, list string, rows ...any) { tb[list] = append(tb[list].([]any), rows...) }
	source := "https://example.com"
	for name, c := range map[string]struct {
		change func(table)
		want   []string
	}{
		"no version":          {func(tb table) { tb["version"] = "" }, []string{"version is missing"}},
		"a member too many":   {func(tb table) { tb["note"] = "x" }, []string{`unknown object member name "note"`}},
		"a misspelled member": {func(tb table) { class(tb, "auth")["holdfor"] = "1m" }, []string{`unknown object member name "holdfor"`}},
		"a class that is none": {func(tb table) { class(tb, "auth")["class"] = "auht" }, []string{
			`class "auht" is not one of ours`, "class auth has no row"}},
		"a class twice":           {func(tb table) { add(tb, "classes", class(tb, "quota")) }, []string{"class quota has two rows"}},
		"an action that is none":  {func(tb table) { class(tb, "auth")["action"] = "pray" }, []string{`class auth: action "pray" is not one of ours`}},
		"a code that is none":     {func(tb table) { class(tb, "auth")["code"] = "oops" }, []string{`class auth: code "oops" is not one of ours`}},
		"a weight that is none":   {func(tb table) { class(tb, "auth")["weight"] = 2 }, []string{"class auth: weight 2 is not one of: 0, 0.5, 1"}},
		"a negative weight":       {func(tb table) { class(tb, "auth")["weight"] = -1 }, []string{"class auth: weight -1 is not one of: 0, 0.5, 1"}},
		"a hold that is none":     {func(tb table) { class(tb, "rate_limited")["hold"] = "grudge" }, []string{`class rate_limited: hold "grudge" is not one of`}},
		"a hold without its time": {func(tb table) { delete(class(tb, "quota"), "hold_for") }, []string{"class quota: hold remember and hold_for go together"}},
		"a time without a hold":   {func(tb table) { class(tb, "unknown")["hold_for"] = "1m" }, []string{"class unknown: hold remember and hold_for go together"}},
		"a time that is none":     {func(tb table) { class(tb, "quota")["hold_for"] = "1 hour" }, []string{`class quota: hold_for: "1 hour" is no duration above 0`}},
		"a negative time":         {func(tb table) { class(tb, "quota")["hold_for"] = "-1h" }, []string{`class quota: hold_for: "-1h" is no duration above 0`}},
		"no remedy":               {func(tb table) { class(tb, "quota")["remedy"] = "" }, []string{"class quota: remedy is missing"}},
		"words of a class that is none": {func(tb table) {
			add(tb, "codes", table{"class": "nope", "words": []any{"w"}, "source": source, "date": "2026-11-30"})
		}, []string{`codes [w]: class "nope" is not one of ours`}},
		"words without a source": {func(tb table) {
			add(tb, "codes", table{"class": "auth", "words": []any{"w"}, "date": "2026-11-30"})
		}, []string{"codes [w]: a provider fact needs its source and date"}},
		"words without a date": {func(tb table) {
			add(tb, "codes", table{"class": "auth", "words": []any{"w"}, "source": source})
		}, []string{"codes [w]: a provider fact needs its source and date"}},
		"no words": {func(tb table) {
			add(tb, "codes", table{"class": "auth", "words": []any{}, "source": source, "date": "2026-11-30"})
		}, []string{"codes of auth: there are no words"}},
		"an empty word": {func(tb table) {
			add(tb, "codes", table{"class": "auth", "words": []any{""}, "source": source, "date": "2026-11-30"})
		}, []string{"codes of auth: a word is empty"}},
		"a word in two rows": {func(tb table) {
			add(tb, "codes", table{"class": "auth", "words": []any{"slow_down"}, "source": source, "date": "2026-11-30"})
		}, []string{`code "slow_down" stands in two rows`}},
		"a sentence of nobody about nothing": {func(tb table) {
			add(tb, "sentences", table{"within": "auht", "class": "nope", "sentence": "^x"})
		}, []string{`sentence "^x": class "auht" is not one of ours`, `sentence "^x": class "nope" is not one of ours`,
			`sentence "^x": it needs its provider`, `sentence "^x": a provider fact needs its source and date`}},
		"a row of nobody about nothing": {func(tb table) {
			add(tb, "rows", table{"class": "nope"})
		}, []string{`class "nope" is not one of ours`, "it names neither a status nor a word", "it needs its provider", "needs its source and date"}},
		"a row of a stranger": {func(tb table) {
			add(tb, "rows", table{"provider": "opnai", "code": []any{"x"}, "class": "auth", "source": source, "date": "2026-11-30"})
		}, []string{`row of opnai to auth: provider "opnai" is not a vendor`}},
		"a row of a success": {func(tb table) {
			add(tb, "rows", table{"provider": "openai", "status": []any{200}, "class": "auth", "source": source, "date": "2026-11-30"})
		}, []string{"row of openai to auth: status 200 is not from 300 to 599"}},
		"a row with an empty word": {func(tb table) {
			add(tb, "rows", table{"provider": "openai", "type": []any{""}, "class": "auth", "source": source, "date": "2026-11-30"})
		}, []string{"row of openai to auth: a word is empty"}},
		"a sentence of a stranger": {func(tb table) {
			add(tb, "sentences", table{"provider": "opnai", "within": "auth", "class": "quota", "sentence": "^x", "source": source, "date": "2026-11-30"})
		}, []string{`sentence "^x": provider "opnai" is not a vendor`}},
		"a sentence that has a refusal retried": {func(tb table) {
			add(tb, "sentences", table{"provider": "openai", "within": "invalid_request", "class": "rate_limited", "sentence": "^x", "source": source, "date": "2026-11-30"})
		}, []string{"a text must not make invalid_request, which fails fast, a rate_limited, which is retried"}},
		"a sentence that is no expression": {func(tb table) {
			add(tb, "sentences", table{"provider": "openai", "within": "auth", "class": "quota", "sentence": "(", "source": source, "date": "2026-11-30"})
		}, []string{`sentence "(": is no regular expression`}},
		"a sentence that matches everything": {func(tb table) {
			add(tb, "sentences", table{"provider": "openai", "within": "auth", "class": "quota", "sentence": "", "source": source, "date": "2026-11-30"})
		}, []string{`sentence "": is no regular expression`}},
		"a sentence with one number": {func(tb table) {
			add(tb, "sentences", table{"provider": "openai", "within": "auth", "class": "quota", "sentence": `(\d+)`, "source": source, "date": "2026-11-30"})
		}, []string{"has 1 groups, and not none or two"}},
		"a status of a class that is none": {func(tb table) {
			add(tb, "statuses", table{"from": 418, "to": 418, "class": "teapot"})
		}, []string{`statuses 418 to 418: class "teapot" is not one of ours`}},
		"a range that runs backwards": {func(tb table) {
			add(tb, "statuses", table{"from": 420, "to": 419, "class": "auth"})
		}, []string{"statuses 420 to 419: is no range from 300 to 599"}},
		"a range beyond the statuses": {func(tb table) {
			add(tb, "statuses", table{"from": 590, "to": 1000000000, "class": "auth"})
		}, []string{"statuses 590 to 1000000000: is no range from 300 to 599"}},
		"a success that is a failure": {func(tb table) {
			add(tb, "statuses", table{"from": 200, "to": 200, "class": "auth"})
		}, []string{"statuses 200 to 200: is no range from 300 to 599"}},
		"a status twice": {func(tb table) {
			add(tb, "statuses", table{"from": 429, "to": 429, "class": "quota"})
		}, []string{"statuses 429 to 429: hides 429 to 429, which stands before it"}},
		"a wide range after a narrow one": {func(tb table) {
			add(tb, "statuses", table{"from": 400, "to": 450, "class": "quota"})
		}, []string{"statuses 400 to 450: hides 401 to 401, which stands before it"}},
		"all problems at once": {func(tb table) {
			tb["version"] = ""
			class(tb, "auth")["action"] = "pray"
			class(tb, "quota")["weight"] = 7
			add(tb, "statuses", table{"from": 418, "to": 418, "class": "teapot"})
		}, []string{"version is missing", `action "pray"`, "weight 7", `class "teapot"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var tb table
			require.NoError(t, json.Unmarshal(fault.PolicyTable(), &tb))
			c.change(tb)
			data, err := json.Marshal(tb)
			require.NoError(t, err)
			p, err := fault.ParsePolicy(data)
			require.Error(t, err)
			assert.Nil(t, p)
			problems := strings.Split(err.Error(), "\n")
			assert.Len(t, problems, len(c.want), "only these: %s", err)
			for _, want := range c.want {
				assert.Contains(t, err.Error(), want)
			}
		})
	}
}

func TestTablesThatCannotBeDecoded(t *testing.T) {
	for name, data := range map[string]string{
		"nothing":                   "",
		"no object":                 "[]",
		"something after the end":   string(fault.PolicyTable()) + "{}",
		"a member twice":            strings.Replace(string(fault.PolicyTable()), `"version"`, `"version":"x","version"`, 1),
		"a member in another case":  strings.Replace(string(fault.PolicyTable()), `"version"`, `"Version"`, 1),
		"a weight that is a string": strings.Replace(string(fault.PolicyTable()), `"weight": 1,`, `"weight": "1",`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fault.ParsePolicy([]byte(data))
			assert.ErrorContains(t, err, "decoding the policy table")
		})
	}
}
