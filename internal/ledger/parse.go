package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/fault"
)

// CheckKey says what is wrong with a tool call's key; nil: nothing.
func CheckKey(key string) *fault.Error {
	if n := utf8.RuneCountInString(key); n == 0 || n > MaxKey || !utf8.ValidString(key) {
		return fault.Invalid("key", "key: must be 1 to 255 characters of UTF-8, in the path")
	}
	return nil
}

// Parse reads what is said of a tool call. An error names the member that is wrong and repeats nothing else of the body.
func Parse(body []byte) (Said, *fault.Error) {
	var s Said
	members, err := membersOf(body)
	if err != nil {
		return s, err
	}
	for name := range members {
		if name != "state" && name != "owner" && name != "result" {
			name = strings.ToValidUTF8(name[:min(len(name), 64)], "")
			return s, fault.Invalid(name, name+": is not known here; state, owner and result are")
		}
	}
	switch s.State = State(textOf(members["state"])); s.State {
	case Started, Succeeded, Failed:
	default:
		return s, fault.Invalid("state", "state: is required, and one of started, succeeded, failed")
	}
	s.Owner = textOf(members["owner"])
	if n := utf8.RuneCountInString(s.Owner); n == 0 || n > MaxOwner {
		return s, fault.Invalid("owner", "owner: is required, a text of 1 to 255 characters")
	}
	s.Result = members["result"]
	switch {
	case s.Result == nil:
	case s.State != Succeeded:
		return s, fault.Invalid("result", "result: is taken with the state succeeded only")
	case len(s.Result) > MaxResult:
		return s, &fault.Error{Code: fault.RequestTooLarge, Param: "result", Message: fmt.Sprintf("result: is larger than %d bytes of JSON; keep it elsewhere, and its address here", MaxResult)}
	}
	return s, nil
}

// membersOf are the members of a body that is one JSON object, without white space.
func membersOf(body []byte) (map[string]jsontext.Value, *fault.Error) {
	invalid := func(err error) *fault.Error {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fault.Invalid("body", "the body has a member twice")
		}
		return fault.Invalid("body", "the body is not one JSON object")
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if d.PeekKind() != jsontext.KindBeginObject {
		return nil, invalid(nil)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, invalid(err)
	}
	members := map[string]jsontext.Value{}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return nil, invalid(err)
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, invalid(err)
		}
		value = value.Clone()
		if err := value.Compact(jsontext.PreserveRawStrings(true)); err != nil {
			return nil, invalid(err)
		}
		members[key] = value
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, invalid(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, invalid(nil)
	}
	return members, nil
}

// textOf is a JSON text; empty for anything else.
func textOf(v jsontext.Value) string {
	if v.Kind() != jsontext.KindString {
		return ""
	}
	text, _ := jsontext.AppendUnquote(nil, v) // it has been read as JSON
	return string(text)
}
