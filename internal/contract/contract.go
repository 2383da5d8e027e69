// Package contract holds an answer to what its request demanded of the output: JSON where JSON was asked for, the
// client's JSON schema, and tool calls whose arguments can be read and, for a strict tool, match its parameters
// (contract.md §6). It is pure: nothing is fetched, no clock is read.
//
// It is for the gateway to decide what follows a violation. What a provider's words must have to be an answer at all is
// not judged here.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spillway/internal/chat"
	"spillway/internal/fault"
)

// Contract is what one request demands of its answer. Nil demands nothing, and costs nothing. It is safe for concurrent
// use.
type Contract struct {
	// object says that the content must be a JSON object, schema what else it must be; nil: nothing else.
	object bool
	schema *schema
	// tools are the client's functions by name, with the schema of the strict ones.
	tools map[string]*schema
}

// Kind is how an answer breaks its contract.
type Kind string

// The kinds.
const (
	// NotJSON is a text that is no single JSON value, or one that nests deeper or holds larger numbers than we bear.
	NotJSON Kind = "not_json"
	// NotObject is JSON, but no object.
	NotObject Kind = "not_object"
	// Mismatch is JSON that the client's schema rejects.
	Mismatch Kind = "schema_mismatch"
	// Truncated is an output that its token limit cut off before it was what was asked for.
	Truncated Kind = "truncated"
	// TooCostly is JSON that would take the client's schema beyond all sense to check: it counts as not kept.
	TooCostly Kind = "too_costly"
)

// Violation is the place at which an answer breaks its contract. It holds nothing of the answer.
type Violation struct {
	Kind Kind
	// Pointer is the JSON pointer of the broken text in a plain answer.
	Pointer string
	// Schema is the JSON pointer of the rejecting part of the client's schema; empty: its root, or no schema was asked.
	Schema string
}

// Error is for the log.
func (v *Violation) Error() string {
	if v.Schema == "" {
		return v.Pointer + ": " + string(v.Kind)
	}
	return v.Pointer + ": " + string(v.Kind) + " at " + v.Schema
}

// Compile reads what a request demands; nil when that is nothing. A schema that cannot be checked, because it is no
// schema, refers to another document, uses what the checker does not know, or has no bounds, is an error of the code
// unsupported_schema that names the JSON pointer of the reason.
func Compile(r *chat.Request) (*Contract, *fault.Error) {
	f := r.Format
	if (f == nil || f.Kind == chat.FormatText) && !slices.ContainsFunc(r.Tools, isFunction) {
		return nil, nil
	}
	c := &Contract{object: f != nil && f.Kind == chat.FormatObject}
	if f != nil && f.Kind == chat.FormatSchema {
		var err *fault.Error
		if c.schema, err = compileFor("response_format.json_schema.schema", f.Schema); err != nil {
			return nil, err
		}
	}
	for i := range r.Tools {
		if err := c.addTool(i, &r.Tools[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// isFunction tells a tool whose arguments are JSON from one whose input is free text.
func isFunction(t chat.Tool) bool { return !t.Custom }

func (c *Contract) addTool(i int, t *chat.Tool) *fault.Error {
	if !isFunction(*t) {
		return nil
	}
	var s *schema
	if t.Strict && len(t.Parameters) > 0 {
		var err *fault.Error
		if s, err = compileFor(fmt.Sprintf("tools[%d].function.parameters", i), t.Parameters); err != nil {
			return err
		}
	}
	if c.tools == nil {
		c.tools = make(map[string]*schema, 1)
	}
	c.tools[t.Name] = s
	return nil
}

func compileFor(param string, text []byte) (*schema, *fault.Error) {
	s, err := compile(text)
	if err != nil {
		return nil, &fault.Error{Code: fault.UnsupportedSchema, Param: param, Message: "the schema cannot be checked: " + err.Error()}
	}
	return s, nil
}

// Check says whether a whole answer keeps the contract: nil, or the first *Violation. A choice that was truncated,
// filtered or refused breaks nothing: it does not claim to be what was asked for.
func (c *Contract) Check(a *chat.Answer) error {
	if c == nil {
		return nil
	}
	for i := range a.Choices {
		if v := c.checkChoice(&a.Choices[i]); v != nil {
			return v
		}
	}
	return nil
}

func (c *Contract) checkChoice(choice *chat.AnswerChoice) *Violation {
	if choice.Refusal != "" || choice.Finish != chat.FinishStop && choice.Finish != chat.FinishToolCalls {
		return nil
	}
	if v := c.checkCalls(choice); v != nil {
		return v
	}
	if choice.Finish != chat.FinishStop || len(choice.Calls) > 0 && choice.Text == "" {
		return nil
	}
	return c.checkContent(choice)
}

// CheckTruncated says whether what an answer's token limit cut off would keep the contract as it is: nil, or the first
// *Violation, of the kind Truncated. Words that stand before a call are no output that was asked for.
func (c *Contract) CheckTruncated(a *chat.Answer) error {
	if c == nil {
		return nil
	}
	for i := range a.Choices {
		choice := &a.Choices[i]
		if choice.Finish != chat.FinishLength || choice.Refusal != "" {
			continue
		}
		v := c.checkCalls(choice)
		if len(choice.Calls) == 0 {
			v = c.checkContent(choice)
		}
		if v != nil {
			return v.truncated()
		}
	}
	return nil
}

func (v *Violation) truncated() *Violation { return &Violation{Kind: Truncated, Pointer: v.Pointer} }

func (c *Contract) checkCalls(choice *chat.AnswerChoice) *Violation {
	for i, call := range choice.Calls {
		if v := c.checkCall(call.Name, call.Arguments); v != nil {
			v.Pointer = fmt.Sprintf("/choices/%d/message/tool_calls/%d/function/arguments", choice.Index, i)
			return v
		}
	}
	return nil
}

func (c *Contract) checkContent(choice *chat.AnswerChoice) *Violation {
	v := c.checkText(choice.Text)
	if v != nil {
		v.Pointer = fmt.Sprintf("/choices/%d/message/content", choice.Index)
	}
	return v
}

// CheckCall says whether one whole call of a tool keeps the contract: nil, or a *Violation whose pointer is relative to
// the call.
func (c *Contract) CheckCall(name, arguments string) error {
	if c == nil {
		return nil
	}
	if v := c.checkCall(name, arguments); v != nil {
		v.Pointer = "/function/arguments"
		return v
	}
	return nil
}

// CheckTruncatedCall is CheckCall for a call that the token limit cut off: the *Violation is of the kind Truncated.
func (c *Contract) CheckTruncatedCall(name, arguments string) error {
	if v, broken := errors.AsType[*Violation](c.CheckCall(name, arguments)); broken {
		return v.truncated()
	}
	return nil
}

func (c *Contract) checkCall(name, arguments string) *Violation {
	s, ours := c.tools[name]
	switch {
	case !ours:
		return nil
	case s != nil:
		return s.check(arguments)
	case !json.Valid([]byte(arguments)):
		return &Violation{Kind: NotJSON}
	default:
		return nil
	}
}

func (c *Contract) checkText(text string) *Violation {
	switch {
	case c.schema != nil:
		return c.schema.check(text)
	case !c.object:
		return nil
	case !json.Valid([]byte(text)):
		return &Violation{Kind: NotJSON}
	case !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{"):
		return &Violation{Kind: NotObject}
	default:
		return nil
	}
}
