package fault

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

//go:embed policy.json
var policyJSON []byte

// Policy is the loaded table: what each class means, and which code or status leads to which class. It is read-only
// after loading and safe for concurrent use.
type Policy struct {
	// Version reaches every record and the X-LLM-Policy-Version header.
	Version   string
	rules     map[Class]Rule
	words     map[string]Class
	inStream  map[string]Class
	sentences []sentenceRow
	statuses  map[int]statusRow
}

type policyFile struct {
	Version   string        `json:"version"`
	Classes   []classRow    `json:"classes"`
	Codes     []codeRow     `json:"codes"`
	Sentences []sentenceRow `json:"sentences"`
	Statuses  []statusRow   `json:"statuses"`
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

// sentenceRow is one provider's sentence, for where its codes are known to be missing or wrong. It narrows down one class
// into another; a message by itself decides nothing, since it can hold the user's own words.
type sentenceRow struct {
	Provider string `json:"provider"`
	Within   Class  `json:"within"`
	Class    Class  `json:"class"`
	// Sentence is a regular expression. With two groups, both are numbers and the second must be the larger one.
	Sentence string `json:"sentence"`
	Source   string `json:"source"`
	Date     string `json:"date"`

	pattern *regexp.Regexp
}

type statusRow struct {
	From  int   `json:"from"`
	To    int   `json:"to"`
	Class Class `json:"class"`
	// Ambiguous says that the provider may have done the work, Silent that this is what a proxy says of a provider
	// that said nothing.
	Ambiguous bool   `json:"ambiguous"`
	Silent    bool   `json:"silent"`
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

// ParsePolicy decodes a policy table strictly: an unknown or repeated member, a value outside the closed sets, a word in
// two rows, a fact without its source, a status that is none, or a class without a row is an error. All problems of a
// table that can be decoded are reported at once.
func ParsePolicy(data []byte) (*Policy, error) {
	var file policyFile
	if err := json.Unmarshal(data, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("decoding the policy table: %w", err)
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
	for _, class := range ClassNames() {
		if _, ok := p.rules[Class(class)]; !ok {
			note("class %s has no row", class)
		}
	}
	for _, row := range file.Codes {
		p.addCodes(row, note)
	}
	for _, row := range file.Sentences {
		p.addSentence(row, note)
	}
	for _, row := range file.Statuses {
		p.addStatuses(row, note)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return p, nil
}

func (p *Policy) addClass(row classRow, note func(string, ...any)) {
	if !row.Class.Known() {
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
	if row.Weight != 0 && row.Weight != 0.5 && row.Weight != 1 {
		note("class %s: weight %v is not one of: 0, 0.5, 1", row.Class, row.Weight)
	}
	if row.Hold != "" && row.Hold != Throttle && row.Hold != Remember {
		note("class %s: hold %q is not one of: throttle, remember", row.Class, row.Hold)
	}
	if (row.Hold == Remember) != (row.HoldFor != "") {
		note("class %s: hold remember and hold_for go together", row.Class)
	}
	if row.Remedy == "" {
		note("class %s: remedy is missing", row.Class)
	}
	rule := Rule{Class: row.Class, Action: row.Action, Weight: row.Weight, Code: row.Code, Hold: row.Hold, Alert: row.Alert,
		Retryable: row.Retryable, Remedy: row.Remedy}
	if row.HoldFor != "" {
		d, err := time.ParseDuration(row.HoldFor)
		if err != nil || d <= 0 {
			note("class %s: hold_for: %q is no duration above 0", row.Class, row.HoldFor)
		}
		rule.HoldFor = d
	}
	p.rules[row.Class] = rule
}

func (p *Policy) addCodes(row codeRow, note func(string, ...any)) {
	if !row.Class.Known() {
		note("codes %v: class %q is not one of ours", row.Words, row.Class)
	}
	if len(row.Words) == 0 {
		note("codes of %s: there are no words", row.Class)
	}
	if row.Source == "" || row.Date == "" {
		note("codes %v: a provider fact needs its source and date", row.Words)
	}
	into := p.words
	if row.InStream {
		into = p.inStream
	}
	for _, w := range row.Words {
		if w == "" {
			note("codes of %s: a word is empty", row.Class)
		}
		if _, ok := into[w]; ok {
			note("code %q stands in two rows", w)
		}
		into[w] = row.Class
	}
}

func (p *Policy) addSentence(row sentenceRow, note func(string, ...any)) {
	for _, class := range []Class{row.Within, row.Class} {
		if !class.Known() {
			note("sentence %q: class %q is not one of ours", row.Sentence, class)
		}
	}
	if row.Provider == "" {
		note("sentence %q: it needs its provider", row.Sentence)
	}
	if row.Source == "" || row.Date == "" {
		note("sentence %q: a provider fact needs its source and date", row.Sentence)
	}
	pattern, err := regexp.Compile(row.Sentence)
	if err != nil || row.Sentence == "" {
		note("sentence %q: is no regular expression", row.Sentence)
		return
	}
	if n := pattern.NumSubexp(); n != 0 && n != 2 {
		note("sentence %q: has %d groups, and not none or two", row.Sentence, n)
	}
	row.pattern = pattern
	p.sentences = append(p.sentences, row)
}

// addStatuses adds a range. A later range may lie inside an earlier one, which it replaces there.
func (p *Policy) addStatuses(row statusRow, note func(string, ...any)) {
	if !row.Class.Known() {
		note("statuses %d to %d: class %q is not one of ours", row.From, row.To, row.Class)
	}
	if row.From < 300 || row.To > 599 || row.From > row.To {
		note("statuses %d to %d: is no range from 300 to 599", row.From, row.To)
		return
	}
	for s := row.From; s <= row.To; s++ {
		if have, ok := p.statuses[s]; ok && (row.From < have.From || row.To > have.To || row.To-row.From == have.To-have.From) {
			note("statuses %d to %d: hides %d to %d, which stands before it", row.From, row.To, have.From, have.To)
			return
		}
		p.statuses[s] = row
	}
}

// Rule is the class's row. Every class has one.
func (p *Policy) Rule(c Class) Rule { return p.rules[c] }

var everyAction = map[Action]bool{Retry: true, Fallback: true, NextCredential: true, Larger: true, Regenerate: true, Fail: true, Stop: true}

var everyClass = map[Class]bool{RateLimited: true, Overloaded: true, ServerError: true, Network: true, Timeout: true, Conflict: true,
	TooEarly: true, BadResponse: true, ContractViolation: true, GenerationFailed: true, Auth: true, Quota: true,
	ModelUnavailable: true, ContextLength: true, RequestExceedsLimit: true, ContentPolicy: true, UnsupportedParameter: true,
	InvalidRequest: true, Cancelled: true, Deadline: true, Unknown: true}
