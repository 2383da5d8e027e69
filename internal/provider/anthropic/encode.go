package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
)

const (
	// defaultOutput is the output limit where neither the client nor the channel has one: the API demands one.
	defaultOutput = 4096
	// maxUser is the longest metadata.user_id, in bytes.
	maxUser = 256
	topK    = "top_k"
)

// request is the body of a Messages call.
type request struct {
	Model       string        `json:"model"`
	MaxTokens   int64         `json:"max_tokens"`
	System      []block       `json:"system,omitempty"`
	Messages    []turn        `json:"messages"`
	Tools       []tool        `json:"tools,omitempty"`
	Choice      *toolChoice   `json:"tool_choice,omitzero"`
	Stop        []string      `json:"stop_sequences,omitempty"`
	Temperature *float64      `json:"temperature,omitzero"`
	TopP        *float64      `json:"top_p,omitzero"`
	TopK        int64         `json:"top_k,omitzero"`
	Thinking    *thinkingMode `json:"thinking,omitzero"`
	Output      *outputConfig `json:"output_config,omitzero"`
	Metadata    *metadata     `json:"metadata,omitzero"`
	Stream      bool          `json:"stream,omitzero"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

type outputConfig struct {
	Effort string  `json:"effort,omitzero"`
	Format *format `json:"format,omitzero"`
}

type format struct {
	Type   string         `json:"type"`
	Schema jsontext.Value `json:"schema"`
}

// encoded is a request in Anthropic's words.
type encoded struct {
	body []byte
	// dropped names the client's parameters that were left out.
	dropped []string
	// answerTool is the tool whose input is the answer, for a model that has no schema mode; empty: none.
	answerTool string
}

// encoder writes one request. The first refusal counts.
type encoder struct {
	req        chat.Request // without what the channel drops
	fetched    map[string]provider.Content
	model      model
	can        catalog.Capabilities
	out        request
	ids        map[string]string // ids of tool calls as the API takes them
	taken      map[string]bool   // those that are in use
	same       map[string]int    // how many came out the same and were numbered
	dropped    []string
	answerTool string
	refused    *wire.Refusal
}

// encode writes the upstream body from the canonical request, which it does not touch.
func encode(c provider.Call) (encoded, *wire.Refusal) {
	e := &encoder{req: c.Request.Without(c.Channel.Capabilities.Drops), fetched: c.Fetched, model: modelOf(c.Channel.Model), can: c.Channel.Capabilities,
		ids: map[string]string{}, taken: map[string]bool{}, same: map[string]int{}}
	e.out.Model, e.out.Stream = string(c.Channel.Model), c.Stream
	if c.MaxTokens > 0 {
		e.req.MaxTokens = e.atMost(c.MaxTokens, e.req.MaxTokens)
	}
	e.out.MaxTokens = limit(e.req.MaxTokens, e.can)
	for _, write := range []func(){e.messages, e.tools, e.choice, e.format, e.effort, e.sampling, e.stops, e.user} {
		write()
	}
	e.others(c.Channel.Capabilities.Drops)
	if e.refused != nil {
		return encoded{}, e.refused
	}
	body, err := wire.JSON(&e.out)
	if err != nil {
		return encoded{}, &wire.Refusal{Param: "body", Why: "cannot be written as JSON"}
	}
	return encoded{body: body, dropped: e.dropped, answerTool: e.answerTool}, nil
}

// limit is the output limit: the client's, or else the operator's, or else a short one that the model has.
func limit(client int64, can catalog.Capabilities) int64 {
	switch {
	case client > 0:
		return client
	case can.DefaultOutput > 0:
		return can.DefaultOutput
	case can.MaxOutput > 0:
		return min(defaultOutput, can.MaxOutput)
	default:
		return defaultOutput
	}
}

// atMost is a limit that is raised no further than the model's longest output, as far as that is known; but a client may
// know of more.
func (e *encoder) atMost(raised, client int64) int64 {
	if e.can.MaxOutput == 0 {
		return raised
	}
	return min(raised, max(e.can.MaxOutput, client))
}

// refuse notes that a parameter cannot be put into Anthropic's words.
func (e *encoder) refuse(param, why string) {
	if e.refused == nil {
		e.refused = &wire.Refusal{Param: param, Why: why}
	}
}

// leave notes that a parameter is left out.
func (e *encoder) leave(param string) { e.dropped = append(e.dropped, param) }

func (e *encoder) stops() {
	for _, s := range e.req.Stop {
		if strings.TrimSpace(s) == "" {
			e.refuse("stop", "a sequence of white space alone is not taken by this provider")
		}
	}
	e.out.Stop = e.req.Stop
}

// sampling writes temperature, top_p and top_k where the model takes them: not while it reasons, and never the first two at once.
func (e *encoder) sampling() {
	thinks := e.out.Thinking != nil && (e.out.Thinking.Type == budgeted || e.out.Thinking.Type == adaptive)
	fixed := e.model.fixedSampling || thinks
	if t := e.req.Temperature; t != nil {
		if fixed {
			e.leave("temperature")
		} else {
			clamped := min(*t, 1) // 0 to 2 elsewhere
			e.out.Temperature = &clamped
		}
	}
	if p := e.req.TopP; p != nil {
		if fixed || e.out.Temperature != nil {
			e.leave("top_p")
		} else {
			e.out.TopP = p
		}
	}
	if !fixed {
		e.out.TopK = e.topK()
	}
}

// topK is a parameter of Anthropic's own, which OpenAI's dialect passes on; 0 where the client did not give it, or where it is
// no number that the API takes.
func (e *encoder) topK() int64 {
	for _, m := range e.req.Members {
		if m.Name == topK && !slices.Contains(e.can.Drops, topK) {
			k, _ := strconv.ParseInt(strings.TrimSpace(string(m.Value)), 10, 32)
			return max(k, 0)
		}
	}
	return 0
}

func (e *encoder) user() {
	switch {
	case e.req.User == "":
	case len(e.req.User) > maxUser:
		for _, m := range e.req.Members {
			if (m.Name == "user" || m.Name == "safety_identifier") && !isNull(m.Value) {
				e.leave(m.Name)
			}
		}
	default:
		e.out.Metadata = &metadata{e.req.User}
	}
}

// written are the members of a client's body that the canonical request holds and that are written from it.
var written = []string{"model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "tools", "tool_choice",
	"parallel_tool_calls", "response_format", "temperature", "top_p", "stop", "reasoning_effort", "user", "safety_identifier", "n", "logprobs"}

// meant are members that change what an answer is, and that Anthropic has no words for.
var meant = []string{"functions", "function_call", "audio", "web_search_options"}

// others refuses the parameters without which the answer would be another one, and names all further ones, which are left
// out (reference/providers.md §3.2 and §3.8).
func (e *encoder) others(drops []string) {
	if e.req.Choices > 1 {
		e.refuse("n", "this provider gives one choice")
	}
	if e.req.LogProbs {
		e.refuse("logprobs", "this provider gives no log probabilities")
	}
	for _, m := range e.req.Members {
		switch value := strings.TrimSpace(string(m.Value)); {
		case isNull(m.Value):
		case slices.Contains(drops, m.Name):
			e.leave(m.Name)
		case slices.Contains(written, m.Name), m.Name == topK && e.out.TopK > 0:
		case slices.Contains(meant, m.Name):
			e.refuse(m.Name, "is not taken by this provider")
		case m.Name == "logit_bias" && strings.Trim(value, "{} \t\r\n") != "":
			e.refuse(m.Name, "is not taken by this provider")
		case m.Name == "modalities":
			if strings.Contains(value, "audio") {
				e.refuse(m.Name, "this provider answers with text alone")
			}
		default:
			e.leave(m.Name)
		}
	}
}

func isNull(value []byte) bool { return strings.TrimSpace(string(value)) == "null" }
