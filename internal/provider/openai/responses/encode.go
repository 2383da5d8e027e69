package responses

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/provider"
	"spillway/internal/provider/openai/model"
	"spillway/internal/provider/wire"
)

const (
	// minOutput is the least output limit that the API takes, in tokens
	// (https://github.com/earendil-works/pi/issues/6265, 2026-07-02).
	minOutput = 16
	// maxUser is the longest safety_identifier, in bytes (https://platform.openai.com/docs/api-reference/responses/create,
	// 2026-11-30).
	maxUser = 64

	withLogProbs  = "message.output_text.logprobs"
	withReasoning = "reasoning.encrypted_content"
)

// request is the body of a call.
type request struct {
	Model       string         `json:"model"`
	Input       []item         `json:"input"`
	Tools       []tool         `json:"tools,omitempty"`
	Choice      any            `json:"tool_choice,omitempty"` // a word, or a toolChoice
	Parallel    *bool          `json:"parallel_tool_calls,omitzero"`
	Text        textConfig     `json:"text,omitzero"`
	Reasoning   reasoning      `json:"reasoning,omitzero"`
	Include     []string       `json:"include,omitempty"`
	MaxOutput   int64          `json:"max_output_tokens,omitzero"`
	Temperature *float64       `json:"temperature,omitzero"`
	TopP        *float64       `json:"top_p,omitzero"`
	TopLogProbs int            `json:"top_logprobs,omitzero"`
	User        string         `json:"safety_identifier,omitzero"`
	Store       bool           `json:"store"` // the API's own default is true
	Stream      bool           `json:"stream,omitzero"`
	StreamWith  *streamOptions `json:"stream_options,omitzero"`

	Metadata       jsontext.Value `json:"metadata,omitzero"`
	ServiceTier    jsontext.Value `json:"service_tier,omitzero"`
	CacheKey       jsontext.Value `json:"prompt_cache_key,omitzero"`
	CacheOptions   jsontext.Value `json:"prompt_cache_options,omitzero"`
	CacheRetention jsontext.Value `json:"prompt_cache_retention,omitzero"`
}

type reasoning struct {
	Effort string `json:"effort,omitzero"`
}

type streamOptions struct {
	Obfuscation bool `json:"include_obfuscation"`
}

// encoder writes one request. The first refusal counts.
type encoder struct {
	req     chat.Request // without what the channel drops, and under this call's limit
	firm    bool         // hold the model to the schema while it writes
	fetched map[string]provider.Content
	vendor  string
	account string // whose reasoning the provider can read
	model   model.Model
	out     request
	calls   map[string]call // the calls so far, by the client's ids
	taken   map[string]bool // the ids that are in use upstream
	made    int             // how many ids have been made
	dropped []string
	refused *wire.Refusal
}

// encode writes the upstream body from the canonical request, which it does not touch. It returns the names of the
// parameters that were left out.
func encode(c provider.Call) (body []byte, dropped []string, _ *wire.Refusal) {
	drops := c.Channel.Capabilities.Drops
	r := *c.Request
	r.MaxTokens = c.OutputLimit()
	e := &encoder{req: r.Without(drops), firm: c.Firm, fetched: c.Fetched, vendor: c.Channel.Provider.Vendor, account: account(c), model: model.Of(c.Channel.Model),
		calls: map[string]call{}, taken: map[string]bool{}}
	e.req.Effort = c.Channel.Capabilities.Effort(e.req.Effort)
	e.drop(drops)
	e.out.Model, e.out.Stream, e.out.Store = string(c.Channel.Model), c.Stream, e.req.Store
	if c.Stream && e.vendor == "openai" && !slices.Contains(drops, "stream_options") {
		e.out.StreamWith = &streamOptions{} // or each delta is padded with noise
	}
	for _, write := range []func(){e.input, e.tools, e.choice, e.format, e.effort, e.sampling, e.limit, e.user} {
		write()
	}
	e.others()
	if e.refused != nil {
		return nil, nil, e.refused
	}
	body, err := wire.JSON(&e.out)
	if err != nil {
		return nil, nil, &wire.Refusal{Param: "body", Why: "cannot be written as JSON"}
	}
	if e.req.MarksCache() {
		e.dropped = append(e.dropped, "cache_control") // the API caches by itself
	}
	return body, e.dropped, nil
}

// refuse notes that a parameter cannot be put into the API's words.
func (e *encoder) refuse(param, why string) {
	if e.refused == nil {
		e.refused = &wire.Refusal{Param: param, Why: why}
	}
}

// leave notes that parameters are left out, those of them that the client gave.
func (e *encoder) leave(params ...string) {
	for _, m := range e.req.Members {
		if slices.Contains(params, m.Name) && !isNull(m.Value) {
			e.dropped = append(e.dropped, m.Name)
		}
	}
}

// drop leaves out the members that the channel does not take. The client's own list of them stays as it is.
func (e *encoder) drop(drops []string) {
	e.leave(drops...)
	e.req.Members = slices.DeleteFunc(slices.Clone(e.req.Members), func(m chat.Member) bool { return slices.Contains(drops, m.Name) })
}

// written is a member of the client's body in OpenAI's dialect, for what the canonical request has no place for. It does
// not exist where it is null.
func (e *encoder) written(name string) gjson.Result {
	for _, m := range e.req.Members {
		if m.Name == name && e.req.Dialect == chat.OpenAIChat && !isNull(m.Value) {
			return gjson.ParseBytes(m.Value)
		}
	}
	return gjson.Result{}
}

func isNull(value []byte) bool { return strings.TrimSpace(string(value)) == "null" }

// effort writes how much the model may reason. Its reasoning comes back encrypted where the provider does not keep it, so
// that a client can return it with the results of its tools. Of a model that does not reason it must not be asked for
// (https://github.com/OpenHands/software-agent-sdk/pull/1208, 2025-11-20).
func (e *encoder) effort() {
	e.out.Reasoning.Effort = e.req.Effort
	if e.model.Reasons && !e.req.Store {
		e.out.Include = append(e.out.Include, withReasoning)
	}
}

// sampling writes what steers or shows the choice of tokens, where the model takes it.
func (e *encoder) sampling() {
	if !e.model.Samples(e.req.Effort) {
		e.leave("temperature", "top_p")
		if e.req.LogProbs {
			e.leave("logprobs", "top_logprobs")
		}
		return
	}
	e.out.Temperature, e.out.TopP, e.out.TopLogProbs = e.req.Temperature, e.req.TopP, e.req.TopLogProbs
	if e.req.LogProbs {
		e.out.Include = append(e.out.Include, withLogProbs)
	}
}

// limit writes the output limit. One below the API's least is raised to it, and named: the answer may be longer than the
// client asked.
func (e *encoder) limit() {
	e.out.MaxOutput = e.req.MaxTokens
	if n := e.req.MaxTokens; n > 0 && n < minOutput {
		e.out.MaxOutput = minOutput
		e.leave("max_completion_tokens", "max_tokens")
	}
}

func (e *encoder) user() {
	if len(e.req.User) > maxUser {
		e.leave("user", "safety_identifier")
		return
	}
	e.out.User = e.req.User
}

// known are the members of a client's body that the canonical request holds and that are written from it.
var known = []string{"model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "tools", "tool_choice",
	"parallel_tool_calls", "response_format", "temperature", "top_p", "logprobs", "top_logprobs", "stop", "reasoning_effort", "verbosity", "user",
	"safety_identifier", "n", "store", "web_search_options"}

// meant are members that change what an answer is, and that the API has no words for.
var meant = []string{"functions", "function_call", "audio"}

// others passes on what both APIs have in the same words, refuses the parameters without which the answer would be another
// one, and names all further ones, which are left out (reference/providers.md §3.2 and §3.8).
func (e *encoder) others() {
	if e.req.Choices > 1 {
		e.refuse("n", "the Responses API gives one choice")
	}
	if len(e.req.Stop) > 0 {
		e.refuse("stop", "the Responses API has no stop sequences")
	}
	same := map[string]*jsontext.Value{"metadata": &e.out.Metadata, "service_tier": &e.out.ServiceTier, "prompt_cache_key": &e.out.CacheKey,
		"prompt_cache_options": &e.out.CacheOptions, "prompt_cache_retention": &e.out.CacheRetention}
	for _, m := range e.req.Members {
		switch value := strings.TrimSpace(string(m.Value)); {
		case value == "null":
		case slices.Contains(known, m.Name):
		case same[m.Name] != nil && e.req.Dialect == chat.OpenAIChat:
			*same[m.Name] = m.Value
		case slices.Contains(meant, m.Name):
			e.refuse(m.Name, "is not taken by the Responses API")
		case m.Name == "logit_bias":
			if strings.Trim(value, "{} \t\r\n") != "" {
				e.refuse(m.Name, "is not taken by the Responses API")
			}
		case m.Name == "modalities":
			if strings.Contains(value, "audio") {
				e.refuse(m.Name, "the Responses API answers with text alone")
			}
		default:
			e.dropped = append(e.dropped, m.Name)
		}
	}
}
