package fault

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// row is what one provider means by its words. What it names must all fit; what it leaves out fits anything. A row
// without words decides like a status: only where no word is known.
type row struct {
	Provider string   `json:"provider"`
	Status   []int    `json:"status"`
	Type     []string `json:"type"`
	Code     []string `json:"code"`
	// Detail is one of the detail words, Contains a part of one.
	Detail   []string `json:"detail"`
	Contains string   `json:"detail_contains"`
	// Unparsed lets a row without words apply to a body that is none of the known envelopes, such as a CDN's page.
	Unparsed bool   `json:"unparsed"`
	Class    Class  `json:"class"`
	Source   string `json:"source"`
	Date     string `json:"date"`
}

// worded reports whether the row names a word of the provider's.
func (r *row) worded() bool {
	return len(r.Type) > 0 || len(r.Code) > 0 || len(r.Detail) > 0 || r.Contains != ""
}

func (r *row) fits(o *Observation) bool {
	return (r.Provider == "" || r.Provider == o.Provider) &&
		(len(r.Status) == 0 || slices.Contains(r.Status, o.Status)) &&
		(len(r.Type) == 0 || slices.Contains(r.Type, o.Type)) &&
		(len(r.Code) == 0 || slices.Contains(r.Code, o.Code)) &&
		(len(r.Detail) == 0 || slices.ContainsFunc(o.Details, func(d string) bool { return slices.Contains(r.Detail, d) })) &&
		(r.Contains == "" || slices.ContainsFunc(o.Details, func(d string) bool { return strings.Contains(d, r.Contains) })) &&
		(r.worded() || r.Unparsed || o.Parsed)
}

// first is the class of the first row that fits, among those with words or those without.
func first(rows []row, o *Observation, worded bool) (Class, bool) {
	for i := range rows {
		if rows[i].worded() == worded && rows[i].fits(o) {
			return rows[i].Class, true
		}
	}
	return "", false
}

// sentenceRow is one provider's sentence, for where its codes are known to be missing or wrong. It narrows down one class
// into another; a message by itself decides nothing, since it can hold the user's own words.
type sentenceRow struct {
	Provider string   `json:"provider"`
	Type     []string `json:"type"`
	Within   Class    `json:"within"`
	Class    Class    `json:"class"`
	// Sentence is a regular expression. With two groups, both are numbers and the second must be the larger one.
	Sentence string `json:"sentence"`
	Source   string `json:"source"`
	Date     string `json:"date"`
}

// sentence is a row with its pattern, which is compiled at its first use: most environments never see one.
type sentence struct {
	*sentenceRow
	once    sync.Once
	pattern *regexp.Regexp
}

func (s *sentence) fits(o *Observation, so Class) bool {
	return s.Provider == o.Provider && s.Within == so && (len(s.Type) == 0 || slices.Contains(s.Type, o.Type)) && s.matches(o.Message)
}

// matches reports whether a message holds the row's sentence. Where the sentence holds two numbers, the second must be
// larger than the first: "Limit 30000, Requested 37313".
func (s *sentence) matches(message string) bool {
	s.once.Do(func() { s.pattern = regexp.MustCompile(s.Sentence) })
	m := s.pattern.FindStringSubmatch(message)
	if len(m) < 3 {
		return m != nil
	}
	limit, errLimit := strconv.ParseInt(m[1], 10, 64)
	asked, errAsked := strconv.ParseInt(m[2], 10, 64)
	return errLimit == nil && errAsked == nil && asked > limit
}
