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
	// Notices are findings that do not stop the gateway, such as a credential whose secret is not set.
	Notices []string

	byModel map[chat.RequestedModel][]*Channel
	byName  map[string]*Channel
}

// Provider is one upstream service.
type Provider struct {
	// Name is what clients see in X-LLM-Provider.
	Name string
	// Kind chooses the adapter and the provider's rows of the policy table ("openai").
	Kind string
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
}

// Feature is something that a request may need and a model may lack.
type Feature string

// The features. A channel lists those that it lacks under `cannot`.
const (
	Tools       Feature = "tools"
	ForcedTool  Feature = "forced_tool"
	CustomTools Feature = "custom_tools"
	Images      Feature = "images"
	Audio       Feature = "audio"
	Files       Feature = "files"
	JSONSchema  Feature = "json_schema"
	JSONObject  Feature = "json_object"
	Choices     Feature = "n"
	LogProbs    Feature = "logprobs"
	LogitBias   Feature = "logit_bias"
	Prefill     Feature = "prefill"
)

var everyFeature = map[Feature]bool{Tools: true, ForcedTool: true, CustomTools: true, Images: true, Audio: true, Files: true,
	JSONSchema: true, JSONObject: true, Choices: true, LogProbs: true, LogitBias: true, Prefill: true}

// Capabilities say what a channel's model can serve.
type Capabilities struct {
	// Cannot lists the features that make the channel unable to serve a request that needs one of them.
	Cannot []Feature
	// Drops lists top-level parameters that the model does not take and that may be left out without changing what
	// the request means. They are named in X-LLM-Dropped-Params.
	Drops []string
	// Context is the model's context in tokens, MaxOutput the longest output; 0: not declared, no limit is assumed.
	Context   int64
	MaxOutput int64
	// OutputField names the output limit in this model's dialect: max_completion_tokens or max_tokens. Empty: as the
	// client wrote it.
	OutputField string
}

// Lacks reports whether the channel lacks a feature.
func (c Capabilities) Lacks(f Feature) bool {
	for _, have := range c.Cannot {
		if have == f {
			return true
		}
	}
	return false
}

// Timing holds a channel's own limits; 0 means the contract's default.
type Timing struct {
	// FirstContent is how long the first content may take while another candidate is left.
	FirstContent time.Duration
	// Stall is the longest gap between contents of an uncommitted answer while another candidate is left.
	Stall time.Duration
	// Attempt bounds a call of a channel that does not stream.
	Attempt time.Duration
}

// Route is a stable alias with the models behind it and its own policy.
type Route struct {
	Alias  chat.RequestedModel
	Models []chat.RequestedModel
	// Idle is the longest silence of a committed stream; 0: the default.
	Idle time.Duration
	// ReplayUnsafe says that this route's work must not be repeated after an ambiguous failure.
	ReplayUnsafe bool
	// Expose limits what errors show of the providers behind the route.
	Expose Expose
}

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
}

// ByModel returns the channels of an exact model id, or of provider/model.
func (c *Catalog) ByModel(m chat.RequestedModel) []*Channel { return c.byModel[m] }

// ByName returns a channel by its name; nil when there is none.
func (c *Catalog) ByName(name string) *Channel { return c.byName[name] }
