package wire

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/tidwall/gjson"

	"spillway/internal/fault"
	"spillway/internal/provider"
	"spillway/internal/sse"
)

const (
	// maxPlain is the largest plain answer that is read, in bytes.
	maxPlain = 32 << 20
	// drainFor bounds the wait for the last bytes of an answer that is already whole, so that its connection can be kept.
	drainFor = 100 * time.Millisecond
)

var errMalformed = errors.New("a frame of the stream is not JSON")

// Reply is what is the same in every adapter's provider.Reply, which embeds one and adds Next: the body as texts that are
// JSON (Frame or Plain), the failure of one that did not come whole (Cut), means nothing (Unusable) or tells of an error
// (Failed), and the release of the connection. NewReply makes one; it is used by one goroutine, as a provider.Reply is.
type Reply struct {
	// Exchange is where the answer comes from.
	Exchange *Exchange
	// Call is what is answered.
	Call provider.Call
	// Content says that something that a user would see has been decoded, and so how far a failure had come. The adapter sets it.
	Content bool
	// Done says that the end of the answer has been read, although more bytes may follow. The adapter sets it.
	Done bool

	policy *fault.Policy
	info   provider.Info
	stream *sse.Reader // nil: a plain body
	end    string
	spent  bool // the body has been read to its end
	closed bool
}

// Stream is how an adapter's streams are cut into frames.
type Stream struct {
	// Max is the largest frame that is read, in bytes; 0: sse.DefaultMax.
	Max int
	// End is the frame that ends a stream beside the end of the body; empty: none does.
	End string
}

// NewReply is the reply to a call whose 2xx has come. dropped are the parameters that the call left out.
func NewReply(x *Exchange, c provider.Call, policy *fault.Policy, dropped []string, s Stream) Reply {
	r := Reply{Exchange: x, Call: c, policy: policy, end: s.End,
		info: provider.Info{Status: x.StatusCode, RequestID: x.RequestID(), Dropped: dropped}}
	if x.Streams(c.Stream) {
		r.stream = sse.NewReader(x.Body, s.Max)
	}
	return r
}

// Info is what is known of the reply so far.
func (r *Reply) Info() provider.Info { return r.info }

// Identify takes an id that stands in the answer for the provider's own of the call, where its headers had none.
func (r *Reply) Identify(id string) {
	if r.info.RequestID == "" {
		r.info.RequestID = id
	}
}

// Streamed reports whether the answer comes in frames; otherwise it is one plain body.
func (r *Reply) Streamed() bool { return r.stream != nil }

// Close releases the connection. The last bytes of an answer that is done are read for a moment first.
func (r *Reply) Close() {
	if r.closed {
		return
	}
	r.closed = true
	if r.Done && !r.spent && r.stream != nil {
		stop := time.AfterFunc(drainFor, func() { _ = r.Exchange.Body.Close() })
		for _, err := r.stream.Next(); err == nil; _, err = r.stream.Next() {
			continue
		}
		stop.Stop()
	}
	_ = r.Exchange.Body.Close()
}

// Frame returns the next frame of a stream, which is JSON. Frames without data and the first that is not JSON are passed
// over. The error is io.EOF at the end of the stream, of which only the adapter knows whether the answer is whole by then;
// any other is what broke it off. Both are Cut's to judge.
func (r *Reply) Frame() (string, error) {
	for {
		frame, err := r.stream.Next()
		if err != nil {
			r.spent = true
			return "", err
		}
		text := string(bytes.TrimSpace(frame.Data))
		switch {
		case text == "":
			continue
		case text == r.end:
			return "", io.EOF
		case Valid(text):
			return text, nil
		}
		if r.info.Malformed++; r.info.Malformed > 1 {
			return "", errMalformed
		}
	}
}

// Plain returns the whole of a plain body, which is JSON; io.EOF when it has been read. Every other error is a failure.
func (r *Reply) Plain() (string, error) {
	if r.spent {
		return "", io.EOF
	}
	r.spent = true
	body, err := io.ReadAll(io.LimitReader(r.Exchange.Body, maxPlain+1))
	if err == nil && len(body) > maxPlain {
		err = sse.ErrTooLong
	}
	if err != nil {
		return "", r.cutPlain(err)
	}
	text := string(body)
	if !Valid(text) {
		return "", r.Unusable("the body is not JSON")
	}
	return text, nil
}

// cutPlain is a plain body that did not arrive whole: nothing of it has been used.
func (r *Reply) cutPlain(err error) *fault.Failure {
	o := r.broken(err, fault.PhaseHeaders)
	if errors.Is(err, sse.ErrTooLong) {
		o.Local = fault.NoAnswer
	}
	return r.fail(o)
}

// Cut is the failure of a stream whose frames ended, with Frame's error, before its answer did.
func (r *Reply) Cut(err error) *fault.Failure {
	if r.Content && r.info.Malformed == 0 && !errors.Is(err, sse.ErrTooLong) {
		return r.fail(r.broken(err, fault.PhasePostContent))
	}
	return r.unusable(err)
}

// Unusable is the failure of a 2xx that gave no answer, and why; one that was ended by ourselves keeps its cause.
func (r *Reply) Unusable(why string) *fault.Failure { return r.unusable(errors.New(why)) }

func (r *Reply) unusable(err error) *fault.Failure {
	o := r.broken(err, r.phase())
	if o.Local == fault.Broken {
		o.Local = fault.NoAnswer
	}
	o.InStream = true
	return r.fail(o)
}

// Failed classifies an error inside a 200. parsed says whether its envelope was understood; a status in it is taken for the
// answer's.
func (r *Reply) Failed(env fault.Envelope, parsed bool) *fault.Failure {
	o := r.Exchange.Answered()
	o.Phase, o.Parsed, o.InStream, o.RequestID = r.phase(), parsed, true, r.info.RequestID
	o.Read(env, r.Exchange.Header.Get, time.Now())
	if env.Status != 0 {
		o.Status = env.Status
	}
	return r.fail(o)
}

// broken describes an answer that did not come whole, whose id may stand in what came of it.
func (r *Reply) broken(err error, phase fault.Phase) fault.Observation {
	o := r.Exchange.Broken(err, phase)
	o.RequestID = r.info.RequestID
	return o
}

// phase is how far the answer had come. Of a plain body nothing has been used before all of it is good.
func (r *Reply) phase() fault.Phase {
	if r.Content && r.stream != nil {
		return fault.PhasePostContent
	}
	return fault.PhasePreContent
}

func (r *Reply) fail(o fault.Observation) *fault.Failure { return Fail(r.Call, r.policy, o) }

// IsError reports whether a member `error` tells of one: an object, or a text. null and the like do not.
func IsError(v gjson.Result) bool {
	return v.IsObject() || (v.Type == gjson.String && v.Str != "")
}
