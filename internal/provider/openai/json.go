package openai

import "github.com/go-json-experiment/json/jsontext"

// appendJSONString appends a JSON string. Invalid UTF-8 cannot occur: the client's body was checked.
func appendJSONString(b []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(b, s)
	return out
}
