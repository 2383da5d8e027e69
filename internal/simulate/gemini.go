package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// gemini is POST /v1beta/models/{model}:generateContent and :streamGenerateContent.
// The path names the model and says whether to stream.
// Shapes: reference/providers.md §1.3, §3.4, §4.4; https://ai.google.dev/api/generate-content (2026-11-30).
type gemini struct {
	model  string
	stream bool
	// events: the stream is one of events, which the caller has to ask for.
	events bool
}

func geminiAt(path string, events bool) (wire, bool) {
	rest, ok := strings.CutPrefix(path, "/models/")
	model, method, found := strings.Cut(rest, ":")
	if !ok || !found || method != "generateContent" && method != "streamGenerateContent" {
		return nil, false
	}
	return gemini{model: model, stream: method == "streamGenerateContent", events: events}, true
}

func (gemini) name() string { return "gemini" }

func (g gemini) peek([]byte) (model string, stream bool) { return g.model, g.stream }

// identify: the call's id stands in the body.
func (gemini) identify(int) http.Header { return nil }

func (gemini) admit(h http.Header) *failure {
	switch key := h.Get("X-Goog-Api-Key"); {
	case key == "":
		return &failure{kind: noKey}
	case strings.HasPrefix(key, "bad"):
		return &failure{kind: badKey}
	}
	return nil
}

// geminiWords: reference/providers.md §1.3 (2026-11-30). typ is the status, code the
// reason of the details.
var geminiWords = map[kind]spelling{
	badRequest:     {status: 400, typ: "INVALID_ARGUMENT"},
	badPath:        {status: 404, typ: "NOT_FOUND"},
	badMethod:      {status: 404, typ: "NOT_FOUND"},
	noKey:          {status: 403, typ: "PERMISSION_DENIED", message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API."},
	badKey:         {status: 400, typ: "INVALID_ARGUMENT", code: "API_KEY_INVALID", message: "API key not valid. Please pass a valid API key."},
	rejectedKey:    {status: 400, typ: "INVALID_ARGUMENT", code: "API_KEY_INVALID", message: "API key not valid. Please pass a valid API key."},
	noModel:        {status: 404, typ: "NOT_FOUND"},
	throttled:      {status: 429, typ: "RESOURCE_EXHAUSTED", code: "GenerateRequestsPerMinutePerProjectPerModel", message: "You exceeded your current quota, please check your plan and billing details."},
	noQuota:        {status: 429, typ: "RESOURCE_EXHAUSTED", code: "GenerateRequestsPerDayPerProjectPerModel", message: "You exceeded your current quota, please check your plan and billing details."},
	serverError:    {status: 500, typ: "INTERNAL", message: "An internal error has occurred. Please retry."},
	unavailable:    {status: 503, typ: "UNAVAILABLE", message: "The service is currently unavailable."},
	overloaded:     {status: 503, typ: "UNAVAILABLE", message: "The model is overloaded. Please try again later."},
	contextLength:  {status: 400, typ: "INVALID_ARGUMENT", message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
	noJob:          {status: 404, typ: "NOT_FOUND", message: "Operation not found."},
	noFile:         {status: 403, typ: "PERMISSION_DENIED", message: "You do not have permission to access the File or it may not exist."},
	expired:        {status: 403, typ: "PERMISSION_DENIED", message: "You do not have permission to access the File or it may not exist."},
	prefillRefused: {status: 400, typ: "INVALID_ARGUMENT", message: "Please ensure that multiturn requests end with a user role or a function response."},
}

// googleRejectedKey is that envelope, as Google's copy of OpenAI's API has it too:
// https://ai.google.dev/gemini-api/docs/troubleshooting (2026-11).
var googleRejectedKey = string(googleError(rejectedKey.failure()))

func googleError(f failure) json.RawMessage {
	s := f.spell(geminiWords)
	details := list()
	google := func(kind string, members ...any) {
		details = append(details, object(append([]any{"@type", "type.googleapis.com/google.rpc." + kind}, members...)...))
	}
	switch f.kind {
	case badKey, rejectedKey:
		google("ErrorInfo", "reason", s.code, "domain", "googleapis.com", "metadata", object("service", "generativelanguage.googleapis.com"))
	case throttled, noQuota:
		google("QuotaFailure", "violations", list(object("quotaMetric", "generativelanguage.googleapis.com/generate_requests_per_model",
			"quotaId", s.code, "quotaDimensions", object("location", "global"), "quotaValue", "250")))
	}
	if f.wait > 0 {
		google("RetryInfo", "retryDelay", fmt.Sprintf("%ds", f.wait))
	}
	members := []any{"code", s.status, "message", s.message, "status", s.typ}
	if len(details) > 0 {
		members = append(members, "details", details)
	}
	return object("error", object(members...))
}

// refuse has one failure that is no error: a prompt that is blocked is answered so.
func (g gemini) refuse(f failure, n int) Reply {
	if f.kind == contentPolicy {
		w := candidateWriter{answer: answer{n: n, request: request{model: g.model}}}
		return Reply{Body: string(w.content([]any{"promptFeedback", object("blockReason", "PROHIBITED_CONTENT")}, 0, 0))}
	}
	return Reply{Status: f.spell(geminiWords).status, Body: string(googleError(f))}
}

func (gemini) failed(_ answer, f failure) draft {
	body := string(googleError(f))
	return draft{open: []frame{{data: body, crlf: true}}, plain: body}
}

// empty has no candidate.
func (gemini) empty(a answer) draft {
	w := candidateWriter{a}
	body := w.content([]any{"candidates", list()}, 0, 0)
	return draft{finish: []frame{w.frame(body)}, plain: string(body)}
}

// answer has a frame for each piece of text and one for each call, which always
// comes whole.
func (gemini) answer(a answer) draft {
	w := candidateWriter{a}
	d := draft{plain: string(w.plain())}
	thoughts, tokens := 0, 0
	add := func(part json.RawMessage) {
		d.content = append(d.content, w.frame(w.candidate(list(part), "", thoughts, tokens)))
	}
	for _, piece := range a.thinking {
		thoughts++
		add(object("text", piece, "thought", true))
	}
	for _, piece := range a.text {
		tokens++
		add(object("text", piece))
	}
	for k, call := range a.calls {
		tokens += len(call.pieces)
		add(w.call(k))
	}
	d.finish = []frame{w.frame(w.candidate(list(w.last()), w.reason(), thoughts, tokens))}
	return d
}

// candidateWriter writes one candidate as events or as a body.
type candidateWriter struct{ answer }

func (candidateWriter) frame(body json.RawMessage) frame {
	return frame{data: string(body), crlf: true}
}

func (w candidateWriter) call(k int) json.RawMessage {
	args := json.RawMessage(w.calls[k].arguments())
	if !isObject(args) {
		args = object() // the limit cut it
	}
	members := []any{"functionCall", object("name", w.calls[k].name, "args", args)}
	if k == 0 { // of parallel calls the first is signed
		members = append(members, "thoughtSignature", seal(w.calls[k].name))
	}
	return object(members...)
}

// last is the part beside the finish reason: no text, but the signature of what was
// thought.
func (w candidateWriter) last() json.RawMessage {
	if len(w.thinking) > 0 && len(w.calls) == 0 {
		return object("text", "", "thoughtSignature", seal(w.thoughts()))
	}
	return object("text", "")
}

func (w candidateWriter) reason() string {
	if w.cut {
		return "MAX_TOKENS"
	}
	return "STOP"
}

func (w candidateWriter) plain() json.RawMessage {
	parts := list()
	if len(w.thinking) > 0 {
		parts = append(parts, object("text", w.thoughts(), "thought", true))
	}
	if len(w.text) > 0 {
		members := []any{"text", w.said()}
		if len(w.thinking) > 0 {
			members = append(members, "thoughtSignature", seal(w.thoughts()))
		}
		parts = append(parts, object(members...))
	}
	for k := range w.calls {
		parts = append(parts, w.call(k))
	}
	return w.candidate(parts, w.reason(), len(w.thinking), w.tokens()-len(w.thinking))
}

// candidate is a body with one candidate. Its counts are cumulative; thoughts are
// counted beside the rest.
func (w candidateWriter) candidate(parts []json.RawMessage, reason string, thoughts, tokens int) json.RawMessage {
	members := []any{"content", object("parts", parts, "role", "model")}
	if reason != "" {
		members = append(members, "finishReason", reason)
	}
	return w.content([]any{"candidates", list(object(append(members, "index", 0)...))}, thoughts, tokens)
}

func (w candidateWriter) content(members []any, thoughts, tokens int) json.RawMessage {
	usage := []any{"promptTokenCount", w.promptTokens, "candidatesTokenCount", tokens, "totalTokenCount", w.promptTokens + thoughts + tokens,
		"promptTokensDetails", list(object("modality", "TEXT", "tokenCount", w.promptTokens))}
	if thoughts > 0 {
		usage = append(usage, "thoughtsTokenCount", thoughts)
	}
	return object(append(members, "usageMetadata", object(usage...), "modelVersion", w.model, "responseId", RequestID(w.n))...)
}
