package simulate

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// strictly decodes a body as the providers do that take no member they do not know:
// broken is what they say of a body that is no JSON of the shape, unknown of a member.
func strictly(body []byte, into any, broken, unknown string) *failure {
	switch name, ok := decodeStrictly(body, into); {
	case name != "":
		return invalid(fmt.Sprintf(unknown, name))
	case !ok:
		return invalid(broken)
	}
	return nil
}

// decodeStrictly decodes a body that may have no other members than those decoded; name is one that it has all the same.
func decodeStrictly(body []byte, into any) (name string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		return "", true
	}
	_, name, _ = strings.Cut(err.Error(), `unknown field "`)
	return strings.TrimSuffix(name, `"`), false
}

// isObject reports whether a text is a JSON object.
func isObject(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(raw, &members) == nil && members != nil
}

func declares(tools []tool, name string) bool {
	return slices.ContainsFunc(tools, func(t tool) bool { return t.name == name })
}

// seal stands for what a provider signs or encrypts so that it can take it back: it
// depends on the text, nobody else makes it, and it is base64, as theirs are.
func seal(text string) string {
	sum := sha256.Sum256([]byte(sealMark + text))
	return base64.StdEncoding.EncodeToString(append([]byte(sealMark), sum[:12]...))
}

const sealMark = "simulate"

// sealed reports whether a seal is one of ours, whatever it seals.
func sealed(mark string) bool {
	opened, err := base64.StdEncoding.DecodeString(mark)
	return err == nil && len(opened) == len(sealMark)+12 && strings.HasPrefix(string(opened), sealMark)
}

func isBase64(data string) bool {
	_, err := base64.StdEncoding.DecodeString(data)
	return err == nil && data != ""
}

func validImageURL(url string) bool {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		_, data, found := strings.Cut(rest, ";base64,")
		return found && isBase64(data)
	}
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")
}
