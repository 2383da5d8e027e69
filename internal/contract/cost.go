package contract

import "github.com/google/jsonschema-go/jsonschema"

const (
	// maxDepth is how deep a checked text may nest.
	maxDepth = 64
	// maxSteps bounds a check: one step for each schema that looks at a value, and one for each stepBytes that it may
	// read, or write into the library's error, which repeats the value that it rejects.
	maxSteps  = 1 << 18
	stepBytes = 64
	// maxStack bounds the schemas that look at a value on behalf of one another.
	maxStack = 1_000
)

// sized is a decoded JSON value with the length that it has at least when it is written.
type sized struct {
	members map[string]*sized
	items   []*sized
	length  int
	text    bool
}

// measure sizes a value; false when it nests too deeply.
func measure(v any, depth int) (*sized, bool) {
	if depth > maxDepth {
		return nil, false
	}
	s := &sized{length: 8}
	switch v := v.(type) {
	case string:
		s.length, s.text = len(v)+2, true
	case map[string]any:
		s.members = make(map[string]*sized, len(v))
		for name, member := range v {
			m, ok := measure(member, depth+1)
			if !ok {
				return nil, false
			}
			s.members[name] = m
			s.length += len(name) + m.length
		}
	case []any:
		s.items = make([]*sized, len(v))
		for i, item := range v {
			m, ok := measure(item, depth+1)
			if !ok {
				return nil, false
			}
			s.items[i] = m
			s.length += m.length
		}
	}
	return s, true
}

// affords reports whether a check of the value stays within bounds. It walks as the check does, but without looking at
// the value more closely: alternatives that refer to one another can multiply with each level of the value.
func (s *schema) affords(v *sized) bool {
	w := walk{schema: s, left: maxSteps}
	w.visit(s.root, v, 0)
	return w.left >= 0
}

type walk struct {
	*schema
	left int
}

func (w *walk) visit(n *jsonschema.Schema, v *sized, depth int) {
	if n == nil || w.left < 0 {
		return
	}
	if w.left -= 1 + v.length/stepBytes; depth > maxStack {
		w.left = -1
		return
	}
	if n.Pattern != "" && v.text {
		w.left -= v.length * w.programs[n.Pattern] / stepBytes
	}
	eachInPlace(n, w.refs[n], func(next *jsonschema.Schema) { w.visit(next, v, depth+1) })
	w.visitMembers(n, v, depth+1)
	for i, item := range v.items {
		if i < len(n.PrefixItems) {
			w.visit(n.PrefixItems[i], item, depth+1)
		}
		if i < len(n.ItemsArray) {
			w.visit(n.ItemsArray[i], item, depth+1)
		}
		for _, next := range [...]*jsonschema.Schema{n.Items, n.AdditionalItems, n.Contains, n.UnevaluatedItems} {
			w.visit(next, item, depth+1)
		}
	}
}

func (w *walk) visitMembers(n *jsonschema.Schema, v *sized, depth int) {
	for name, member := range v.members {
		w.visit(n.Properties[name], member, depth)
		for pattern, next := range n.PatternProperties {
			w.left -= len(name) * w.programs[pattern] / stepBytes
			w.visit(next, member, depth)
		}
		w.visit(n.AdditionalProperties, member, depth)
		w.visit(n.UnevaluatedProperties, member, depth)
		w.visit(n.PropertyNames, &sized{length: len(name), text: true}, depth)
	}
}

// eachInPlace calls f for each schema that looks at the same value as n does. ref is what n refers to; nil: nothing.
func eachInPlace(n, ref *jsonschema.Schema, f func(*jsonschema.Schema)) {
	for _, next := range [...]*jsonschema.Schema{ref, n.Not, n.If, n.Then, n.Else} {
		if next != nil {
			f(next)
		}
	}
	for _, list := range [...][]*jsonschema.Schema{n.AllOf, n.AnyOf, n.OneOf} {
		for _, next := range list {
			f(next)
		}
	}
	for _, named := range [...]map[string]*jsonschema.Schema{n.DependentSchemas, n.DependencySchemas} {
		for _, next := range named {
			f(next)
		}
	}
}
