package anthropic

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// maxRecursive is the longest text that gjson.Valid may check: it recurses, and on tens of megabytes of open brackets it
// would end the process for want of stack.
const maxRecursive = 1 << 20

// valid reports whether a provider's text is JSON. Names that stand twice and invalid UTF-8 are borne.
func valid(text string) bool {
	if len(text) <= maxRecursive {
		return gjson.Valid(text)
	}
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func appendString(b []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(b, s) // the client's body was checked for its encoding
	return out
}
