package main

import (
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// The account in which everything here seems to run; the same as that of the functions' environment.
const (
	region  = "us-east-1"
	account = "000000000000"
	stack   = "spillway"
)

// noValue is what !Ref AWS::NoValue stands for: whatever holds it is left out.
type noValue struct{}

var pseudoParameters = map[string]any{
	"AWS::AccountId":        account,
	"AWS::NoValue":          noValue{},
	"AWS::NotificationARNs": []any{},
	"AWS::Partition":        "aws",
	"AWS::Region":           region,
	"AWS::StackId":          "arn:aws:cloudformation:" + region + ":" + account + ":stack/" + stack + "/local",
	"AWS::StackName":        stack,
	"AWS::URLSuffix":        "amazonaws.com",
}

// intrinsics are those known here, by their short form.
var intrinsics = map[string]string{
	"!Ref": "Ref", "!GetAtt": "Fn::GetAtt", "!Sub": "Fn::Sub", "!Join": "Fn::Join", "!If": "Fn::If", "!Equals": "Fn::Equals",
}

const knownIntrinsics = "known are Ref, Fn::GetAtt, Fn::Sub, Fn::Join, Fn::If and Fn::Equals"

// intrinsicOf returns the long name and the argument of an intrinsic in either form, or "" for any other node.
func intrinsicOf(n ast.Node) (string, ast.Node) {
	switch n := n.(type) {
	case *ast.TagNode:
		return intrinsics[n.Start.Value], n.Value
	case *ast.MappingNode:
		if len(n.Values) != 1 {
			return "", nil
		}
		name := n.Values[0].Key.GetToken().Value
		for _, long := range intrinsics {
			if name == long {
				return long, n.Values[0].Value
			}
		}
	}
	return "", nil
}

// unknownIntrinsics is one error for each intrinsic, and each other feature of YAML, that readTemplate does not know.
func (t *template) unknownIntrinsics(root ast.Node) []error {
	var problems []error
	ast.Walk(visitor(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.TagNode:
			if intrinsics[n.Start.Value] == "" {
				problems = append(problems, t.errorf(n, "%s is not known here: %s", n.Start.Value, knownIntrinsics))
			}
		case *ast.MappingNode:
			for _, entry := range n.Values {
				name := entry.Key.GetToken().Value
				if long, _ := intrinsicOf(n); strings.HasPrefix(name, "Fn::") && long == "" {
					problems = append(problems, t.errorf(entry.Key, "%s is not known here: %s", name, knownIntrinsics))
				}
			}
		case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
			problems = append(problems, t.errorf(n, "anchors and aliases are not known here"))
		}
	}), root)
	return problems
}

type visitor func(ast.Node)

func (visit visitor) Visit(n ast.Node) ast.Visitor {
	visit(n)
	return visit
}

// value evaluates a node to a string, a map[string]any, a []any or noValue. Numbers and booleans are their text, as
// CloudFormation hands them to a resource.
func (t *template) value(n ast.Node) (any, error) {
	if intrinsic, arg := intrinsicOf(n); intrinsic != "" {
		return t.call(intrinsic, n, arg)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		m := make(map[string]any, len(n.Values))
		for key, item := range members(n) {
			v, err := t.value(item)
			if err != nil {
				return nil, err
			}
			m[key] = v
		}
		return m, nil
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for _, item := range n.Values {
			v, err := t.value(item)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	default:
		return t.text(n)
	}
}

func (t *template) call(intrinsic string, n, arg ast.Node) (any, error) {
	switch intrinsic {
	case "Ref":
		name, err := t.text(arg)
		if err != nil {
			return nil, err
		}
		return t.ref(n, name)
	case "Fn::GetAtt":
		return t.getAtt(n, arg)
	case "Fn::Sub":
		return t.sub(n, arg)
	case "Fn::Join":
		return t.join(n, arg)
	case "Fn::If":
		return t.choose(n, arg)
	default:
		return nil, t.errorf(n, "%s belongs into Conditions", intrinsic)
	}
}

// ref is the value of a parameter, or the name that a resource has once it exists.
func (t *template) ref(n ast.Node, name string) (any, error) {
	if value, ok := t.values[name]; ok {
		return value, nil
	}
	r, err := t.resource(n, name)
	if err != nil {
		return nil, err
	}
	switch r.kind {
	case "AWS::Serverless::Function":
		return t.nameOf(r, "FunctionName")
	case "AWS::Logs::LogGroup":
		return t.nameOf(r, "LogGroupName")
	case "AWS::DynamoDB::Table":
		return t.tableName(r)
	case "AWS::S3::Bucket":
		return t.bucketName(r)
	case "AWS::SQS::Queue":
		name, err := t.queueName(r)
		return queueURL(name), err
	default:
		return nil, t.errorf(n, "what Ref of a %s gives is not known here", r.kind)
	}
}

// attribute is what Fn::GetAtt gives.
func (t *template) attribute(n ast.Node, id, name string) (any, error) {
	r, err := t.resource(n, id)
	if err != nil {
		return nil, err
	}
	physical, err := t.ref(n, id)
	if err != nil {
		return nil, err
	}
	switch r.kind + "." + name {
	case "AWS::Serverless::Function.Arn":
		return fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", region, account, physical), nil
	case "AWS::Logs::LogGroup.Arn":
		return fmt.Sprintf("arn:aws:logs:%s:%s:log-group:%s:*", region, account, physical), nil
	case "AWS::DynamoDB::Table.Arn":
		return fmt.Sprintf("arn:aws:dynamodb:%s:%s:table/%s", region, account, physical), nil
	case "AWS::S3::Bucket.Arn":
		return fmt.Sprintf("arn:aws:s3:::%s", physical), nil
	case "AWS::SQS::Queue.Arn":
		name, err := t.queueName(r)
		return queueARN(name), err
	case "AWS::SQS::Queue.QueueName":
		return t.queueName(r)
	case "AWS::SQS::Queue.QueueUrl":
		return physical, nil
	default:
		return nil, t.errorf(n, "the attribute %s of a %s is not known here", name, r.kind)
	}
}

func (t *template) resource(n ast.Node, id string) (resource, error) {
	for _, r := range t.resources {
		if r.logicalID == id {
			return r, nil
		}
	}
	return resource{}, t.errorf(n, "%q is neither a parameter nor a resource", id)
}

// nameOf is the name that a resource gives itself in property, or its logical id.
func (t *template) nameOf(r resource, property string) (any, error) {
	if node := member(r.properties, property); node != nil {
		return t.value(node)
	}
	return r.logicalID, nil
}

func (t *template) getAtt(n, arg ast.Node) (any, error) {
	if _, list := arg.(*ast.SequenceNode); list {
		args, err := t.arguments(n, arg, 2, "Fn::GetAtt takes a resource and an attribute")
		if err != nil {
			return nil, err
		}
		id, idErr := t.text(args[0])
		name, nameErr := t.text(args[1])
		if idErr != nil || nameErr != nil {
			return nil, t.errorf(n, "Fn::GetAtt takes a resource and an attribute")
		}
		return t.attribute(n, id, name)
	}
	text, err := t.text(arg)
	if err != nil {
		return nil, err
	}
	id, name, ok := strings.Cut(text, ".")
	if !ok {
		return nil, t.errorf(n, "Fn::GetAtt takes a resource and an attribute")
	}
	return t.attribute(n, id, name)
}

var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

func (t *template) sub(n, arg ast.Node) (any, error) {
	format, own := arg, map[string]any{}
	if _, list := arg.(*ast.SequenceNode); list {
		args, err := t.arguments(n, arg, 2, "Fn::Sub takes a string, or a string and a mapping")
		if err != nil {
			return nil, err
		}
		value, err := t.value(args[1])
		if err != nil {
			return nil, err
		}
		m, ok := value.(map[string]any)
		if !ok {
			return nil, t.errorf(n, "Fn::Sub takes a string, or a string and a mapping")
		}
		format, own = args[0], m
	}
	text, err := t.text(format)
	if err != nil {
		return nil, err
	}
	var failed error
	result := placeholder.ReplaceAllStringFunc(text, func(match string) string {
		name := strings.TrimSpace(match[2 : len(match)-1])
		if literal, ok := strings.CutPrefix(name, "!"); ok {
			return "${" + literal + "}"
		}
		value, err := t.substitute(n, name, own)
		if err != nil && failed == nil {
			failed = err
		}
		return value
	})
	return result, failed
}

func (t *template) substitute(n ast.Node, name string, own map[string]any) (string, error) {
	value, ok := own[name]
	var err error
	if !ok {
		if id, attribute, dotted := strings.Cut(name, "."); dotted {
			value, err = t.attribute(n, id, attribute)
		} else {
			value, err = t.ref(n, name)
		}
	}
	if err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", t.errorf(n, "${%s} is not a string", name)
	}
	return text, nil
}

func (t *template) join(n, arg ast.Node) (any, error) {
	args, err := t.arguments(n, arg, 2, "Fn::Join takes a delimiter and a list")
	if err != nil {
		return nil, err
	}
	delimiter, err := t.text(args[0])
	if err != nil {
		return nil, err
	}
	value, err := t.value(args[1])
	if err != nil {
		return nil, err
	}
	list, ok := withoutNoValue(value).([]any)
	if !ok {
		return nil, t.errorf(n, "Fn::Join takes a delimiter and a list")
	}
	parts := make([]string, len(list))
	for i, item := range list {
		if parts[i], ok = item.(string); !ok {
			return nil, t.errorf(n, "Fn::Join: item %d is not a string", i+1)
		}
	}
	return strings.Join(parts, delimiter), nil
}

// choose is Fn::If; the branch that is not taken is not evaluated.
func (t *template) choose(n, arg ast.Node) (any, error) {
	args, err := t.arguments(n, arg, 3, "Fn::If takes a condition and two values")
	if err != nil {
		return nil, err
	}
	name, err := t.text(args[0])
	if err != nil {
		return nil, err
	}
	holds, known := t.conditions[name]
	switch {
	case !known:
		return nil, t.errorf(n, "there is no condition %q", name)
	case holds:
		return t.value(args[1])
	default:
		return t.value(args[2])
	}
}

func (t *template) equals(arg ast.Node) (bool, error) {
	args, err := t.arguments(arg, arg, 2, "Fn::Equals takes two values")
	if err != nil {
		return false, err
	}
	var sides [2]string
	for i, n := range args {
		value, err := t.value(n)
		if err != nil {
			return false, err
		}
		text, ok := value.(string)
		if !ok {
			return false, t.errorf(n, "Fn::Equals compares strings")
		}
		sides[i] = text
	}
	return sides[0] == sides[1], nil
}

// arguments returns the items of a list of n, or an error with the text of usage.
func (t *template) arguments(at, arg ast.Node, n int, usage string) ([]ast.Node, error) {
	list, ok := arg.(*ast.SequenceNode)
	if !ok || len(list.Values) != n {
		return nil, t.errorf(at, "%s", usage)
	}
	return list.Values, nil
}

// text is a scalar as it is written.
func (t *template) text(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	default:
		return "", t.errorf(n, "this must be a string or a number")
	}
}

// mapping is n as a mapping; nil stays nil.
func (t *template) mapping(n ast.Node) (*ast.MappingNode, error) {
	if n == nil {
		return nil, nil
	}
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return nil, t.errorf(n, "this must be a mapping")
	}
	return m, nil
}

// members are the keys and values of a mapping in order; a nil mapping has none.
func members(m *ast.MappingNode) iter.Seq2[string, ast.Node] {
	return func(yield func(string, ast.Node) bool) {
		if m == nil {
			return
		}
		for _, entry := range m.Values {
			if !yield(entry.Key.GetToken().Value, entry.Value) {
				return
			}
		}
	}
}

// member is the value of one key, or nil.
func member(m *ast.MappingNode, key string) ast.Node {
	for name, n := range members(m) {
		if name == key {
			return n
		}
	}
	return nil
}
