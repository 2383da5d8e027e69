package main

import "encoding/json"

// provider is one provider of the source.
type provider struct {
	ID        string   `json:"id"`
	Models    []model  `json:"models"`
	Fallbacks []string `json:"fallback_model_providers"`
}

type model struct {
	ID     string `json:"id"`
	Match  match  `json:"match"`
	Prices prices `json:"prices"`
}

// match is the tree by which the source finds a model. Only its exact names are of use here.
type match struct {
	Or         []match `json:"or"`
	And        []match `json:"and"`
	Equals     string  `json:"equals"`
	StartsWith string  `json:"starts_with"`
	Contains   string  `json:"contains"`
}

// names are the ids that the tree gives as they are.
func (m match) names() []string {
	if m.Equals != "" {
		return []string{m.Equals}
	}
	var out []string
	for _, branch := range m.Or {
		out = append(out, branch.names()...)
	}
	return out
}

// words are all strings that the tree compares with.
func (m match) words() []string {
	var out []string
	for _, w := range []string{m.Equals, m.StartsWith, m.Contains} {
		if w != "" {
			out = append(out, w)
		}
	}
	for _, branch := range append(m.Or, m.And...) {
		out = append(out, branch.words()...)
	}
	return out
}

// prices are a model's periods: the first holds always, of the others the last that holds wins.
type prices []period

type period struct {
	Constraint *constraint      `json:"constraint"`
	Prices     map[string]price `json:"prices"`
}

type constraint struct {
	Type      string `json:"type"`
	StartDate string `json:"start_date"`
	StartTime string `json:"start_time"`
	EndTime   string `json:"end_time"`
}

// UnmarshalJSON takes a list of periods, or the prices of the only one.
func (p *prices) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]period)(p))
	}
	*p = prices{{}}
	return json.Unmarshal(data, &(*p)[0].Prices)
}

// price is dollars for a unit, as written, and other dollars above so many input tokens.
type price struct {
	Base  json.Number `json:"base"`
	Tiers []struct {
		Start int64       `json:"start"`
		Price json.Number `json:"price"`
	} `json:"tiers"`
}

// UnmarshalJSON takes a number, or a base with tiers.
func (p *price) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		type plain price
		return json.Unmarshal(data, (*plain)(p))
	}
	return json.Unmarshal(data, &p.Base)
}

// override is a price that the source lacks or has wrong. Without a model it holds for all models of the provider that
// have no line of their own.
type override struct {
	Provider string   `json:"provider"`
	Model    string   `json:"model"`
	SameAs   []string `json:"same_as"` // providers to ask instead
	Prices   prices   `json:"prices"`
	// Source says where the price is from, and of which day. Required.
	Source string `json:"source"`
}

// overrideFile is overrides.json.
type overrideFile struct {
	// Date is the day of the last change.
	Date      string     `json:"date"`
	Providers []override `json:"providers"`
	Models    []override `json:"models"`
}
