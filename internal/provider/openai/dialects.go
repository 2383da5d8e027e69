package openai

import (
	"bytes"
	"slices"
)

// dialect is how a vendor's chat completions differ from OpenAI's. What it does not name goes upstream as the client wrote
// it, members that we do not know among them. The zero value differs in nothing. What a model cannot do at all is a fact of
// the catalogue, and makes a request pass its channels by; here is only what can be said in other words or left out.
type dialect struct {
	vendor string
	// source is where the row was read, and when.
	source string

	// servesOpenAI: its models are OpenAI's, under the names that they have there.
	servesOpenAI bool
	// keyHeader is the header that holds the key as it is; empty: Authorization, as a bearer.
	keyHeader string
	// limit is the one name that the output limit has; empty: the client's.
	limit string
	// names are the top-level members that have another name.
	names map[string]string
	// words are the values of top-level members that it has another word for; an empty one: none, and the member, without
	// which the answer is the same, is left out.
	words map[string]map[string]string
	// drops are top-level members that it does not take, and without which the answer is the same.
	drops []string
	// omits are top-level members that it does not take, not even where they ask for nothing.
	omits []string
	// effort is how it is told to reason.
	effort effort

	// untold: tells the usage of a stream unasked, and refuses or ignores stream_options.
	untold bool
	// plainChunks: pads the frames of a stream unless it is asked not to.
	plainChunks bool

	// without are the members of messages that it does not take.
	without []string
	// roles are the roles that it has another word for.
	roles map[string]string
	// details: takes reasoning_details; signatures: takes those of Google's models.
	details, signatures bool
	// recalls: refuses an assistant's turn without its reasoning.
	recalls bool
	// prefix: refuses an assistant's turn at the end that is not marked as the beginning of the answer.
	prefix bool
	// strict: holds a model to a strict schema while it writes.
	strict bool
	// shortIDs: takes ids of tool calls of nine letters and digits only.
	shortIDs bool

	// reasonsBeside: counts reasoning beside the completion, and what was cached beside the prompt where that is more.
	reasonsBeside bool
}

// effort is a form of reasoning_effort. The zero value is OpenAI's.
type effort string

const (
	// effortInReasoning is reasoning:{"effort"}.
	effortInReasoning effort = "reasoning"
	// effortAndThinking is reasoning_effort beside thinking:{"type"}, which has the word for none.
	effortAndThinking effort = "thinking"
)

// newest are parameters that OpenAI alone takes and that change how an answer is kept, cached, billed or checked, and not
// the answer (reference/providers.md §3.8, 2026-11-30).
var newest = []string{"store", "metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier",
	"moderation", "verbosity", "prediction"}

// echoes are the members of an answer's message that clients send back with it, and that strict servers refuse.
var echoes = []string{"name", "refusal", "annotations", "audio", "function_call", "reasoning_content", "reasoning"}

// reasoned are those of them that OpenAI's own servers never made.
var reasoned = []string{"reasoning_content", "reasoning"}

// dialects are those who differ. Together and servers that nobody knows are OpenAI's copies as far as we know.
var dialects = []dialect{
	{
		vendor:       "openai",
		source:       "reference/providers.md §4.1; https://platform.openai.com/docs/guides/structured-outputs (strict); that a member of a message that it does not know is a 400: transitive-bullshit/agentic#531, 2026-11-30",
		servesOpenAI: true,
		plainChunks:  true,
		without:      reasoned,
		strict:       true,
	},
	{
		vendor:       "azure",
		source:       "reference/providers.md §1.5 and §3, 2026-11-30",
		servesOpenAI: true,
		keyHeader:    "Api-Key",
		strict:       true,
		without:      reasoned,
	},
	{
		vendor: "mistral",
		source: "reference/providers.md §3.6; @mistralai/mistralai 2.7.0; that what it does not know is a 422: openai/openai-agents-python#442 (stream_options), " +
			"charmbracelet/crush#1590 (reasoning_content), editor-code-assistant/eca#231 (max_completion_tokens), Gage-Technologies/mistral-go#2 (name); 2026-11-30",
		limit: oldLimit,
		names: map[string]string{"seed": "random_seed"},
		words: map[string]map[string]string{
			"tool_choice":      {"required": "any"},
			"reasoning_effort": {"max": "xhigh"},
			"service_tier":     {"default": "standard_only", "flex": "", "scale": "", "priority": "", "fast": ""},
		},
		drops: []string{"user", "store", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "moderation", "verbosity"},
		omits: []string{"logprobs", "top_logprobs", "logit_bias", "modalities", "audio", "functions", "function_call", "web_search_options"},

		untold:   true,
		without:  echoes,
		roles:    map[string]string{"developer": "system"},
		prefix:   true,
		shortIDs: true,
	},
	{
		vendor: "groq",
		source: "reference/providers.md §3.6; groq-sdk 1.6.0; that what it does not know is a 400: janhq/jan#8136 (reasoning_content), " +
			"livekit/agents#1276 (store, metadata), vercel/ai#1578 (stream_options); 2026-11-30",
		words: map[string]map[string]string{
			"reasoning_effort": {"minimal": "low", "xhigh": "high", "max": "high"},
			"service_tier":     {"default": "on_demand", "scale": "", "priority": "", "fast": ""},
		},
		drops:   newest,
		omits:   []string{"logprobs", "top_logprobs", "logit_bias", "n", "modalities", "audio", "web_search_options"},
		untold:  true,
		without: echoes,
	},
	{
		vendor: "deepseek",
		source: "reference/providers.md §1.8 and §3.6; https://api-docs.deepseek.com/guides/thinking_mode, 2026-11-30",
		limit:  oldLimit,
		effort: effortAndThinking,

		roles:   map[string]string{"developer": "system"},
		recalls: true,
	},
	{
		vendor:        "xai",
		source:        "reference/providers.md §3.6; @ai-sdk/xai 3.0.138 (convert-xai-chat-usage, xai-chat-options), 2026-11-30",
		limit:         newLimit,
		words:         map[string]map[string]string{"reasoning_effort": {"minimal": "low", "max": "xhigh"}},
		omits:         []string{"frequency_penalty", "presence_penalty", "stop"},
		reasonsBeside: true,
	},
	{
		vendor:  "openrouter",
		source:  "reference/providers.md §3.6; @openrouter/sdk 1.3.19 (ChatRequest: of reasoning_effort and reasoning that differ it takes neither), 2026-11-30",
		effort:  effortInReasoning,
		details: true,
	},
	{
		vendor: "gemini",
		source: "reference/providers.md §3.6, case B04 c; that what it does not know is a 400: ed-donner/agents#45 (store, metadata), " +
			"leookun/cursor-byok#112 (prompt_cache_key); 2026-11-30",
		words:      map[string]map[string]string{"reasoning_effort": {"xhigh": "high", "max": "high"}},
		drops:      newest,
		signatures: true,
	},
}

// dialectOf is a vendor's dialect.
func dialectOf(vendor string) *dialect {
	for i := range dialects {
		if dialects[i].vendor == vendor {
			return &dialects[i]
		}
	}
	return &dialect{}
}

// editsMessages reports whether messages as written may differ, whatever reasoning they bring back.
func (d *dialect) editsMessages(written []byte) bool {
	return len(d.roles) > 0 || d.recalls || d.prefix || d.shortIDs ||
		slices.ContainsFunc(d.without, func(name string) bool { return bytes.Contains(written, []byte(`"`+name+`"`)) })
}
