package fault

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// policyJSON is the table as it is written. A cold start does not decode it, which would cost a millisecond: table.go
// holds the same as Go data, and a test holds the two together.
//
//go:embed policy.json
var policyJSON []byte

// Policy is the loaded table: what each class means, and which words, sentence or status lead to which class. It is
// read-only after loading and safe for concurrent use.
type Policy struct {
	// Version reaches every record and the X-LLM-Policy-Version header. "+route" at its end says that rows of a route
	// apply.
	Version string

	rules     map[Class]Rule
	own       []row // a route's
	rows      []row
	sentences []sentence
	words     map[string]Class
	inStream  map[string]Class
	statuses  []statusRow
}

type policyFile struct {
	Version string `json:"version"`
	// Classes say what each class means.
	Classes []classRow `json:"classes"`
	// Rows are what one provider means by its words and statuses. Of a provider's rows the first that fits decides.
	Rows []row `json:"rows"`
	// Sentences narrow down what the words have found.
	Sentences []sentenceRow `json:"sentences"`
	// Codes are the words that OpenAI and all who copy it have in common.
	Codes []codeRow `json:"codes"`
	// Statuses are what is left when no word is known.
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
	From  int   `json:"from"`
	To    int   `json:"to"`
	Class Class `json:"class"`
	// Ambiguous says that the provider may have done the work, Silent that this is what a proxy says of a provider
	// that said nothing.
	Ambiguous bool   `json:"ambiguous"`
	Silent    bool   `json:"silent"`
	Note      string `json:"note"`
	Source    string `json:"source"`
	Date      string `json:"date"`
}

// Default is the embedded policy. A test checks the table, so that this need not and cannot fail.
var Default = sync.OnceValue(table.policy)

// ParsePolicy decodes a policy table strictly: an unknown or repeated member, a value outside the closed sets, a word in
// two rows, a fact without its source, a status that is none, or a class without a row is an error. All problems of a
// table that can be decoded are reported at once.
func ParsePolicy(data []byte) (*Policy, error) {
	file, err := decodePolicy(data)
	if err != nil {
		return nil, err
	}
	if problems := file.problems(); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return file.policy(), nil
}

func decodePolicy(data []byte) (*policyFile, error) {
	var file policyFile
	if err := json.Unmarshal(data, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("decoding the policy table: %w", err)
	}
	return &file, nil
}

// policy prepares the table for lookups.
func (file *policyFile) policy() *Policy {
	p := &Policy{Version: file.Version, rules: make(map[Class]Rule, len(file.Classes)), rows: file.Rows, sentences: make([]sentence, len(file.Sentences)),
		words: make(map[string]Class, 128), inStream: map[string]Class{}, statuses: file.Statuses}
	for _, c := range file.Classes {
		rule := Rule{Class: c.Class, Action: c.Action, Weight: c.Weight, Code: c.Code, Hold: c.Hold, Alert: c.Alert, Retryable: c.Retryable, Remedy: c.Remedy}
		rule.HoldFor, _ = time.ParseDuration(c.HoldFor) // empty: 0
		p.rules[c.Class] = rule
	}
	for i := range file.Sentences {
		p.sentences[i].sentenceRow = &file.Sentences[i]
	}
	for _, c := range file.Codes {
		into := p.words
		if c.InStream {
			into = p.inStream
		}
		for _, w := range c.Words {
			into[w] = c.Class
		}
	}
	return p
}

// status is the row of an HTTP status; the zero row where there is none. A later, narrower range replaces an earlier one.
func (p *Policy) status(status int) statusRow {
	for _, row := range slices.Backward(p.statuses) {
		if row.From <= status && status <= row.To {
			return row
		}
	}
	return statusRow{}
}

// Rule is the class's row. Every class has one.
func (p *Policy) Rule(c Class) Rule { return p.rules[c] }

// Row is a row of a route's own, which comes before the table. What it names must all fit; what it leaves out fits
// anything. A row that names a status alone decides like a status: only where no word is known.
type Row struct {
	// Provider is one of Vendors; empty: any.
	Provider string
	// Status is from 300 to 599; 0: any.
	Status int
	Type   string
	Code   string
	Class  Class
}

// Check says what is wrong with a row of a route; nil: nothing.
func (p *Policy) Check(r Row) error {
	own := r.row()
	problems := own.problems()
	if r.Class.Known() && p.Rule(r.Class).Action == Stop {
		problems = append(problems, fmt.Errorf("class %q is nothing that a provider can answer", r.Class))
	}
	return errors.Join(problems...)
}

// With is the policy with a route's rows before its own; the first that fits decides. The rows must have passed Check.
// Without rows it is the policy itself.
func (p *Policy) With(rows []Row) *Policy {
	if len(rows) == 0 {
		return p
	}
	with := *p
	with.Version += "+route"
	with.own = make([]row, len(rows))
	for i, r := range rows {
		with.own[i] = r.row()
	}
	return &with
}

func (r Row) row() row {
	own := row{Provider: r.Provider, Unparsed: true, Class: r.Class}
	if r.Status != 0 {
		own.Status = []int{r.Status}
	}
	if r.Type != "" {
		own.Type = []string{r.Type}
	}
	if r.Code != "" {
		own.Code = []string{r.Code}
	}
	return own
}
