package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// wanted are the providers that the gateway speaks to, or will.
var wanted = map[string]bool{"openai": true, "anthropic": true, "google": true, "azure": true, "mistral": true, "groq": true,
	"deepseek": true, "x-ai": true, "openrouter": true, "aws": true}

// resold are the vendors whose models are worth a line at OpenRouter, which reports the cost of whole answers itself: the
// table is for those that are cut.
var resold = map[string]bool{"openai": true, "anthropic": true, "google": true, "mistralai": true, "deepseek": true, "x-ai": true,
	"meta-llama": true, "qwen": true, "moonshotai": true, "z-ai": true}

// unitNames are the prices that the table holds, in its order, and what it calls them.
var unitNames = []struct{ source, table string }{{"input_mtok", "in"}, {"output_mtok", "out"}, {"cache_read_mtok", "read"},
	{"cache_write_mtok", "write"}, {"cache_write_1h_mtok", "write1h"}, {"input_audio_mtok", "audio-in"}, {"output_audio_mtok", "audio-out"},
	{"input_image_mtok", "image-in"}, {"output_image_mtok", "image-out"}, {"audio_hours", "hour"}}

// generate makes the text of the table.
func generate(source []provider, overrides []byte, licence string) (string, error) {
	lines := map[string]string{}
	for _, p := range source {
		if wanted[p.ID] {
			if err := addProvider(lines, p); err != nil {
				return "", err
			}
		}
	}
	date, err := applyOverrides(lines, overrides)
	if err != nil {
		return "", fmt.Errorf("applying overrides.json: %w", err)
	}
	var body strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&body, "%s\t%s\n", key, lines[key])
	}
	return header(body.String(), date, licence) + body.String(), nil
}

func header(body, date, licence string) string {
	sum := sha256.Sum256([]byte(body))
	digest := hex.EncodeToString(sum[:])
	text := fmt.Sprintf(`Prices of models, written by infra/prices from the source below and infra/prices/overrides.json. Do not edit.
version: genai-prices-%[1]s+%[2]s
source: npm %[3]s %[1]s of %[4]s, https://github.com/pydantic/genai-prices
source-sha256: %[5]s
overrides: %[6]s
body-sha256: %[7]s

Dollars for a million tokens (in, out, read, write, write1h, audio-in, …) or for an hour of audio (hour); the format is
described in internal/usage at Table and Price. The source does not promise that its prices are right.

%[8]s`, sourceVersion, digest[:8], sourceName, sourceDate, sourceSHA256, date, digest, strings.TrimSpace(licence))
	var b strings.Builder
	for line := range strings.Lines(text + "\n") {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	return b.String()
}

// addProvider adds a provider's models, their other exact names, and where to look for models that it has no line of.
func addProvider(lines map[string]string, p provider) error {
	ids := map[string]bool{}
	for _, m := range p.Models {
		ids[m.ID] = true
	}
	for _, m := range p.Models {
		list, err := m.Prices.list()
		if err != nil {
			return fmt.Errorf("pricing %s/%s: %w", p.ID, m.ID, err)
		}
		if list == "" || (p.ID == "openrouter" && !isResold(m.ID)) {
			continue
		}
		names := exactNames(p.ID, m)
		key := p.ID + "/" + names[0]
		if have, twice := lines[key]; twice && have != list {
			return fmt.Errorf("%s has two prices", key)
		}
		lines[key] = list
		for _, name := range names[1:] {
			if key := p.ID + "/" + name; lines[key] == "" && !ids[name] {
				lines[key] = "=" + names[0]
			}
		}
	}
	known := slices.DeleteFunc(p.Fallbacks, func(id string) bool { return !wanted[id] })
	if len(known) > 0 {
		lines[p.ID+"/"] = "=" + strings.Join(known, " ")
	}
	return nil
}

// isResold reports whether an id of OpenRouter is that of a vendor that we want, and no copy for testing (":free", ":beta").
func isResold(id string) bool {
	vendor, name, _ := strings.Cut(id, "/")
	return resold[vendor] && !strings.Contains(name, ":")
}

// exactNames are the ids that a model is served under: its own, and those that its tree gives in full. What the tree only
// gives the beginning of is not a name: that is how a new model gets its ancestor's price.
func exactNames(provider string, m model) []string {
	if provider == "aws" {
		return profileNames(m)
	}
	names := []string{m.ID}
	for _, name := range m.Match.names() {
		if !slices.Contains(names, name) && (provider != "openrouter" || isResold(name)) {
			names = append(names, name)
		}
	}
	return names
}

// profileNames are the ids of a model of Bedrock, without the revision (-v1:0) that some have and others do not, and that a
// lookup cuts. The source calls the ids of inference profiles "regional.…" and names the regions in its tree.
func profileNames(m model) []string {
	id, regional := strings.CutPrefix(m.ID, "regional.")
	if !regional && !strings.HasPrefix(id, "global.") {
		return []string{m.ID}
	}
	if at := strings.LastIndex(id, "-v"); at > 0 && strings.Trim(id[at+2:], "0123456789:") == "" {
		id = id[:at]
	}
	names := []string{id}
	for _, word := range m.Match.words() {
		region, rest, ok := strings.Cut(word, ".")
		isProfile := ok && regional && (strings.HasPrefix(id, rest) || strings.HasPrefix(rest, id))
		if name := region + "." + id; isProfile && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// applyOverrides lays the overrides over the source's lines and returns their date.
func applyOverrides(lines map[string]string, data []byte) (date string, err error) {
	var f overrideFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return "", err
	}
	for _, o := range append(f.Providers, f.Models...) {
		key := o.Provider + "/" + o.Model
		list, err := o.Prices.list()
		switch {
		case err != nil:
			return "", fmt.Errorf("pricing %s: %w", key, err)
		case o.Source == "":
			return "", fmt.Errorf("%s names no source", key)
		case (list == "") == (len(o.SameAs) == 0):
			return "", fmt.Errorf("%s needs either prices or same_as", key)
		case list == "":
			list = "=" + strings.Join(o.SameAs, " ")
		}
		lines[key] = list
	}
	return f.Date, nil
}

// list writes prices as the table has them; empty: nothing that the table holds is priced.
func (p prices) list() (string, error) {
	var blocks []string
	for i, period := range p {
		condition, err := period.Constraint.condition()
		if err != nil {
			return "", err
		}
		if (condition == "") != (i == 0) {
			return "", fmt.Errorf("period %d: the first one, and no other, has no constraint", i)
		}
		rates, tiers, err := period.blocks()
		if err != nil {
			return "", err
		}
		if rates == "" {
			return "", nil
		}
		blocks = append(append(blocks, condition+rates), tiers...)
	}
	return strings.Join(blocks, "; "), nil
}

func (c *constraint) condition() (string, error) {
	switch {
	case c == nil:
		return "", nil
	case c.Type == "start_date":
		return "from " + c.StartDate + " ", nil
	case c.Type == "time_of_date":
		begin, end := strings.TrimSuffix(c.StartTime, ":00Z"), strings.TrimSuffix(c.EndTime, ":00Z")
		return "daily " + begin + "-" + end + " ", nil
	}
	return "", fmt.Errorf("the constraint %q is new", c.Type)
}

// blocks writes the rates of a period and those of its tiers.
func (p period) blocks() (rates string, tiers []string, err error) {
	var base []string
	above := map[int64][]string{}
	for _, unit := range unitNames {
		price, ok := p.Prices[unit.source]
		if !ok {
			continue
		}
		amount, err := dollars(price.Base)
		if err != nil {
			return "", nil, err
		}
		base = append(base, unit.table+" "+amount)
		for _, t := range price.Tiers {
			amount, err := dollars(t.Price)
			if err != nil {
				return "", nil, err
			}
			above[t.Start] = append(above[t.Start], unit.table+" "+amount)
		}
	}
	for _, start := range slices.SortedFunc(maps.Keys(above), cmp.Compare[int64]) {
		tiers = append(tiers, fmt.Sprintf("over %d %s", start, strings.Join(above[start], " ")))
	}
	return strings.Join(base, " "), tiers, nil
}

// dollars writes an amount with at most six digits after the point, to the nearest.
func dollars(n json.Number) (string, error) {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok || r.Sign() < 0 {
		return "", fmt.Errorf("%q is not an amount", n)
	}
	s := r.FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), "."), nil
}
