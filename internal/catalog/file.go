package catalog

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"spillway/internal/fault"
)

// file is the configuration as an operator writes it. The tags of the structs below are the one description of it: Load
// holds a document to them, and Schema turns them into a JSON Schema.
//
//	json      the member's name
//	doc       what it means
//	required  it must be there; a list must not be empty (a text never is)
//	many      how many items a list or a map may have
//	min, max  bounds of a number; max of a text: its characters, 256 unless it says otherwise
//	above     a number must be greater than this
//	oneof     the words that a text may be, beside those of its type
//	form      the form that a text must have
//	default   what holds where the member is left out
//
// Bounds, words and forms of a list or a map are those of its items.
type file struct {
	Version       string             `json:"version" required:"" max:"64" doc:"Your own name for this configuration. /healthz shows it."`
	Providers     []fileProvider     `json:"providers" many:"100" doc:"The upstream services."`
	Channels      []fileChannel      `json:"channels" many:"1000" doc:"What can serve a model: provider + model + region, with keys and capabilities."`
	Routes        []fileRoute        `json:"routes" many:"1000" doc:"Stable names that clients call, each with the models behind it and its own policy."`
	Organizations []fileOrganization `json:"organizations" many:"1000" doc:"Who may call what. An organization scopes keys, budgets and traces."`
	Keys          []fileKey          `json:"keys" many:"10000" doc:"The clients' keys."`
	TraceSample   float64            `json:"trace_sample" min:"0" max:"1" default:"0" doc:"The fraction of the requests without any trouble that leave a trace. Those that failed, fell back or were retried always do."`
	Jobs          fileJobs           `json:"jobs" doc:"How long media jobs may take, and how often they are asked for. Jobs that have begun keep their deadline."`
}

type fileProvider struct {
	Name    string            `json:"name" required:"" max:"64" form:"name" doc:"What clients see in X-LLM-Provider."`
	Kind    string            `json:"kind" required:"" oneof:"anthropic elevenlabs fal gemini openai veo" doc:"The API that the provider speaks. elevenlabs, fal and veo make videos and music, as jobs; the others chat."`
	Vendor  vendor            `json:"vendor" doc:"Whose error codes, headers and words for parameters these are: azure also sends the key as api-key. Default: by the host of base_url, else generic, which gets everything as the client wrote it."`
	BaseURL string            `json:"base_url" required:"" max:"2048" doc:"The address up to and including the version, or env:NAME. While the variable is not set, the provider is out of use."`
	Prices  string            `json:"prices" max:"64" doc:"Whose prices apply. Default: the vendor's; for a generic one none, and its costs are unknown."`
	Headers map[string]string `json:"headers" many:"50" doc:"Headers that are sent with every call. No place for secrets."`
	Query   map[string]string `json:"query" many:"50" doc:"Query parameters that are sent with every call. No place for secrets."`
}

// declared is what is known of a channel's model, with what the operator says of it in its place.
func (c fileChannel) declared(known Capabilities) Capabilities {
	if c.Cannot != nil {
		known.Cannot = c.Cannot
	}
	if c.Context != nil {
		known.Context = *c.Context
	}
	if c.MaxOutput != nil {
		known.MaxOutput, known.DefaultOutput = *c.MaxOutput, *c.MaxOutput
	}
	if c.Responses != "" {
		known.Responses = Responses(strings.TrimPrefix(c.Responses, "never"))
	}
	known.Drops, known.OutputField = c.Drops, c.OutputField
	return known
}

// A vendor is whose API a provider really is, in the words of the policy table.
type vendor string

type fileChannel struct {
	Name        string           `json:"name" max:"128" doc:"Names the channel in reasons, in prefer and in records. Default: provider/model, and @region if it has one."`
	Provider    string           `json:"provider" required:"" doc:"The name of one of the providers."`
	Models      []string         `json:"models" required:"" many:"1000" doc:"The models as the provider calls them; each makes a channel of its own."`
	Region      string           `json:"region" max:"64" doc:"Where the provider serves it. A need for a region is met by exactly this word."`
	Priority    int              `json:"priority" min:"-1000" max:"1000" default:"0" doc:"Orders the channels of a model, lowest first."`
	Weight      *float64         `json:"weight" above:"0" max:"1000" default:"1" doc:"Its share of the load among channels of equal priority."`
	Credentials []fileCredential `json:"credentials" required:"" many:"100" doc:"The keys with which it can be called."`

	Cannot      []Feature `json:"cannot" many:"50" doc:"What the model cannot do. Requests that need it pass the channel by. Default: what the gateway knows of the model; a list replaces that, an empty one too. What the API of the kind has no words for is never asked of it."`
	Drops       []string  `json:"drops" many:"50" doc:"Top-level parameters that the model does not take and that may be left out without changing what a request means. X-LLM-Dropped-Params names them."`
	Context     *int64    `json:"context" min:"0" max:"100000000" doc:"The model's context in tokens. Default: what the gateway knows of the model. 0: no limit is assumed."`
	MaxOutput   *int64    `json:"max_output" min:"0" max:"100000000" doc:"The longest output in tokens, and of the kind anthropic also the limit of a request that sets none. Default: what the gateway knows of the model. 0: no limit is assumed."`
	OutputField string    `json:"output_field" oneof:"max_tokens max_completion_tokens" doc:"What this model calls the output limit. Default: as the provider is known to call it, or as the client wrote it."`
	Responses   string    `json:"responses" oneof:"never with_tools always" doc:"Which requests a model of OpenAI's takes through the Responses API alone. with_tools: those with tools, a search or the effort max. Default: what the gateway knows of the model."`

	FirstContentMS int64  `json:"first_content_ms" min:"0" max:"900000" doc:"How long the first content may take while another candidate is left. Default: 10 seconds, and one more for every 8000 tokens of input. Give a reasoning model a minute."`
	StallMS        int64  `json:"stall_ms" min:"0" max:"900000" default:"20000" doc:"The longest gap between contents of an answer that is not committed yet, while another candidate is left."`
	AttemptMS      int64  `json:"attempt_ms" min:"0" max:"900000" doc:"Bounds a call that does not stream. Default: what is left of the request's time, less 20 seconds."`
	UpstreamStream string `json:"upstream_stream" oneof:"always as_client" default:"always" doc:"as_client: the call upstream streams only when the client's does."`
	BYOKOnly       bool   `json:"byok_only" default:"false" doc:"Serves only organizations that bring their own key. For them no platform credential, no other channel of the model and no default model is tried."`
}

type fileCredential struct {
	Alias        string   `json:"alias" required:"" max:"64" doc:"What records show instead of the key."`
	Weight       *float64 `json:"weight" above:"0" max:"1000" default:"1" doc:"Its share of the load among the channel's credentials."`
	Secret       string   `json:"secret" required:"" form:"secret" doc:"Where the key is: env:NAME, never the key itself. While the variable is not set, the credential is out of use."`
	Organization string   `json:"organization" doc:"Whose key it is (bring your own key): no other organization's request uses it. Left out: the platform's."`
}

type fileRoute struct {
	Alias  string   `json:"alias" required:"" max:"128" doc:"The name that clients give as model."`
	Models []string `json:"models" required:"" many:"50" doc:"Model ids, or provider/model, in the order of trying."`
	Region string   `json:"region" max:"64" doc:"Data residency: only channels of this region serve the route."`
	Rank   Rank     `json:"rank" oneof:"priority latency cost" default:"priority" doc:"What orders the channels of each model: their priority, the time to first content that this environment saw lately, or the price."`

	Commit       Commit `json:"commit" default:"first_delta" doc:"When a stream is committed to one candidate: at the first content; after a prefix; or complete, when the whole answer is there and checked, so that every failure can still fall back."`
	PrefixTokens int64  `json:"prefix_tokens" min:"0" max:"100000" doc:"With commit: prefix, commit after so many tokens."`
	PrefixMS     int64  `json:"prefix_ms" min:"0" max:"900000" doc:"With commit: prefix, commit so long after the first content."`
	HoldMS       int64  `json:"hold_ms" min:"0" max:"900000" default:"0" doc:"After how long a stream that has no content yet is opened with comments, for clients behind proxies that cut silence. 0: never."`
	ToolDeltas   string `json:"tool_deltas" oneof:"as_sent whole" default:"as_sent" doc:"whole: each streamed tool call is sent in one piece, after its arguments have been checked."`

	TimeoutMS      int64 `json:"timeout_ms" min:"0" max:"900000" default:"120000" doc:"Bounds the whole request, and for a stream the time to its first content."`
	IdleMS         int64 `json:"idle_ms" min:"0" max:"900000" default:"600000" doc:"The longest silence of a committed stream."`
	StallMS        int64 `json:"stall_ms" min:"0" max:"900000" doc:"Replaces the channels' own stall_ms."`
	FirstContentMS int64 `json:"first_content_ms" min:"0" max:"900000" doc:"Replaces the channels' own first_content_ms."`
	MinUsefulMS    int64 `json:"min_useful_ms" min:"0" max:"900000" default:"1000" doc:"The least time that must be left for an attempt to start."`

	MaxRetries      *int                `json:"max_retries" min:"0" max:"10" default:"1" doc:"How often the same candidate is called again."`
	MaxFallbacks    *int                `json:"max_fallbacks" min:"0" max:"10" default:"2" doc:"How often the next candidate is called."`
	MaxAttempts     *int                `json:"max_attempts" min:"1" max:"10" default:"4" doc:"Bounds all calls of a request, the first one included."`
	Retry           map[fault.Class]int `json:"retry" many:"50" min:"0" max:"10" doc:"Replaces max_retries for single classes of failure."`
	Profile         string              `json:"profile" oneof:"strict lyrouter" default:"strict" doc:"lyrouter: every class falls back, as with fallback_on: [any]."`
	FallbackOn      []fault.Class       `json:"fallback_on" many:"50" oneof:"any" doc:"Classes that fall back although they would fail fast, or any."`
	DoNotFallbackOn []fault.Class       `json:"do_not_fallback_on" many:"50" doc:"Classes that never fall back."`
	Silence         string              `json:"silence" oneof:"fallback retry" default:"fallback" doc:"What follows a provider that stays silent."`
	Truncated       string              `json:"truncated" oneof:"pass retry" default:"pass" doc:"What follows structured output that its token limit cut off: JSON where a JSON schema or JSON was asked for, or the arguments of a tool. pass: it is the answer, with the finish reason length; only a call whose arguments cannot be read is refused, unless it has been streamed already. retry: it breaks the contract; the same candidate is asked once more with twice the limit, at most its max_output, then the next one. In a stream that is sent as it comes the break is its last event; commit: complete avoids that."`
	Stream500       string              `json:"stream_500" oneof:"fallback retry" default:"fallback" doc:"What follows a server error inside a stream."`
	Jitter          string              `json:"jitter" oneof:"half full" default:"half" doc:"half: a delay varies by 50 %; full: it is drawn from zero to its whole length."`

	Policy []filePolicyRow `json:"policy" many:"100" doc:"Rows of its own before the policy table, of which the first that fits decides: what a provider's answer is."`

	Replay  string `json:"replay" oneof:"safe unsafe" default:"safe" doc:"unsafe: the work must not be repeated after a failure that leaves open whether it was done."`
	Surface string `json:"surface" oneof:"gateway upstream_status" default:"gateway" doc:"upstream_status: a caller's mistake is answered with the provider's own 4xx instead of 502."`
	Expose  Expose `json:"expose" default:"attempts" doc:"How much of the providers behind the route an error shows."`
}

type filePolicyRow struct {
	Provider vendor      `json:"provider" doc:"Whose answer. Left out: anybody's."`
	Status   int         `json:"status" min:"300" max:"599" doc:"Its HTTP status. Left out: any. A row with a status alone decides only where no word of the answer is known."`
	Type     string      `json:"type" max:"200" doc:"The type of its error, exactly. Left out: any."`
	Code     string      `json:"code" max:"200" doc:"The code of its error, exactly. Left out: any."`
	Class    fault.Class `json:"class" required:"" doc:"What it is."`
}

type fileOrganization struct {
	Name           string   `json:"name" required:"" max:"64" doc:"What keys and credentials refer to."`
	Models         []string `json:"models" many:"1000" doc:"Routes and models that its keys may call, in the order of auto; \"*\" stands for everything."`
	DefaultModel   string   `json:"default_model" doc:"Tried last, if it is not among the candidates already."`
	WhenNotEnabled string   `json:"when_not_enabled" oneof:"error default_model" default:"error" doc:"default_model: a model that is not enabled is served by the default model instead of being refused."`
	Region         string   `json:"region" max:"64" doc:"Data residency: only channels of this region serve its requests."`
	WebhookSecret  string   `json:"webhook_secret" form:"secret" doc:"Where the secret is that signs the events which its media jobs send to a callback_url: env:NAME, never the secret itself. The variable holds whsec_ and the base64 of 24 to 64 random bytes (Standard Webhooks). While it is not set, its jobs take no callback_url."`
}

type fileKey struct {
	SHA256       string `json:"sha256" required:"" form:"sha256" doc:"The SHA-256 of the key, 64 lower-case hexadecimal digits: printf %s \"$KEY\" | sha256sum"`
	Alias        string `json:"alias" max:"64" doc:"What records show instead of the key."`
	Organization string `json:"organization" required:"" doc:"Whose key it is."`
	Disabled     bool   `json:"disabled" default:"false" doc:"Puts the key out of use."`
	Expires      string `json:"expires" form:"time" doc:"When the key ends, such as 2026-12-31T00:00:00Z. Left out: never."`
	When         string `json:"when" form:"reference" doc:"A variable, env:NAME, without which the key is out of use: a key that everybody knows must not work where the configuration is deployed."`

	Permissions []Permission `json:"permissions" many:"10" doc:"What the key may do beside calling models. trace: read the traces of the organization's requests."`
}

type fileJobs struct {
	DeadlineMS      int64 `json:"deadline_ms" min:"1000" max:"86400000" default:"1800000" doc:"How long a job may take from its beginning. After that its provider is asked to cancel it, and it is expired."`
	LeaseMS         int64 `json:"lease_ms" min:"1000" max:"600000" default:"120000" doc:"How long handing a job to its provider may take, and with a provider that answers with the work itself its making. After that nobody knows whether the provider has it, and it is not submitted again."`
	OverdueMS       int64 `json:"overdue_ms" min:"100" max:"3600000" default:"120000" doc:"How late a poll, or the telling of a callback, may be before the sweeper sends its message again."`
	FirstPollMS     int64 `json:"first_poll_ms" min:"100" max:"600000" default:"2000" doc:"When a job is asked for first. The pause doubles from poll to poll; where the provider says when it wants to be asked, it is asked then."`
	SlowestPollMS   int64 `json:"slowest_poll_ms" min:"100" max:"600000" default:"60000" doc:"The longest pause between two polls."`
	MaxPollFailures int   `json:"max_poll_failures" min:"1" max:"200" default:"20" doc:"How many polls in a row may fail before the job does."`
	MaxPolls        int   `json:"max_polls" min:"1" max:"1000" default:"200" doc:"How often a job is asked for at all."`
	MaxTells        int   `json:"max_tells" min:"1" max:"50" default:"8" doc:"How often the end of a job is told to a callback that does not take it."`
}

// A vocabulary is what texts of one type may say, and what such a text is called.
type vocabulary struct {
	noun  string // empty: the words are listed instead
	words []string
}

var vocabularies = map[reflect.Type]vocabulary{
	reflect.TypeFor[Feature]():     {"a feature", keysOf(everyFeature)},
	reflect.TypeFor[fault.Class](): {"a class", fault.ClassNames()},
	reflect.TypeFor[vendor]():      {"", fault.Vendors()},
	reflect.TypeFor[Commit]():      {"", []string{string(CommitFirstDelta), string(CommitPrefix), string(CommitComplete)}},
	reflect.TypeFor[Permission]():  {"", []string{string(ReadTraces)}},
	reflect.TypeFor[Expose]():      {"", []string{string(ExposeAttempts), string(ExposeProvider), string(ExposeNone)}},
}

func keysOf[K ~string, V any](m map[K]V) []string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, string(k))
	}
	return out
}
