package catalog

import (
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A rule is what the tags of a member say of its value, or of the items of its value.
type rule struct {
	required        bool
	many            int     // items at most
	min, max, above float64 // of a number; infinite where there is no bound
	length          int     // characters of a text at most
	words           vocabulary
	form            *form
}

// A member is a named value of an object: a field of one of the structs of the file.
type member struct {
	rule
	name  string
	index int // of the field
	tag   reflect.StructTag
}

// membersOf reads the tags of one of the structs of the file.
func membersOf(t reflect.Type) []member {
	members := make([]member, t.NumField())
	for i := range members {
		f := t.Field(i)
		members[i] = member{rule: ruleOf(f.Type, f.Tag), name: f.Tag.Get("json"), index: i, tag: f.Tag}
	}
	return members
}

func ruleOf(t reflect.Type, tag reflect.StructTag) rule {
	r := rule{
		many:   int(number(tag, "many", 0)),
		min:    number(tag, "min", math.Inf(-1)),
		max:    number(tag, "max", math.Inf(1)),
		above:  number(tag, "above", math.Inf(-1)),
		length: int(number(tag, "max", 256)),
		form:   forms[tag.Get("form")],
	}
	_, r.required = tag.Lookup("required")
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	r.words = vocabularies[t]
	if more, ok := tag.Lookup("oneof"); ok {
		r.words.words = append(strings.Fields(more), r.words.words...)
	}
	return r
}

// number reads a number from a tag.
func number(tag reflect.StructTag, name string, otherwise float64) float64 {
	text, ok := tag.Lookup(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("catalog: a tag of the file: " + err.Error()) // a slip in this package, which its tests find
	}
	return n
}

// number says what is wrong with a number, written as literal; empty: nothing.
func (r rule) number(n float64, literal string) string {
	switch {
	case n >= r.min && n <= r.max && n > r.above:
		return ""
	case !math.IsInf(r.above, 0):
		return fmt.Sprintf("%s must be above %v and at most %v", clip(literal), r.above, r.max)
	default:
		return fmt.Sprintf("%s is not from %.0f to %.0f", clip(literal), r.min, r.max)
	}
}

// text says what is wrong with a text; empty: nothing.
func (r rule) text(s string) string {
	switch {
	case s == "" && r.required:
		return "is required"
	case s == "":
		return nothing
	case utf8.RuneCountInString(s) > r.length:
		return fmt.Sprintf("is longer than %d characters", r.length)
	case r.form != nil && !r.form.is(s):
		return r.form.problem
	default:
		return r.words.text(s)
	}
}

// nothing is the problem of a member that stands there without a value.
const nothing = "is empty: give it a value or leave it out"

// text says that a word is not one of the vocabulary; empty: it is.
func (v vocabulary) text(s string) string {
	if len(v.words) == 0 {
		return ""
	}
	for _, word := range v.words {
		if s == word {
			return ""
		}
	}
	meant := didYouMean(s, v.words)
	if v.noun != "" {
		return fmt.Sprintf("%q is not %s%s", clip(s), v.noun, meant)
	}
	return fmt.Sprintf("%q is not one of: %s%s", clip(s), strings.Join(v.words, ", "), meant)
}

// A form is what a text must look like. problem does not quote the text, which could be a secret.
type form struct {
	is      func(string) bool
	pattern string // the same as a regular expression of JSON Schema; empty: it has none
	format  string // the same as a format of JSON Schema; empty: it has none
	problem string
}

var forms = map[string]*form{
	"name": {func(s string) bool { return !strings.Contains(s, "/") }, `^[^/]+$`, "",
		"a name has no slash: it is what stands before the slash of provider/model"},
	"reference": {isReference, referencePattern, "",
		"must be the name of a variable, env:NAME"},
	"secret": {isReference, referencePattern, "",
		"must be a reference such as env:NAME, never the secret itself"},
	"sha256": {isDigest, `^[0-9a-f]{64}$`, "",
		"must be the 64 lower-case hexadecimal digits of the key's SHA-256, never the key itself"},
	"time": {func(s string) bool { _, err := time.Parse(time.RFC3339, s); return err == nil }, "", "date-time",
		"is no RFC 3339 time, such as 2026-12-31T00:00:00Z"},
	"date": {func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil }, "", "date", "is no date, such as 2026-12-31"},
}

const referencePattern = `^env:[A-Za-z_][A-Za-z0-9_]*$`

func isReference(s string) bool {
	name, ok := strings.CutPrefix(s, "env:")
	return ok && name != "" && (name[0] < '0' || name[0] > '9') && plain(name) && !strings.Contains(name, "-")
}

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && strings.ToLower(s) == s
}

// didYouMean names the known word nearest to an unknown one, when it is near enough to be meant.
func didYouMean(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	return ""
}

// nearest is the known word nearest to word; empty when none is near enough to be meant.
func nearest(word string, known []string) string {
	if len(word) > 256 {
		return ""
	}
	best, least := "", max(2, len(word)/3)+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the number of single-byte edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
