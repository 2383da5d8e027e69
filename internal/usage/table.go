package usage

import (
	_ "embed"
	"strings"
)

//go:embed prices.txt
var embedded string

// Table is a versioned price table. It is text that is searched where it lies: nothing is parsed at start, and a lookup
// reads one line. It is read-only and safe for concurrent use. The zero value knows no price.
//
// Its text is a header of comments ("# version: …"), then one line a model, sorted by bytes: the key, a tab, and a price
// list (see Price). The key is provider/model. "=other" in place of a list means the price of another model of the same
// provider. The key "provider/" is for models that the provider's own lines do not have: "=openai anthropic" looks them up
// at these providers, in that order, and a price list holds for them all.
type Table struct{ text string }

// Embedded returns the table that this program was built with.
func Embedded() Table { return Table{embedded} }

// Version names the table in records: the source's version and a digest of the lines, so that no two tables share one.
func (t Table) Version() string { return t.header("version") }

// header returns a value of the header; empty: there is none.
func (t Table) header(name string) string {
	for line := range strings.Lines(t.text) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		if have, value, _ := strings.Cut(comment, ":"); strings.TrimSpace(have) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// body is the text after the header.
func (t Table) body() string {
	at := 0
	for line := range strings.Lines(t.text) {
		if line[0] != '#' {
			break
		}
		at += len(line)
	}
	return t.text[at:]
}

// Lookup finds the price of a model at a provider: of the exact id, or of the id without the suffix that names a snapshot
// of the same model. It never guesses from the beginning of a name: a new model would silently get its ancestor's price.
// False means that the price is unknown, which is not the same as zero.
func (t Table) Lookup(provider, model string) (Price, bool) {
	if model == "" {
		return Price{}, false
	}
	if p, ok := t.own(provider, model); ok {
		return p, true
	}
	list, ok := t.line(provider + "/")
	if !ok {
		return Price{}, false
	}
	others, elsewhere := strings.CutPrefix(list, "=")
	if !elsewhere {
		return Price{list}, true
	}
	for other := range strings.FieldsSeq(others) {
		if p, ok := t.own(other, model); ok {
			return p, true
		}
	}
	return Price{}, false
}

// own finds a model among a provider's own lines.
func (t Table) own(provider, model string) (Price, bool) {
	for {
		if p, ok := t.exact(provider, model); ok {
			return p, true
		}
		shorter := withoutSnapshot(provider, model)
		if shorter == model {
			return Price{}, false
		}
		model = shorter
	}
}

func (t Table) exact(provider, model string) (Price, bool) {
	list, ok := t.line(provider + "/" + model)
	if other, elsewhere := strings.CutPrefix(list, "="); elsewhere {
		list, ok = t.line(provider + "/" + other)
	}
	return Price{list}, ok
}

// line finds what stands after a key, by bisection. Comments sort before every key.
func (t Table) line(key string) (string, bool) {
	text := t.text
	for text != "" {
		middle := len(text) / 2
		begin := strings.LastIndexByte(text[:middle], '\n') + 1
		end := len(text)
		if n := strings.IndexByte(text[middle:], '\n'); n >= 0 {
			end = middle + n
		}
		have, list, _ := strings.Cut(text[begin:end], "\t")
		switch {
		case have == key:
			return list, true
		case have < key:
			text = text[min(end+1, len(text)):]
		default:
			text = text[:begin]
		}
	}
	return "", false
}

// withoutSnapshot cuts one suffix that names a snapshot of a model: a date (-20251101, -2026-04-21), or on Bedrock first
// the revision that follows it (-v1:0, -v1).
func withoutSnapshot(provider, model string) string {
	if provider == "aws" {
		if at := strings.LastIndex(model, "-v"); at > 0 && isRevision(model[at+2:]) {
			return model[:at]
		}
	}
	for _, form := range []string{"-dddddddd", "-dddd-dd-dd"} {
		if at := len(model) - len(form); at > 0 && isDate(model[at:], form) {
			return model[:at]
		}
	}
	return model
}

// isRevision reports whether s is "1" or "1:0".
func isRevision(s string) bool {
	major, minor, two := strings.Cut(s, ":")
	return major != "" && digits(major) && two == (minor != "") && digits(minor)
}

// isDate reports whether s has the form, where d stands for a digit, and can be a day of this century.
func isDate(s, form string) bool {
	var day [8]byte
	n := 0
	for i := range len(form) {
		switch {
		case form[i] == 'd' && s[i] >= '0' && s[i] <= '9':
			day[n] = s[i]
			n++
		case form[i] == 'd' || s[i] != form[i]:
			return false
		}
	}
	month, date := string(day[4:6]), string(day[6:])
	return day[0] == '2' && day[1] == '0' && month >= "01" && month <= "12" && date >= "01" && date <= "31"
}
