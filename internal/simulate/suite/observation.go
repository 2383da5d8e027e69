package suite

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spillway/internal/simulate"
)

// Observation is everything that one request left behind.
type Observation struct {
	id string // of the request
	// Status and Header are what the client had; Body up to the end or the break.
	Status int
	Header http.Header
	Body   string
	// Began is when the request was made, Elapsed the time from then to the last byte.
	Began   time.Time
	Elapsed time.Duration
	// Err is why the client could not read the answer to its end.
	Err error
	// Calls are the upstream calls it led to, in the order of their arrival.
	Calls []simulate.Call
	// Records are what the gateway's log says of it, one map a line.
	Records []Record
}

// Record is one line of the gateway's log.
type Record map[string]any

// kind is what the record records.
func (r Record) kind() string {
	kind, _ := r["msg"].(string)
	return kind
}

func (r Record) text(key string) string {
	s, _ := r[key].(string)
	return s
}

// number is 0 when there is none.
func (r Record) number(key string) float64 {
	n, _ := r[key].(float64)
	return n
}

// parseRecords reads JSON lines; what is none is another program's and is skipped.
func parseRecords(log []byte) []Record {
	var out []Record
	for line := range bytes.Lines(log) {
		var r Record
		if json.Unmarshal(line, &r) == nil && r != nil {
			out = append(out, r)
		}
	}
	return out
}

// recordsOf are the records that belong to the request with the id. A record without an
// id belongs to the request that was under way: requests come one after the other.
func recordsOf(records []Record, id string) []Record {
	var out []Record
	under := ""
	for _, r := range records {
		if has := r.text("request_id"); has != "" {
			under = has
		}
		if under == id {
			out = append(out, r)
		}
	}
	return out
}

// recorded are the records of one kind.
func (o Observation) recorded(kind string) []Record {
	var out []Record
	for _, r := range o.Records {
		if r.kind() == kind {
			out = append(out, r)
		}
	}
	return out
}

// attempts are the records of the upstream calls.
func (o Observation) attempts() []Record { return o.recorded("attempt_finished") }

// classes of the attempts that failed, in order.
func (o Observation) classes() []string {
	var out []string
	for _, r := range o.attempts() {
		if class := r.text("class"); class != "" {
			out = append(out, class)
		}
	}
	return out
}

// count is how often a model was called.
func (o Observation) count(model string) int {
	n := 0
	for _, c := range o.Calls {
		if c.Model == model {
			n++
		}
	}
	return n
}

// called are the models in the order of the calls.
func (o Observation) called() []string {
	var out []string
	for _, c := range o.Calls {
		out = append(out, c.Model)
	}
	return out
}

// answer is what a client makes of an answer, plain or streamed.
type answer struct {
	text     string
	calls    []toolCall
	finishes []string // every finish_reason
	usages   []usage
}

// toolCall is a call of a tool, or the part of one that a chunk carries.
type toolCall struct {
	Index    int
	ID       string
	Function struct{ Name, Arguments string }
	parts    int // chunks it came in; 0 in a plain answer
}

// stream is what an OpenAI chat client makes of an event stream.
type stream struct {
	answer
	failure  *streamFailure // the error event
	done     int            // end marks
	problems []string
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// streamFailure is the error event of contract §4.
type streamFailure struct {
	Message   string
	Type      string
	Code      string
	Provider  string
	Class     string
	RetrySafe *bool `json:"retry_safe"`
	Partial   *bool `json:"partial"`
}

type chatChunk struct {
	Object  string
	Choices []struct {
		Delta struct {
			Content   string
			ToolCalls []toolCall `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *usage
	Error *streamFailure
}

// parseStream reads as a strict client would; whatever such a client would choke
// on is a problem.
func parseStream(body string) stream {
	var s stream
	for _, line := range strings.Split(body, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, ":"):
		case strings.HasPrefix(line, "data: "):
			s.add(strings.TrimPrefix(line, "data: "))
		default:
			s.problems = append(s.problems, "a line that is no event: "+strconv.Quote(cut(line)))
		}
	}
	if body != "" && !strings.HasSuffix(body, "\n\n") {
		s.problems = append(s.problems, "the last event has no end")
	}
	return s
}

func (s *stream) add(payload string) {
	if payload == "[DONE]" {
		s.done++
		return
	}
	if s.done > 0 || s.failure != nil {
		s.problems = append(s.problems, "an event after the end: "+cut(payload))
	}
	var c chatChunk
	if err := json.Unmarshal([]byte(payload), &c); err != nil {
		s.problems = append(s.problems, "an event that is no JSON: "+cut(payload))
		return
	}
	if strings.Contains(payload, `"error":`) {
		s.failure = c.Error
		if c.Error == nil {
			s.problems = append(s.problems, "an ordinary chunk with an error member: "+cut(payload))
		}
		return
	}
	if c.Object != "chat.completion.chunk" {
		s.problems = append(s.problems, "a chunk of another kind: "+cut(payload))
	}
	for _, choice := range c.Choices {
		s.text += choice.Delta.Content
		for _, part := range choice.Delta.ToolCalls {
			s.join(part)
		}
		if choice.FinishReason != "" {
			s.finishes = append(s.finishes, choice.FinishReason)
		}
	}
	if c.Usage != nil {
		s.usages = append(s.usages, *c.Usage)
	}
}

// join adds a part to its call.
func (a *answer) join(part toolCall) {
	part.parts = 1
	for i := range a.calls {
		if c := &a.calls[i]; c.Index == part.Index {
			c.ID += part.ID
			c.Function.Name += part.Function.Name
			c.Function.Arguments += part.Function.Arguments
			c.parts++
			return
		}
	}
	a.calls = append(a.calls, part)
}

// gatewayError is the body of contract §2.
type gatewayError struct {
	Message      string
	Type         string
	Code         string
	Provider     string
	Class        string
	Retryable    *bool
	RequestID    string `json:"request_id"`
	ProviderCode string `json:"provider_code"`
	Attempts     []attemptLine
}

type attemptLine struct {
	Provider string
	Model    string
	Status   int
	Class    string
	N        int
}

// parseError is nil for a body that is no error.
func parseError(body string) *gatewayError {
	var envelope struct{ Error *gatewayError }
	if json.Unmarshal([]byte(body), &envelope) != nil {
		return nil
	}
	return envelope.Error
}

// completion is a plain answer.
type completion struct {
	Object  string
	Choices []struct {
		Message struct {
			Content   string
			ToolCalls []toolCall `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *usage
}

func itoa(n int) string { return strconv.Itoa(n) }

// cut shortens what is quoted in a finding.
func cut(s string) string {
	if len(s) > 120 {
		return s[:120] + "…"
	}
	return s
}
