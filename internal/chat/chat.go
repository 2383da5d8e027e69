// Package chat is the vocabulary every other package speaks: a chat request, the events of an answer, and the names
// of models. It holds values only: no I/O, no policy, and no import of any other package of ours.
//
// Three names of a model must never be mixed up, so each has its own type: what the client asked for
// (RequestedModel), what a channel sends upstream (RoutedModel), and what the provider says answered (ServedModel).
package chat

import "strings"

// RequestedModel is a model as the client wrote it: a route alias, an exact model id, provider/model, or "auto".
type RequestedModel string

// RoutedModel is the model id that a channel sends to its provider.
type RoutedModel string

// ServedModel is the model id in the provider's answer. Empty until the provider named one.
type ServedModel string

// Dialect is a client-facing or provider-facing wire shape. Frames and members may be passed on as they were written
// only between two ends of the same dialect.
type Dialect string

// The wire shapes.
const (
	OpenAIChat Dialect = "openai.chat"
)

// Role is who speaks in a message.
type Role string

// The roles, in OpenAI's words. Developer and System mean the same to us; both are kept as the client wrote them.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Request is one logical client call, validated and independent of any provider. It is read by every candidate's
// encoder and must not be changed by any of them: the next candidate is built from the same value.
type Request struct {
	Dialect Dialect

	// Models are the models to try, in order, without duplicates: `model` or `models`, then `fallback_models`.
	Models []RequestedModel
	// Prefer names the channel to move to the front; empty: none.
	Prefer string

	Messages []Message
	Tools    []Tool
	// Choice is how the model must use Tools; the zero value leaves it to the provider.
	Choice ToolChoice
	// Format is the structured output the client asked for; nil means text.
	Format *Format

	// MaxTokens bounds the output; 0 means that the client set no bound.
	MaxTokens int64
	// Choices is the client's `n`; at least 1.
	Choices  int
	LogProbs bool
	// TopLogProbs is how many alternatives a token's probabilities are wanted for.
	TopLogProbs int
	// Temperature, TopP and the penalties are nil where the client set none.
	Temperature, TopP, FrequencyPenalty, PresencePenalty *float64
	// Seed is nil where the client set none.
	Seed *int64
	// Stop are the sequences that end the output.
	Stop []string
	// OneCall forbids more than one tool call in a turn (parallel_tool_calls: false).
	OneCall bool
	// Effort is the client's reasoning effort, in OpenAI's words; empty: not set.
	Effort string

	// Stream says that the client wants an event stream.
	Stream bool
	// IncludeUsage says that the client asked for a usage chunk in its stream.
	IncludeUsage bool
	// Spoken says that the client wants the answer as sound, which cannot be put together from a stream: it has another
	// format there.
	Spoken bool
	// Store says that the provider keeps the answer (`store: true`), which makes the work unsafe to repeat.
	Store bool

	// User and Conversation are the client's ids of whom the request is for; records show keyed digests of them only.
	User, Conversation string

	// Members are the top-level members of the client's body in the order written, without those that only the
	// gateway reads (models, fallback_models, prefer). An encoder of the same Dialect writes its body from them.
	Members []Member
	// Size is the length of the client's body in bytes.
	Size int
}

// MarksCache reports whether a part or a tool has a CacheControl.
func (r *Request) MarksCache() bool {
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			if r.Messages[i].Parts[j].CacheControl != nil {
				return true
			}
		}
	}
	for i := range r.Tools {
		if r.Tools[i].CacheControl != nil {
			return true
		}
	}
	return false
}

// Without is the request as if the client had not set these top-level parameters. Its Members are as the client wrote them.
func (r Request) Without(params []string) Request {
	for _, name := range params {
		switch name {
		case "max_tokens", "max_completion_tokens":
			r.MaxTokens = 0
		case "n":
			r.Choices = 1
		case "temperature":
			r.Temperature = nil
		case "top_p":
			r.TopP = nil
		case "logprobs":
			r.LogProbs, r.TopLogProbs = false, 0
		case "top_logprobs":
			r.TopLogProbs = 0
		case "stop":
			r.Stop = nil
		case "reasoning_effort":
			r.Effort = ""
		case "user", "safety_identifier":
			r.User = ""
		case "store":
			r.Store = false
		case "parallel_tool_calls":
			r.OneCall = false
		case "response_format":
			r.Format = nil
		case "tool_choice":
			r.Choice = ToolChoice{}
		}
	}
	return r
}

// Member is one top-level member of a JSON body: its decoded name and its value as written.
type Member struct {
	Name  string
	Value []byte
}

// Message is one turn of the conversation.
type Message struct {
	Role Role
	Name string
	// Parts are the content in order; a plain string is one text part, absent or null content is none.
	Parts []Part
	// Calls are the tool calls of an assistant turn.
	Calls []ToolCall
	// CallID says which call a tool message answers.
	CallID  string
	Refusal string
	// Thinking are the reasoning blocks of an assistant turn, in order, as a provider gave them: they go back to the same
	// vendor unchanged, and to no other.
	Thinking []Thinking
}

// Thinking is one block of a model's reasoning that must be replayed as it was.
type Thinking struct {
	// Vendor is whose block it is ("anthropic", "gemini", "openai").
	Vendor string
	// Text and Signature are a signed block's; Data is an encrypted block's, which has no text.
	Text, Signature, Data string
	// After is what of the turn stood before it.
	After Place
}

// PartKind tells what a part holds.
type PartKind string

// The kinds of parts.
const (
	TextPart    PartKind = "text"
	ImagePart   PartKind = "image"
	AudioPart   PartKind = "audio"
	FilePart    PartKind = "file"
	RefusalPart PartKind = "refusal"
)

// Part is one piece of a message's content.
type Part struct {
	Kind PartKind
	// Text is the text of a text or refusal part.
	Text string
	// URL is an image's address: a data URL or a remote one.
	URL string
	// Detail is the client's wish for an image's resolution; empty: not set.
	Detail string
	// Data is inline base64 content or a data URL (audio, file).
	Data string
	// Encoding is the format of audio (wav, mp3).
	Encoding string
	FileID   string
	FileName string
	// CacheControl marks the end of what the provider is to keep in its cache of prompts, as the client wrote it: an object in
	// Anthropic's words, which OpenRouter's clients send too. Nil: no mark.
	CacheControl []byte
}

// Remote is the address of content that a part only names, and the member that holds it, in OpenAI's words; both are empty
// where the content is in the part, or in a provider's own store. A file may be named in either of its members, as OpenRouter's
// and Gemini's clients do.
func (p *Part) Remote() (member, address string) {
	switch {
	case p.Kind == ImagePart && remote(p.URL):
		return "image_url.url", p.URL
	case p.Kind == FilePart && remote(p.Data):
		return "file.file_data", p.Data
	case p.Kind == FilePart && p.Data == "" && remote(p.FileID):
		return "file.file_id", p.FileID
	default:
		return "", ""
	}
}

func remote(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"))
}

// Tool is something the model may call.
type Tool struct {
	// Custom marks a free-text tool, which only OpenAI's own models take; all others are functions.
	Custom      bool
	Name        string
	Description string
	// Parameters is the JSON schema as written; nil when the client gave none.
	Parameters []byte
	Strict     bool
	// CacheControl is as that of a Part.
	CacheControl []byte
}

// ToolCall is a call the model made.
type ToolCall struct {
	ID   string
	Name string
	// Custom marks a call of a free-text tool: its Arguments are text, not JSON.
	Custom bool
	// Arguments is the JSON text of the arguments; "{}" when the call takes none.
	Arguments string
	// Signature is the vendor's proof of the reasoning behind the call, to be replayed with it; empty: none.
	Signature string
}

// ChoiceMode is how free the model is in using tools.
type ChoiceMode string

// The modes of tool choice. The zero value is the provider's default.
const (
	ChoiceAuto     ChoiceMode = "auto"
	ChoiceNone     ChoiceMode = "none"
	ChoiceRequired ChoiceMode = "required"
	ChoiceNamed    ChoiceMode = "named"
	ChoiceAllowed  ChoiceMode = "allowed_tools"
)

// ToolChoice is the client's tool_choice.
type ToolChoice struct {
	Mode ChoiceMode
	// Name is the tool of ChoiceNamed.
	Name string
	// Allowed are the tools of ChoiceAllowed, Required says that one of them must be called.
	Allowed  []string
	Required bool
}

// Forced reports whether the model must call a tool.
func (c ToolChoice) Forced() bool { return c.Mode == ChoiceRequired || c.Mode == ChoiceNamed }

// FormatKind is the kind of structured output.
type FormatKind string

// The kinds of structured output.
const (
	FormatText   FormatKind = "text"
	FormatObject FormatKind = "json_object"
	FormatSchema FormatKind = "json_schema"
)

// Format is the structured output a client asked for.
type Format struct {
	Kind   FormatKind
	Name   string
	Schema []byte
	Strict bool
}
