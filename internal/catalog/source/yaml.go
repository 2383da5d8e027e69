package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"spillway/internal/catalog"
)

// maxValues bounds what aliases of aliases can make of a small file.
const maxValues = 100_000

// A reader turns the tree of a YAML document into JSON and remembers on which line each path stands. Anchors, aliases
// and merge keys are resolved; what an alias stands for keeps the lines of its anchor, since that is where to mend it.
type reader struct {
	file     string
	json     []byte // nil: there is no document to speak of
	lines    map[catalog.Path]int
	anchors  map[string]ast.Node // those that are complete, so that none can hold itself
	values   int
	problems Problems
}

func read(file string, text []byte) *reader {
	r := &reader{file: file, lines: map[catalog.Path]int{"": 1}, anchors: map[string]ast.Node{}}
	if root := r.parse(text); root != nil {
		r.value("", root)
	}
	return r
}

// parse returns the one document of a file, or nil.
func (r *reader) parse(text []byte) ast.Node {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			r.problem(i+1, "", "is not UTF-8")
			return nil
		}
	}
	parsed, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey()) // they are reported with their path
	if err != nil {
		r.problems = append(r.problems, syntaxProblem(r.file, err))
		return nil
	}
	switch {
	case len(parsed.Docs) > 1:
		r.problem(lineOf(parsed.Docs[1].Body), "", "a second document begins: a configuration is one")
		return nil
	case len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil:
		r.problem(1, "", "is empty: a configuration has at least a version")
		return nil
	default:
		return parsed.Docs[0].Body
	}
}

func syntaxProblem(file string, err error) Problem {
	p := Problem{File: file, Problem: catalog.Problem{Message: "is no YAML: " + err.Error()}}
	if at, ok := errors.AsType[yaml.Error](err); ok {
		p.Message = "is no YAML: " + at.GetMessage()
		p.Line, p.Column = at.GetToken().Position.Line, at.GetToken().Position.Column
	}
	return p
}

func (r *reader) problem(line int, at catalog.Path, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Problem: catalog.Problem{Path: at, Message: fmt.Sprintf(format, args...)}})
}

// covers reports whether a problem was found where path is: what the catalog says of it may only follow.
func (r *reader) covers(path catalog.Path) bool {
	for _, p := range r.problems {
		if (catalog.Problems{p.Problem}).Cover(path) {
			return true
		}
	}
	return false
}

// line is where a path stands; of what is not there, the line of what it is missing in.
func (r *reader) line(at catalog.Path) int {
	for {
		if line, ok := r.lines[at]; ok {
			return line
		}
		at = at[:max(0, strings.LastIndexAny(string(at), ".["))]
	}
}

// value appends the JSON of a value; null, after a problem, when it has none.
func (r *reader) value(at catalog.Path, n ast.Node) {
	if r.spent(at, n) {
		r.json = append(r.json, "null"...)
		return
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		r.value(at, n.Value)
		r.anchors[anchorName(n.Name)] = n.Value
	case *ast.AliasNode:
		if target := r.anchors[anchorName(n.Value)]; target != nil {
			r.value(at, target)
			return
		}
		r.bad(n, at, "no anchor &%s stands before this", anchorName(n.Value))
	case *ast.MappingNode:
		r.mapping(at, n)
	case *ast.SequenceNode:
		r.sequence(at, n)
	case *ast.StringNode:
		r.text(n.Value)
	case *ast.LiteralNode:
		r.text(n.Value.Value)
	case *ast.BoolNode:
		r.json = strconv.AppendBool(r.json, n.Value)
	case *ast.NullNode:
		r.json = append(r.json, "null"...)
	case *ast.IntegerNode:
		r.json = fmt.Append(r.json, n.Value)
	case *ast.FloatNode:
		r.float(at, n, n.Value)
	case *ast.InfinityNode, *ast.NanNode:
		r.float(at, n, math.NaN())
	case *ast.TagNode:
		r.bad(n, at, "a tag such as %s is not supported: write the value as it is", n.Start.Value)
	default:
		r.bad(n, at, "%s is not supported", n.Type())
	}
}

// spent counts a value, and reports when there are too many.
func (r *reader) spent(at catalog.Path, n ast.Node) bool {
	if r.values++; r.values == maxValues+1 {
		r.problem(lineOf(n), at, "aliases make more than %d values of this file", maxValues)
	}
	return r.values > maxValues
}

// bad reports a value that has no JSON.
func (r *reader) bad(n ast.Node, at catalog.Path, format string, args ...any) {
	r.problem(lineOf(n), at, format, args...)
	r.json = append(r.json, "null"...)
}

func (r *reader) text(s string) {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("source: quoting a text: " + err.Error()) // any text can be quoted
	}
	r.json = append(r.json, quoted...)
}

func (r *reader) float(at catalog.Path, n ast.Node, value float64) {
	if math.IsInf(value, 0) || math.IsNaN(value) {
		r.bad(n, at, "%s is no number that JSON has", n.String())
		return
	}
	r.json = strconv.AppendFloat(r.json, value, 'g', -1, 64)
}

func (r *reader) sequence(at catalog.Path, n *ast.SequenceNode) {
	r.json = append(r.json, '[')
	for i, item := range n.Values {
		if i > 0 {
			r.json = append(r.json, ',')
		}
		here := at.Item(i)
		r.lines[here] = lineOf(item)
		r.value(here, item)
	}
	r.json = append(r.json, ']')
}

// A member is a name of a mapping with its value.
type member struct {
	name  string
	line  int
	value ast.Node
}

func (r *reader) mapping(at catalog.Path, n *ast.MappingNode) {
	r.json = append(r.json, '{')
	for i, m := range r.members(at, n) {
		if i > 0 {
			r.json = append(r.json, ',')
		}
		here := at.Member(m.name)
		r.lines[here] = m.line
		r.text(m.name)
		r.json = append(r.json, ':')
		r.value(here, m.value)
	}
	r.json = append(r.json, '}')
}

// members are those that stand in a mapping, once each, and then those that it merges from others and does not have.
func (r *reader) members(at catalog.Path, n *ast.MappingNode) []member {
	var list []member
	known := map[string]int{} // the line of each
	for _, v := range n.Values {
		line := v.Key.GetToken().Position.Line
		key, ok := v.Key.(*ast.StringNode)
		switch {
		case v.Key.IsMergeKey():
		case !ok:
			r.problem(line, at, "%s is no name: a name is a text, and a number or true needs quotes", strings.TrimSpace(v.Key.String()))
		case known[key.Value] > 0:
			r.problem(line, at.Member(key.Value), "stands twice, first on line %d", known[key.Value])
		default:
			known[key.Value] = line
			list = append(list, member{key.Value, line, v.Value})
		}
	}
	for _, v := range n.Values {
		if !v.Key.IsMergeKey() {
			continue
		}
		for _, m := range r.merged(at, v.Value) {
			if known[m.name] == 0 {
				known[m.name] = m.line
				list = append(list, m)
			}
		}
	}
	return list
}

// merged are the members of what a merge key names: a mapping, or a list of them, of which the first counts.
func (r *reader) merged(at catalog.Path, n ast.Node) []member {
	if r.spent(at, n) {
		return nil
	}
	switch n := n.(type) {
	case *ast.AliasNode:
		if target := r.anchors[anchorName(n.Value)]; target != nil {
			return r.merged(at, target)
		}
		r.problem(lineOf(n), at, "no anchor &%s stands before this", anchorName(n.Value))
		return nil
	case *ast.MappingNode:
		return r.members(at, n)
	case *ast.SequenceNode:
		var list []member
		for _, item := range n.Values {
			list = append(list, r.merged(at, item)...)
		}
		return list
	default:
		r.problem(lineOf(n), at, "<< merges a mapping, or a list of them")
		return nil
	}
}

func anchorName(n ast.Node) string { return n.GetToken().Value }

// lineOf is the line on which a value begins.
func lineOf(n ast.Node) int {
	if n == nil {
		return 0
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return m.Values[0].Key.GetToken().Position.Line
	}
	return n.GetToken().Position.Line
}
