package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/chat"
	"spillway/internal/dialect"
	"spillway/internal/provider"
)

// fragile is a provider that panics: in Call, or in the nth Next of each reply.
type fragile struct {
	provider.Provider
	inCall bool
	next   int
}

func (f *fragile) Call(ctx context.Context, c provider.Call) (provider.Reply, error) {
	if f.inCall {
		panic("index out of range of " + "nothing")
	}
	reply, err := f.Provider.Call(ctx, c)
	if err != nil {
		return nil, err
	}
	return &fragileReply{reply, f.next}, nil
}

type fragileReply struct {
	provider.Reply
	left int
}

func (r *fragileReply) Next() (*chat.Event, error) {
	if r.left--; r.left < 0 {
		var calls []string
		_ = calls[len(calls)] // a fault of the runtime, as a decoder could have it
	}
	return r.Reply.Next()
}

// fragileClient panics when a byte reaches it.
type fragileClient struct{ *client }

func (fragileClient) Write([]byte) (int, error) { panic("the writer failed") }

// TestAPanicWithinAPlainAnswerCutsIt: when the status line may be out, the connection is aborted, so that nobody takes
// what came for an answer.
func TestAPanicWithinAPlainAnswerCutsIt(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		w.provider.Script("a-1", alpha.says("Hello"))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(row{}.body()))
		r.Header.Set("Authorization", "Bearer "+clientKey)
		assert.True(t, w.serve(fragileClient{&client{header: http.Header{}}}, r), "the connection is cut")
		assert.Contains(t, w.records.String(), `"outcome":"internal_error"`)
	})
}

// fragileDialect panics when it renders a plain answer.
type fragileDialect struct{ dialect.Dialect }

func (fragileDialect) AppendAnswer([]byte, *chat.Answer, dialect.Head) []byte {
	panic(&chat.Answer{ID: prompt}) // a value that holds what a client said
}

// TestAPanicStaysInside: before the first byte it is a 500, after it the stream ends as one that is not whole; the
// process goes on, the upstream call does not, and the records say so without repeating anything.
func TestAPanicStaysInside(t *testing.T) {
	fragileAt := func(next int) func(provider.Provider) provider.Provider {
		return func(p provider.Provider) provider.Provider { return &fragile{Provider: p, next: next} }
	}
	call := alpha.delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "")
	tests := map[string]struct {
		settings
		stream, committed bool
		unsafe            bool
		status, calls     int
		text              string
	}{
		"in the call, plain":                    {settings: settings{adapter: func(p provider.Provider) provider.Provider { return &fragile{Provider: p, inCall: true} }}, status: 500},
		"in the call, streaming":                {settings: settings{adapter: func(p provider.Provider) provider.Provider { return &fragile{Provider: p, inCall: true} }}, stream: true, status: 500},
		"before the first content":              {settings: settings{adapter: fragileAt(1)}, stream: true, status: 500, calls: 1},
		"after the first content":               {settings: settings{adapter: fragileAt(2)}, stream: true, committed: true, status: 200, calls: 1, text: "Hel"},
		"after a part of a tool call":           {settings: settings{adapter: fragileAt(3)}, stream: true, committed: true, unsafe: true, status: 200, calls: 1, text: "Hel"},
		"in the middle of a plain answer":       {settings: settings{adapter: fragileAt(2)}, status: 500, calls: 1},
		"while a plain answer is being written": {settings: settings{dialect: func(d dialect.Dialect) dialect.Dialect { return fragileDialect{d} }}, status: 500, calls: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.settings, func(t *testing.T, w *world) {
				w.provider.Script("a-1", stream(alpha.role(), alpha.text("Hel"), call, alpha.finish("stop"), done))
				o := w.do(t, request{body: row{stream: tt.stream}.body()})
				require.Equal(t, tt.status, o.status, o.body)
				assert.False(t, o.aborted)
				assert.Len(t, o.calls, tt.calls)
				checkAnswer(t, o, row{})
				if tt.committed {
					assert.Equal(t, tt.text, o.text(t))
					assert.Equal(t, "internal_error", o.ends(t))
					all := o.payloads(t)
					assert.Equal(t, !tt.unsafe, gjson.Get(all[len(all)-2], "error.retry_safe").Bool())
					assert.True(t, gjson.Get(all[len(all)-2], "error.partial").Bool())
				} else {
					assert.Equal(t, "internal_error", gjson.Get(o.body, "error.code").Str)
					assert.Equal(t, "false", o.header.Get("X-Should-Retry"))
				}
				checkSilence(t, "a record", o.raw, prompt)
				assert.Len(t, o.of("panic"), 1)
				require.Len(t, o.of("request_finished"), 1)
				assert.Equal(t, "internal_error", o.of("request_finished")[0].Outcome)
				assert.Equal(t, tt.status, o.of("request_finished")[0].Status)
			})
		})
	}
}
