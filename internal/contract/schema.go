package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// What a schema may be at most. The widest that providers take are far smaller: OpenAI stops at 120,000 characters,
// 5,000 properties and 10 levels (https://platform.openai.com/docs/guides/structured-outputs, read 2026-11-30).
const (
	maxSchemaBytes = 256 << 10
	maxSchemaNodes = 10_000
	maxSchemaDepth = 64
	// maxPattern is the longest regular expression in bytes, maxProgram its longest program in instructions, maxPrograms all
	// programs of a schema together: each instruction takes 0.2 KB of memory.
	maxPattern  = 1 << 10
	maxProgram  = 2_000
	maxPrograms = 20_000
)

// schema is a client's schema, ready to check texts.
type schema struct {
	resolved *jsonschema.Resolved
	root     *jsonschema.Schema
	refs     map[*jsonschema.Schema]*jsonschema.Schema
	programs map[string]int
}

// unsupported is why a schema cannot be checked.
type unsupported struct{ pointer, why string }

// maxShown bounds the pointer in a message: property names are the client's and as long as it likes.
const maxShown = 200

func (u *unsupported) Error() string {
	return fmt.Sprintf("%q %s", "#"+shorten(u.pointer), u.why)
}

func shorten(pointer string) string {
	if len(pointer) <= maxShown {
		return pointer
	}
	return strings.ToValidUTF8(pointer[:maxShown], "") + "…"
}

// compile reads a schema. The error is an *unsupported.
func compile(text []byte) (*schema, error) {
	if len(text) > maxSchemaBytes {
		return nil, &unsupported{"", fmt.Sprintf("is larger than %d bytes", maxSchemaBytes)}
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, &unsupported{"", "is no JSON that we can read"}
	}
	b := newBuilder(tree)
	root := b.schema("", tree, 0)
	if b.err == nil {
		b.link()
	}
	if b.err == nil {
		b.findLoops()
	}
	if b.err != nil {
		return nil, b.err
	}
	resolved, err := root.Resolve(nil)
	if err != nil {
		return nil, &unsupported{"", "is no schema that we can read"}
	}
	return &schema{resolved: resolved, root: root, refs: b.refs, programs: b.programs}, nil
}

// check holds a text to the schema.
func (s *schema) check(text string) *Violation {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return &Violation{Kind: NotJSON}
	}
	tree, ok := measure(value, 0)
	if !ok {
		return &Violation{Kind: NotJSON}
	}
	if !s.affords(tree) {
		return &Violation{Kind: TooCostly}
	}
	if err := s.resolved.Validate(value); err != nil {
		return &Violation{Kind: Mismatch, Schema: innermost(err)}
	}
	return nil
}

// innermost is the pointer of the schema that rejects. The library wraps an error once for each schema on the way, as
// "validating <pointer>: ", and tells the rejected value only at the end of the text.
func innermost(err error) string {
	const before, after, root = "validating ", ": ", "root"
	pointer := ""
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		all, rest := err.Error(), inner.Error()
		if n := len(all) - len(rest) - len(after); n > len(before) && all[:len(before)] == before {
			pointer = all[len(before):n]
		}
		err = inner
	}
	if pointer == root {
		return ""
	}
	return shorten(pointer)
}
