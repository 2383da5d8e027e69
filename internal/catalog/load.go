package catalog

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/redact"
)

// file is the configuration as an operator writes it. Every member is optional unless its comment says otherwise.
type file struct {
	// Version names this configuration. Required.
	Version   string         `json:"version"`
	Providers []fileProvider `json:"providers"`
	Channels  []fileChannel  `json:"channels"`
	Routes    []fileRoute    `json:"routes"`
	// Organizations and Keys are the static key table.
	Organizations []fileOrganization `json:"organizations"`
	Keys          []fileKey          `json:"keys"`
}

type fileProvider struct {
	Name    string            `json:"name"`
	Kind    string            `json:"kind"`
	Vendor  string            `json:"vendor"`   // default: by the host of base_url
	BaseURL string            `json:"base_url"` // an address, or env:NAME
	Headers map[string]string `json:"headers"`
	Query   map[string]string `json:"query"`
}

type fileChannel struct {
	Name        string           `json:"name"`
	Provider    string           `json:"provider"`
	Models      []string         `json:"models"` // one channel each
	Region      string           `json:"region"`
	Priority    int              `json:"priority"`
	Weight      *float64         `json:"weight"`
	Credentials []fileCredential `json:"credentials"`

	Cannot      []Feature `json:"cannot"`
	Drops       []string  `json:"drops"`
	Context     int64     `json:"context"`
	MaxOutput   int64     `json:"max_output"`
	OutputField string    `json:"output_field"`

	FirstContentMS int64  `json:"first_content_ms"`
	StallMS        int64  `json:"stall_ms"`
	AttemptMS      int64  `json:"attempt_ms"`
	UpstreamStream string `json:"upstream_stream"` // always (default) or as_client
	BYOKOnly       bool   `json:"byok_only"`
}

type fileCredential struct {
	Alias  string   `json:"alias"`
	Weight *float64 `json:"weight"`
	Secret string   `json:"secret"` // env:NAME
	// Organization owns the key (BYOK); empty: it is the platform's.
	Organization string `json:"organization"`
}

type fileRoute struct {
	Alias  string   `json:"alias"`
	Models []string `json:"models"`

	Commit       Commit `json:"commit"` // first_delta (default), prefix or complete
	PrefixTokens int64  `json:"prefix_tokens"`
	PrefixMS     int64  `json:"prefix_ms"`
	HoldMS       int64  `json:"hold_ms"`
	ToolDeltas   string `json:"tool_deltas"` // as_sent (default) or whole

	TimeoutMS      int64 `json:"timeout_ms"`
	IdleMS         int64 `json:"idle_ms"`
	StallMS        int64 `json:"stall_ms"`
	FirstContentMS int64 `json:"first_content_ms"`
	MinUsefulMS    int64 `json:"min_useful_ms"`

	MaxRetries      *int                `json:"max_retries"`
	MaxFallbacks    *int                `json:"max_fallbacks"`
	MaxAttempts     *int                `json:"max_attempts"`
	Retry           map[fault.Class]int `json:"retry"`
	Profile         string              `json:"profile"` // strict (default) or lyrouter
	FallbackOn      []fault.Class       `json:"fallback_on"`
	DoNotFallbackOn []fault.Class       `json:"do_not_fallback_on"`
	Silence         string              `json:"silence"`    // fallback (default) or retry
	Stream500       string              `json:"stream_500"` // fallback (default) or retry
	Jitter          string              `json:"jitter"`     // half (default) or full

	Replay  string `json:"replay"`  // safe (default) or unsafe
	Surface string `json:"surface"` // gateway (default) or upstream_status
	Expose  Expose `json:"expose"`  // attempts (default), provider or none
}

type fileOrganization struct {
	Name   string   `json:"name"`
	Models []string `json:"models"`
	// DefaultModel is tried last. With when_not_enabled: default_model it also serves models that are not enabled.
	DefaultModel   string `json:"default_model"`
	WhenNotEnabled string `json:"when_not_enabled"` // error (default) or default_model
}

type fileKey struct {
	SHA256       string `json:"sha256"`
	Alias        string `json:"alias"`
	Organization string `json:"organization"`
	Disabled     bool   `json:"disabled"`
	Expires      string `json:"expires"` // RFC 3339
	// When names an environment variable (env:NAME) without which the key is out of use: a key for development that
	// everybody knows must not work where the configuration is deployed.
	When string `json:"when"`
}

// Load decodes a configuration and resolves its references; getenv answers env: references. An unknown member, a value
// out of bounds, or a name that leads nowhere is a problem, and all problems are returned joined. A secret that is not
// set is only a notice: its credential is left out.
func Load(data []byte, getenv func(string) string) (*Catalog, error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decoding the configuration: something follows its end")
	}
	l := loader{getenv: getenv, providers: map[string]*Provider{}, catalog: &Catalog{Version: f.Version,
		Routes: map[chat.RequestedModel]*Route{}, Organizations: map[string]*Organization{},
		byModel: map[chat.RequestedModel][]*Channel{}, byName: map[string]*Channel{}}}
	if f.Version == "" {
		l.problem("version: is required")
	}
	for i, p := range f.Providers {
		l.provider(fmt.Sprintf("providers[%d]", i), p)
	}
	for i, c := range f.Channels {
		l.channels(fmt.Sprintf("channels[%d]", i), c)
	}
	for i, r := range f.Routes {
		l.route(fmt.Sprintf("routes[%d]", i), r)
	}
	l.checkRoutes()
	for i, o := range f.Organizations {
		l.organization(fmt.Sprintf("organizations[%d]", i), o)
	}
	l.checkOwners()
	for i, k := range f.Keys {
		l.key(fmt.Sprintf("keys[%d]", i), k)
	}
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	return l.catalog, nil
}

type loader struct {
	getenv    func(string) string
	providers map[string]*Provider
	catalog   *Catalog
	problems  []error
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Errorf(format, args...))
}

func (l *loader) notice(format string, args ...any) {
	l.catalog.Notices = append(l.catalog.Notices, fmt.Sprintf(format, args...))
}

func (l *loader) provider(at string, p fileProvider) {
	if p.Name == "" || strings.Contains(p.Name, "/") {
		l.problem("%s.name: %q: a name without a slash is required", at, p.Name)
	}
	if l.providers[p.Name] != nil {
		l.problem("%s.name: %q stands twice", at, p.Name)
	}
	if p.Kind != "openai" {
		l.problem("%s.kind: %q is not one of: openai", at, p.Kind)
	}
	base := p.BaseURL
	if name, ok := strings.CutPrefix(base, "env:"); ok {
		if base = l.getenv(name); base == "" {
			l.notice("%s.base_url: %s is not set: the provider %q is out of use", at, name, p.Name)
		}
	}
	u, err := url.Parse(base)
	if base != "" && (err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http")) {
		l.problem("%s.base_url: is no http or https address", at)
	}
	switch {
	case p.Vendor == "" && err == nil:
		p.Vendor = fault.VendorOf(u.Host)
	case p.Vendor != "" && !slices.Contains(fault.Vendors(), p.Vendor):
		l.problem("%s.vendor: %q is not a vendor%s", at, p.Vendor, didYouMean(p.Vendor, fault.Vendors()))
	}
	l.providers[p.Name] = &Provider{Name: p.Name, Kind: p.Kind, Vendor: p.Vendor, BaseURL: strings.TrimRight(base, "/"), Headers: p.Headers, Query: p.Query}
}

func (l *loader) channels(at string, c fileChannel) {
	p := l.providers[c.Provider]
	if p == nil {
		l.problem("%s.provider: %q is not a provider%s", at, c.Provider, didYouMean(c.Provider, keysOf(l.providers)))
		return
	}
	if len(c.Models) == 0 {
		l.problem("%s.models: at least one is required", at)
	}
	if c.Name != "" && len(c.Models) > 1 {
		l.problem("%s.name: cannot name %d channels", at, len(c.Models))
	}
	l.checkCapabilities(at, c)
	weight := l.weight(at, c.Weight)
	credentials := l.credentials(at, c.Credentials)
	for _, m := range c.Models {
		ch := &Channel{Name: c.Name, Provider: p, Model: chat.RoutedModel(m), Region: c.Region, Priority: c.Priority, Weight: weight,
			Credentials:    credentials,
			Capabilities:   Capabilities{Cannot: c.Cannot, Drops: c.Drops, Context: c.Context, MaxOutput: c.MaxOutput, OutputField: c.OutputField},
			Timing:         Timing{FirstContent: ms(c.FirstContentMS), Stall: ms(c.StallMS), Attempt: ms(c.AttemptMS)},
			StreamAsClient: c.UpstreamStream == "as_client", BYOKOnly: c.BYOKOnly}
		if ch.Name == "" {
			ch.Name = p.Name + "/" + m
			if c.Region != "" {
				ch.Name += "@" + c.Region
			}
		}
		l.addChannel(at, ch)
	}
}

func (l *loader) addChannel(at string, ch *Channel) {
	if l.catalog.byName[ch.Name] != nil {
		l.problem("%s: the channel %q stands twice: give one a name", at, ch.Name)
	}
	l.catalog.byName[ch.Name] = ch
	l.catalog.Channels = append(l.catalog.Channels, ch)
	for _, id := range []string{string(ch.Model), ch.Provider.Name + "/" + string(ch.Model)} {
		m := chat.RequestedModel(id)
		l.catalog.byModel[m] = append(l.catalog.byModel[m], ch)
	}
}

func (l *loader) checkCapabilities(at string, c fileChannel) {
	for _, f := range c.Cannot {
		if !everyFeature[f] {
			l.problem("%s.cannot: %q is not a feature%s", at, f, didYouMean(string(f), keysOf(everyFeature)))
		}
	}
	if c.OutputField != "" && c.OutputField != "max_tokens" && c.OutputField != "max_completion_tokens" {
		l.problem("%s.output_field: %q is not one of: max_tokens, max_completion_tokens", at, c.OutputField)
	}
	if c.UpstreamStream != "" && c.UpstreamStream != "always" && c.UpstreamStream != "as_client" {
		l.problem("%s.upstream_stream: %q is not one of: always, as_client", at, c.UpstreamStream)
	}
	for name, v := range map[string]int64{"context": c.Context, "max_output": c.MaxOutput, "first_content_ms": c.FirstContentMS,
		"stall_ms": c.StallMS, "attempt_ms": c.AttemptMS} {
		if v < 0 {
			l.problem("%s.%s: %d is negative", at, name, v)
		}
	}
}

func (l *loader) weight(at string, w *float64) float64 {
	switch {
	case w == nil:
		return 1
	case *w <= 0:
		l.problem("%s.weight: %v must be above 0", at, *w)
		return 1
	default:
		return *w
	}
}

func (l *loader) credentials(at string, list []fileCredential) []*Credential {
	var out []*Credential
	for i, c := range list {
		here := fmt.Sprintf("%s.credentials[%d]", at, i)
		if c.Alias == "" {
			l.problem("%s.alias: is required", here)
		}
		name, ok := strings.CutPrefix(c.Secret, "env:")
		if !ok || name == "" {
			l.problem("%s.secret: must be a reference such as env:NAME, never the secret itself", here)
			continue
		}
		value := l.getenv(name)
		if value == "" {
			l.notice("%s.secret: %s is not set: the credential %q is out of use", here, name, c.Alias)
			continue
		}
		out = append(out, &Credential{Alias: c.Alias, Weight: l.weight(here, c.Weight), Secret: redact.NewSecret(value),
			Organization: c.Organization})
	}
	if len(list) == 0 {
		l.problem("%s.credentials: at least one is required", at)
	}
	return out
}

func (l *loader) route(at string, r fileRoute) {
	alias := chat.RequestedModel(r.Alias)
	switch {
	case r.Alias == "" || r.Alias == "auto" || r.Alias == "*":
		l.problem("%s.alias: %q cannot be an alias", at, r.Alias)
	case l.catalog.Routes[alias] != nil:
		l.problem("%s.alias: %q stands twice", at, r.Alias)
	case l.catalog.byModel[alias] != nil:
		l.problem("%s.alias: %q is a model id too: a name can mean only one thing", at, r.Alias)
	}
	if len(r.Models) == 0 {
		l.problem("%s.models: at least one is required", at)
	}
	for i, m := range r.Models {
		if l.catalog.byModel[chat.RequestedModel(m)] == nil {
			l.problem("%s.models[%d]: no channel serves %q%s", at, i, m, didYouMean(m, keysOf(l.catalog.byModel)))
		}
	}
	out := &Route{Alias: alias, Models: requested(r.Models)}
	l.timing(at, r, out)
	l.recovery(at, r, out)
	out.ReplayUnsafe = l.oneOf(at+".replay", r.Replay, "safe", "unsafe")
	out.SurfaceStatus = l.oneOf(at+".surface", r.Surface, "gateway", "upstream_status")
	if !slices.Contains([]Expose{"", ExposeAttempts, ExposeProvider, ExposeNone}, r.Expose) {
		l.problem("%s.expose: %q is not one of: attempts, provider, none", at, r.Expose)
	}
	out.Expose = r.Expose
	l.catalog.Routes[alias] = out
}

// timing reads when a route commits and how long things may take.
func (l *loader) timing(at string, r fileRoute, out *Route) {
	if !slices.Contains([]Commit{"", CommitFirstDelta, CommitPrefix, CommitComplete}, r.Commit) {
		l.problem("%s.commit: %q is not one of: first_delta, prefix, complete", at, r.Commit)
	}
	if r.Commit == CommitPrefix && r.PrefixTokens == 0 && r.PrefixMS == 0 {
		l.problem("%s.commit: prefix needs prefix_tokens or prefix_ms", at)
	}
	for name, v := range map[string]int64{"prefix_tokens": r.PrefixTokens, "prefix_ms": r.PrefixMS, "hold_ms": r.HoldMS, "timeout_ms": r.TimeoutMS,
		"idle_ms": r.IdleMS, "stall_ms": r.StallMS, "first_content_ms": r.FirstContentMS, "min_useful_ms": r.MinUsefulMS} {
		if v < 0 {
			l.problem("%s.%s: %d is negative", at, name, v)
		}
	}
	out.Commit, out.PrefixTokens, out.PrefixTime, out.HoldTime = r.Commit, int(r.PrefixTokens), ms(r.PrefixMS), ms(r.HoldMS)
	out.WholeTools = l.oneOf(at+".tool_deltas", r.ToolDeltas, "as_sent", "whole")
	out.Timeout, out.Idle, out.Stall, out.FirstContent, out.MinUseful = ms(r.TimeoutMS), ms(r.IdleMS), ms(r.StallMS), ms(r.FirstContentMS), ms(r.MinUsefulMS)
}

// recovery reads what a route does after a failure.
func (l *loader) recovery(at string, r fileRoute, out *Route) {
	for name, v := range map[string]*int{"max_retries": r.MaxRetries, "max_fallbacks": r.MaxFallbacks} {
		if v != nil && (*v < 0 || *v > maxCalls) {
			l.problem("%s.%s: %d is not from 0 to %d", at, name, *v, maxCalls)
		}
	}
	if r.MaxAttempts != nil && (*r.MaxAttempts < 1 || *r.MaxAttempts > maxCalls) {
		l.problem("%s.max_attempts: %d is not from 1 to %d", at, *r.MaxAttempts, maxCalls)
	}
	out.MaxRetries, out.MaxFallbacks, out.MaxAttempts = r.MaxRetries, r.MaxFallbacks, r.MaxAttempts
	for class, n := range r.Retry {
		if !class.Known() {
			l.problem("%s.retry: %q is not a class%s", at, class, didYouMean(string(class), fault.ClassNames()))
		}
		if n < 0 || n > maxCalls {
			l.problem("%s.retry.%s: %d is not from 0 to %d", at, class, n, maxCalls)
		}
	}
	out.Retries = r.Retry
	out.FallbackOn, out.FallbackOnAny = l.classes(at+".fallback_on", r.FallbackOn, true)
	out.NoFallbackOn, _ = l.classes(at+".do_not_fallback_on", r.DoNotFallbackOn, false)
	for class := range out.NoFallbackOn {
		if out.FallbackOn[class] {
			l.problem("%s: %s stands in fallback_on and in do_not_fallback_on", at, class)
		}
	}
	if l.oneOf(at+".profile", r.Profile, "strict", "lyrouter") {
		out.FallbackOnAny = true
	}
	out.RetrySilence = l.oneOf(at+".silence", r.Silence, "fallback", "retry")
	out.RetryStream500 = l.oneOf(at+".stream_500", r.Stream500, "fallback", "retry")
	out.FullJitter = l.oneOf(at+".jitter", r.Jitter, "half", "full")
}

// maxCalls bounds what a configuration may ask for, so that a slip of the finger is no storm.
const maxCalls = 10

// classes reads a list of classes; "any" stands for all of them where it is allowed.
func (l *loader) classes(at string, list []fault.Class, any bool) (set map[fault.Class]bool, all bool) {
	for i, c := range list {
		switch {
		case c == "any" && any:
			all = true
		case !c.Known():
			l.problem("%s[%d]: %q is not a class%s", at, i, c, didYouMean(string(c), fault.ClassNames()))
		default:
			if set == nil {
				set = map[fault.Class]bool{}
			}
			set[c] = true
		}
	}
	return set, all
}

// oneOf reads a word with two meanings and reports whether it is the other one; empty is the usual one.
func (l *loader) oneOf(at, word, usual, other string) bool {
	if word != "" && word != usual && word != other {
		l.problem("%s: %q is not one of: %s, %s", at, word, usual, other)
	}
	return word == other
}

// checkRoutes reports names that could mean two things: "auto", and a provider/model that is also a plain model id.
func (l *loader) checkRoutes() {
	if l.catalog.byModel["auto"] != nil {
		l.problem(`channels: "auto" cannot be a model id: it stands for the organization's models`)
	}
	for name, channels := range l.catalog.byModel {
		for _, c := range channels[1:] {
			if (string(name) == string(c.Model)) != (string(name) == string(channels[0].Model)) {
				l.problem("channels: %q is a model id and also a provider/model", name)
			}
		}
	}
}

// checkOwners reports credentials of organizations that do not exist.
func (l *loader) checkOwners() {
	for _, ch := range l.catalog.Channels {
		for _, c := range ch.Credentials {
			if c.Organization != "" && l.catalog.Organizations[c.Organization] == nil {
				l.problem("channel %s: the credential %q belongs to %q, which is not an organization%s", ch.Name, c.Alias, c.Organization,
					didYouMean(c.Organization, keysOf(l.catalog.Organizations)))
			}
		}
	}
}

func (l *loader) organization(at string, o fileOrganization) {
	if o.Name == "" {
		l.problem("%s.name: is required", at)
	}
	if l.catalog.Organizations[o.Name] != nil {
		l.problem("%s.name: %q stands twice", at, o.Name)
	}
	for i, m := range o.Models {
		id := chat.RequestedModel(m)
		if m != "*" && l.catalog.Routes[id] == nil && l.catalog.byModel[id] == nil {
			l.problem("%s.models[%d]: %q is neither a route nor a model%s", at, i, m,
				didYouMean(m, append(keysOf(l.catalog.byModel), keysOf(l.catalog.Routes)...)))
		}
	}
	org := &Organization{Name: o.Name, Models: requested(o.Models), DefaultModel: chat.RequestedModel(o.DefaultModel)}
	org.DefaultWhenDenied = l.oneOf(at+".when_not_enabled", o.WhenNotEnabled, "error", "default_model")
	switch {
	case o.DefaultModel == "" && org.DefaultWhenDenied:
		l.problem("%s.when_not_enabled: default_model needs a default_model", at)
	case o.DefaultModel != "" && l.catalog.Routes[org.DefaultModel] == nil && l.catalog.byModel[org.DefaultModel] == nil:
		l.problem("%s.default_model: %q is neither a route nor a model%s", at, o.DefaultModel,
			didYouMean(o.DefaultModel, append(keysOf(l.catalog.byModel), keysOf(l.catalog.Routes)...)))
	}
	l.catalog.Organizations[o.Name] = org
}

func (l *loader) key(at string, k fileKey) {
	if raw, err := hex.DecodeString(k.SHA256); err != nil || len(raw) != 32 || strings.ToLower(k.SHA256) != k.SHA256 {
		l.problem("%s.sha256: must be the 64 lower-case hexadecimal digits of the key's SHA-256, never the key itself", at)
	}
	if l.catalog.Organizations[k.Organization] == nil {
		l.problem("%s.organization: %q is not an organization%s", at, k.Organization, didYouMean(k.Organization, keysOf(l.catalog.Organizations)))
	}
	key := Key{SHA256: k.SHA256, Alias: k.Alias, Organization: k.Organization, Disabled: k.Disabled}
	if k.When != "" {
		name, ok := strings.CutPrefix(k.When, "env:")
		if !ok || name == "" {
			l.problem("%s.when: %q must be env:NAME", at, k.When)
		} else if l.getenv(name) == "" {
			l.notice("%s.when: %s is not set: the key %q is out of use", at, name, k.Alias)
			key.Disabled = true
		}
	}
	if k.Expires != "" {
		t, err := time.Parse(time.RFC3339, k.Expires)
		if err != nil {
			l.problem("%s.expires: %q is no RFC 3339 time", at, k.Expires)
		}
		key.Expires = t
	}
	l.catalog.Keys = append(l.catalog.Keys, key)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func requested(names []string) []chat.RequestedModel {
	out := make([]chat.RequestedModel, len(names))
	for i, n := range names {
		out[i] = chat.RequestedModel(n)
	}
	return out
}

func keysOf[K ~string, V any](m map[K]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, string(k))
	}
	slices.Sort(out)
	return out
}

// didYouMean names the known word nearest to an unknown one, when it is near enough to be meant.
func didYouMean(word string, known []string) string {
	best, least := "", max(2, len(word)/4)+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
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
