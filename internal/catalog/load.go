package catalog

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/redact"
)

// Load decodes a configuration, which is JSON, and resolves its references; getenv answers env: references. An unknown
// member, a value out of bounds, or a name that leads nowhere is a problem; the error is Problems and holds all of them.
// A secret that is not set is only a notice: its credential is left out.
func Load(data []byte, getenv func(string) string) (*Catalog, error) {
	var f file
	problems := decode(data, &f)
	l := loader{getenv: getenv, decoded: problems, problems: slices.Clone(problems),
		providers: map[string]*Provider{}, digests: map[string]bool{},
		catalog: &Catalog{Version: f.Version, TraceSample: f.TraceSample, Jobs: f.Jobs.limits(),
			Routes: map[chat.RequestedModel]*Route{}, Organizations: map[string]*Organization{},
			byModel: map[chat.RequestedModel][]*Channel{}, byName: map[string]*Channel{}}}
	for i, p := range f.Providers {
		l.provider(Path("providers").Item(i), p)
	}
	for i, c := range f.Channels {
		l.channels(Path("channels").Item(i), c)
	}
	for i, r := range f.Routes {
		l.route(Path("routes").Item(i), r)
	}
	for i, o := range f.Organizations {
		l.organization(Path("organizations").Item(i), o)
	}
	for i, c := range f.Channels {
		l.owners(Path("channels").Item(i), c)
	}
	for i, k := range f.Keys {
		l.key(Path("keys").Item(i), k)
	}
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return l.catalog, nil
}

func (j fileJobs) limits() Jobs {
	return Jobs{Deadline: ms(j.DeadlineMS), Lease: ms(j.LeaseMS), Overdue: ms(j.OverdueMS), FirstPoll: ms(j.FirstPollMS), SlowestPoll: ms(j.SlowestPollMS),
		MaxPollFailures: j.MaxPollFailures, MaxPolls: j.MaxPolls, MaxTells: j.MaxTells}
}

type loader struct {
	getenv    func(string) string
	providers map[string]*Provider
	digests   map[string]bool // of keys
	catalog   *Catalog
	decoded   Problems // of the document itself
	problems  Problems // all
}

// problem reports a mistake, unless it may only follow from one in the document itself.
func (l *loader) problem(at Path, format string, args ...any) {
	if !l.decoded.Cover(at) {
		l.problems.add(at, format, args...)
	}
}

// dangling reports a reference that leads nowhere. names are where what it could mean is defined, such as
// providers.name: when one of them is broken, nobody can tell, and nothing is reported.
func (l *loader) dangling(at Path, names []Path, format string, args ...any) {
	for _, p := range l.decoded {
		for _, n := range names {
			if n.within(p.Path.bare()) {
				return
			}
		}
	}
	l.problem(at, format, args...)
}

// Where names are defined.
var (
	providerNames = []Path{"providers.name"}
	modelNames    = []Path{"channels.models", "channels.provider", "providers.name"}
	callableNames = append([]Path{"routes.alias"}, modelNames...)
	ownerNames    = []Path{"organizations.name"}
	regionNames   = []Path{"channels.region"}
)

func (l *loader) notice(format string, args ...any) {
	l.catalog.Notices = append(l.catalog.Notices, fmt.Sprintf(format, args...))
}

func (l *loader) provider(at Path, p fileProvider) {
	if l.providers[p.Name] != nil {
		l.problem(at.Member("name"), "%q stands twice", clip(p.Name))
	}
	l.headers(at.Member("headers"), p.Headers)
	out := &Provider{Name: p.Name, Kind: p.Kind, Vendor: string(p.Vendor), BaseURL: l.baseURL(at.Member("base_url"), p), Prices: p.Prices,
		Headers: p.Headers, Query: p.Query}
	if u, err := url.Parse(out.BaseURL); out.Vendor == "" && err == nil {
		out.Vendor = fault.VendorOf(u.Host)
	}
	if out.Vendor == fault.Generic && out.Kind != "openai" {
		out.Vendor = vendorOf(out.Kind) // nobody but the vendor, and what stands before it, speaks these
	}
	if out.Prices == "" && out.Vendor != fault.Generic {
		out.Prices = out.Vendor
	}
	l.providers[p.Name] = out
}

// vendorOf is who speaks a kind of API that nobody copies.
func vendorOf(kind string) string {
	if kind == "veo" {
		return "gemini" // it is one of Google's, with the errors of all
	}
	return kind
}

// headers reports what no HTTP client would send: every call would fail.
func (l *loader) headers(at Path, headers map[string]string) {
	for _, name := range keysOf(headers) {
		if !plain(name) {
			l.problem(at.Member(name), "is no name of a header")
		}
		if strings.ContainsFunc(headers[name], unicode.IsControl) {
			l.problem(at.Member(name), "holds a line break or another control character")
		}
	}
}

func (l *loader) baseURL(at Path, p fileProvider) string {
	base := p.BaseURL
	if base == "" {
		return "" // reported already
	}
	if name, ok := strings.CutPrefix(base, "env:"); ok && isReference(base) {
		if base = l.getenv(name); base == "" {
			l.notice("%s: %s is not set: the provider %q is out of use", at, name, p.Name)
			return ""
		}
	}
	switch u, err := url.Parse(base); {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		l.problem(at, "is no http or https address, nor env:NAME of one")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		l.problem(at, "ends with its path: a key belongs to a credential, parameters belong to query")
	}
	return strings.TrimRight(base, "/")
}

func (l *loader) channels(at Path, c fileChannel) {
	p := l.providers[c.Provider]
	if p == nil {
		l.dangling(at.Member("provider"), providerNames, "%q is not a provider%s", clip(c.Provider), didYouMean(c.Provider, keysOf(l.providers)))
		p = &Provider{Name: c.Provider} // so that what refers to the channel is not reported too
	}
	if c.Name != "" && len(c.Models) > 1 {
		l.problem(at.Member("name"), "cannot name %d channels", len(c.Models))
	}
	credentials := l.credentials(at.Member("credentials"), c.Credentials)
	for i, m := range c.Models {
		ch := &Channel{Name: c.Name, Provider: p, Model: chat.RoutedModel(m), Region: c.Region, Priority: c.Priority, Weight: weight(c.Weight),
			Credentials:    credentials,
			Capabilities:   c.declared(CapabilitiesOf(p.Kind, p.Vendor, chat.RoutedModel(m))),
			Timing:         Timing{FirstContent: ms(c.FirstContentMS), Stall: ms(c.StallMS), Attempt: ms(c.AttemptMS)},
			StreamAsClient: c.UpstreamStream == "as_client", BYOKOnly: c.BYOKOnly}
		if ch.Name == "" || len(c.Models) > 1 {
			ch.Name = p.Name + "/" + m
			if c.Region != "" {
				ch.Name += "@" + c.Region
			}
		}
		l.addChannel(at.Member("models").Item(i), ch)
	}
}

func (l *loader) addChannel(at Path, ch *Channel) {
	if ch.Model == "auto" {
		l.problem(at, `"auto" cannot be a model id: it stands for the organization's models`)
	}
	if l.catalog.byName[ch.Name] != nil {
		l.problem(at, "the channel %q stands twice: give one a name", clip(ch.Name))
	}
	l.catalog.byName[ch.Name] = ch
	l.catalog.Channels = append(l.catalog.Channels, ch)
	for _, id := range []chat.RequestedModel{chat.RequestedModel(ch.Model), chat.RequestedModel(ch.Provider.Name + "/" + string(ch.Model))} {
		if others := l.catalog.byModel[id]; len(others) > 0 && (string(id) == string(ch.Model)) != (string(id) == string(others[0].Model)) {
			l.problem(at, "%q is a model id and also a provider/model: a name can mean only one thing", clip(string(id)))
		}
		l.catalog.byModel[id] = append(l.catalog.byModel[id], ch)
	}
}

func weight(w *float64) float64 {
	if w == nil {
		return 1
	}
	return *w
}

func (l *loader) credentials(at Path, list []fileCredential) []*Credential {
	var out []*Credential
	aliases := map[string]bool{}
	for i, c := range list {
		if aliases[c.Alias] {
			l.problem(at.Item(i).Member("alias"), "%q stands twice: records, holds and circuits could not tell the two apart", clip(c.Alias))
		}
		aliases[c.Alias] = true
		name, _ := strings.CutPrefix(c.Secret, "env:")
		if !isReference(c.Secret) {
			continue // reported already
		}
		if value := l.getenv(name); value != "" {
			out = append(out, &Credential{Alias: c.Alias, Weight: weight(c.Weight), Secret: redact.NewSecret(value), Organization: c.Organization})
		} else {
			l.notice("%s.secret: %s is not set: the credential %q is out of use", at.Item(i), name, c.Alias)
		}
	}
	return out
}

func (l *loader) route(at Path, r fileRoute) {
	alias := chat.RequestedModel(r.Alias)
	switch {
	case r.Alias == "auto" || r.Alias == "*":
		l.problem(at.Member("alias"), "%q cannot be an alias", r.Alias)
	case l.catalog.Routes[alias] != nil:
		l.problem(at.Member("alias"), "%q stands twice", clip(r.Alias))
	case l.catalog.byModel[alias] != nil:
		l.problem(at.Member("alias"), "%q is a model id too: a name can mean only one thing", clip(r.Alias))
	}
	for i, m := range r.Models {
		if l.catalog.byModel[chat.RequestedModel(m)] == nil {
			l.dangling(at.Member("models").Item(i), modelNames, "no channel serves %q%s", clip(m), didYouMean(m, keysOf(l.catalog.byModel)))
		}
	}
	out := &Route{Alias: alias, Models: requested(r.Models), Region: r.Region, Rank: r.Rank}
	l.regionOf(at.Member("region"), r)
	l.timing(at, r, out)
	l.recovery(at, r, out)
	out.Faults = l.faults(at.Member("policy"), r.Policy)
	out.ReplayUnsafe = r.Replay == "unsafe"
	out.SurfaceStatus = r.Surface == "upstream_status"
	out.Expose = r.Expose
	l.catalog.Routes[alias] = out
}

// regionOf reports a route whose region leaves it without any channel.
func (l *loader) regionOf(at Path, r fileRoute) {
	var have []string
	for _, m := range r.Models {
		for _, ch := range l.catalog.byModel[chat.RequestedModel(m)] {
			have = append(have, ch.Region)
		}
	}
	if r.Region != "" && len(have) > 0 && !slices.Contains(have, r.Region) {
		l.dangling(at, regionNames, "no channel of its models is in %q%s", clip(r.Region), didYouMean(r.Region, have))
	}
}

// timing reads when a route commits and how long things may take.
func (l *loader) timing(at Path, r fileRoute, out *Route) {
	if r.Commit == CommitPrefix && r.PrefixTokens == 0 && r.PrefixMS == 0 {
		l.problem(at.Member("commit"), "prefix needs prefix_tokens or prefix_ms")
	}
	out.Commit, out.PrefixTokens, out.PrefixTime, out.HoldTime = r.Commit, int(r.PrefixTokens), ms(r.PrefixMS), ms(r.HoldMS)
	out.WholeTools = r.ToolDeltas == "whole"
	out.Timeout, out.Idle, out.Stall, out.FirstContent, out.MinUseful = ms(r.TimeoutMS), ms(r.IdleMS), ms(r.StallMS), ms(r.FirstContentMS), ms(r.MinUsefulMS)
}

// recovery reads what a route does after a failure.
func (l *loader) recovery(at Path, r fileRoute, out *Route) {
	out.MaxRetries, out.MaxFallbacks, out.MaxAttempts = r.MaxRetries, r.MaxFallbacks, r.MaxAttempts
	out.Retries = r.Retry
	out.FallbackOn, out.NoFallbackOn = setOf(r.FallbackOn), setOf(r.DoNotFallbackOn)
	out.FallbackOnAny = out.FallbackOn["any"] || r.Profile == "lyrouter"
	delete(out.FallbackOn, "any")
	for i, class := range r.DoNotFallbackOn {
		if out.FallbackOn[class] {
			l.problem(at.Member("do_not_fallback_on").Item(i), "%s stands in fallback_on too", class)
		}
	}
	out.RetrySilence = r.Silence == "retry"
	out.RetryStream500 = r.Stream500 == "retry"
	out.RetryTruncated = r.Truncated == "retry"
	out.FullJitter = r.Jitter == "full"
}

// faults reads a route's own rows of the policy table.
func (l *loader) faults(at Path, list []filePolicyRow) *fault.Policy {
	rows := make([]fault.Row, len(list))
	for i, r := range list {
		rows[i] = fault.Row{Provider: string(r.Provider), Status: r.Status, Type: r.Type, Code: r.Code, Class: r.Class}
		if err := fault.Default().Check(rows[i]); err != nil && !l.decoded.inside(at.Item(i)) {
			l.problem(at.Item(i), "%v", err)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return fault.Default().With(rows)
}

func setOf(list []fault.Class) map[fault.Class]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[fault.Class]bool, len(list))
	for _, c := range list {
		set[c] = true
	}
	return set
}

// owners reports credentials of organizations that do not exist.
func (l *loader) owners(at Path, c fileChannel) {
	for i, cred := range c.Credentials {
		if cred.Organization != "" && l.catalog.Organizations[cred.Organization] == nil {
			l.dangling(at.Member("credentials").Item(i).Member("organization"), ownerNames, "%q is not an organization%s", clip(cred.Organization),
				didYouMean(cred.Organization, keysOf(l.catalog.Organizations)))
		}
	}
}

func (l *loader) organization(at Path, o fileOrganization) {
	if l.catalog.Organizations[o.Name] != nil {
		l.problem(at.Member("name"), "%q stands twice", clip(o.Name))
	}
	for i, m := range o.Models {
		if m != "*" {
			l.callable(at.Member("models").Item(i), m)
		}
	}
	if o.DefaultModel != "" {
		l.callable(at.Member("default_model"), o.DefaultModel)
	} else if o.WhenNotEnabled == "default_model" {
		l.problem(at.Member("when_not_enabled"), "default_model needs a default_model")
	}
	inRegion := func(ch *Channel) bool { return ch.Region == o.Region }
	if o.Region != "" && !slices.ContainsFunc(l.catalog.Channels, inRegion) {
		l.dangling(at.Member("region"), regionNames, "no channel is in %q%s", clip(o.Region), didYouMean(o.Region, l.regions()))
	}
	l.catalog.Organizations[o.Name] = &Organization{Name: o.Name, Models: requested(o.Models), Region: o.Region,
		DefaultModel: chat.RequestedModel(o.DefaultModel), DefaultWhenDenied: o.WhenNotEnabled == "default_model",
		WebhookSecret: l.webhookSecret(at.Member("webhook_secret"), o)}
}

// webhookSecret reads the secret that signs an organization's events. One that no receiver could check is as good as none, and
// is told of as such: whoever wants a callback is refused, and everything else goes on.
func (l *loader) webhookSecret(at Path, o fileOrganization) redact.Secret {
	name, _ := strings.CutPrefix(o.WebhookSecret, "env:")
	if !isReference(o.WebhookSecret) {
		return redact.Secret{} // none, or reported already
	}
	value, why := l.getenv(name), ""
	text, prefixed := strings.CutPrefix(value, "whsec_")
	if key, err := base64.StdEncoding.DecodeString(text); value == "" {
		why = "is not set"
	} else if !prefixed || err != nil || len(key) < minWebhookKey || len(key) > maxWebhookKey {
		why = fmt.Sprintf("does not hold whsec_ and the base64 of %d to %d bytes", minWebhookKey, maxWebhookKey)
	}
	if why != "" {
		l.notice("%s: %s %s: jobs of the organization %q take no callback_url", at, name, why, o.Name)
		return redact.Secret{}
	}
	return redact.NewSecret(value)
}

// A key of Standard Webhooks has so many bytes
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, 2026-11-30).
const minWebhookKey, maxWebhookKey = 24, 64

// callable reports a name that is neither a route nor a model.
func (l *loader) callable(at Path, name string) {
	if id := chat.RequestedModel(name); l.catalog.Routes[id] == nil && l.catalog.byModel[id] == nil {
		l.dangling(at, callableNames, "%q is neither a route nor a model%s", clip(name),
			didYouMean(name, append(keysOf(l.catalog.byModel), keysOf(l.catalog.Routes)...)))
	}
}

func (l *loader) regions() []string {
	var out []string
	for _, ch := range l.catalog.Channels {
		out = append(out, ch.Region)
	}
	return out
}

func (l *loader) key(at Path, k fileKey) {
	if l.digests[k.SHA256] {
		l.problem(at.Member("sha256"), "stands twice: a key belongs to one organization")
	}
	l.digests[k.SHA256] = true
	if l.catalog.Organizations[k.Organization] == nil {
		l.dangling(at.Member("organization"), ownerNames, "%q is not an organization%s", clip(k.Organization),
			didYouMean(k.Organization, keysOf(l.catalog.Organizations)))
	}
	key := Key{SHA256: k.SHA256, Alias: k.Alias, Organization: k.Organization, Disabled: k.Disabled, Permissions: k.Permissions}
	if name := strings.TrimPrefix(k.When, "env:"); name != "" && l.getenv(name) == "" {
		l.notice("%s: %s is not set: the key %q is out of use", at.Member("when"), name, k.Alias)
		key.Disabled = true
	}
	key.Expires, _ = time.Parse(time.RFC3339, k.Expires) // its form has been checked; empty is the zero time
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
