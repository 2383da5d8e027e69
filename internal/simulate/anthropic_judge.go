package simulate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// anthropicRequest is read strictly: a member that it does not have is an error, as
// it is at Anthropic. What stands here as raw JSON is not looked at.
type anthropicRequest struct {
	Model     string           `json:"model"`
	MaxTokens *int             `json:"max_tokens"`
	System    json.RawMessage  `json:"system"`
	Messages  []anthropicTurn  `json:"messages"`
	Stream    bool             `json:"stream"`
	Tools     []anthropicTool  `json:"tools"`
	Choice    *anthropicChoice `json:"tool_choice"`
	Thinking  struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	Output struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Stop        []string `json:"stop_sequences"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	TopK        *int     `json:"top_k"`
	Metadata    struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
	ServiceTier  string          `json:"service_tier"`
	Speed        json.RawMessage `json:"speed"`
	CacheControl json.RawMessage `json:"cache_control"`
	Container    json.RawMessage `json:"container"`
	Context      json.RawMessage `json:"context_management"`
	Servers      json.RawMessage `json:"mcp_servers"`
}

type anthropicChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	OneCall bool   `json:"disable_parallel_tool_use"`
}

type anthropicTool struct {
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Strict       bool            `json:"strict"`
	CacheControl json.RawMessage `json:"cache_control"`
}

type anthropicTurn struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
	Type      string           `json:"type"`
	Text      string           `json:"text"`
	Source    *anthropicSource `json:"source"`
	ID        string           `json:"id"`
	Name      string           `json:"name"`
	Input     json.RawMessage  `json:"input"`
	ToolUseID string           `json:"tool_use_id"`
	Content   json.RawMessage  `json:"content"`
	Thinking  string           `json:"thinking"`
	Signature string           `json:"signature"`
	Data      string           `json:"data"`
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

func (anthropic) parse(body []byte) (request, *failure) {
	var in anthropicRequest
	if f := strictly(body, &in, "The request body is not valid JSON: it cannot be read as a message request.", "%s: Extra inputs are not permitted"); f != nil {
		return request{}, f
	}
	a := asked{model: in.Model, stream: in.Stream, thinks: in.Thinking.Type == "enabled" || in.Thinking.Type == "adaptive"}
	for _, check := range []func(*asked) *failure{in.members, in.conversation, in.declared, in.chosen, in.reasoning, in.format} {
		if f := check(&a); f != nil {
			return request{}, f
		}
	}
	return a.plan(), nil
}

// members holds the request's own to the API's rules.
func (in *anthropicRequest) members(a *asked) *failure {
	switch {
	case in.Model == "":
		return invalid("model: Field required")
	case in.MaxTokens == nil:
		return invalid("max_tokens: Field required")
	case *in.MaxTokens < 1:
		return invalid("max_tokens: must be greater than or equal to 1")
	case len(in.Messages) == 0:
		return invalid("messages: at least one message is required")
	case in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > 1):
		return invalid("temperature: range: 0..1")
	case in.Temperature != nil && in.TopP != nil:
		return invalid("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	case len(in.Metadata.UserID) > 256:
		return invalid("metadata.user_id: String should have at most 256 characters")
	case slices.ContainsFunc(in.Stop, isBlank):
		return invalid("stop_sequences: each stop sequence must contain non-whitespace")
	}
	a.limit = *in.MaxTokens
	return nil
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

// blocks of a turn: a text by itself is one block.
func (t anthropicTurn) blocks() ([]anthropicBlock, bool) {
	var text string
	if json.Unmarshal(t.Content, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, true
	}
	var all []anthropicBlock
	return all, json.Unmarshal(t.Content, &all) == nil && len(all) > 0
}

// conversation holds the turns to the API's rules: the user begins, the two take
// turns, and whatever was called is answered at once.
func (in *anthropicRequest) conversation(a *asked) *failure {
	ids := map[string]bool{}
	var open []string // the calls of the turn before
	for i, turn := range in.Messages {
		at := fmt.Sprintf("messages.%d", i)
		wanted := []string{"user", "assistant"}[i%2]
		if turn.Role != wanted {
			return invalid(fmt.Sprintf("%s: roles must alternate between \"user\" and \"assistant\", beginning with \"user\", but found %q", at, turn.Role))
		}
		blocks, ok := turn.blocks()
		if !ok {
			return invalid(at + ".content: at least one content block is required")
		}
		m := message{assistant: turn.Role == "assistant", user: turn.Role == "user"}
		if f := answers(at, open, blocks); f != nil {
			return f
		}
		open = nil
		for k, b := range blocks {
			if f := b.check(fmt.Sprintf("%s.content.%d", at, k), turn.Role); f != nil {
				return f
			}
			switch b.Type {
			case "text":
				m.text += b.Text
			case "image":
				m.images++
			case "tool_result":
				m.user = false
			case "tool_use":
				if ids[b.ID] {
					return invalid("messages: `tool_use` ids must be unique")
				}
				ids[b.ID] = true
				open = append(open, b.ID)
			}
		}
		if m.assistant && len(open) > 0 && in.Thinking.Type == "enabled" && !strings.Contains(blocks[0].Type, "thinking") {
			return invalid(fmt.Sprintf("%s.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.", at, blocks[0].Type))
		}
		if m.assistant && strings.HasSuffix(blocks[len(blocks)-1].Type, "thinking") {
			return invalid(at + ": The final block in an assistant message cannot be `thinking`.")
		}
		a.messages = append(a.messages, m)
	}
	switch {
	case len(open) > 0:
		return lacksResults(fmt.Sprintf("messages.%d", len(in.Messages)-1), open)
	case len(ids) > 0 && len(in.Tools) == 0:
		return invalid("Requests which include `tool_use` or `tool_result` blocks must define tools.")
	}
	return nil
}

func lacksResults(at string, ids []string) *failure {
	return invalid(at + ": `tool_use` ids were found without `tool_result` blocks immediately after: " + strings.Join(ids, ", ") +
		". Each `tool_use` block must have a corresponding `tool_result` block in the next message.")
}

// answers holds a turn's tool results to the calls of the turn before: all of them,
// no others, and before anything else.
func answers(at string, open []string, blocks []anthropicBlock) *failure {
	var given []string
	for k, b := range blocks {
		switch {
		case b.Type != "tool_result":
		case k > len(given):
			return lacksResults(at, open) // something stands before it
		case !slices.Contains(open, b.ToolUseID) || slices.Contains(given, b.ToolUseID):
			return invalid(fmt.Sprintf("%s.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, k, b.ToolUseID))
		default:
			given = append(given, b.ToolUseID)
		}
	}
	if len(given) < len(open) {
		return lacksResults(at, open)
	}
	return nil
}

var (
	toolUseID  = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	imageMedia = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
)

// check holds one block to its kind's rules.
func (b anthropicBlock) check(at, role string) *failure {
	switch b.Type {
	case "text":
		if isBlank(b.Text) {
			return invalid(at + ": text content blocks must contain non-whitespace text")
		}
		return nil
	case "image", "document":
		return b.checkSource(at, role)
	case "tool_use":
		switch {
		case role != "assistant":
			return invalid(at + ": `tool_use` blocks can only be in `assistant` messages")
		case !toolUseID.MatchString(b.ID):
			return invalid(at + ".tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
		case !toolName.MatchString(b.Name):
			return invalid(at + ".tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
		case !isObject(b.Input):
			return invalid(at + ".tool_use.input: Input should be a valid dictionary")
		}
		return nil
	case "tool_result":
		if role != "user" {
			return invalid(at + ": `tool_result` blocks can only be in `user` messages")
		}
		return nil
	case "thinking":
		if b.Signature != seal(b.Thinking) {
			return invalid(at + ": Invalid `signature` in `thinking` block")
		}
		return nil
	case "redacted_thinking":
		if !sealed(b.Data) {
			return invalid(at + ": Invalid `data` in `redacted_thinking` block")
		}
		return nil
	}
	return invalid(fmt.Sprintf("%s: Input tag '%s' found using 'type' does not match any of the expected tags", at, b.Type))
}

func (b anthropicBlock) checkSource(at, role string) *failure {
	s := b.Source
	switch {
	case role != "user":
		return invalid(at + ": `" + b.Type + "` blocks can only be in `user` messages")
	case s == nil:
		return invalid(at + ".source: Field required")
	case s.Type == "url" && strings.HasPrefix(s.URL, "https://"):
	case s.Type == "text" && b.Type == "document" && s.MediaType == "text/plain":
	case s.Type == "base64" && !isBase64(s.Data):
		return invalid(at + ".source.base64.data: Invalid base64 data")
	case s.Type == "base64" && b.Type == "image" && slices.Contains(imageMedia, s.MediaType):
	case s.Type == "base64" && b.Type == "document" && s.MediaType == "application/pdf":
	default:
		return invalid(at + ".source: Input should be a source that this kind of block takes")
	}
	return nil
}

// declared holds the tools to the API's rules.
func (in *anthropicRequest) declared(a *asked) *failure {
	for i, t := range in.Tools {
		at := fmt.Sprintf("tools.%d", i)
		var schema struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal(t.InputSchema, &schema)
		switch {
		case !toolName.MatchString(t.Name):
			return invalid(at + ".custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
		case declares(a.tools, t.Name):
			return invalid("tools: Tool names must be unique.")
		case t.Type != "" && t.Type != "custom":
			continue // the provider's own
		case schema.Type != "object":
			return invalid(at + ".custom.input_schema.type: Input should be 'object'")
		}
		if t.Strict {
			if why := notSayable(t.InputSchema); why != "" {
				return invalid(at + ".custom.input_schema: " + why)
			}
		}
		a.tools = append(a.tools, tool{t.Name, t.InputSchema})
	}
	return nil
}

// chosen holds tool_choice to the API's rules.
func (in *anthropicRequest) chosen(a *asked) *failure {
	c := in.Choice
	if c == nil {
		return nil
	}
	forced := c.Type == "any" || c.Type == "tool"
	switch {
	case !forced && c.Type != "auto" && c.Type != "none":
		return invalid("tool_choice: Input tag '" + c.Type + "' found using 'type' does not match any of the expected tags: 'auto', 'any', 'tool', 'none'")
	case len(in.Tools) == 0:
		return invalid("tool_choice: may only be specified while providing tools")
	case c.Type == "tool" && !declares(a.tools, c.Name):
		return invalid("tool_choice.tool.name: Tool '" + c.Name + "' not found in provided tools")
	case forced && (in.Thinking.Type == "enabled" || in.Thinking.Type == "adaptive"):
		return invalid("Thinking may not be enabled when tool_choice forces tool use.")
	}
	a.choice = choice{none: c.Type == "none", required: c.Type == "any", name: c.Name}
	a.oneCall = c.OneCall
	return nil
}

// reasoning holds thinking and what does not go with it to the API's rules.
func (in *anthropicRequest) reasoning(*asked) *failure {
	t := in.Thinking
	switch {
	case !slices.Contains([]string{"", "enabled", "adaptive", "disabled", "between_tools"}, t.Type):
		return invalid("thinking: Input tag '" + t.Type + "' found using 'type' does not match any of the expected tags")
	case !slices.Contains([]string{"", "low", "medium", "high", "xhigh", "max"}, in.Output.Effort):
		return invalid("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	case t.Type == "enabled" && t.Budget < 1024:
		return invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case t.Type == "enabled" && t.Budget >= *in.MaxTokens:
		return invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
	case t.Type == "enabled" && in.Temperature != nil && *in.Temperature != 1:
		return invalid("`temperature` may only be set to 1 when thinking is enabled.")
	}
	return nil
}

func (in *anthropicRequest) format(a *asked) *failure {
	f := in.Output.Format
	switch {
	case f == nil:
		return nil
	case f.Type != "json_schema":
		return invalid("output_config.format.type: Input should be 'json_schema'")
	case !isObject(f.Schema):
		return invalid("output_config.format.schema: Input should be a valid dictionary")
	}
	if why := notSayable(f.Schema); why != "" {
		return invalid("output_config.format.schema: " + why)
	}
	a.schema = f.Schema
	return nil
}

// unsayable are the keywords that a schema of structured output must not have:
// reference/providers.md §3.3 (2026-11-30).
var unsayable = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
	"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "not"}

// notSayable says what the API does not take in a schema; empty for nothing.
func notSayable(schema json.RawMessage) string {
	var node map[string]json.RawMessage
	if json.Unmarshal(schema, &node) != nil {
		return "" // true, or false
	}
	var kind string
	_ = json.Unmarshal(node["type"], &kind)
	if kind == "object" && string(node["additionalProperties"]) != "false" {
		return "For 'object' type, 'additionalProperties' must be explicitly set to false"
	}
	for _, word := range unsayable {
		if _, has := node[word]; has {
			return fmt.Sprintf("For '%s' type, property '%s' is not supported", kind, word)
		}
	}
	for _, child := range children(node) {
		if why := notSayable(child); why != "" {
			return why
		}
	}
	return ""
}

// children are the schemas within a schema.
func children(node map[string]json.RawMessage) (out []json.RawMessage) {
	for _, key := range []string{"properties", "$defs", "definitions"} {
		var named map[string]json.RawMessage
		_ = json.Unmarshal(node[key], &named)
		for _, child := range named {
			out = append(out, child)
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
		var listed []json.RawMessage
		_ = json.Unmarshal(node[key], &listed)
		out = append(out, listed...)
	}
	if items, ok := node["items"]; ok {
		out = append(out, items)
	}
	return out
}
