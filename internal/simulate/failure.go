package simulate

import "net/http"

// failure is an error answer before its wire format is known.
type failure struct {
	kind kind
	// message replaces what the format says of the kind.
	message string
	// param is the member that is wrong; empty: none, or it stands in the message.
	param string
	// wait is the hint after how many seconds to come again; 0 is none.
	wait int
}

// kind is why a provider refuses. Each wire format has its own words for each.
type kind string

const (
	badRequest     kind = "bad request" // what is wrong stands in the message
	badPath        kind = "bad path"
	badMethod      kind = "bad method"
	noKey          kind = "no key"
	badKey         kind = "bad key"      // seen in the header
	rejectedKey    kind = "rejected key" // F20, whatever the header says
	noModel        kind = "no model"
	throttled      kind = "throttled"
	noQuota        kind = "no quota"
	serverError    kind = "server error"
	unavailable    kind = "unavailable"
	overloaded     kind = "overloaded"
	contextLength  kind = "context length"
	contentPolicy  kind = "content policy"
	prefillRefused kind = "prefill refused"

	// Of job APIs alone.
	noMember  kind = "no such member in the order"
	newMember kind = "a member that nobody knows"
	badMember kind = "a member with a bad value"
	noJob     kind = "no such job"
	noCancel  kind = "no job to cancel"
	noFile    kind = "no such file"
	expired   kind = "an address that has expired"
)

func (k kind) failure() failure { return failure{kind: k} }

// after adds a hint.
func (k kind) after(seconds int) failure { return failure{kind: k, wait: seconds} }

func invalid(message string) *failure { return &failure{kind: badRequest, message: message} }

// spelling is how a format spells a kind of failure: the status, up to two words
// that programs read, and the sentence for people.
type spelling struct {
	status    int
	typ, code string
	param     string
	message   string
}

// spell finds the words of a failure.
func (f failure) spell(words map[kind]spelling) spelling {
	s := words[f.kind]
	if f.message != "" {
		s.message = f.message
	}
	if f.param != "" {
		s.param = f.param
	}
	return s
}

// retryAfter is the hint as a header; nil for none.
func (f failure) retryAfter() http.Header {
	if f.wait == 0 {
		return nil
	}
	return http.Header{"Retry-After": {itoa(f.wait)}}
}

// page is what a proxy in front of a provider answers.
const page = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>\n"
