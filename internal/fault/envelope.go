package fault

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	// MaxErrorBody is how much of an error body is read, in bytes.
	MaxErrorBody = 64 << 10

	maxMessage = 512
	// maxWord bounds a type, a code or a detail, in bytes. A longer one is no word but a text, and is left out.
	maxWord    = 200
	maxDetails = 16
)

// Envelope is what an error body said, in the provider's words.
type Envelope struct {
	Type    string
	Code    string
	Message string
	Param   string
	// Details are the words beside type and code that say more: Google's reasons and quota ids, Azure's inner code,
	// what OpenRouter tells of its upstream.
	Details []string
	// Status is the HTTP status that the body names by itself (a numeric code from 100 to 599); 0 when it names none.
	Status int
	// RequestID is the provider's own id of the call, where the body holds it.
	RequestID string
	// Retryable is the provider's word on whether the same request may be sent again; nil when it says nothing.
	Retryable *bool

	said said
}

// said is what an error body holds of hints, as written.
type said struct {
	delay   string            // Google's RetryInfo.retryDelay
	headers map[string]string // headers of the original error, by lower-case names
	after   string            // OpenRouter's availability.retry_after, in seconds
	resets  string            // OpenRouter's metadata.resets_at
}

// ParseEnvelope reads an error body of at most MaxErrorBody bytes. It knows the envelopes of reference/providers.md §1.0
// (2026-11-30):
//
//   - an object under "error" (OpenAI and who copies it, Anthropic, Google), with a string, number or null as its code
//   - a string under "error", with or without a code beside it (xAI, Runway)
//   - "__type" beside a message (Bedrock)
//   - "object":"error" or "type":"error" without a wrapper (Mistral, vLLM, SGLang; OpenAI's error events)
//   - "detail" as a string, an object or a list (Mistral, FastAPI, ElevenLabs, fal, Replicate, Luma, Cloudflare)
//   - a message with a request id (Mistral)
//
// any of them in a one-element array, and once more as JSON text: the whole body, the error or its message. A page of a
// CDN or any other text is no envelope: ok is false and the HTTP status must decide.
func ParseEnvelope(body string) (env Envelope, ok bool) {
	if !gjson.Valid(body) {
		return Envelope{}, false
	}
	return envelopeIn(gjson.Parse(body), 0)
}

// ParseAnswer reads the body of an answer that is an error, with what its headers say of it: Bedrock names the type of
// an error there. get returns a header's value by its lower-case name, "" when absent.
func ParseAnswer(body string, get func(name string) string) (Envelope, bool) {
	env, ok := ParseEnvelope(body)
	if named := exception(get("x-amzn-errortype")); named != "" && env.Type == "" {
		env.Type = named
		if !ok && gjson.Valid(body) {
			env.Message = plain(amazonMessage(gjson.Parse(body)))
		}
		ok = true
	}
	return env, ok
}

// ParseErrorMember reads the value of an `error` member, as it stands inside a frame or a 200.
func ParseErrorMember(raw string) (Envelope, bool) { return envelopeOf(gjson.Parse(raw), 0) }

// envelopeIn finds the error in a body.
func envelopeIn(root gjson.Result, depth int) (Envelope, bool) {
	if root.IsArray() {
		root = root.Get("0")
	}
	if root.Type == gjson.String {
		return envelopeInText(root.Str, depth)
	}
	env, ok := envelopeInObject(root, depth)
	if ok && env.RequestID == "" {
		env.RequestID = word(root.Get("request_id"))
	}
	return env, ok
}

func envelopeInObject(root gjson.Result, depth int) (Envelope, bool) {
	e, detail := root.Get("error"), root.Get("detail")
	switch {
	case e.Type == gjson.String:
		env, _ := envelopeOf(e, depth)
		env.readCode(root.Get("code"))
		return env, true
	case e.IsObject():
		return envelopeOf(e, depth)
	case e.Exists() && e.Type != gjson.Null:
		return Envelope{}, false
	case root.Get("__type").Type == gjson.String:
		return Envelope{Type: exception(root.Get("__type").Str), Message: plain(amazonMessage(root))}, true
	case root.Get("object").Str == "error":
		return envelopeOf(root, depth)
	case root.Get("type").Str == "error":
		env, ok := envelopeOf(root, depth)
		env.Type = ""
		return env, ok
	case detail.Exists() && detail.Type != gjson.Null:
		return envelopeOfDetail(root, detail)
	case root.Get("message").Type == gjson.String && root.Get("request_id").Type == gjson.String:
		return envelopeOf(root, depth)
	default:
		return Envelope{}, false
	}
}

// envelopeInText finds an error in a text that is JSON itself. Deeper than once it does not look.
func envelopeInText(text string, depth int) (Envelope, bool) {
	if depth > 0 || !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n["), "{") || !gjson.Valid(text) {
		return Envelope{}, false
	}
	return envelopeIn(gjson.Parse(text), depth+1)
}

// envelopeOf reads an error: an object with type, code and message, or a mere text.
func envelopeOf(e gjson.Result, depth int) (Envelope, bool) {
	switch {
	case e.Type == gjson.String:
		if inner, ok := envelopeInText(e.Str, depth); ok {
			return inner, true
		}
		return Envelope{Message: plain(e.Str)}, true
	case !e.IsObject():
		return Envelope{}, false
	}
	env := Envelope{Type: word(e.Get("type")), Param: word(e.Get("param")), RequestID: word(e.Get("request_id"))}
	env.readCode(e.Get("code"))
	env.readAnthropic(e.Get("details"))
	env.readGoogle(e)
	env.detail(e.Get("innererror.code"))
	env.readOpenRouter(e.Get("metadata"), e.Get("availability"))
	env.said.headers = lowerCased(env.said.headers, e.Get("headers"))
	message := e.Get("message")
	if list := message.Get("detail"); message.IsObject() && list.Exists() { // Mistral wraps FastAPI's list once more
		inner, _ := envelopeOfDetail(message, list)
		return inner.or(env), true
	}
	if inner, ok := envelopeInText(message.Str, depth); ok {
		return inner.or(env), true
	}
	env.Message = plain(message.String() + violations(e.Get("details")))
	return env, true
}

// or fills what an inner error leaves open from the one around it.
func (env Envelope) or(outer Envelope) Envelope {
	env.Type, env.Code, env.Param = cmp.Or(env.Type, outer.Type), cmp.Or(env.Code, outer.Code), cmp.Or(env.Param, outer.Param)
	env.Status, env.RequestID = cmp.Or(env.Status, outer.Status), cmp.Or(env.RequestID, outer.RequestID)
	return env
}

// readCode reads a code, which some send as a number.
func (env *Envelope) readCode(code gjson.Result) {
	switch code.Type {
	case gjson.String:
		env.Code = word(code)
		if n, err := strconv.Atoi(code.Str); err == nil {
			env.Status = httpStatus(n)
		}
	case gjson.Number:
		env.Code = bounded(code.Raw)
		env.Status = httpStatus(int(code.Int()))
	}
}

// readAnthropic reads the code that stands in Anthropic's details, an object where Google has a list.
func (env *Envelope) readAnthropic(details gjson.Result) {
	if code := details.Get("error_code"); details.IsObject() && env.Code == "" {
		env.Code = word(code)
	}
}

// noQuota is the detail of a Google quota of nothing: the model is not on the plan at all.
const noQuota = "quotaValue:0"

// readGoogle reads the status of a google.rpc.Status as its type, and its details: the reason of an ErrorInfo and the
// limit it names, the ids of the quotas that a QuotaFailure lists, noQuota where one of them is nothing at all, and the delay
// of a RetryInfo. Its OpenAI-shaped answers carry them too, at times without an "@type".
func (env *Envelope) readGoogle(e gjson.Result) {
	if status := e.Get("status"); env.Type == "" && status.Type == gjson.String {
		env.Type = word(status)
	}
	e.Get("details").ForEach(func(_, d gjson.Result) bool {
		if !d.IsObject() {
			return true
		}
		env.detail(d.Get("reason"))
		env.detail(d.Get("metadata.quota_limit"))
		d.Get("violations").ForEach(func(_, v gjson.Result) bool {
			env.detail(v.Get("quotaId"))
			if v.Get("quotaValue").String() == "0" && !slices.Contains(env.Details, noQuota) {
				env.Details = append(env.Details, noQuota)
			}
			return true
		})
		if delay := d.Get("retryDelay"); delay.Type == gjson.String {
			env.said.delay = delay.Str
		}
		if field := d.Get("fieldViolations.0.field"); env.Param == "" {
			env.Param = word(field)
		}
		return true
	})
}

// violations are the descriptions of Google's BadRequest, which say more than the message.
func violations(details gjson.Result) string {
	var b strings.Builder
	details.ForEach(func(_, d gjson.Result) bool {
		d.Get("fieldViolations").ForEach(func(_, v gjson.Result) bool {
			if text := v.Get("description").String(); text != "" && b.Len() < maxMessage {
				b.WriteString("; " + text)
			}
			return true
		})
		return true
	})
	return b.String()
}

// moderation are the members that OpenRouter adds when it refuses a content and not a key.
var moderation = []string{"reasons", "flagged_input", "patterns"}

// readOpenRouter reads what OpenRouter tells of its upstream, of its own limits and of the model's availability.
func (env *Envelope) readOpenRouter(metadata, availability gjson.Result) {
	for _, name := range []string{"error_type", "limit_source", "reason"} {
		env.detail(metadata.Get(name))
	}
	for _, name := range moderation {
		if v := metadata.Get(name); v.Exists() && v.Type != gjson.Null {
			env.addDetail(name)
		}
	}
	env.detail(availability.Get("code"))
	if retryable := availability.Get("retryable"); retryable.IsBool() {
		b := retryable.Bool()
		env.Retryable = &b
	}
	env.said.after = number(availability.Get("retry_after"))
	env.said.resets = metadata.Get("resets_at").String()
	env.said.headers = lowerCased(env.said.headers, metadata.Get("headers"))
}

// envelopeOfDetail reads a "detail": a text, ElevenLabs' object with a code, which an older one calls its status, or FastAPI's
// list of what is wrong with the fields.
func envelopeOfDetail(root, detail gjson.Result) (Envelope, bool) {
	env := Envelope{Type: word(root.Get("error_type")), Status: httpStatus(int(root.Get("status").Int()))}
	switch {
	case detail.Type == gjson.String:
		text := detail.Str
		if title := root.Get("title").Str; title != "" {
			text = title + ": " + text
		}
		env.Message = plain(text)
	case detail.IsArray():
		first := detail.Get("0")
		env.Type = cmp.Or(env.Type, word(first.Get("type")))
		env.Param = location(first.Get("loc"))
		env.Message = plain(strings.TrimPrefix(env.Param+": ", ": ") + first.Get("msg").String())
	case detail.IsObject():
		env.Type, env.Code = cmp.Or(env.Type, word(detail.Get("type"))), cmp.Or(word(detail.Get("code")), word(detail.Get("status")))
		env.Param, env.RequestID = word(detail.Get("param")), word(detail.Get("request_id"))
		env.Message = plain(detail.Get("message").String())
	default:
		return Envelope{}, false
	}
	return env, true
}

// location is FastAPI's path of a field: ["body","messages",0] is messages.0.
func location(loc gjson.Result) string {
	var path []string
	loc.ForEach(func(_, step gjson.Result) bool {
		if len(path) > 0 || step.Str != "body" {
			path = append(path, step.String())
		}
		return len(path) < maxDetails
	})
	return bounded(strings.Join(path, "."))
}

// amazonMessage is the message of Bedrock's envelope, which it spells in two ways.
func amazonMessage(root gjson.Result) string {
	return cmp.Or(root.Get("message").String(), root.Get("Message").String())
}

// exception is the name of one in Amazon's decorated forms: "ThrottlingException:http://…", "com.amazon…#ThrottlingException".
func exception(s string) string {
	s, _, _ = strings.Cut(s, ":")
	return bounded(strings.TrimSpace(s[strings.LastIndexByte(s, '#')+1:]))
}

func (env *Envelope) detail(v gjson.Result) { env.addDetail(word(v)) }

func (env *Envelope) addDetail(s string) {
	if s != "" && len(env.Details) < maxDetails && !slices.Contains(env.Details, s) {
		env.Details = append(env.Details, s)
	}
}

// word is a member that holds a word: a text of bounded length.
func word(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return bounded(v.Str)
}

func bounded(s string) string {
	if len(s) > maxWord {
		return ""
	}
	return s
}

// number is a number as written, which may stand in a text.
func number(v gjson.Result) string {
	if v.Type != gjson.Number && v.Type != gjson.String {
		return ""
	}
	return v.String()
}

// lowerCased adds an object's members to headers.
func lowerCased(headers map[string]string, v gjson.Result) map[string]string {
	v.ForEach(func(name, value gjson.Result) bool {
		if headers == nil {
			headers = map[string]string{}
		}
		headers[strings.ToLower(name.Str)] = number(value)
		return len(headers) < maxDetails
	})
	return headers
}

func httpStatus(n int) int {
	if n < 100 || n > 599 {
		return 0
	}
	return n
}

// plain is a provider's text without markup and control characters, at most maxMessage bytes.
func plain(s string) string {
	var b strings.Builder
	inTag := false
	for _, r := range s {
		switch {
		case r == '<':
			inTag = true
			continue
		case r == '>' && inTag:
			inTag = false
			continue
		case inTag:
			continue
		case unicode.IsControl(r):
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxMessage {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
