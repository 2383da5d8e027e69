// Package catalog holds what can be called: providers, the channels through which a model is reached, their
// credentials and capabilities, the routes that clients name, organizations and keys. It is loaded once, strictly, with
// every problem reported at once, and never changes afterwards.
//
// Vocabulary: a route is a stable alias a client calls; a channel is one provider + model + region that can serve it; a
// credential is one key of a channel.
package catalog

import (
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/redact"
)

// Catalog is a loaded configuration. It is read-only and safe for concurrent use.
type Catalog struct {
	// Version is the operator's own name for this configuration; it is shown by /healthz.
	Version       string
	Channels      []*Channel
	Routes        map[chat.RequestedModel]*Route
	Organizations map[string]*Organization
	Keys          []Key
	// TraceSample is the fraction of the requests without any trouble that leave a trace; the others always do.
	TraceSample float64
	Jobs        Jobs
	// Notices are findings that do not stop the gateway, such as a credential whose secret is not set.
	Notices []string

	byModel map[chat.RequestedModel][]*Channel
	byName  map[string]*Channel
}

// Jobs bound the lives of media jobs. What is zero was left out: package media has the defaults.
type Jobs struct {
	Deadline, Lease, Overdue  time.Duration
	FirstPoll, SlowestPoll    time.Duration
	MaxPollFailures, MaxPolls int
	MaxTells                  int
}

// Provider is one upstream service.
type Provider struct {
	// Name is what clients see in X-LLM-Provider.
	Name string
	// Kind chooses the adapter ("openai").
	Kind string
	// Vendor chooses the rows of the policy table: whose errors these are. Default: by the host of BaseURL.
	Vendor string
	// Prices names the provider whose rows of the price table apply. Default: the vendor, and for a generic one none, so
	// that its costs are unknown rather than somebody else's.
	Prices string
	// BaseURL is the address up to and including the version, without a slash at the end.
	BaseURL string
	// Headers and Query are static and sent with every call.
	Headers map[string]string
	Query   map[string]string
}

// Channel is one provider + model + region.
type Channel struct {
	// Name identifies the channel in reasons, in `prefer` and in records. Default: provider/model[@region].
	Name     string
	Provider *Provider
	Model    chat.RoutedModel
	Region   string
	// Priority orders the channels of one model, lowest first; Weight shares the load among equals (default 1).
	Priority     int
	Weight       float64
	Credentials  []*Credential
	Capabilities Capabilities
	Timing       Timing
	// BYOKOnly serves only organizations that bring their own key: then no platform credential, no other channel of the
	// model and no default model is tried.
	BYOKOnly bool
	// StreamAsClient makes the upstream call stream only when the client's does; the default is to stream always, so
	// that the same limits hold for every request.
	StreamAsClient bool
}

// Credential is one key of a channel.
type Credential struct {
	// Alias is what records show instead of the key.
	Alias string
	// Weight shares the load among the channel's credentials (default 1).
	Weight float64
	Secret redact.Secret
	// Organization owns the key (BYOK): no other organization's request uses it. Empty: the platform's.
	Organization string
}

// Feature is something that a request may need and a model may lack.
type Feature string

// The features. A channel lists those that it lacks under `cannot`.
const (
	// Chat, Videos and Music are what a request is for at all: a conversation, or a job.
	Chat   Feature = "chat"
	Videos Feature = "videos"
	Music  Feature = "music"

	// Tools: functions that may be called, or calls in the history. ForcedTool: one of them must be called.
	Tools      Feature = "tools"
	ForcedTool Feature = "forced_tool"
	// AllowedTools: a choice of some of the tools that are given. CustomTools: tools that take free text.
	AllowedTools Feature = "allowed_tools"
	CustomTools  Feature = "custom_tools"
	// ToolsNoneWithHistory: tools that must not be called, although the history calls some.
	ToolsNoneWithHistory Feature = "tool_choice_none_with_history"
	// Functions: the functions and function_call of before there were tools.
	Functions Feature = "functions"
	// WebSearch: the provider's own search.
	WebSearch Feature = "web_search"

	Images Feature = "images"
	// RemoteImages is not needed of a channel: where it is lacking, the gateway fetches the images.
	RemoteImages Feature = "remote_images"
	Audio        Feature = "audio"
	AudioOut     Feature = "audio_out"
	Files        Feature = "files"
	// FileIDs: files that the provider keeps, by their ids. RemoteFiles: files by their addresses.
	FileIDs     Feature = "file_ids"
	RemoteFiles Feature = "remote_files"
	// PlainHTTP: addresses without TLS. Like RemoteImages and RemoteFiles, the gateway makes up for it.
	PlainHTTP Feature = "plain_http"

	JSONSchema Feature = "json_schema"
	JSONObject Feature = "json_object"
	// SchemaWithTools: either of the two beside tools.
	SchemaWithTools Feature = "schema_with_tools"

	Choices  Feature = "n"
	LogProbs Feature = "logprobs"
	// ReasonedLogProbs: log probabilities of a model that may reason, that is with any effort but none.
	ReasonedLogProbs Feature = "reasoned_logprobs"
	LogitBias        Feature = "logit_bias"
	// Penalties: a frequency_penalty or presence_penalty other than 0.
	Penalties Feature = "penalties"
	Stop      Feature = "stop"
	// BlankStop: a stop sequence of white space alone.
	BlankStop Feature = "blank_stop"
	Prefill   Feature = "prefill"
	Streaming Feature = "stream"
)

var everyFeature = map[Feature]bool{Chat: true, Videos: true, Music: true, Tools: true, ForcedTool: true, AllowedTools: true, CustomTools: true, ToolsNoneWithHistory: true, Functions: true,
	WebSearch: true, Images: true, RemoteImages: true, Audio: true, AudioOut: true, Files: true, FileIDs: true, RemoteFiles: true, PlainHTTP: true,
	JSONSchema: true, JSONObject: true, SchemaWithTools: true, Choices: true, LogProbs: true, ReasonedLogProbs: true, LogitBias: true, Penalties: true, Stop: true,
	BlankStop: true, Prefill: true, Streaming: true}

// Timing holds a channel's own limits; 0 means the contract's default.
type Timing struct {
	// FirstContent is how long the first content may take while another candidate is left.
	FirstContent time.Duration
	// Stall is the longest gap between contents of an uncommitted answer while another candidate is left.
	Stall time.Duration
	// Attempt bounds a call of a channel that does not stream.
	Attempt time.Duration
}

// Route is a stable alias with the models behind it and its own policy. The zero value of every policy field means the
// contract's default.
type Route struct {
	Alias  chat.RequestedModel
	Models []chat.RequestedModel
	// Region is the only one whose channels may serve the route; empty: any.
	Region string

	// Rank says what orders the channels of each model; empty: RankPriority.
	Rank Rank

	// Commit says when a stream is committed to one candidate.
	Commit Commit
	// PrefixTokens and PrefixTime bound what CommitPrefix holds back: whichever is reached first.
	PrefixTokens int
	PrefixTime   time.Duration
	// HoldTime is after how long a stream that has no content yet is opened with comments, for clients behind proxies
	// that cut silence; 0: never.
	HoldTime time.Duration
	// WholeTools sends each streamed tool call in one piece, after its arguments have been checked.
	WholeTools bool

	// Timeout bounds the whole request, and for a stream the time to its first content.
	Timeout time.Duration
	// Idle is the longest silence of a committed stream.
	Idle time.Duration
	// Stall and FirstContent replace the channels' own limits.
	Stall, FirstContent time.Duration
	// MinUseful is the least time an attempt must have left to be started.
	MinUseful time.Duration

	// MaxRetries, MaxFallbacks and MaxAttempts replace the defaults; nil: the default.
	MaxRetries, MaxFallbacks, MaxAttempts *int
	// Retries replaces MaxRetries for single classes.
	Retries map[fault.Class]int
	// FallbackOn lets classes fall back that would fail fast; FallbackOnAny all of them. NoFallbackOn forbids it.
	FallbackOn, NoFallbackOn map[fault.Class]bool
	FallbackOnAny            bool
	// RetrySilence and RetryStream500 choose one more call of the same candidate where the default is the next one.
	RetrySilence, RetryStream500 bool
	// RetryTruncated makes structured output that its token limit cut off a broken contract, and has it asked for once more
	// with a larger limit.
	RetryTruncated bool
	// FullJitter draws the backoff from zero to its full length, instead of ± 50 %.
	FullJitter bool

	// Faults says what a provider's answer is on this route; nil: the policy table has no rows of the route before it.
	Faults *fault.Policy

	// ReplayUnsafe says that this route's work must not be repeated after an ambiguous failure.
	ReplayUnsafe bool
	// SurfaceStatus answers a caller's mistake with the provider's own 4xx instead of 502.
	SurfaceStatus bool
	// Expose limits what errors show of the providers behind the route.
	Expose Expose
}

// Rank is what orders the channels of a model. Equals are drawn by weight.
type Rank string

// The ranks.
const (
	// RankPriority is the channels' own priority.
	RankPriority Rank = "priority"
	// RankLatency is the recent time to first content. A channel that was not seen yet comes first, to be seen.
	RankLatency Rank = "latency"
	// RankCost is the price. A channel whose price is not known comes last.
	RankCost Rank = "cost"
)

// Commit is when a stream is committed to one candidate.
type Commit string

// The commit policies. The zero value is CommitFirstDelta.
const (
	// CommitFirstDelta commits at the first content.
	CommitFirstDelta Commit = "first_delta"
	// CommitPrefix commits after so many tokens, or so much time since the first content.
	CommitPrefix Commit = "prefix"
	// CommitComplete holds the whole answer back, checks it, and then streams it; every failure can still fall back.
	CommitComplete Commit = "complete"
)

// Expose says how much of the providers behind a route an error shows.
type Expose string

// The levels. The zero value is ExposeAttempts.
const (
	ExposeAttempts Expose = "attempts"
	ExposeProvider Expose = "provider"
	ExposeNone     Expose = "none"
)

// Organization scopes keys, budgets and what may be called.
type Organization struct {
	Name string
	// Models are what its keys may call, in the order of "auto"; "*" stands for everything.
	Models []chat.RequestedModel
	// DefaultModel is tried last, if it is not among the candidates already; empty: none.
	DefaultModel chat.RequestedModel
	// DefaultWhenDenied serves a model that is not enabled with DefaultModel instead of refusing it.
	DefaultWhenDenied bool
	// Region is the only one whose channels may serve its requests; empty: any.
	Region string
	// WebhookSecret signs the events of its media jobs, as whsec_ and base64 (Standard Webhooks); empty: there is none, and its
	// jobs take no callback.
	WebhookSecret redact.Secret
}

// Allows reports whether the organization's keys may call a route or model.
func (o *Organization) Allows(m chat.RequestedModel) bool {
	for _, have := range o.Models {
		if have == "*" || have == m {
			return true
		}
	}
	return false
}

// Key is a client's key. Only its SHA-256 is known.
type Key struct {
	// SHA256 is the lower-case hexadecimal digest of the key.
	SHA256       string
	Alias        string
	Organization string
	Disabled     bool
	// Expires is when the key ends; zero: never.
	Expires time.Time
	// Permissions are what the key may do beside calling models.
	Permissions []Permission
}

// Permission is something that a key may do beside calling models.
type Permission string

// ReadTraces lets a key read the traces of its organization's requests, which show the providers behind every route.
const ReadTraces Permission = "trace"

// ByModel returns the channels of an exact model id, or of provider/model.
func (c *Catalog) ByModel(m chat.RequestedModel) []*Channel { return c.byModel[m] }

// ByName returns a channel by its name; nil when there is none.
func (c *Catalog) ByName(name string) *Channel { return c.byName[name] }
