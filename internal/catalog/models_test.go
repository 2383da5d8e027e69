package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/catalog"
	"spillway/internal/chat"
)

func TestByResponses(t *testing.T) {
	tools := &chat.Request{Tools: []chat.Tool{{Name: "f"}}}
	for name, test := range map[string]struct {
		responses catalog.Responses
		request   *chat.Request
		want      bool
	}{
		"never, whatever the request":           {catalog.ResponsesNever, tools, false},
		"with tools":                            {catalog.ResponsesWithTools, tools, true},
		"with an effort that only that API has": {catalog.ResponsesWithTools, &chat.Request{Effort: "max"}, true},
		"with neither":                          {catalog.ResponsesWithTools, &chat.Request{Effort: "high"}, false},
		"always":                                {catalog.ResponsesAlways, &chat.Request{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, catalog.Capabilities{Responses: test.responses}.ByResponses(test.request))
		})
	}
}
