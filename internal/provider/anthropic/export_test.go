package anthropic

import "spillway/internal/provider"

// Encode writes the body of a call; refused is the parameter that cannot be written.
func Encode(c provider.Call) (body []byte, refused string) {
	out, r := encode(c)
	if r != nil {
		return nil, r.Param
	}
	return out.body, ""
}
