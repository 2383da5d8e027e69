package gateway_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/simulate"
)

// row is one case: what the client asks, what the channels A, B and C answer, and what is right. A channel that gets a
// call more or a call less than its script has replies fails the row.
type row struct {
	// model is the route that is called; "": fast, which is A and then B.
	model string
	// stream asks for a stream; more are further members of the body, as written there.
	stream bool
	more   string
	// whole replaces the body.
	whole  string
	header http.Header
	settings
	deadline time.Duration
	leaves   departure

	a, b, c []simulate.Reply

	// trace is who was called, and the times between the calls; classes are those of the attempts, "ok" for success.
	trace, classes string
	// status of the answer; 0: 200. code, class and provider are those of the error.
	status                int
	code, class, provider string
	// text is the content that the client got; ends the code of the error that ended its stream.
	text, ends string
	// quotes allows a provider's own validation message in the error.
	quotes bool
	// headers must have these values; "" must be absent.
	headers map[string]string
	// returned is how long the whole took; 0: not checked.
	returned time.Duration
	// check is whatever else there is to say.
	check func(*testing.T, outcome)
}

func (r row) body() string {
	if r.whole != "" {
		return r.whole
	}
	more := r.more
	if r.stream {
		more += `,"stream":true`
	}
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, cmp.Or(r.model, "fast"), prompt, more)
}

// run runs each row in a bubble of its own.
func run(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			inBubble(t, r.settings, func(t *testing.T, w *world) {
				w.provider.Script("a-1", r.a...)
				w.provider.Script("b-9", r.b...)
				w.provider.Script("c-5", r.c...)
				o := w.do(t, request{body: r.body(), header: r.header, deadline: r.deadline, leaves: r.leaves})
				assert.Empty(t, w.provider.Unexpected())
				r.judge(t, o)
			})
		})
	}
}

func (r row) judge(t *testing.T, o outcome) {
	t.Helper()
	assert.Equal(t, r.trace, trace(o.calls), "calls")
	assert.Equal(t, r.classes, o.classes(), "classes")
	if o.header == nil {
		require.Equal(t, r.status, o.status, "nothing was answered")
	} else {
		r.judgeAnswer(t, o)
	}
	checkRecords(t, o)
	if r.returned > 0 {
		assert.Equal(t, r.returned, o.returned, "time until the end")
	}
	if r.check != nil {
		r.check(t, o)
	}
	if t.Failed() {
		t.Logf("answer: %d %s\nrecords:\n%s", o.status, o.body, o.raw)
	}
}

func (r row) judgeAnswer(t *testing.T, o outcome) {
	t.Helper()
	require.Equal(t, cmp.Or(r.status, http.StatusOK), o.status, "status: %s", o.body)
	if o.left {
		return // nobody sees more
	}
	checkAnswer(t, o, r)
	for name, value := range r.headers {
		assert.Equal(t, value, o.header.Get(name), name)
	}
	if o.status >= 400 {
		e := gjson.Get(o.body, "error")
		assert.Equal(t, r.code, e.Get("code").Str, "code: %s", o.body)
		assert.Equal(t, r.class, e.Get("class").Str, "class: %s", o.body)
		assert.Equal(t, r.provider, e.Get("provider").Str, "provider: %s", o.body)
		return
	}
	assert.Equal(t, r.text, o.text(t), "text")
	if r.stream {
		assert.Equal(t, r.ends, o.ends(t), "code of the error that ends the stream")
	}
}

// voice writes the answers of one channel.
type voice struct{ id, model string }

var (
	alpha = voice{"chatcmpl-of-a", "a-1-2030-01"}
	beta  = voice{"chatcmpl-of-b", "b-9-2030-01"}
	gamma = voice{"chatcmpl-of-c", "c-5-2030-01"}
)

const (
	spoken = `{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}`
	done   = "[DONE]"
)

// frame is a chunk with these choices and, if not empty, this usage.
func (v voice) frame(choices, usage string) string {
	if usage != "" {
		usage = `,"usage":` + usage
	}
	return fmt.Sprintf(`{"id":%q,"object":"chat.completion.chunk","created":1893456000,"model":%q,"system_fingerprint":"fp_1","choices":%s%s}`,
		v.id, v.model, choices, usage)
}

// delta is a chunk with one delta of choice 0; reason is "" while it goes on.
func (v voice) delta(delta, reason string) string { return v.choice(0, delta, reason) }

func (v voice) choice(index int, delta, reason string) string {
	finish := "null"
	if reason != "" {
		finish = strconv.Quote(reason)
	}
	return v.frame(fmt.Sprintf(`[{"index":%d,"delta":%s,"logprobs":null,"finish_reason":%s}]`, index, delta, finish), "")
}

func (v voice) role() string           { return v.delta(`{"role":"assistant","content":""}`, "") }
func (v voice) text(s string) string   { return v.delta(fmt.Sprintf(`{"content":%q}`, s), "") }
func (v voice) finish(s string) string { return v.delta(`{}`, s) }
func (v voice) usage() string          { return v.frame(`[]`, spoken) }

// says is a whole streamed answer of these pieces.
func (v voice) says(pieces ...string) simulate.Reply {
	frames := []string{v.role()}
	for _, p := range pieces {
		frames = append(frames, v.text(p))
	}
	return stream(append(frames, v.finish("stop"), v.usage(), done)...)
}

// plain is a whole plain answer.
func (v voice) plain(text string) simulate.Reply {
	return body(fmt.Sprintf(`{"id":%q,"object":"chat.completion","created":1893456000,"model":%q,"system_fingerprint":"fp_1",`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":%q,"refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":%s}`,
		v.id, v.model, text, spoken))
}

// stream is a 200 event stream of these payloads.
func stream(payloads ...string) simulate.Reply {
	return simulate.Events(0, simulate.Complete, payloads...)
}

// cut is a 200 event stream whose connection breaks after these payloads.
func cut(payloads ...string) simulate.Reply { return simulate.Events(0, simulate.Cut, payloads...) }

// body is a 200 with this body.
func body(s string) simulate.Reply { return simulate.Reply{Body: s} }

// silence accepts the request and never answers.
func silence() simulate.Reply { return simulate.Reply{Status: simulate.NoAnswer, End: simulate.Stall} }

// fails is an error in OpenAI's envelope.
func fails(status int, typ, code string) simulate.Reply {
	return simulate.Error(status, typ, code, theirs+" for key sk-"+secret+"-A at http://a."+domain+"/v1?key="+secret)
}

// The usual failures.
func overloaded() simulate.Reply  { return fails(529, "overloaded_error", "") }
func unavailable() simulate.Reply { return fails(503, "server_error", "") }
func badKey() simulate.Reply      { return fails(401, "invalid_request_error", "invalid_api_key") }

func one(r simulate.Reply) []simulate.Reply   { return []simulate.Reply{r} }
func twice(r simulate.Reply) []simulate.Reply { return []simulate.Reply{r, r} }

// late answers after a silence.
func late(d time.Duration, r simulate.Reply) simulate.Reply {
	r.Delay = d
	return r
}

// with adds headers to a reply: name, value, name, value.
func with(r simulate.Reply, pairs ...string) simulate.Reply {
	for p := range slices.Chunk(pairs, 2) {
		r = r.WithHeader(p[0], p[1])
	}
	return r
}

// header makes a header: name, value, name, value.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for p := range slices.Chunk(pairs, 2) {
		h.Set(p[0], p[1])
	}
	return h
}

// usage asks for a usage chunk.
const usage = `,"stream_options":{"include_usage":true}`

// both runs every row twice: for a client that does not stream and for one that does.
func both(rows map[string]row) map[string]row {
	out := make(map[string]row, 2*len(rows))
	for name, r := range rows {
		out[name+", plain"] = r
		r.stream = true
		out[name+", streaming"] = r
	}
	return out
}

// withCheck adds a check to those of a row.
func withCheck(r row, check func(*testing.T, outcome)) row {
	before := r.check
	r.check = func(t *testing.T, o outcome) {
		if before != nil {
			before(t, o)
		}
		check(t, o)
	}
	return r
}

// join joins tables; no two rows may have one name.
func join(tables ...map[string]row) map[string]row {
	out := map[string]row{}
	for _, table := range tables {
		for name := range table {
			if _, ok := out[name]; ok {
				panic("two rows are called " + name)
			}
		}
		maps.Copy(out, table)
	}
	return out
}

// upstream is the body of the nth call.
func (o outcome) upstream(n int) gjson.Result { return gjson.Parse(o.calls[n].body) }

// leftWithout holds that a member did not go upstream.
func leftWithout(t *testing.T, body gjson.Result, names ...string) {
	t.Helper()
	for _, n := range names {
		assert.False(t, body.Get(n).Exists(), "%s went upstream: %s", n, body.Raw)
	}
}

// alerts are the channels' credentials that an operator was told of, with the class.
func (o outcome) alerts() string {
	var out []string
	for _, r := range o.of("alert") {
		out = append(out, r.Credential+":"+r.Reason)
	}
	return strings.Join(out, " ")
}
