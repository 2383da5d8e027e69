package simulate

import (
	"net/http"
	"time"
)

// jsonBody marks a chunked body as a plain answer.
var jsonBody = http.Header{"Content-Type": {"application/json"}}

// draft is the healthy answer to this call.
func (x exchange) draft() draft {
	return x.wire.answer(x.answer())
}

// answer is what the call is answered with, before its wire format.
func (x exchange) answer() answer { return x.request.answer(x.id, time.Now().Unix()) }

// refuse is a refusal of this call.
func (x exchange) refuse(k kind) Reply { return x.wire.refuse(k.failure(), x.id) }

// whole is a draft to its end.
func (x exchange) whole(d draft) Reply {
	if !x.request.stream {
		return x.plain(d)
	}
	return Reply{Stream: x.chunks(d)}
}

// healthy is the whole answer.
func (x exchange) healthy() Reply { return x.whole(x.draft()) }

// plain takes as long as the stream would.
func (x exchange) plain(d draft) Reply {
	return Reply{Delay: time.Duration(len(d.content)) * x.gap, Body: d.plain}
}

// chunks are the events of a draft; tokens are a gap apart.
func (x exchange) chunks(d draft) []Chunk {
	out := []Chunk{}
	for _, f := range d.open {
		out = append(out, Chunk{Data: f.String()})
	}
	for _, f := range d.content {
		out = append(out, Chunk{After: x.gap, Data: f.String()})
	}
	for _, f := range d.finish {
		out = append(out, Chunk{Data: f.String()})
	}
	for _, f := range d.done {
		out = append(out, Chunk{Data: f.String()})
	}
	return out
}

// upTo keeps the first n tokens of a draft and nothing that comes after them.
func (d draft) upTo(n int) draft {
	d.content = d.content[:min(n, len(d.content))]
	d.finish, d.done = nil, nil
	return d
}

// from keeps what upTo leaves.
func (d draft) from(n int) draft {
	d.open = nil
	d.content = d.content[min(n, len(d.content)):]
	return d
}

func noPrefill(x exchange) Reply {
	if x.request.endsAssistant {
		return x.refuse(prefillRefused)
	}
	return x.healthy()
}

// once fails every odd call.
func once(f fault) fault { return rotate(f, exchange.healthy) }

// rotate takes the faults in turn.
func rotate(all ...fault) fault {
	return func(x exchange) Reply { return all[(x.ordinal-1)%len(all)](x) }
}

// downFor fails for d from the model's first call on, then is healthy.
func downFor(d time.Duration, f fault) fault {
	return func(x exchange) Reply {
		if time.Since(x.first) < d {
			return f(x)
		}
		return x.healthy()
	}
}

// slowly is f after a silence.
func slowly(d time.Duration, f fault) fault {
	return func(x exchange) Reply {
		r := f(x)
		r.Delay += d
		return r
	}
}

// failing refuses with the failure.
func failing(f failure) fault {
	return func(x exchange) Reply { return x.wire.refuse(f, x.id) }
}

// unanswered sends nothing at all.
func unanswered(end End) fault {
	return func(exchange) Reply { return Reply{Status: NoAnswer, End: end} }
}

// lateFirstToken sends the headers at once and content only after d.
func lateFirstToken(d time.Duration) fault {
	return func(x exchange) Reply {
		draft := x.draft()
		if !x.request.stream {
			return Reply{Header: jsonBody, Stream: []Chunk{{After: d, Data: draft.plain}}}
		}
		stream := x.chunks(draft)
		stream[len(draft.open)].After = d
		return Reply{Stream: stream}
	}
}

// cutAfter closes the connection after n tokens; a plain answer is cut in the
// same proportion.
func cutAfter(n int) fault {
	return func(x exchange) Reply {
		d := x.draft()
		if !x.request.stream {
			return Reply{Header: jsonBody, Stream: []Chunk{{Data: d.plainUpTo(n)}}, End: Cut}
		}
		return Reply{Stream: x.chunks(d.upTo(n)), End: Cut}
	}
}

// plainUpTo is the part of the plain body that n of its tokens stand for.
func (d draft) plainUpTo(n int) string {
	return d.plain[:len(d.plain)*min(n, len(d.content))/max(len(d.content), 1)]
}

// silentAfter falls silent for d after n tokens, then goes on.
func silentAfter(n int, d time.Duration) fault {
	return func(x exchange) Reply {
		whole := x.draft()
		if !x.request.stream {
			start := whole.plainUpTo(n)
			return Reply{Header: jsonBody, Stream: []Chunk{{Data: start}, {After: d, Data: whole.plain[len(start):]}}}
		}
		rest := x.chunks(whole.from(n))
		rest[0].After = d
		return Reply{Stream: append(x.chunks(whole.upTo(n)), rest...)}
	}
}

// malformedAfter puts half a chunk behind the nth token; no token is lost. The
// body of a plain answer is broken by the same half chunk.
func malformedAfter(n int) fault {
	return func(x exchange) Reply {
		d := x.draft()
		if !x.request.stream {
			start := d.plainUpTo(n)
			return Reply{Body: start + d.first().half().data + d.plain[len(start):]}
		}
		stream := append(x.chunks(d.upTo(n)), Chunk{Data: d.first().half().String()})
		return Reply{Stream: append(stream, x.chunks(d.from(n))...)}
	}
}

// withoutDone sends the whole answer but neither its end mark nor the end of the
// body, and holds the connection open: who waits for either waits d.
func withoutDone(d time.Duration) fault {
	return func(x exchange) Reply {
		draft := x.draft()
		if !x.request.stream {
			return Reply{Header: jsonBody, Stream: []Chunk{{Data: draft.plain}}, End: Stall, Hold: d}
		}
		draft.done = nil
		return Reply{Stream: x.chunks(draft), End: Stall, Hold: d}
	}
}

// failingInside opens a 200 and fails inside it, before any content.
func failingInside(f failure) fault {
	return func(x exchange) Reply { return x.whole(x.wire.failed(x.answer(), f)) }
}

// errorAsSuccess is an error under a 200, in place of any answer.
func errorAsSuccess(x exchange) Reply {
	r := x.refuse(serverError)
	r.Status = http.StatusOK
	return r
}

// empty is a whole answer with nothing in it.
func empty(x exchange) Reply { return x.whole(x.wire.empty(x.answer())) }

func html(status int) fault {
	return func(exchange) Reply { return Reply{Status: status, Body: page} }
}

// zeroBytes is a complete answer of the right type that is empty.
func zeroBytes(x exchange) Reply {
	if x.request.stream {
		return Reply{Stream: []Chunk{}}
	}
	return Reply{Header: jsonBody}
}

// cutInToolCall calls a tool, whatever was asked, and cuts in the middle of the call:
// inside its arguments, or, in a format that sends a call in one piece, behind it and
// before the end of the answer.
func cutInToolCall(x exchange) Reply {
	if x.request.calls == nil {
		x.request.calls = []toolCall{{name: "get_weather", arguments: `{"city":"Lisbon","unit":"celsius"}`}}
	}
	return cutAfter(max(1, len(x.draft().content)/2))(x)
}

// invalidJSON is a complete answer whose text is not the JSON that was asked for.
func invalidJSON(x exchange) Reply {
	x.request.schema, x.request.text = nil, `{"answer": "spillway", "level":`
	return x.healthy()
}

// schemaViolation is a complete answer whose text is JSON of another shape: an
// array, which no object schema accepts.
func schemaViolation(x exchange) Reply {
	x.request.schema, x.request.text = nil, `["not", "what", "was", "asked", "for"]`
	return x.healthy()
}

// unfinishedHeaders stalls inside the header block.
func unfinishedHeaders(exchange) Reply {
	return Reply{Raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", End: Stall}
}

// stalledBody sends half the answer, then nothing.
func stalledBody(x exchange) Reply {
	d := x.draft()
	if !x.request.stream {
		return Reply{Body: d.plain, End: Stall}
	}
	return Reply{Stream: x.chunks(d.upTo(len(d.content) / 2)), End: Stall}
}
