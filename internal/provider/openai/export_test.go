package openai

import (
	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/provider"
)

// Known decodes frames one after the other and tells which are of a shape that was known by then.
func Known(frames ...string) (known []bool) {
	r := &reply{call: provider.Call{Request: &chat.Request{Choices: 1}, Channel: &catalog.Channel{Provider: &catalog.Provider{}}}}
	for _, f := range frames {
		known = append(known, r.again(f) != nil)
		_, _ = r.frame(f)
	}
	return known
}
