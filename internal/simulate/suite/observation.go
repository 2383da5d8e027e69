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
	// Status and Header are what the client had; Body up to the end or the break.
	Status int
	Header http.Header
	Body   string
	// Events are the payloads of the stream, when the answer is one.
	Events []string
	// Elapsed is from the request to the last byte.
	Elapsed time.Duration
	// Err is why the client could not read the answer to its end.
	Err error
	// Calls are the upstream calls in the order of their arrival.
	Calls []simulate.Call
	// Records are the gateway's log, one map a line.
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

// attempts are the records of the upstream calls.
func (o Observation) attempts() []Record {
	var out []Record
	for _, r := range o.Records {
		if r.kind() == "attempt_finished" {
			out = append(out, r)
		}
	}
	return out
}

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

func (o Observation) count(model string) int {
	n := 0
	for _, c := range o.Calls {
		if c.Model == model {
			n++
		}
	}
	return n
}

func (o Observation) called() []string {
	var out []string
	for _, c := range o.Calls {
		out = append(out, c.Model)
	}
	return out
}

// stream is what an OpenAI chat client makes of an event stream.
type stream struct {
	events   []string
	text     string
	chunks   int      // ordinary chunks
	finishes []string // every finish_reason
	usages   []usage
	models   map[string]bool
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
	Model   string
	Choices []struct {
		Delta        struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage *usage
	Error *streamFailure
}

// parseStream reads as a strict client would; whatever such a client would choke
// on is a problem.
func parseStream(body string) stream {
	s := stream{models: map[string]bool{}}
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
	s.events = append(s.events, payload)
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
	s.chunks++
	s.models[c.Model] = true
	if c.Object != "chat.completion.chunk" {
		s.problems = append(s.problems, "a chunk of another kind: "+cut(payload))
	}
	for _, choice := range c.Choices {
		s.text += choice.Delta.Content
		if choice.FinishReason != "" {
			s.finishes = append(s.finishes, choice.FinishReason)
		}
	}
	if c.Usage != nil {
		s.usages = append(s.usages, *c.Usage)
	}
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
	Model   string
	Choices []struct {
		Message      struct{ Content string }
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
