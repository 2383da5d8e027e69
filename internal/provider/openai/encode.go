package openai

import (
	"slices"
	"strconv"

	"spillway/internal/provider"
)

// encode writes the upstream body in one pass over the client's members, which are passed on as written but for those
// that the gateway owns: the model, streaming, the name of the output limit, and what this channel does not take. It
// returns the names of the parameters that were left out. The request itself is not touched.
func encode(c provider.Call) (body []byte, dropped []string) {
	r := c.Request
	caps := c.Channel.Capabilities
	b := make([]byte, 0, r.Size+192)
	b = append(b, `{"model":`...)
	b = appendJSONString(b, string(c.Channel.Model))
	limit := outputLimit(c)
	for _, m := range r.Members {
		switch m.Name {
		case "model", "stream", "stream_options":
			continue
		case "tools", "tool_choice", "parallel_tool_calls":
			if len(r.Tools) == 0 {
				continue // an empty list of tools, and what refers to it, mean nothing; some servers refuse them
			}
		case "max_tokens", "max_completion_tokens":
			if limit != "" && m.Name != limit {
				continue
			}
		}
		if slices.Contains(caps.Drops, m.Name) {
			dropped = append(dropped, m.Name)
			continue
		}
		b = appendMember(b, m.Name, m.Value)
	}
	if limit != "" && !has(c, limit) && r.MaxTokens > 0 && !slices.Contains(caps.Drops, limit) {
		b = appendMember(b, limit, strconv.AppendInt(nil, r.MaxTokens, 10))
	}
	if c.Stream {
		b = append(b, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	return append(b, '}'), dropped
}

// outputLimit is the one name of the output limit to send; empty: none is sent, or the client's own is kept. Where the
// client gave both, max_completion_tokens wins.
func outputLimit(c provider.Call) string {
	if field := c.Channel.Capabilities.OutputField; field != "" {
		return field
	}
	if has(c, "max_completion_tokens") {
		return "max_completion_tokens"
	}
	return ""
}

func has(c provider.Call, name string) bool {
	for _, m := range c.Request.Members {
		if m.Name == name {
			return true
		}
	}
	return false
}

func appendMember(b []byte, name string, value []byte) []byte {
	b = append(b, ',')
	b = appendJSONString(b, name)
	b = append(b, ':')
	return append(b, value...)
}
