package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A function is what the template says of one AWS::Serverless::Function, with Globals merged in and every parameter at
// its default.
type function struct {
	logicalID string
	memoryMB  int               // default 128
	timeout   time.Duration     // of one invocation; default 3 s
	env       map[string]string // never nil
	url       *functionURL      // nil: the function has none
	events    events
	allowLoop bool // RecursiveLoop: Allow
}

type functionURL struct {
	authType string // NONE or AWS_IAM
	stream   bool   // InvokeMode RESPONSE_STREAM
}

// A deployment is what the template asks for, as far as it is known here, in the order in which it stands there.
type deployment struct {
	functions []function
	tables    []table
	buckets   []bucket
	queues    []queue
}

// readTemplate returns what a SAM template asks for, without the resources whose condition is false. file is what errors
// call the template; each error names the line, and all that can be found are returned joined. An intrinsic that is not
// known is an error wherever it stands, so that nobody believes it was heeded.
func readTemplate(file string, data []byte) (deployment, error) {
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		return deployment{}, fmt.Errorf("parsing %s: %w", file, err)
	}
	if len(parsed.Docs) != 1 {
		return deployment{}, fmt.Errorf("parsing %s: %d documents, want one", file, len(parsed.Docs))
	}
	root, ok := parsed.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return deployment{}, fmt.Errorf("parsing %s: a template is a mapping", file)
	}
	t := &template{file: file, values: map[string]any{}, conditions: map[string]bool{}}
	if problems := t.unknownIntrinsics(root); len(problems) > 0 {
		return deployment{}, errors.Join(problems...)
	}
	if err := t.readSections(root); err != nil {
		return deployment{}, err
	}
	return t.deployment()
}

// A template is a parsed template of which parameters and conditions are known.
type template struct {
	file       string
	values     map[string]any // of parameters and pseudo parameters: a string, a list, or noValue
	conditions map[string]bool
	globals    *ast.MappingNode // Globals.Function, or nil
	resources  []resource
}

type resource struct {
	logicalID  string
	node       ast.Node
	kind       string           // Type
	condition  string           // the name of its Condition, or empty
	properties *ast.MappingNode // nil: none
}

// errorf is an error that names the line of n.
func (t *template) errorf(n ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", t.file, n.GetToken().Position.Line, fmt.Errorf(format, args...))
}

func (t *template) readSections(root *ast.MappingNode) error {
	maps.Copy(t.values, pseudoParameters)
	steps := []func(*ast.MappingNode) error{t.readParameters, t.readConditions, t.readGlobals, t.readResources}
	for i, section := range []string{"Parameters", "Conditions", "Globals", "Resources"} {
		m, err := t.mapping(member(root, section))
		if err != nil {
			return err
		}
		if err := steps[i](m); err != nil {
			return err
		}
	}
	return nil
}

func (t *template) readParameters(section *ast.MappingNode) error {
	var problems []error
	for name, n := range members(section) {
		value, err := t.defaultOf(name, n)
		if err != nil {
			problems = append(problems, err)
		}
		t.values[name] = value
	}
	return errors.Join(problems...)
}

func (t *template) defaultOf(name string, n ast.Node) (any, error) {
	m, err := t.mapping(n)
	if err != nil {
		return nil, err
	}
	node := member(m, "Default")
	if node == nil {
		return nil, t.errorf(n, "parameter %s has no default, and here parameters have no other value", name)
	}
	text, err := t.text(node)
	if err != nil {
		return nil, err
	}
	kind := member(m, "Type")
	if kind == nil {
		return nil, t.errorf(n, "parameter %s has no Type", name)
	}
	switch k := kind.GetToken().Value; {
	case k == "String" || k == "Number":
		return text, nil
	case k == "CommaDelimitedList" || strings.HasPrefix(k, "List<"):
		var list []any
		for _, part := range strings.Split(text, ",") {
			list = append(list, strings.TrimSpace(part))
		}
		return list, nil
	default:
		return nil, t.errorf(kind, "parameter type %s needs AWS to be resolved", k)
	}
}

func (t *template) readConditions(section *ast.MappingNode) error {
	var problems []error
	for name, n := range members(section) {
		intrinsic, arg := intrinsicOf(n)
		if intrinsic != "Fn::Equals" {
			problems = append(problems, t.errorf(n, "condition %s is not an Fn::Equals", name))
			continue
		}
		holds, err := t.equals(arg)
		if err != nil {
			problems = append(problems, err)
		}
		t.conditions[name] = holds
	}
	return errors.Join(problems...)
}

func (t *template) readGlobals(section *ast.MappingNode) (err error) {
	t.globals, err = t.mapping(member(section, "Function"))
	return err
}

func (t *template) readResources(section *ast.MappingNode) error {
	var problems []error
	for id, n := range members(section) {
		r, err := t.readResource(id, n)
		if err != nil {
			problems = append(problems, err)
		}
		t.resources = append(t.resources, r)
	}
	return errors.Join(problems...)
}

func (t *template) readResource(id string, n ast.Node) (resource, error) {
	m, err := t.mapping(n)
	if err != nil {
		return resource{}, err
	}
	r := resource{logicalID: id, node: n}
	kind := member(m, "Type")
	if kind == nil {
		return r, t.errorf(n, "resource %s has no Type", id)
	}
	if r.kind, err = t.text(kind); err != nil {
		return r, err
	}
	if c := member(m, "Condition"); c != nil {
		if r.condition, err = t.text(c); err != nil {
			return r, err
		}
		if _, known := t.conditions[r.condition]; !known {
			return r, t.errorf(c, "there is no condition %q", r.condition)
		}
	}
	r.properties, err = t.mapping(member(m, "Properties"))
	return r, err
}

func (t *template) deployment() (deployment, error) {
	var d deployment
	var problems []error
	for _, r := range t.resources {
		if r.condition != "" && !t.conditions[r.condition] {
			continue
		}
		var err error
		switch r.kind {
		case "AWS::Serverless::Function":
			d.functions, err = collected(d.functions, r, t.function)
		case "AWS::DynamoDB::Table":
			d.tables, err = collected(d.tables, r, t.table)
		case "AWS::S3::Bucket":
			d.buckets, err = collected(d.buckets, r, t.bucket)
		case "AWS::SQS::Queue":
			d.queues, err = collected(d.queues, r, t.queue)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return d, errors.Join(problems...)
}

func collected[T any](list []T, r resource, read func(resource) (T, error)) ([]T, error) {
	item, err := read(r)
	return append(list, item), err
}

func (t *template) function(r resource) (function, error) {
	f := function{logicalID: r.logicalID}
	var errs [6]error
	var seconds int
	seconds, errs[0] = t.number(r, "Timeout", 3)
	f.timeout = time.Duration(seconds) * time.Second
	f.memoryMB, errs[1] = t.number(r, "MemorySize", 128)
	f.env, errs[2] = t.environment(r)
	f.url, errs[3] = t.functionURL(r)
	f.events, errs[4] = t.events(r)
	f.allowLoop, errs[5] = t.recursiveLoop(r)
	return f, errors.Join(errs[:]...)
}

func (t *template) number(r resource, key string, absent int) (int, error) {
	value, node, err := t.property(r, key)
	if err != nil || value == nil {
		return absent, err
	}
	text, _ := value.(string)
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, t.errorf(node, "%s of %s is not a number", key, r.logicalID)
	}
	return n, nil
}

func (t *template) environment(r resource) (map[string]string, error) {
	env := map[string]string{}
	value, node, err := t.property(r, "Environment")
	if err != nil || value == nil {
		return env, err
	}
	environment, _ := value.(map[string]any)
	variables, ok := environment["Variables"].(map[string]any)
	if !ok {
		return env, t.errorf(node, "Environment of %s is not a mapping with Variables", r.logicalID)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		text, ok := variables[name].(string)
		if !ok {
			problems = append(problems, t.errorf(node, "variable %s of %s is not a string", name, r.logicalID))
		}
		env[name] = text
	}
	return env, errors.Join(problems...)
}

func (t *template) functionURL(r resource) (*functionURL, error) {
	value, node, err := t.property(r, "FunctionUrlConfig")
	if err != nil || value == nil {
		return nil, err
	}
	config, ok := value.(map[string]any)
	if !ok {
		return nil, t.errorf(node, "FunctionUrlConfig of %s is not a mapping", r.logicalID)
	}
	auth, mode := config["AuthType"], config["InvokeMode"]
	if auth != "NONE" && auth != "AWS_IAM" {
		return nil, t.errorf(node, "AuthType of %s is neither NONE nor AWS_IAM", r.logicalID)
	}
	if mode != nil && mode != "BUFFERED" && mode != "RESPONSE_STREAM" {
		return nil, t.errorf(node, "InvokeMode of %s is neither BUFFERED nor RESPONSE_STREAM", r.logicalID)
	}
	return &functionURL{authType: auth.(string), stream: mode == "RESPONSE_STREAM"}, nil
}

// property evaluates one property of a function the way the SAM transform merges Globals: maps are merged, lists are
// joined, and of anything else the function's own counts. It returns nil for a property that is absent, and the node
// to which an error about the value belongs.
func (t *template) property(r resource, key string) (any, ast.Node, error) {
	own, global := member(r.properties, key), member(t.globals, key)
	var value any
	for _, node := range []ast.Node{global, own} {
		if node == nil {
			continue
		}
		v, err := t.value(node)
		if err != nil {
			return nil, nil, err
		}
		value = mergeGlobals(value, v)
	}
	node := own
	if node == nil {
		node = global
	}
	return withoutNoValue(value), node, nil
}

func mergeGlobals(global, own any) any {
	switch g := global.(type) {
	case map[string]any:
		if o, ok := own.(map[string]any); ok {
			merged := maps.Clone(g)
			for key, value := range o {
				merged[key] = mergeGlobals(g[key], value)
			}
			return merged
		}
	case []any:
		if o, ok := own.([]any); ok {
			return slices.Concat(g, o)
		}
	}
	return own
}

// withoutNoValue removes what refers to AWS::NoValue; it returns nil when that is all there is.
func withoutNoValue(value any) any {
	switch v := value.(type) {
	case noValue:
		return nil
	case map[string]any:
		kept := map[string]any{}
		for key, item := range v {
			if item = withoutNoValue(item); item != nil {
				kept[key] = item
			}
		}
		return kept
	case []any:
		kept := []any{}
		for _, item := range v {
			if item = withoutNoValue(item); item != nil {
				kept = append(kept, item)
			}
		}
		return kept
	}
	return value
}
