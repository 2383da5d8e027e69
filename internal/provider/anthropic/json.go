package anthropic

import "github.com/go-json-experiment/json/jsontext"

func appendString(b []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(b, s) // the client's body was checked for its encoding
	return out
}
