package catalog_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/catalog/source"
	"spillway/internal/chat"
	"spillway/internal/fault"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	return data
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// TestBustedConfigurations: each file of testdata has one defect, and its one problem says where it is and what to do.
func TestBustedConfigurations(t *testing.T) {
	want := map[string]string{
		"busted_cut":          "is no JSON: line 39: unexpected EOF",
		"busted_more":         "is no JSON: something follows its end",
		"busted_member_twice": "version: stands twice",

		"busted_version_missing": "version: is required",
		"busted_member_unknown":  `channel: is not a member that is known here (did you mean "channels"?)`,
		"busted_member_misspelt": `channels[0].crednetials: is not a member that is known here (did you mean "credentials"?)`,
		"busted_type":            "channels[0].models: must be a list, not a text",

		"busted_provider_unnamed":           "providers[0].name: is required",
		"busted_provider_slash":             "providers[1].name: a name has no slash",
		"busted_provider_twice":             `providers[1].name: "openai" stands twice`,
		"busted_provider_kind":              `providers[0].kind: "opena" is not one of: anthropic, elevenlabs, fal, gemini, openai, veo (did you mean "openai"?)`,
		"busted_provider_vendor":            `providers[0].vendor: "opnai" is not one of`,
		"busted_provider_no_address":        "providers[0].base_url: is required",
		"busted_provider_address":           "providers[0].base_url: is no http or https address",
		"busted_provider_address_reference": "providers[0].base_url: is no http or https address",
		"busted_provider_address_user":      "providers[0].base_url: ends with its path: a key belongs to a credential",
		"busted_provider_address_query":     "providers[0].base_url: ends with its path",

		"busted_channel_provider":        `channels[1].provider: "opnai" is not a provider (did you mean "openai"?)`,
		"busted_channel_no_models":       "channels[1].models: at least one is required",
		"busted_channel_empty_model":     "channels[0].models[2]: is empty",
		"busted_channel_name_for_two":    "channels[0].name: cannot name 2 channels",
		"busted_channel_twice":           `channels[0].models[2]: the channel "openai/gpt-a" stands twice: give one a name`,
		"busted_channel_name_twice":      `channels[2].models[0]: the channel "third" stands twice: give one a name`,
		"busted_channel_feature":         `channels[0].cannot[0]: "image" is not a feature (did you mean "images"?)`,
		"busted_channel_output_field":    `channels[0].output_field: "max_output_tokens" is not one of: max_tokens, max_completion_tokens`,
		"busted_channel_upstream_stream": `channels[0].upstream_stream: "never" is not one of: always, as_client`,
		"busted_channel_negative":        "channels[0].first_content_ms: -1 is not from 0 to",
		"busted_channel_weight":          "channels[0].weight: 0 must be above 0",
		"busted_channel_no_credentials":  "channels[0].credentials: at least one is required",

		"busted_credential_no_alias":      "channels[0].credentials[0].alias: is required",
		"busted_credential_alias_twice":   `channels[0].credentials[1].alias: "main" stands twice`,
		"busted_credential_secret_itself": "channels[0].credentials[0].secret: must be a reference such as env:NAME, never the secret itself",
		"busted_credential_reference":     "channels[0].credentials[0].secret: must be a reference such as env:NAME, never the secret itself",
		"busted_credential_weight":        "channels[0].credentials[0].weight: -1 must be above 0",
		"busted_credential_owner":         `channels[0].credentials[0].organization: "acne" is not an organization (did you mean "acme"?)`,

		"busted_model_auto":  `channels[0].models[2]: "auto" cannot be a model id`,
		"busted_model_clash": `channels[2].models[0]: "openai/gpt-a" is a model id and also a provider/model: a name can mean only one thing`,

		"busted_route_alias_missing":           "routes[0].alias: is required",
		"busted_route_alias_auto":              `routes[1].alias: "auto" cannot be an alias`,
		"busted_route_alias_star":              `routes[1].alias: "*" cannot be an alias`,
		"busted_route_alias_twice":             `routes[1].alias: "support-v1" stands twice`,
		"busted_route_alias_is_model":          `routes[1].alias: "gpt-a" is a model id too: a name can mean only one thing`,
		"busted_route_alias_is_provider_model": `routes[1].alias: "openai/gpt-a" is a model id too: a name can mean only one thing`,
		"busted_route_no_models":               "routes[1].models: at least one is required",
		"busted_route_model":                   `routes[0].models[0]: no channel serves "gpt-aa" (did you mean "gpt-a"?)`,
		"busted_route_of_a_route":              `routes[1].models[0]: no channel serves "support-v1"`,
		"busted_route_region":                  `routes[0].region: no channel of its models is in "us"`,
		"busted_route_commit":                  `routes[0].commit: "complet" is not one of: first_delta, prefix, complete (did you mean "complete"?)`,
		"busted_route_prefix":                  "routes[0].commit: prefix needs prefix_tokens or prefix_ms",
		"busted_route_negative":                "routes[0].idle_ms: -5 is not from 0 to",
		"busted_route_replay":                  `routes[0].replay: "unsave" is not one of: safe, unsafe (did you mean "unsafe"?)`,
		"busted_route_surface":                 `routes[0].surface: "upstream" is not one of: gateway, upstream_status`,
		"busted_route_expose":                  `routes[0].expose: "all" is not one of: attempts, provider, none`,
		"busted_route_silence":                 `routes[0].silence: "wait" is not one of: fallback, retry`,
		"busted_route_truncated":               `routes[0].truncated: "double" is not one of: pass, retry`,
		"busted_route_attempts":                "routes[0].max_attempts: 0 is not from 1 to 10",
		"busted_route_retries":                 "routes[0].max_retries: 99 is not from 0 to 10",
		"busted_route_retry_class":             `routes[0].retry.ratelimited: "ratelimited" is not a class (did you mean "rate_limited"?)`,
		"busted_route_retry_number":            "routes[0].retry.rate_limited: -2 is not from 0 to 10",
		"busted_route_class":                   `routes[0].fallback_on[0]: "quotas" is not a class (did you mean "quota"?)`,
		"busted_route_class_any":               `routes[0].do_not_fallback_on[0]: "any" is not a class`,
		"busted_route_policy_of_nothing":       "routes[0].policy[1]: it names neither a status nor a word",
		"busted_route_policy_class":            `routes[0].policy[1].class: "quotas" is not a class (did you mean "quota"?)`,
		"busted_route_policy_ours":             `routes[0].policy[1]: class "cancelled" is nothing that a provider can answer`,
		"busted_route_class_both":              "routes[0].do_not_fallback_on[0]: quota stands in fallback_on too",

		"busted_organization_unnamed":    "organizations[1].name: is required",
		"busted_organization_twice":      `organizations[1].name: "acme" stands twice`,
		"busted_organization_model":      `organizations[0].models[0]: "suppord-v1" is neither a route nor a model (did you mean "support-v1"?)`,
		"busted_organization_default":    `organizations[0].default_model: "gpt-z9" is neither a route nor a model (did you mean "gpt-a"?)`,
		"busted_organization_no_default": "organizations[0].when_not_enabled: default_model needs a default_model",

		"busted_organization_webhook_secret": "organizations[0].webhook_secret: must be a reference such as env:NAME, never the secret itself",

		"busted_key_itself":       "keys[0].sha256: must be the 64 lower-case hexadecimal digits of the key's SHA-256, never the key itself",
		"busted_key_upper_case":   "keys[0].sha256: must be the 64 lower-case hexadecimal digits",
		"busted_key_twice":        "keys[1].sha256: stands twice",
		"busted_key_organization": `keys[0].organization: "acmee" is not an organization (did you mean "acme"?)`,
		"busted_key_when":         "keys[0].when: must be the name of a variable, env:NAME",
		"busted_key_permission":   `keys[0].permissions[0]: "traces" is not one of: trace (did you mean "trace"?)`,
		"busted_trace_sample":     "trace_sample: 1.5 is not from 0 to 1",
		"busted_jobs_deadline":    "jobs.deadline_ms: 0 is not from 1000 to 86400000",
		"busted_jobs_polls":       "jobs.max_polls: 1001 is not from 1 to 1000",
		"busted_jobs_member":      `jobs.deadline: is not a member that is known here`,
		"busted_key_expires":      "keys[0].expires: is no RFC 3339 time",
	}
	files, err := filepath.Glob("testdata/busted_*.json")
	require.NoError(t, err)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(want)), files, "each file has its row, and each row its file")
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			c, err := catalog.Load(read(t, name), func(string) string { return "set" })
			problems, ok := errors.AsType[catalog.Problems](err)
			require.True(t, ok, "%v", err)
			assert.Nil(t, c)
			require.Len(t, problems, 1, "one defect is one problem: %v", err)
			assert.True(t, strings.HasPrefix(problems[0].String(), want[name]), "%s", problems[0])
			assert.NotContains(t, err.Error(), "sk-live", "what could be a secret is not repeated")
		})
	}
}

// TestAllProblemsAtOnce puts several broken rows into one document.
func TestAllProblemsAtOnce(t *testing.T) {
	var plain map[string]any
	require.NoError(t, json.Unmarshal(read(t, "working_plain"), &plain))
	whole := maps.Clone(plain)
	broken := []string{"busted_version_missing", "busted_member_unknown", "busted_channel_feature", "busted_route_expose", "busted_key_organization", "busted_organization_no_default"}
	for _, name := range broken {
		var defect map[string]any
		require.NoError(t, json.Unmarshal(read(t, name), &defect))
		for member, value := range defect {
			if !assert.ObjectsAreEqual(value, plain[member]) {
				whole[member] = value
			}
		}
		for member := range plain {
			if _, there := defect[member]; !there {
				delete(whole, member)
			}
		}
	}
	data, err := json.Marshal(whole)
	require.NoError(t, err)
	_, err = catalog.Load(data, func(string) string { return "set" })
	problems, ok := errors.AsType[catalog.Problems](err)
	require.True(t, ok)
	for _, part := range []string{"version: is required", "channel: is not a member", "channels[0].cannot[0]", "routes[0].expose", "keys[0].organization", "organizations[0].when_not_enabled"} {
		assert.Contains(t, err.Error(), part)
	}
	assert.Len(t, problems, len(broken))
}

var full = map[string]string{"MAIN_KEY": "sk-main-0123456789", "ACME_KEY": "sk-acme-0123456789", "LOCAL_KEY": "sk-local-0123456789", "LOCAL_URL": "http://127.0.0.1:8000/v1",
	"HOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}

// TestFullConfiguration reads a file in which every member has a value of its own.
func TestFullConfiguration(t *testing.T) {
	c, err := catalog.Load(read(t, "working_full"), environment(full))
	require.NoError(t, err)
	assert.Empty(t, c.Notices)
	assert.Equal(t, "test-full", c.Version)
	assert.Equal(t, 0.25, c.TraceSample)
	assert.Equal(t, catalog.Jobs{Deadline: time.Minute, Lease: 5 * time.Second, Overdue: 3 * time.Second, FirstPoll: 100 * time.Millisecond, SlowestPoll: time.Second,
		MaxPollFailures: 5, MaxPolls: 50, MaxTells: 3}, c.Jobs)

	main := c.ByName("main")
	require.NotNil(t, main)
	assert.Equal(t, &catalog.Provider{Name: "openai", Kind: "openai", Vendor: "openai", Prices: main.Provider.Prices, BaseURL: "https://api.openai.com/v1",
		Headers: map[string]string{"OpenAI-Project": "p"}, Query: map[string]string{"api-version": "1"}}, main.Provider, "the address has no slash at its end")
	assert.EqualValues(t, "gpt-a", main.Model)
	assert.Equal(t, "eu", main.Region)
	assert.Equal(t, 2, main.Priority)
	assert.Equal(t, 3.5, main.Weight)
	of := catalog.CapabilitiesOf("openai", "openai", "gpt-a")
	of.Cannot, of.Drops, of.Context, of.MaxOutput = []catalog.Feature{catalog.Tools, catalog.Images}, []string{"seed"}, 128000, 16384
	of.DefaultOutput, of.OutputField = 16384, "max_completion_tokens"
	assert.Equal(t, of, main.Capabilities)
	assert.Equal(t, catalog.Timing{FirstContent: time.Minute, Stall: 30 * time.Second, Attempt: 90 * time.Second}, main.Timing)
	assert.True(t, main.StreamAsClient)
	assert.True(t, main.BYOKOnly)
	require.Len(t, main.Credentials, 2)
	assert.Equal(t, []any{"k1", 2.0, "sk-main-0123456789", ""}, parts(main.Credentials[0]))
	assert.Equal(t, []any{"acme-own", 1.0, "sk-acme-0123456789", "acme"}, parts(main.Credentials[1]))
	assert.True(t, main.Capabilities.Lacks(catalog.Tools))
	assert.False(t, main.Capabilities.Lacks(catalog.Audio))

	local := c.ByName("local/llama@home")
	require.NotNil(t, local, "a channel without a name has that of its model and region")
	assert.Equal(t, "groq", local.Provider.Vendor)
	assert.Equal(t, "http://127.0.0.1:8000/v1", local.Provider.BaseURL)
	assert.Equal(t, 1.0, local.Weight, "the default")
	assert.False(t, local.StreamAsClient)

	assert.Equal(t, []*catalog.Channel{main, c.ByName("local/gpt-a@home")}, c.ByModel("gpt-a"), "an exact model is all its channels")
	assert.Equal(t, []*catalog.Channel{main}, c.ByModel("openai/gpt-a"))
	assert.Equal(t, []*catalog.Channel{local}, c.ByModel("local/llama"))
	assert.Nil(t, c.ByModel("gone"))
	assert.Nil(t, c.ByName("gone"))
	assert.Len(t, c.Channels, 3)

	zero, one, three := 0, 1, 3
	assert.Equal(t, &catalog.Route{Alias: "support-v1", Models: []chat.RequestedModel{"gpt-a", "llama"}, Commit: catalog.CommitPrefix, PrefixTokens: 20,
		PrefixTime: 500 * time.Millisecond, HoldTime: 8 * time.Second, WholeTools: true, Timeout: time.Minute, Idle: 10 * time.Second, Stall: 9 * time.Second,
		FirstContent: 4 * time.Second, MinUseful: 2 * time.Second, MaxRetries: &zero, MaxFallbacks: &one, MaxAttempts: &three,
		Retries: map[fault.Class]int{fault.RateLimited: 2}, FallbackOn: map[fault.Class]bool{fault.Quota: true, fault.Auth: true},
		NoFallbackOn: map[fault.Class]bool{fault.Timeout: true}, RetrySilence: true, RetryStream500: true, RetryTruncated: true, FullJitter: true, ReplayUnsafe: true,
		SurfaceStatus: true, Expose: catalog.ExposeNone}, c.Routes["support-v1"])
	assert.True(t, c.Routes["eager"].FallbackOnAny, "the profile")
	assert.True(t, c.Routes["any"].FallbackOnAny)
	assert.Empty(t, c.Routes["any"].FallbackOn)
	assert.Equal(t, catalog.ExposeProvider, c.Routes["any"].Expose)
	assert.Equal(t, catalog.CommitComplete, c.Routes["any"].Commit)
	assert.Equal(t, "home", c.Routes["any"].Region)

	acme := c.Organizations["acme"]
	assert.Equal(t, &catalog.Organization{Name: "acme", Models: []chat.RequestedModel{"support-v1", "local/gpt-a", "*"}, DefaultModel: "llama",
		DefaultWhenDenied: true, Region: "home", WebhookSecret: acme.WebhookSecret}, acme)
	assert.Equal(t, full["HOOK_SECRET"], acme.WebhookSecret.Reveal())
	assert.True(t, c.Organizations["empty"].WebhookSecret.Empty())
	assert.True(t, acme.Allows("whatever"), "* stands for everything")
	assert.False(t, c.Organizations["empty"].Allows("llama"))

	assert.Equal(t, []catalog.Key{
		{SHA256: "ef260e9aa3c673af240d17a2660480361a8e081d1ffeca2a5ed0e3219fc18567", Alias: "live", Organization: "acme",
			Expires: c.Keys[0].Expires, Permissions: []catalog.Permission{catalog.ReadTraces}},
		{SHA256: "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90", Alias: "dev", Organization: "empty"},
		{SHA256: strings.Repeat("00", 32), Alias: "old", Organization: "acme", Disabled: true},
	}, c.Keys)
	assert.True(t, c.Keys[0].Expires.Equal(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)))
}

func parts(c *catalog.Credential) []any {
	return []any{c.Alias, c.Weight, c.Secret.Reveal(), c.Organization}
}

// TestDefaults: a route with nothing but models asks for nothing.
func TestDefaults(t *testing.T) {
	c, err := catalog.Load(read(t, "working_plain"), environment(full))
	require.NoError(t, err)
	assert.Equal(t, &catalog.Route{Alias: "support-v1", Models: []chat.RequestedModel{"gpt-a", "openai/gpt-b"}}, c.Routes["support-v1"])
	assert.Equal(t, catalog.Timing{}, c.ByName("third").Timing)
	assert.Equal(t, catalog.CapabilitiesOf("openai", "openai", c.ByName("third").Model), c.ByName("third").Capabilities)
	assert.False(t, c.Organizations["acme"].DefaultWhenDenied)

	minimal, err := catalog.Load(read(t, "working_minimal"), environment(nil))
	require.NoError(t, err)
	assert.Empty(t, minimal.Channels)
	assert.Empty(t, minimal.Keys)
}

// TestNotices: what is not set puts its credential, provider or key out of use, and says so; it is no problem.
func TestNotices(t *testing.T) {
	c, err := catalog.Load(read(t, "working_full"), environment(map[string]string{"MAIN_KEY": "sk-main-0123456789"}))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{
		`channels[0].credentials[1].secret: ACME_KEY is not set: the credential "acme-own" is out of use`,
		`channels[1].credentials[0].secret: LOCAL_KEY is not set: the credential "l" is out of use`,
		`providers[1].base_url: LOCAL_URL is not set: the provider "local" is out of use`,
		`keys[1].when: LOCAL_URL is not set: the key "dev" is out of use`,
		`organizations[0].webhook_secret: HOOK_SECRET is not set: jobs of the organization "acme" take no callback_url`,
	}, c.Notices)
	assert.Len(t, c.ByName("main").Credentials, 1)
	assert.Empty(t, c.ByName("local/llama@home").Credentials)
	assert.Empty(t, c.ByName("local/llama@home").Provider.BaseURL)
	assert.Equal(t, []bool{false, true, true}, []bool{c.Keys[0].Disabled, c.Keys[1].Disabled, c.Keys[2].Disabled})
}

// TestAddressesFromTheEnvironmentAreChecked as those in the file are, and not repeated.
func TestAddressesFromTheEnvironmentAreChecked(t *testing.T) {
	for name, address := range map[string]string{"no address": "sk-not-an-address", "another scheme": "ftp://host/v1", "a key in it": "https://u:sk-1@host/v1"} {
		t.Run(name, func(t *testing.T) {
			vars := maps.Clone(full)
			vars["LOCAL_URL"] = address
			_, err := catalog.Load(read(t, "working_full"), environment(vars))
			require.ErrorContains(t, err, "providers[1].base_url")
			assert.NotContains(t, err.Error(), "sk-")
		})
	}
}

// TestSecretsOfWebhooksAreChecked: what a receiver would refuse is found out when the configuration is loaded, and not repeated.
func TestSecretsOfWebhooksAreChecked(t *testing.T) {
	of := func(bytes int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", bytes)))
	}
	for name, tt := range map[string]struct {
		value string
		good  bool
	}{
		"24 bytes":                           {of(24), true},
		"64 bytes":                           {of(64), true},
		"23 bytes are too few":               {of(23), false},
		"65 bytes are too many":              {of(65), false},
		"without its prefix":                 {strings.TrimPrefix(of(32), "whsec_"), false},
		"base64 of addresses":                {"whsec_" + strings.Repeat("-_", 20), false},
		"base64 without its filling":         {strings.TrimRight(of(25), "="), false},
		"another key, by a slip of the hand": {"sk-main-0123456789", false},
	} {
		t.Run(name, func(t *testing.T) {
			vars := maps.Clone(full)
			vars["HOOK_SECRET"] = tt.value
			c, err := catalog.Load(read(t, "working_full"), environment(vars))
			require.NoError(t, err)
			if tt.good {
				assert.Empty(t, c.Notices)
				assert.Equal(t, tt.value, c.Organizations["acme"].WebhookSecret.Reveal())
				return
			}
			assert.Equal(t, []string{`organizations[0].webhook_secret: HOOK_SECRET does not hold whsec_ and the base64 of 24 to 64 bytes: jobs of the organization "acme" take no callback_url`}, c.Notices)
			assert.True(t, c.Organizations["acme"].WebhookSecret.Empty())
		})
	}
}

// TestSample loads what is deployed, as it is deployed and as `make run` has it.
func TestSample(t *testing.T) {
	data, err := source.Read("../../infra/gateway.yaml")
	require.NoError(t, err)
	deployed, err := catalog.Load(data, environment(map[string]string{"OPENAI_API_KEY": "sk-0123456789"}))
	require.NoError(t, err)
	for _, k := range deployed.Keys {
		if k.Alias == "dev" {
			assert.True(t, k.Disabled, "a key that everybody knows does not work where there is no simulator")
		}
	}
	local, err := catalog.Load(data, func(name string) string {
		if strings.HasSuffix(name, "_URL") {
			return "http://127.0.0.1:1/v1"
		}
		if strings.HasSuffix(name, "_WEBHOOK_SECRET") {
			return "whsec_" + strings.Repeat("c2lt", 8)
		}
		return "sk-0123456789"
	})
	require.NoError(t, err)
	assert.Empty(t, local.Notices)
	assert.NotEmpty(t, local.ByModel("sim-ok"))
	assert.Equal(t, deployed.Version, local.Version)
}

// TestSecretsAreNeverPrinted: neither a credential nor what holds it shows its secret, however it is printed.
func TestSecretsAreNeverPrinted(t *testing.T) {
	c, err := catalog.Load(read(t, "working_full"), environment(full))
	require.NoError(t, err)
	var out bytes.Buffer
	channel := c.ByName("main")
	for _, v := range []any{c, *c, channel, *channel, channel.Credentials, channel.Credentials[0], *channel.Credentials[0], channel.Credentials[0].Secret} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, format+"\n", v)
		}
		encoded, err := json.Marshal(v)
		require.NoError(t, err)
		out.Write(encoded)
		for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			slog.New(h).Info("record", "value", v)
		}
	}
	assert.Contains(t, out.String(), "k1", "the alias is shown")
	for _, secret := range full {
		if strings.HasPrefix(secret, "sk-") {
			assert.NotContains(t, out.String(), secret[:8])
			assert.NotContains(t, strings.ToLower(out.String()), fmt.Sprintf("%x", secret)[:12])
		}
	}
}

// TestTheVendorOfAKindThatNobodyCopies: behind whatever host, since its errors are read as that vendor's.
func TestTheVendorOfAKindThatNobodyCopies(t *testing.T) {
	data, err := source.Read("../../infra/gateway.yaml")
	require.NoError(t, err)
	config, err := catalog.Load(data, func(string) string { return "http://127.0.0.1:1/v1" })
	require.NoError(t, err)
	got := map[string]string{}
	for _, c := range config.Channels {
		got[c.Provider.Kind] = c.Provider.Vendor
		if c.Provider.Kind != "openai" {
			assert.Contains(t, fault.Vendors(), c.Provider.Vendor)
		}
	}
	delete(got, "openai")
	assert.Equal(t, map[string]string{"anthropic": "anthropic", "gemini": "gemini", "veo": "gemini", "fal": "fal", "elevenlabs": "elevenlabs"}, got)
}
