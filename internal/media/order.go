package media

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"spillway/internal/fault"
)

// Order is what a client asks for, in words that belong to no provider. These are the members of the body, and all that
// there are:
//
//	videos and music      model, prompt          texts, required
//	                      negative_prompt        what must not be in it, a text
//	                      seed                   a whole number
//	                      prefer, callback_url   for the gateway alone
//	videos                seconds                how long, from 1 to 60: 8 or, as in OpenAI's video API, "8"
//	                      size                   "1280x720", width x height
//	                      input_reference        the first picture: an https address or a data URL, or {"image_url": such}
//	music                 length_seconds         how long, from 1 to 600; or music_length_ms, as at ElevenLabs
//	                      instrumental           no voices: true or false; force_instrumental is the same
//	                      output_format          a provider's own word, such as mp3_44100_128
//
// The names are those of OpenAI's video API (https://platform.openai.com/docs/api-reference/videos, 2026-11-30) and of
// ElevenLabs' music. A member that is not here is refused by its name: what a paid job would leave out in silence is found
// out minutes later. An adapter refuses what its provider has no words for (fault.Refused), before a byte is sent.
type Order struct {
	Kind                   Kind
	Model, Prompt          string
	NegativePrompt         string
	Seed                   *int64
	Prefer, Callback       string
	Seconds                float64 // 0: as long as the model makes it
	Width, Height          int     // 0: as the model makes it
	Reference              string  // an https address or a data URL
	Instrumental           bool
	OutputFormat           string
	lengthAsked, voiceless string // the member that set it: of two names only one may stand there
}

const (
	maxPrompt    = 32_000 // bytes
	maxVideo     = 60     // seconds
	maxMusic     = 600    // seconds
	maxSide      = 8192   // pixels
	maxShortText = 2048   // bytes
)

// reader reads a member's value into an order. It returns what is wrong with the value; empty: nothing.
type reader func(o *Order, v gjson.Result) string

var (
	both = map[string]reader{
		"model":           func(o *Order, v gjson.Result) string { return readText(&o.Model, v, maxShortText) },
		"prompt":          func(o *Order, v gjson.Result) string { return readText(&o.Prompt, v, maxPrompt) },
		"negative_prompt": func(o *Order, v gjson.Result) string { return readText(&o.NegativePrompt, v, maxPrompt) },
		"prefer":          func(o *Order, v gjson.Result) string { return readText(&o.Prefer, v, maxShortText) },
		"callback_url":    readCallback,
		"seed":            readSeed,
	}
	members = map[Kind]map[string]reader{
		Video: {
			"seconds":         func(o *Order, v gjson.Result) string { return o.readLength("seconds", v, 1, maxVideo) },
			"size":            readSize,
			"input_reference": readReference,
		},
		Music: {
			"length_seconds":     func(o *Order, v gjson.Result) string { return o.readLength("length_seconds", v, 1, maxMusic) },
			"music_length_ms":    func(o *Order, v gjson.Result) string { return o.readLength("music_length_ms", v, 1000, maxMusic) },
			"instrumental":       func(o *Order, v gjson.Result) string { return o.readVoiceless("instrumental", v) },
			"force_instrumental": func(o *Order, v gjson.Result) string { return o.readVoiceless("force_instrumental", v) },
			"output_format":      func(o *Order, v gjson.Result) string { return readText(&o.OutputFormat, v, 64) },
		},
	}
)

// ReadOrder reads a body. Its error has the code validation_failed and names the member that is wrong. null is as good as
// nothing.
func ReadOrder(kind Kind, body []byte) (Order, *fault.Error) {
	o := Order{Kind: kind}
	if len(bytes.TrimSpace(body)) == 0 {
		return o, fault.Invalid("body", "the body is empty; a JSON object is expected")
	}
	if !jsontext.Value(body).IsValid() || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return o, fault.Invalid("body", "the body is not one JSON object with each name once")
	}
	var refused *fault.Error
	gjson.ParseBytes(body).ForEach(func(name, v gjson.Result) bool {
		read := both[name.Str]
		if read == nil {
			read = members[kind][name.Str]
		}
		problem := ""
		switch {
		case read == nil:
			problem = "is no member of such a request"
		case v.Type != gjson.Null:
			problem = read(&o, v)
		}
		if problem != "" {
			refused = &fault.Error{Code: fault.ValidationFailed, Param: name.Str, Message: strconv.Quote(short(name.Str)) + " " + problem}
		}
		return refused == nil
	})
	switch {
	case refused != nil:
	case o.Model == "":
		refused = &fault.Error{Code: fault.ValidationFailed, Param: "model", Message: `"model" is required`}
	case strings.TrimSpace(o.Prompt) == "":
		refused = &fault.Error{Code: fault.ValidationFailed, Param: "prompt", Message: `"prompt" is required`}
	}
	return o, refused
}

// short keeps a name that the client made up from filling an error.
func short(name string) string { return name[:min(len(name), 64)] }

func readText(to *string, v gjson.Result, most int) string {
	if v.Type != gjson.String {
		return "must be a text"
	}
	if len(v.Str) > most {
		return fmt.Sprintf("is longer than %d bytes", most)
	}
	*to = v.Str
	return ""
}

// readCallback refuses an empty one: it is that of somebody who means to be told.
func readCallback(o *Order, v gjson.Result) string {
	problem := readText(&o.Callback, v, maxShortText)
	if problem == "" && o.Callback == "" {
		problem = "is empty; leave it out, or null, where nobody is to be told"
	}
	return problem
}

func readSeed(o *Order, v gjson.Result) string {
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	if v.Type != gjson.Number || err != nil {
		return "must be a whole number"
	}
	o.Seed = &n
	return ""
}

// readLength reads a length of which so many parts are a second.
func (o *Order) readLength(name string, v gjson.Result, parts, most float64) string {
	n, err := strconv.ParseFloat(v.String(), 64)
	if (v.Type != gjson.Number && v.Type != gjson.String) || err != nil || math.IsNaN(n) || n < parts || n > most*parts {
		return fmt.Sprintf("must be from %g to %g", parts, most*parts)
	}
	if o.lengthAsked != "" {
		return "stands beside " + o.lengthAsked + ": one of them says how long it is to be"
	}
	o.Seconds, o.lengthAsked = n/parts, name
	return ""
}

func (o *Order) readVoiceless(name string, v gjson.Result) string {
	if !v.IsBool() {
		return "must be true or false"
	}
	if o.voiceless != "" {
		return "stands beside " + o.voiceless + ", which means the same"
	}
	o.Instrumental, o.voiceless = v.Bool(), name
	return ""
}

func readSize(o *Order, v gjson.Result) string {
	width, height, _ := strings.Cut(v.Str, "x")
	w, errW := strconv.ParseUint(width, 10, 16)
	h, errH := strconv.ParseUint(height, 10, 16)
	if v.Type != gjson.String || errW != nil || errH != nil || w < 1 || h < 1 || w > maxSide || h > maxSide {
		return `must be like "1280x720"`
	}
	o.Width, o.Height = int(w), int(h)
	return ""
}

func readReference(o *Order, v gjson.Result) string {
	if v.IsObject() { // as OpenAI's SDKs write it: {"image_url": "…"}; a file of OpenAI's nobody else can read
		var others bool
		v.ForEach(func(name, _ gjson.Result) bool { others = others || name.Str != "image_url"; return true })
		if v = v.Get("image_url"); others {
			return `must be an https address or a data URL, or such in "image_url" and nothing beside it`
		}
	}
	if v.Type != gjson.String || !strings.HasPrefix(v.Str, "https://") && !strings.HasPrefix(v.Str, "data:") {
		return "must be an https address or a data URL"
	}
	o.Reference = v.Str
	return ""
}

// Aspect is the shape of the picture as providers name it, such as 16:9; empty: none was asked for.
func (o *Order) Aspect() string {
	if o.Width == 0 {
		return ""
	}
	a, b := o.Width, o.Height
	for b != 0 {
		a, b = b, a%b
	}
	return strconv.Itoa(o.Width/a) + ":" + strconv.Itoa(o.Height/a)
}

// Resolution is the shorter side as providers name it: 480p, 720p, 1080p or 4k; empty: none was asked for, or it has no
// such name.
func (o *Order) Resolution() string {
	return map[int]string{480: "480p", 720: "720p", 1080: "1080p", 2160: "4k"}[min(o.Width, o.Height)]
}

// Picture is the media type and the base64 of a reference that is a data URL; ok is false for any other.
func (o *Order) Picture() (mediaType, base64 string, ok bool) {
	head, base64, ok := strings.Cut(strings.TrimPrefix(o.Reference, "data:"), ",")
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	ok = ok && encoded && strings.HasPrefix(o.Reference, "data:") && strings.HasPrefix(mediaType, "image/") && base64 != ""
	return mediaType, base64, ok
}

// Asked are the members that say more of the work than its model and prompt, sorted: those that an adapter has words for or
// must refuse.
func (o *Order) Asked() []string {
	asked := map[string]bool{
		"negative_prompt": o.NegativePrompt != "", "seed": o.Seed != nil, "size": o.Width != 0, "input_reference": o.Reference != "",
		"output_format": o.OutputFormat != "", o.lengthAsked: true, o.voiceless: o.Instrumental,
	}
	var names []string
	for name, is := range asked {
		if is && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
