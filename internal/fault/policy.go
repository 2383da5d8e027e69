package fault

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

//go:embed policy.json
var policyJSON []byte

// Policy is the loaded table: what each class means, and which code or status leads to which class. It is read-only
// after loading and safe for concurrent use.
type Policy struct {
	// Version reaches every record and the X-LLM-Policy-Version header.
	Version  string
	rules    map[Class]Rule
	words    map[string]Class
	inStream map[string]Class
	statuses map[int]statusRow
}

type policyFile struct {
	Version  string      `json:"version"`
	Classes  []classRow  `json:"classes"`
	Codes    []codeRow   `json:"codes"`
	Statuses []statusRow `json:"statuses"`
}

type classRow struct {
	Class     Class    `json:"class"`
	Action    Action   `json:"action"`
	Weight    float64  `json:"weight"`
	Code      Code     `json:"code"`
	Hold      HoldKind `json:"hold"`
	HoldFor   string   `json:"hold_for"`
	Alert     bool     `json:"alert"`
	Retryable bool     `json:"retryable"`
	Remedy    string   `json:"remedy"`
}

type codeRow struct {
	Class Class    `json:"class"`
	Words []string `json:"words"`
	// InStream rows count only where no HTTP status can decide: inside a 200.
	InStream bool   `json:"in_stream"`
	Source   string `json:"source"`
	Date     string `json:"date"`
}

type statusRow struct {
	From      int    `json:"from"`
	To        int    `json:"to"`
	Class     Class  `json:"class"`
	Ambiguous bool   `json:"ambiguous"`
	Note      string `json:"note"`
}

// Default is the embedded policy. The embedded table is checked by a test, so that loading it cannot fail.
var Default = sync.OnceValue(func() *Policy {
	p, err := ParsePolicy(policyJSON)
	if err != nil {
		panic(fmt.Sprintf("the embedded policy table is broken, which its test excludes: %v", err))
	}
	return p
})

// ParsePolicy decodes a policy table strictly: an unknown member, a class or action outside the closed sets, a word in
// two rows, or a class without a row is an error. All problems are reported at once.
func ParsePolicy(data []byte) (*Policy, error) {
	var file policyFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, fmt.Errorf("decoding the policy table: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decoding the policy table: something follows its end")
	}
	p := &Policy{Version: file.Version, rules: map[Class]Rule{}, words: map[string]Class{}, inStream: map[string]Class{}, statuses: map[int]statusRow{}}
	var problems []error
	note := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if p.Version == "" {
		note("version is missing")
	}
	for _, row := range file.Classes {
		p.addClass(row, note)
	}
	for class := range everyClass {
		if _, ok := p.rules[class]; !ok {
			note("class %s has no row", class)
		}
	}
	for _, row := range file.Codes {
		p.addCodes(row, note)
	}
	for _, row := range file.Statuses {
		if _, ok := p.rules[row.Class]; !ok || row.From > row.To {
			note("statuses %d to %d: unknown class %q or an empty range", row.From, row.To, row.Class)
		}
		for s := row.From; s <= row.To; s++ {
			p.statuses[s] = row // a later, narrower row replaces an earlier one
		}
	}
	return p, errors.Join(problems...)
}

func (p *Policy) addClass(row classRow, note func(string, ...any)) {
	if !everyClass[row.Class] {
		note("class %q is not one of ours", row.Class)
	}
	if !everyAction[row.Action] {
		note("class %s: action %q is not one of ours", row.Class, row.Action)
	}
	if _, ok := statuses[row.Code]; !ok {
		note("class %s: code %q is not one of ours", row.Class, row.Code)
	}
	if _, ok := p.rules[row.Class]; ok {
		note("class %s has two rows", row.Class)
	}
	rule := Rule{Class: row.Class, Action: row.Action, Weight: row.Weight, Code: row.Code, Hold: row.Hold, Alert: row.Alert,
		Retryable: row.Retryable, Remedy: row.Remedy}
	if row.HoldFor != "" {
		d, err := time.ParseDuration(row.HoldFor)
		if err != nil {
			note("class %s: hold_for: %v", row.Class, err)
		}
		rule.HoldFor = d
	}
	p.rules[row.Class] = rule
}

func (p *Policy) addCodes(row codeRow, note func(string, ...any)) {
	if _, ok := p.rules[row.Class]; !ok {
		note("codes %v: unknown class %q", row.Words, row.Class)
	}
	if row.Source == "" || row.Date == "" {
		note("codes %v: a provider fact needs its source and date", row.Words)
	}
	into := p.words
	if row.InStream {
		into = p.inStream
	}
	for _, w := range row.Words {
		if _, ok := into[w]; ok {
			note("code %q stands in two rows", w)
		}
		into[w] = row.Class
	}
}

// Rule is the class's row. Every class has one.
func (p *Policy) Rule(c Class) Rule { return p.rules[c] }

var everyAction = map[Action]bool{Retry: true, Fallback: true, NextCredential: true, Larger: true, Regenerate: true, Fail: true, Stop: true}

var everyClass = map[Class]bool{RateLimited: true, Overloaded: true, ServerError: true, Network: true, Timeout: true, Conflict: true,
	TooEarly: true, BadResponse: true, ContractViolation: true, GenerationFailed: true, Auth: true, Quota: true,
	ModelUnavailable: true, ContextLength: true, RequestExceedsLimit: true, ContentPolicy: true, UnsupportedParameter: true,
	InvalidRequest: true, Cancelled: true, Deadline: true, Unknown: true}
