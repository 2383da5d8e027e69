package wire_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/provider/wire"
	"spillway/internal/sse"
)

// reply makes a call whose answer has this type and body, and is whole on the wire.
func reply(t *testing.T, media, body string, s wire.Stream) *wire.Reply {
	t.Helper()
	p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool {
		return say(conn, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", media, len(body), body))
	})
	x, o := p.client(t).Do(t.Context(), post(origin))
	require.Nil(t, o)
	c := provider.Call{Channel: &catalog.Channel{Provider: &catalog.Provider{}}, Credential: &catalog.Credential{}, Stream: true}
	r := wire.NewReply(x, c, fault.Default(), []string{"seed"}, s)
	t.Cleanup(r.Close)
	return &r
}

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		body      string
		stream    wire.Stream
		frames    []string
		malformed int
		end       error // nil: one of ours, that the stream is no use
	}{
		"each frame is a text that is JSON":          {"data: {\"a\":1}\n\ndata: 2\n\n", wire.Stream{}, []string{`{"a":1}`, "2"}, 0, io.EOF},
		"frames without data are passed over":        {"data:\n\n: ping\n\ndata:  \n\ndata: 1\n\ndata:\n\n", wire.Stream{}, []string{"1"}, 0, io.EOF},
		"one malformed frame is passed over":         {"data: 1\n\ndata: {\n\ndata: 2\n\n", wire.Stream{}, []string{"1", "2"}, 1, io.EOF},
		"the second malformed frame is the end":      {"data: {\n\ndata: 1\n\ndata: }\n\ndata: 2\n\n", wire.Stream{}, []string{"1"}, 2, nil},
		"the format's own end is the end":            {"data: 1\n\ndata: [DONE]\n\ndata: 2\n\n", wire.Stream{End: "[DONE]"}, []string{"1"}, 0, io.EOF},
		"another format's end is a malformed frame":  {"data: 1\n\ndata: [DONE]\n\ndata: 2\n\n", wire.Stream{}, []string{"1", "2"}, 1, io.EOF},
		"a frame that is too long is not read":       {"data: 1\n\ndata: \"" + strings.Repeat("x", 64) + "\"\n\n", wire.Stream{Max: 32}, []string{"1"}, 0, sse.ErrTooLong},
		"a stream without frames is over at once":    {"", wire.Stream{End: "[DONE]"}, nil, 0, io.EOF},
		"an end that stands in a frame's text is no": {"data: [\"[DONE]\"]\n\n", wire.Stream{End: "[DONE]"}, []string{`["[DONE]"]`}, 0, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			r := reply(t, "text/event-stream", c.body, c.stream)
			require.True(t, r.Streamed())
			var frames []string
			text, err := r.Frame()
			for ; err == nil; text, err = r.Frame() {
				frames = append(frames, text)
			}
			assert.Equal(t, c.frames, frames)
			if c.end != nil {
				require.ErrorIs(t, err, c.end)
			} else {
				require.NotErrorIs(t, err, io.EOF)
			}
			assert.Equal(t, provider.Info{Status: 200, Dropped: []string{"seed"}, Malformed: c.malformed}, r.Info())

			r.Content = true // what came of it is trusted only if every frame made sense
			failure := r.Cut(err)
			trusted := c.malformed == 0 && !errors.Is(err, sse.ErrTooLong)
			assert.Equal(t, !trusted, failure.InStream)
			assert.Equal(t, map[bool]fault.Local{true: fault.Broken, false: fault.NoAnswer}[trusted], failure.Local)
			assert.Equal(t, fault.PhasePostContent, failure.Phase)
		})
	}
}

func TestAPlainBodyIsReadOnce(t *testing.T) {
	r := reply(t, "application/json", " {\"a\":1}\n", wire.Stream{End: "[DONE]"})
	require.False(t, r.Streamed())
	text, err := r.Plain()
	require.NoError(t, err)
	assert.Equal(t, " {\"a\":1}\n", text)
	_, err = r.Plain()
	require.ErrorIs(t, err, io.EOF)

	r = reply(t, "application/json", "<html>", wire.Stream{})
	r.Content = true // of a plain body nothing is used before all of it is good
	_, err = r.Plain()
	failure, ok := errors.AsType[*fault.Failure](err)
	require.True(t, ok)
	assert.Equal(t, fault.NoAnswer, failure.Local)
	assert.Equal(t, fault.PhasePreContent, failure.Phase)
}

func TestTheHeadersIDOfACallComesFirst(t *testing.T) {
	r := reply(t, "text/event-stream", "", wire.Stream{})
	r.Identify("")
	r.Identify("a")
	r.Identify("b")
	assert.Equal(t, "a", r.Info().RequestID)
	assert.Equal(t, "a", r.Cut(io.ErrUnexpectedEOF).RequestID)
	assert.Equal(t, "a", r.Failed(fault.Envelope{RequestID: "c"}, true).RequestID)
}

func TestAnErrorInsideA200HasTheStatusThatItNames(t *testing.T) {
	r := reply(t, "text/event-stream", "", wire.Stream{})
	assert.Equal(t, 200, r.Failed(fault.Envelope{}, false).Status)
	f := r.Failed(fault.Envelope{Status: 503}, true)
	assert.Equal(t, 503, f.Status)
	assert.True(t, f.InStream)
	assert.Equal(t, fault.PhasePreContent, f.Phase)
}

func TestIsError(t *testing.T) {
	for text, want := range map[string]bool{`{"message":"x"}`: true, `{}`: true, `"x"`: true, `""`: false, `null`: false, `false`: false, `0`: false, `[]`: false, ``: false} {
		assert.Equal(t, want, wire.IsError(gjson.Parse(text)), text)
	}
}
