package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// maxRecursive is the longest text that gjson.Valid may check: it recurses, and on tens of megabytes of open brackets it
// would end the process for want of stack.
const maxRecursive = 1 << 20

// Valid reports whether a provider's text is JSON. Names that stand twice and invalid UTF-8 are borne.
func Valid(text string) bool {
	if len(text) <= maxRecursive {
		return gjson.Valid(text)
	}
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// JSON writes a value as the body of a request, without escaping what is only dangerous in HTML. Of texts that are not UTF-8
// the bad bytes are replaced. It is encoding/json's, which the Lambda library links anyway: the reflection of the other JSON
// package that we use the tokens of would be 0.15 MB of what every cold start loads.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
