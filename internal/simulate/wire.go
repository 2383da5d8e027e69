package simulate

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// A wire is one provider's wire format: it reads requests as strictly as that
// provider does, and spells answers and errors in its words. It knows no fault.
type wire interface {
	// name is what the format's models are called by: "sim-<name>-f01" is sim-f01 in
	// this format. Empty for the format of "sim-f01" itself.
	name() string
	// peek reads what the log needs from any request.
	peek(body []byte) (model string, stream bool)
	// admit looks at the headers of a request: the credential, above all.
	admit(h http.Header) *failure
	// parse understands a request; a failure is the format's answer to a bad one.
	parse(body []byte) (request, *failure)
	// answer spells a healthy answer.
	answer(a answer) draft
	// empty spells a complete answer that has nothing in it.
	empty(a answer) draft
	// failed spells an answer that opened with a 200 and fails before any content.
	failed(a answer, f failure) draft
	// refuse spells a failure of the nth call as an answer of its own.
	refuse(f failure, n int) Reply
	// identify is the header that carries the number of the nth call; nil for none.
	identify(n int) http.Header
}

// wireAt is the format that is spoken at an address. The version that its path begins
// with is whatever the caller's base address ends with.
func wireAt(address *url.URL) (wire, bool) {
	path, _ := unversioned(address.Path)
	switch path {
	case "/chat/completions":
		return openAIChat{}, true
	case "/responses":
		return openAIResponses{}, true
	case "/messages":
		return anthropic{}, true
	}
	return geminiAt(path, address.Query().Get("alt") == "sse")
}

// frame is one event of a stream.
type frame struct {
	name string // of the event; empty: none is given
	data string
	crlf bool // lines end as Google ends them
}

func (f frame) String() string {
	text := "data: " + f.data + "\n\n"
	if f.name != "" {
		text = "event: " + f.name + "\n" + text
	}
	if f.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// half is the frame with JSON that stops in the middle.
func (f frame) half() frame {
	f.data = f.data[:len(f.data)/2]
	return f
}

// draft is an answer in parts, so that a fault can break it anywhere; plain is the
// same answer as one body.
type draft struct {
	open    []frame // before the first content
	content []frame // one token each (one token of each choice, in turn), but for what opens and closes a block
	finish  []frame // finish reason and usage
	done    []frame // the mark that the stream has ended, where there is one beside the end of the answer
	plain   string
}

// first is the draft's first frame.
func (d draft) first() frame {
	for _, part := range [][]frame{d.open, d.content, d.finish, d.done} {
		if len(part) > 0 {
			return part[0]
		}
	}
	return frame{}
}

// object writes a JSON object whose members stand in the order in which they are
// given, name before value: providers write the type first.
func object(members ...any) json.RawMessage {
	all := make([]string, 0, len(members)/2)
	for i := 0; i+1 < len(members); i += 2 {
		all = append(all, encode(members[i])+":"+encode(members[i+1]))
	}
	return json.RawMessage("{" + strings.Join(all, ",") + "}")
}

// list is a JSON array that is never null.
func list(items ...json.RawMessage) []json.RawMessage {
	if items == nil {
		return []json.RawMessage{}
	}
	return items
}
