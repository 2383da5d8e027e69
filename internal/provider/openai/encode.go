package openai

import (
	"slices"
	"strconv"

	"spillway/internal/chat"
	"spillway/internal/provider"
)

const (
	newLimit = "max_completion_tokens"
	oldLimit = "max_tokens"
)

// encode writes the upstream body in one pass over the client's members, which are passed on as written but for those
// that the gateway owns: the model, streaming, the output limit, the reasoning of others, and what this channel does not
// take. It returns the names of the parameters that were left out. The request itself is not touched.
func encode(c provider.Call) (body []byte, dropped []string) {
	r, drops := c.Request, c.Channel.Capabilities.Drops
	b := make([]byte, 0, r.Size+192)
	b = append(b, `{"model":`...)
	b = appendJSONString(b, string(c.Channel.Model))
	for _, m := range r.Members {
		switch m.Name {
		case "model", "stream", "stream_options", newLimit, oldLimit:
			continue
		case "tools", "tool_choice", "parallel_tool_calls":
			if len(r.Tools) == 0 {
				continue // an empty list of tools, and what refers to it, mean nothing; some servers refuse them
			}
		}
		if slices.Contains(drops, m.Name) {
			dropped = append(dropped, m.Name)
			continue
		}
		value := m.Value
		if m.Name == "messages" {
			value = messagesFor(c.Channel.Provider.Vendor, r, value)
		}
		b = appendMember(b, m.Name, value)
	}
	if name := outputLimit(c); r.MaxTokens > 0 {
		if slices.Contains(drops, name) {
			dropped = append(dropped, name)
		} else {
			b = appendMember(b, name, strconv.AppendInt(nil, r.MaxTokens, 10))
		}
	}
	if c.Stream {
		b = append(b, `,"stream":true`...)
		if !slices.Contains(drops, "stream_options") {
			b = append(b, `,"stream_options":{"include_usage":true}`...)
		}
	}
	return append(b, '}'), dropped
}

// outputLimit is the one name under which the output limit is sent: the channel's, else the client's own.
func outputLimit(c provider.Call) string {
	if field := c.Channel.Capabilities.OutputField; field != "" {
		return field
	}
	given := func(m chat.Member) bool { return m.Name == newLimit && string(m.Value) != "null" }
	if slices.ContainsFunc(c.Request.Members, given) {
		return newLimit
	}
	return oldLimit
}

func appendMember(b []byte, name string, value []byte) []byte {
	b = append(b, ',')
	b = appendJSONString(b, name)
	b = append(b, ':')
	return append(b, value...)
}
