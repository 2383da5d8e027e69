package contract_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/chat"
	"spillway/internal/contract"
	"spillway/internal/fault"
)

// point is a schema as SDKs write it.
const point = `{"type":"object","properties":{"x":{"type":"integer"},"tag":{"anyOf":[{"enum":["a","b"]},{"type":"null"}]}},"required":["x","tag"],"additionalProperties":false}`

func schemaRequest(schema string) *chat.Request {
	return &chat.Request{Format: &chat.Format{Kind: chat.FormatSchema, Name: "s", Schema: []byte(schema)}}
}

func objectRequest() *chat.Request {
	return &chat.Request{Format: &chat.Format{Kind: chat.FormatObject}}
}

func toolRequest(strict bool) *chat.Request {
	return &chat.Request{Tools: []chat.Tool{{Custom: true, Name: "free"}, {Name: "f", Parameters: []byte(point), Strict: strict}, {Name: "bare", Strict: true}}}
}

func says(text string) chat.AnswerChoice {
	return chat.AnswerChoice{Text: text, Finish: chat.FinishStop}
}

func calls(name, arguments string) chat.AnswerChoice {
	return chat.AnswerChoice{Calls: []chat.ToolCall{{Name: "bare", Arguments: "{}"}, {Name: name, Arguments: arguments}}, Finish: chat.FinishToolCalls}
}

func ends(c chat.AnswerChoice, reason chat.FinishReason) chat.AnswerChoice {
	c.Finish = reason
	return c
}

func TestCheck(t *testing.T) {
	secondOfTwo := says(`{`)
	secondOfTwo.Index = 1
	refused := says(`no`)
	refused.Refusal = "no"
	talking := calls("f", `{"x":1,"tag":null}`)
	talking.Text = "let me see"
	tests := map[string]struct {
		request *chat.Request
		choices []chat.AnswerChoice
		// broken is the violation; "": none.
		broken string
	}{
		"what the schema describes":                 {schemaRequest(point), []chat.AnswerChoice{says(" {\"x\":1.0,\"tag\":null}\n")}, ""},
		"a member is missing":                       {schemaRequest(point), []chat.AnswerChoice{says(`{"x":1}`)}, "/choices/0/message/content: schema_mismatch"},
		"a member is of another type":               {schemaRequest(point), []chat.AnswerChoice{says(`{"x":"SECRET","tag":null}`)}, "/choices/0/message/content: schema_mismatch at /properties/x"},
		"a member too many":                         {schemaRequest(point), []chat.AnswerChoice{says(`{"x":1,"tag":null,"validating /y: ":2}`)}, "/choices/0/message/content: schema_mismatch"},
		"no alternative fits":                       {schemaRequest(point), []chat.AnswerChoice{says(`{"x":1,"tag":"validating /z: "}`)}, "/choices/0/message/content: schema_mismatch at /properties/tag"},
		"half a value":                              {schemaRequest(point), []chat.AnswerChoice{says(`{"x":1,`)}, "/choices/0/message/content: not_json"},
		"a value and a word":                        {schemaRequest(point), []chat.AnswerChoice{says(`{"x":1,"tag":null} done`)}, "/choices/0/message/content: not_json"},
		"a fenced value":                            {schemaRequest(point), []chat.AnswerChoice{says("```json\n{\"x\":1,\"tag\":null}\n```")}, "/choices/0/message/content: not_json"},
		"nothing":                                   {schemaRequest(point), []chat.AnswerChoice{says("")}, "/choices/0/message/content: not_json"},
		"the second of two choices":                 {schemaRequest(point), []chat.AnswerChoice{says(`{"x":1,"tag":"a"}`), secondOfTwo}, "/choices/1/message/content: not_json"},
		"a truncated value claims nothing":          {schemaRequest(point), []chat.AnswerChoice{ends(says(`{"x":`), chat.FinishLength)}, ""},
		"a filtered value claims nothing":           {schemaRequest(point), []chat.AnswerChoice{ends(says(`{"x":`), chat.FinishContentFilter)}, ""},
		"a refusal claims nothing":                  {schemaRequest(point), []chat.AnswerChoice{refused}, ""},
		"a value that nests beyond all sense":       {schemaRequest(`{"type":"array"}`), []chat.AnswerChoice{says(strings.Repeat("[", 500) + strings.Repeat("]", 500))}, "/choices/0/message/content: not_json"},
		"a number that no float holds":              {schemaRequest(`{"type":"number"}`), []chat.AnswerChoice{says(`1e999999999`)}, "/choices/0/message/content: not_json"},
		"an object":                                 {objectRequest(), []chat.AnswerChoice{says("\n {\"a\":[]}")}, ""},
		"a list is no object":                       {objectRequest(), []chat.AnswerChoice{says(`[{}]`)}, "/choices/0/message/content: not_object"},
		"a word is no object":                       {objectRequest(), []chat.AnswerChoice{says(`Sure! {}`)}, "/choices/0/message/content: not_json"},
		"half an object is no object":               {objectRequest(), []chat.AnswerChoice{says(`{"a":`)}, "/choices/0/message/content: not_json"},
		"a truncated object claims nothing":         {objectRequest(), []chat.AnswerChoice{ends(says(`{"a":`), chat.FinishLength)}, ""},
		"a strict call that fits":                   {toolRequest(true), []chat.AnswerChoice{calls("f", `{"x":1,"tag":"b"}`)}, ""},
		"a strict call that does not":               {toolRequest(true), []chat.AnswerChoice{calls("f", `{"x":1,"tag":"c"}`)}, "/choices/0/message/tool_calls/1/function/arguments: schema_mismatch at /properties/tag"},
		"a strict call that cannot be read":         {toolRequest(true), []chat.AnswerChoice{calls("f", `{"x":`)}, "/choices/0/message/tool_calls/1/function/arguments: not_json"},
		"a strict call that ends with stop":         {toolRequest(true), []chat.AnswerChoice{ends(calls("f", `{}`), chat.FinishStop)}, "/choices/0/message/tool_calls/1/function/arguments: schema_mismatch"},
		"a strict call that was truncated":          {toolRequest(true), []chat.AnswerChoice{ends(calls("f", `{"x":`), chat.FinishLength)}, ""},
		"a loose call need not fit":                 {toolRequest(false), []chat.AnswerChoice{calls("f", `{"x":"1"}`)}, ""},
		"a loose call must be readable":             {toolRequest(false), []chat.AnswerChoice{calls("f", `{"x":`)}, "/choices/0/message/tool_calls/1/function/arguments: not_json"},
		"a strict tool without parameters":          {toolRequest(true), []chat.AnswerChoice{calls("bare", `{"x":1}`)}, ""},
		"free text to a custom tool":                {toolRequest(true), []chat.AnswerChoice{calls("free", `SELECT 1`)}, ""},
		"text beside tools":                         {toolRequest(true), []chat.AnswerChoice{says("Hello")}, ""},
		"text beside calls under a schema":          {both(), []chat.AnswerChoice{talking}, ""},
		"calls without text under a schema":         {both(), []chat.AnswerChoice{ends(calls("f", `{"x":1,"tag":"b"}`), chat.FinishStop)}, ""},
		"a broken text after calls under a schema":  {both(), []chat.AnswerChoice{ends(talking, chat.FinishStop)}, "/choices/0/message/content: not_json"},
		"a list that repeats itself":                {schemaRequest(`{"uniqueItems":true}`), []chat.AnswerChoice{says(`[{"a":1},{"a":1.0}]`)}, "/choices/0/message/content: schema_mismatch"},
		"a price is a multiple of a cent":           {schemaRequest(`{"multipleOf":0.01}`), []chat.AnswerChoice{says(`19.99`)}, ""},
		"recursion as deep as the value":            {schemaRequest(list), []chat.AnswerChoice{says(`{"next":{"next":{"next":null}}}`)}, ""},
		"recursion that ends in something else":     {schemaRequest(list), []chat.AnswerChoice{says(`{"next":{"next":{"next":7}}}`)}, "/choices/0/message/content: schema_mismatch at /$defs/node"},
		"alternatives that multiply level by level": {schemaRequest(doubling), []chat.AnswerChoice{says(nested(60))}, "/choices/0/message/content: too_costly"},
		"a few levels of them":                      {schemaRequest(doubling), []chat.AnswerChoice{says(nested(6))}, ""},
		"a rejection that would repeat a long value for each of many alternatives": {schemaRequest(`{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"null"},`, 2000), ",") + `]}`),
			[]chat.AnswerChoice{says(`"` + strings.Repeat("x", 1<<20) + `"`)}, "/choices/0/message/content: too_costly"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			compiled, refused := contract.Compile(c.request)
			require.Nil(t, refused)
			err := compiled.Check(&chat.Answer{Choices: c.choices})
			if c.broken == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.broken)
			var v *contract.Violation
			require.True(t, errors.As(err, &v))
		})
	}
}

// TestCheckTruncated: what the token limit cut off, had it been the whole.
func TestCheckTruncated(t *testing.T) {
	cut := func(c chat.AnswerChoice) chat.AnswerChoice { return ends(c, chat.FinishLength) }
	refused := cut(says(`no`))
	refused.Refusal = "no"
	talking := cut(calls("f", `{"x":1,"tag":null}`))
	talking.Text = "let me see"
	const content, call = "/choices/0/message/content: truncated", "/choices/0/message/tool_calls/1/function/arguments: truncated"
	for name, c := range map[string]struct {
		request *chat.Request
		choices []chat.AnswerChoice
		broken  string
	}{
		"half a value":                             {schemaRequest(point), []chat.AnswerChoice{cut(says(`{"x":1,"t`))}, content},
		"a value that lacks a member":              {schemaRequest(point), []chat.AnswerChoice{cut(says(`{"x":1}`))}, content},
		"nothing":                                  {schemaRequest(point), []chat.AnswerChoice{cut(says(``))}, content},
		"a whole value":                            {schemaRequest(point), []chat.AnswerChoice{cut(says(`{"x":1,"tag":null}`))}, ""},
		"half an object":                           {objectRequest(), []chat.AnswerChoice{cut(says(`{"x":1`))}, content},
		"a refusal":                                {schemaRequest(point), []chat.AnswerChoice{refused}, ""},
		"half a value that ended by itself":        {schemaRequest(point), []chat.AnswerChoice{says(`{"x":1`)}, ""},
		"half a value that was filtered":           {schemaRequest(point), []chat.AnswerChoice{ends(says(`{"x":1`), chat.FinishContentFilter)}, ""},
		"half the arguments of a strict call":      {toolRequest(true), []chat.AnswerChoice{cut(calls("f", `{"x":`))}, call},
		"half the arguments of a loose call":       {toolRequest(false), []chat.AnswerChoice{cut(calls("f", `{"x":`))}, call},
		"a loose call":                             {toolRequest(false), []chat.AnswerChoice{cut(calls("f", `{}`))}, ""},
		"a strict call before its arguments":       {toolRequest(true), []chat.AnswerChoice{cut(calls("f", `{}`))}, call},
		"free text to a custom tool":               {toolRequest(true), []chat.AnswerChoice{cut(calls("free", `SEL`))}, ""},
		"text beside tools":                        {toolRequest(true), []chat.AnswerChoice{cut(says("Hel"))}, ""},
		"words before a whole call under a schema": {both(), []chat.AnswerChoice{talking}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := contract.Compile(c.request)
			require.Nil(t, err)
			if got := compiled.CheckTruncated(&chat.Answer{Choices: c.choices}); c.broken == "" {
				require.NoError(t, got)
			} else {
				require.EqualError(t, got, c.broken)
			}
		})
	}
	t.Run("a request that demands nothing", func(t *testing.T) {
		var none *contract.Contract
		require.NoError(t, none.CheckTruncated(&chat.Answer{Choices: []chat.AnswerChoice{cut(says(`{`))}}))
		require.NoError(t, none.CheckTruncatedCall("f", `{`))
	})
	t.Run("a call by itself", func(t *testing.T) {
		compiled, err := contract.Compile(toolRequest(true))
		require.Nil(t, err)
		require.EqualError(t, compiled.CheckTruncatedCall("f", `{"x":`), "/function/arguments: truncated")
		require.NoError(t, compiled.CheckTruncatedCall("f", `{"x":1,"tag":null}`))
	})
}

// both asks for a schema and offers tools.
func both() *chat.Request {
	r := toolRequest(true)
	r.Format = schemaRequest(point).Format
	return r
}

const (
	list = `{"$ref":"#/$defs/node","$defs":{"node":{"anyOf":[{"type":"null"},{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}]}}}`
	// doubling looks at each level of a value twice as often as at the one above.
	doubling = `{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`
)

func nested(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n) }

func TestCheckCall(t *testing.T) {
	c, refused := contract.Compile(toolRequest(true))
	require.Nil(t, refused)
	require.NoError(t, c.CheckCall("f", `{"x":1,"tag":"b"}`))
	require.EqualError(t, c.CheckCall("f", `{"x":1}`), "/function/arguments: schema_mismatch")
	require.NoError(t, (*contract.Contract)(nil).CheckCall("f", `{`))
}

func TestNothingAskedIsNoContract(t *testing.T) {
	for name, r := range map[string]*chat.Request{
		"a plain request":     {},
		"text, expressly":     {Format: &chat.Format{Kind: chat.FormatText}},
		"only a custom tool":  {Tools: []chat.Tool{{Custom: true, Name: "free"}}},
		"an empty tools list": {Tools: []chat.Tool{}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := contract.Compile(r)
			require.Nil(t, err)
			require.Nil(t, c)
			a := chat.Answer{Choices: []chat.AnswerChoice{says("Hello")}}
			require.NoError(t, c.Check(&a))
			assert.Zero(t, testing.AllocsPerRun(10, func() {
				c, _ := contract.Compile(r)
				_ = c.Check(&a)
			}))
		})
	}
}

func TestUnsupportedSchemas(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70)
	tests := map[string]struct{ schema, pointer string }{
		"another document":                         {`{"properties":{"a/b":{"$ref":"https://example.com/s.json"}}}`, "#/properties/a~1b/$ref"},
		"another file":                             {`{"$ref":"defs.json#/a"}`, "#/$ref"},
		"a reference to nothing":                   {`{"items":{"$ref":"#/$defs/a"}}`, "#/items/$ref"},
		"a reference to no anchor":                 {`{"items":{"$ref":"#a"}}`, "#/items/$ref"},
		"a reference to itself":                    {`{"$ref":"#"}`, "#"},
		"a loop of references":                     {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "#/$defs/a"},
		"a loop through not":                       {`{"properties":{"a":{"not":{"$ref":"#/properties/a"}}}}`, "#/properties/a"},
		"a pattern that looks ahead":               {`{"properties":{"p":{"pattern":"^(?=a)"}}}`, "#/properties/p/pattern"},
		"a pattern that is none":                   {`{"patternProperties":{"(":{}}}`, "#/patternProperties/("},
		"a pattern that costs too much":            {`{"pattern":"((a{100}){10}b){10}"}`, "#/pattern"},
		"patterns that cost too much together":     {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"(a{100}){10}"},`, 30), ",") + `]}`, "#/allOf/19/pattern"},
		"a pattern that is too long":               {`{"pattern":"` + strings.Repeat("a", 2000) + `"}`, "#/pattern"},
		"a type that does not exist":               {`{"items":{"type":"text"}}`, "#/items/type"},
		"a type that is a number":                  {`{"type":7}`, "#/type"},
		"properties that are a list":               {`{"properties":[]}`, "#/properties"},
		"a property that is a number":              {`{"properties":{"a":7}}`, "#/properties/a"},
		"a bound that is a word":                   {`{"maxLength":"7"}`, "#/maxLength"},
		"a bound that is negative":                 {`{"minItems":-1}`, "#/minItems"},
		"a bound that is a fraction":               {`{"minItems":1.5}`, "#/minItems"},
		"a minimum that is a word":                 {`{"minimum":"7"}`, "#/minimum"},
		"exclusiveMinimum as in draft 4":           {`{"exclusiveMinimum":true}`, "#/exclusiveMinimum"},
		"a multiple of nothing":                    {`{"multipleOf":0}`, "#/multipleOf"},
		"uniqueItems that is a word":               {`{"uniqueItems":"yes"}`, "#/uniqueItems"},
		"an enum that is no list":                  {`{"enum":"a"}`, "#/enum"},
		"required members that are no names":       {`{"required":[7]}`, "#/required/0"},
		"required that is true, as in draft 3":     {`{"properties":{"a":{"required":true}}}`, "#/properties/a/required"},
		"an empty anyOf":                           {`{"anyOf":[]}`, "#/anyOf"},
		"a tuple as in draft 7, without saying so": {`{"items":[{"type":"string"}]}`, "#/items"},
		"a dynamic reference":                      {`{"$dynamicRef":"#a"}`, "#/$dynamicRef"},
		"a part with a name of its own":            {`{"properties":{"a":{"$id":"https://example.com/a"}}}`, "#/properties/a/$id"},
		"a version that is not supported":          {`{"$schema":"http://json-schema.org/draft-03/schema#"}`, "#/$schema"},
		"two sorts of definitions":                 {`{"$defs":{},"definitions":{}}`, "#/definitions"},
		"nesting beyond all sense":                 {deep, "#" + strings.Repeat("/not", 65)},
		"more than so many schemas":                {`{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{},`, 20_000), ",") + `]}`, "#/anyOf/9999"},
		"more than so many bytes":                  {`{"title":"` + strings.Repeat("x", 300_000) + `"}`, "#"},
		"numbers that no float holds":              {`{"minimum":1e999}`, "#"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			holds := func(err *fault.Error, param string) {
				require.NotNil(t, err)
				assert.Equal(t, fault.UnsupportedSchema, err.Code)
				assert.Equal(t, 400, err.HTTPStatus())
				assert.Equal(t, param, err.Param)
				assert.Contains(t, err.Message, fmt.Sprintf("%q ", cut(c.pointer)))
				assert.LessOrEqual(t, len(err.Message), 512)
			}
			_, err := contract.Compile(schemaRequest(c.schema))
			holds(err, "response_format.json_schema.schema")
			_, err = contract.Compile(&chat.Request{Tools: []chat.Tool{{Name: "g"}, {Name: "f", Strict: true, Parameters: []byte(c.schema)}}})
			holds(err, "tools[1].function.parameters")
			_, err = contract.Compile(&chat.Request{Tools: []chat.Tool{{Name: "f", Parameters: []byte(c.schema)}}})
			assert.Nil(t, err, "a loose tool's schema is the provider's business")
		})
	}
}

// cut is a pointer as it is shown.
func cut(pointer string) string {
	if len(pointer) > 201 {
		return pointer[:201] + "…"
	}
	return pointer
}

func BenchmarkNoContract(b *testing.B) {
	r := &chat.Request{Messages: []chat.Message{{Role: chat.User}}}
	a := &chat.Answer{Choices: []chat.AnswerChoice{says("Hello")}}
	b.ReportAllocs()
	for b.Loop() {
		c, _ := contract.Compile(r)
		if c.Check(a) != nil {
			b.Fatal("nothing can be broken")
		}
	}
}

func BenchmarkSchema(b *testing.B) {
	r, a := schemaRequest(point), &chat.Answer{Choices: []chat.AnswerChoice{says(`{"x":1,"tag":"a"}`)}}
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := contract.Compile(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		c, _ := contract.Compile(r)
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Check(a); err != nil {
				b.Fatal(err)
			}
		}
	})
}
