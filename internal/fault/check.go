package fault

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// check collects the problems of a table.
type check struct{ found []error }

func (c *check) note(format string, args ...any) {
	c.found = append(c.found, fmt.Errorf(format, args...))
}

// problems are all the problems of a table.
func (file *policyFile) problems() []error {
	c := &check{}
	if file.Version == "" {
		c.note("version is missing")
	}
	rules := c.classes(file.Classes)
	for _, r := range file.Rows {
		c.row(r)
	}
	for _, s := range file.Sentences {
		c.sentence(s, rules)
	}
	c.codes(file.Codes)
	c.statuses(file.Statuses)
	return c.found
}

func (c *check) classes(rows []classRow) map[Class]classRow {
	rules := map[Class]classRow{}
	for _, row := range rows {
		c.class(row)
		if _, ok := rules[row.Class]; ok {
			c.note("class %s has two rows", row.Class)
		}
		rules[row.Class] = row
	}
	for _, class := range ClassNames() {
		if _, ok := rules[Class(class)]; !ok {
			c.note("class %s has no row", class)
		}
	}
	return rules
}

func (c *check) class(row classRow) {
	if !row.Class.Known() {
		c.note("class %q is not one of ours", row.Class)
	}
	if !everyAction[row.Action] {
		c.note("class %s: action %q is not one of ours", row.Class, row.Action)
	}
	if _, ok := statuses[row.Code]; !ok {
		c.note("class %s: code %q is not one of ours", row.Class, row.Code)
	}
	if row.Weight != 0 && row.Weight != 0.5 && row.Weight != 1 {
		c.note("class %s: weight %v is not one of: 0, 0.5, 1", row.Class, row.Weight)
	}
	if row.Hold != "" && row.Hold != Throttle && row.Hold != Remember {
		c.note("class %s: hold %q is not one of: throttle, remember", row.Class, row.Hold)
	}
	if (row.Hold == Remember) != (row.HoldFor != "") {
		c.note("class %s: hold remember and hold_for go together", row.Class)
	}
	if d, err := time.ParseDuration(row.HoldFor); row.HoldFor != "" && (err != nil || d <= 0) {
		c.note("class %s: hold_for: %q is no duration above 0", row.Class, row.HoldFor)
	}
	if row.Remedy == "" {
		c.note("class %s: remedy is missing", row.Class)
	}
}

func (c *check) row(r row) {
	at := fmt.Sprintf("row of %s to %s", r.Provider, r.Class)
	for _, problem := range r.problems() {
		c.note("%s: %w", at, problem)
	}
	if r.Provider == "" {
		c.note("%s: it needs its provider", at)
	}
	c.fact(at, r.Source, r.Date)
}

// problems are those that a row of the table and one of a route can have in common.
func (r *row) problems() (found []error) {
	note := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	if r.Provider != "" && !slices.Contains(Vendors(), r.Provider) {
		note("provider %q is not a vendor", r.Provider)
	}
	if !r.Class.Known() {
		note("class %q is not one of ours", r.Class)
	}
	if !r.worded() && len(r.Status) == 0 {
		note("it names neither a status nor a word")
	}
	for _, status := range r.Status {
		if status < 300 || status > 599 {
			note("status %d is not from 300 to 599", status)
		}
	}
	if slices.Contains(slices.Concat(r.Type, r.Code, r.Detail), "") {
		note("a word is empty")
	}
	return found
}

func (c *check) sentence(row sentenceRow, rules map[Class]classRow) {
	at := fmt.Sprintf("sentence %q", row.Sentence)
	for _, class := range []Class{row.Within, row.Class} {
		if !class.Known() {
			c.note("%s: class %q is not one of ours", at, class)
		}
	}
	if rules[row.Class].Action == Retry && slices.Contains([]Action{Fail, NextCredential, Larger}, rules[row.Within].Action) {
		c.note("%s: a text must not make %s, which fails fast, a %s, which is retried", at, row.Within, row.Class)
	}
	switch {
	case row.Provider == "":
		c.note("%s: it needs its provider", at)
	case !slices.Contains(Vendors(), row.Provider):
		c.note("%s: provider %q is not a vendor", at, row.Provider)
	}
	c.fact(at, row.Source, row.Date)
	pattern, err := regexp.Compile(row.Sentence)
	if err != nil || row.Sentence == "" {
		c.note("%s: is no regular expression", at)
		return
	}
	if n := pattern.NumSubexp(); n != 0 && n != 2 {
		c.note("%s: has %d groups, and not none or two", at, n)
	}
}

func (c *check) codes(rows []codeRow) {
	seen := map[string]bool{}
	for _, row := range rows {
		at := fmt.Sprintf("codes %v", row.Words)
		if !row.Class.Known() {
			c.note("%s: class %q is not one of ours", at, row.Class)
		}
		if len(row.Words) == 0 {
			c.note("codes of %s: there are no words", row.Class)
		}
		c.fact(at, row.Source, row.Date)
		for _, w := range row.Words {
			if w == "" {
				c.note("codes of %s: a word is empty", row.Class)
			}
			key := fmt.Sprint(row.InStream, w)
			if seen[key] {
				c.note("code %q stands in two rows", w)
			}
			seen[key] = true
		}
	}
}

// statuses checks the ranges. A later one may lie inside an earlier one, which it replaces there.
func (c *check) statuses(rows []statusRow) {
	for i, row := range rows {
		if !row.Class.Known() {
			c.note("statuses %d to %d: class %q is not one of ours", row.From, row.To, row.Class)
		}
		if row.From < 300 || row.To > 599 || row.From > row.To {
			c.note("statuses %d to %d: is no range from 300 to 599", row.From, row.To)
			continue
		}
		for _, have := range rows[:i] {
			inside := have.From <= row.From && row.To <= have.To && row.To-row.From < have.To-have.From
			if row.From <= have.To && have.From <= row.To && !inside {
				c.note("statuses %d to %d: hides %d to %d, which stands before it", row.From, row.To, have.From, have.To)
				break
			}
		}
	}
}

var errNoSource = errors.New("a provider fact needs its source and date")

func (c *check) fact(at, source, date string) {
	if source == "" || date == "" {
		c.note("%s: %w", at, errNoSource)
	}
}
