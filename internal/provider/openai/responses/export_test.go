package responses

import "spillway/internal/provider"

// Encode writes the body of a call; refused is the parameter that cannot be written.
func Encode(c provider.Call) (body []byte, dropped []string, refused string) {
	body, dropped, r := encode(c)
	if r != nil {
		refused = r.Param
	}
	return body, dropped, refused
}
