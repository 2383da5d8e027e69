package media

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// maxAbridged is the longest member that an abridged body keeps, in bytes of JSON. No prompt that can be read is longer.
const maxAbridged = 128 << 10

// Abridged is a body that ReadOrder takes without its picture, and with its texts written as short as JSON has them: what a job's
// views, its plan and its cost need. It is at most some hundred kilobytes long, however long the body is.
func Abridged(body []byte) []byte {
	out := []byte{'{'}
	gjson.ParseBytes(body).ForEach(func(name, v gjson.Result) bool {
		value := []byte(v.Raw)
		if v.Type == gjson.String {
			var err error
			if value, err = jsontext.AppendQuote(nil, v.Str); err != nil {
				return true // not a text
			}
		}
		if name.Str == "input_reference" || len(value) > maxAbridged {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, err := jsontext.AppendQuote(nil, name.Str)
		if err == nil {
			out = append(append(append(out, key...), ':'), value...)
		}
		return true
	})
	return append(out, '}')
}
