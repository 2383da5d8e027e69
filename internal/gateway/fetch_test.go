package gateway_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/fetch"
	"spillway/internal/gateway"
	"spillway/internal/simulate"
)

const (
	png = "\x89PNG\r\n\x1a\n...."
	pdf = "%PDF-1.7 ...."

	// gallery is where pictures are; the address of one is signed. Neither may show anywhere.
	gallery   = "http://img." + domain
	signature = "?sig=" + secret
	cat       = gallery + "/cat" + signature
	slow      = gallery + "/slow" + signature
	inside    = "http://inside." + domain + "/cat" + signature
)

// pictures is the host that images are fetched from, in front of the real fetch. It counts.
type pictures struct {
	mu           sync.Mutex
	got          []string
	atOnce, most int
	listener     *simulate.PipeListener
}

func (p *pictures) fetcher() gateway.Fetcher {
	if p == nil {
		return nil
	}
	p.listener = simulate.NewPipeListener()
	return &fetch.Client{
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if strings.HasPrefix(host, "inside.") {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.listener.Dial(ctx) },
	}
}

// serve begins to serve and returns what ends it.
func (p *pictures) serve() func() {
	if p == nil {
		return func() {}
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(p.listener) }()
	return func() {
		_ = server.Close()
		<-ended
	}
}

func (p *pictures) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.got = append(p.got, r.URL.Path)
	p.atOnce++
	p.most = max(p.most, p.atOnce)
	p.mu.Unlock()
	defer func() { p.mu.Lock(); p.atOnce--; p.mu.Unlock() }()
	switch name, _, _ := strings.Cut(r.URL.Path[1:], "-"); name {
	case "slow":
		<-r.Context().Done()
	case "second":
		time.Sleep(time.Second)
		_, _ = io.WriteString(w, png)
	case "large":
		_, _ = io.WriteString(w, png+strings.Repeat("a", 5<<20-len(png)))
	case "page":
		_, _ = io.WriteString(w, "<html>")
	case "file":
		_, _ = io.WriteString(w, pdf)
	case "away":
		http.Redirect(w, r, "http://127.0.0.1:9001/2018-06-01/runtime/invocation/next", http.StatusFound)
	default:
		_, _ = io.WriteString(w, png)
	}
}

// showing is a request with images at these addresses.
func showing(addresses ...string) string {
	parts := fmt.Sprintf(`{"type":"text","text":%q}`, prompt)
	for _, a := range addresses {
		parts += fmt.Sprintf(`,{"type":"image_url","image_url":{"url":%q,"detail":"low"}}`, a)
	}
	return `{"model":"fast","messages":[{"role":"user","content":[` + parts + `]}]}`
}

// named are several addresses of a kind.
func named(kind string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s/%s-%d", gallery, kind, i))
	}
	return all
}

// blind channels read no addresses.
func blind(s settings, letters string) settings {
	const cannot = `"cannot":["remote_images","remote_files"]`
	if strings.Contains(letters, "a") {
		s.a = cannot
	}
	if strings.Contains(letters, "b") {
		s.b = cannot
	}
	return s
}

func TestWhatAProviderDoesNotReadIsFetched(t *testing.T) {
	inline := func(media, data string) string {
		return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString([]byte(data))
	}
	image := inline("image/png", png)
	urls := func(c call) (all []string) {
		for _, u := range gjson.Get(c.body, "messages.0.content.#.image_url.url").Array() {
			all = append(all, u.Str)
		}
		return all
	}
	type shown struct {
		row
		got  []string   // paths of what was fetched, in no order
		sent [][]string // the images of each call
		more func(*testing.T, *pictures, outcome)
	}
	says := func(v voice) []simulate.Reply { return one(v.says("a cat")) }
	for name, tt := range map[string]shown{
		"the content is sent in the place of its address": {row: row{settings: blind(settings{}, "a"), whole: showing(cat), a: says(alpha), trace: "A"},
			got: []string{"/cat"}, sent: [][]string{{image}},
			more: func(t *testing.T, _ *pictures, o outcome) {
				assert.Equal(t, "low", gjson.Get(o.calls[0].body, "messages.0.content.1.image_url.detail").Str)
				assert.Equal(t, prompt, gjson.Get(o.calls[0].body, "messages.0.content.0.text").Str)
				assert.NotContains(t, o.calls[0].body, domain)
			}},
		"nothing is fetched for a provider that reads addresses": {row: row{whole: showing(cat, slow), a: says(alpha), trace: "A", returned: 1}, sent: [][]string{{cat, slow}}},
		"an address without TLS is fetched for a provider that reads no such": {row: row{settings: settings{a: `"cannot":["plain_http"]`}, whole: showing(cat, "HTTPS://img.example/a"), a: says(alpha), trace: "A"},
			got: []string{"/cat"}, sent: [][]string{{image, "HTTPS://img.example/a"}}},
		"an image within the request stays as it is": {row: row{settings: blind(settings{}, "a"), whole: showing(image), a: says(alpha), trace: "A"}, sent: [][]string{{image}}},
		"once for all calls of a request": {row: row{settings: blind(settings{}, "ab"), whole: showing(cat, cat), a: twice(unavailable()), b: says(beta), trace: "A 200ms A B"},
			got: []string{"/cat"}, sent: [][]string{{image, image}, {image, image}, {image, image}}},
		"four at a time": {row: row{settings: blind(settings{}, "a"), whole: showing(named("second", 8)...), a: says(alpha), trace: "A", returned: 2 * time.Second},
			got:  []string{"/second-0", "/second-1", "/second-2", "/second-3", "/second-4", "/second-5", "/second-6", "/second-7"},
			sent: [][]string{{image, image, image, image, image, image, image, image}},
			more: func(t *testing.T, p *pictures, _ outcome) { assert.Equal(t, 4, p.most) }},
		"a candidate whose content is refused is passed over": {row: row{settings: blind(settings{}, "a"), whole: showing(inside), b: says(beta), trace: "B",
			headers: map[string]string{"X-LLM-Routing-Reason": "a:unfetched;b:ok", "X-LLM-Attempts": "1", "X-LLM-Fallback": "true"}}, sent: [][]string{{inside}}},
		"a redirect to the Runtime API is not followed": {row: row{settings: blind(settings{}, "a"), whole: showing(gallery + "/away"), b: says(beta), trace: "B"},
			got: []string{"/away"}, sent: [][]string{{gallery + "/away"}}},
		"what is slow is waited for 5 seconds": {row: row{settings: blind(settings{}, "a"), whole: showing(slow), b: says(beta), trace: "B", returned: 5 * time.Second},
			got: []string{"/slow"}, sent: [][]string{{slow}}},
		"one refusal ends the wait for the others": {row: row{settings: blind(settings{}, "a"), whole: showing(slow, inside), b: says(beta), trace: "B", returned: 1},
			sent: [][]string{{slow, inside}}, more: func(t *testing.T, p *pictures, _ outcome) { p.got = nil }},
		"a file": {row: row{settings: blind(settings{}, "a"), a: says(alpha), trace: "A",
			whole: `{"model":"fast","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"` + gallery + `/file"}},{"type":"file","file":{"file_id":"` + gallery + `/file-2","filename":"b.pdf"}},{"type":"file","file":{"file_id":"file-1"}}]}]}`},
			got: []string{"/file", "/file-2"}, sent: [][]string{nil},
			more: func(t *testing.T, _ *pictures, o outcome) {
				want := inline("application/pdf", pdf)
				assert.JSONEq(t, `[{"type":"file","file":{"file_data":"`+want+`","filename":"file.pdf"}},{"type":"file","file":{"file_data":"`+want+`","filename":"b.pdf"}},{"type":"file","file":{"file_id":"file-1"}}]`,
					gjson.Get(o.calls[0].body, "messages.0.content").Raw)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			host := &pictures{}
			tt.settings.pictures = host
			tt.text = "a cat"
			returned := tt.returned
			tt.returned = 0
			tt.classes = classesOf(tt.trace)
			tt.check = func(t *testing.T, o outcome) {
				if tt.more != nil {
					tt.more(t, host, o)
				}
				if returned > 0 {
					assert.Equal(t, returned.Truncate(time.Second), o.returned, "time until the end")
				}
				assert.ElementsMatch(t, tt.got, host.got)
				for i, c := range o.calls {
					assert.Equal(t, tt.sent[i], urls(c))
				}
			}
			run(t, map[string]row{"": tt.row})
		})
	}
}

// TestWhatAProviderCouldNotReadIsSentToIt is reference/providers.md §1.1: OpenAI's failed_to_download_image is worth one more
// call, with the image in it.
func TestWhatAProviderCouldNotReadIsSentToIt(t *testing.T) {
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(png))
	unread := with(fails(400, "invalid_request_error", "failed_to_download_image"), "x-should-retry", "false")
	refused := func(r row) row {
		r.classes = strings.TrimSpace(strings.Repeat("invalid_request ", len(r.a)))
		r.status, r.code, r.class, r.provider, r.quotes = 502, "provider_error", "invalid_request", "alpha", true
		return r
	}
	pair := settings{pictures: &pictures{}}
	none := settings{pictures: &pictures{}, route: `"max_retries": 0`}
	for name, tt := range map[string]struct {
		row
		last string // the image of the last call
		got  int    // how many were fetched
	}{
		"once more, with the image in it":         {row{settings: pair, whole: showing(cat), a: []simulate.Reply{unread, alpha.says("a cat")}, trace: "A A", classes: "invalid_request ok", text: "a cat"}, image, 1},
		"no third time":                           {refused(row{settings: pair, whole: showing(cat), a: twice(unread), trace: "A A"}), image, 1},
		"not what cannot be fetched":              {refused(row{settings: pair, whole: showing(inside), a: one(unread), trace: "A"}), inside, 0},
		"not what one of them is, that cannot be": {refused(row{settings: pair, whole: showing(gallery + "/page"), a: one(unread), trace: "A"}), gallery + "/page", 1},
		"not what stood in the request":           {refused(row{settings: pair, whole: showing(image), a: one(unread), trace: "A"}), image, 0},
		"not what the gateway had fetched":        {refused(row{settings: blind(pair, "a"), whole: showing(cat), a: one(unread), trace: "A"}), image, 1},
		"not on a route that allows no retries":   {refused(row{settings: none, whole: showing(cat), a: one(unread), trace: "A"}), cat, 1},
		"not by a gateway that fetches nothing":   {refused(row{whole: showing(cat), a: one(unread), trace: "A"}), cat, 0},
		"not for another mistake":                 {refused(row{settings: pair, whole: showing(cat), a: one(fails(400, "invalid_request_error", "invalid_image")), trace: "A"}), cat, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.settings.pictures != nil {
				tt.settings.pictures = &pictures{}
			}
			tt.check = func(t *testing.T, o outcome) {
				assert.Equal(t, tt.last, gjson.Get(o.calls[len(o.calls)-1].body, "messages.0.content.1.image_url.url").Str)
				if p := tt.settings.pictures; p != nil {
					assert.Len(t, p.got, tt.got)
				}
				if len(o.calls) > 1 {
					assert.Equal(t, "inlined_content", o.of("provider_decision")[0].Reason)
				}
			}
			run(t, map[string]row{"": tt.row})
		})
	}
}

// classesOf are those of calls whose last one answers: the others were unavailable.
func classesOf(trace string) string {
	n := len(strings.Fields(strings.ReplaceAll(trace, "200ms ", "")))
	return strings.Repeat("server_error ", n-1) + "ok"
}

func TestWhatCannotBeFetchedIsTheCallersToChange(t *testing.T) {
	second := "messages[0].content[2].image_url.url"
	for name, tt := range map[string]struct {
		addresses []string
		param     string
		says      string
		got       int // -1: as many as had begun when one was refused
	}{
		"a host that is not public":   {[]string{cat, inside}, second, "no public host answers at its address", -1},
		"a host without a name":       {[]string{cat, "http://2130706433:9001/"}, second, "no public host answers at its address", -1},
		"a redirect to a private one": {[]string{cat, gallery + "/away"}, second, "no public host answers at its address", -1},
		"what is no image":            {[]string{cat, gallery + "/page"}, second, "it is no JPEG, PNG, GIF or WebP image", -1},
		"eleven addresses":            {named("cat", 11), "messages[0].content[11].image_url.url", "the request names more than 10 addresses", 0},
		"more than is borne at once":  {named("large", 5), "", "the request names more than 18 MB in all", -1},
	} {
		t.Run(name, func(t *testing.T) {
			host := &pictures{}
			run(t, map[string]row{"": {settings: blind(settings{pictures: host}, "ab"), whole: showing(tt.addresses...), status: 400,
				code: "unsupported_model_input", class: "unsupported_parameter",
				headers: map[string]string{"X-LLM-Attempts": "0", "X-Should-Retry": "false", "X-LLM-Routing-Reason": "a:unfetched;b:unfetched"},
				check: func(t *testing.T, o outcome) {
					e := gjson.Get(o.body, "error")
					if tt.param != "" {
						assert.Equal(t, tt.param, e.Get("param").Str)
					}
					assert.Contains(t, e.Get("message").Str, tt.says)
					assert.NotContains(t, e.Get("message").Str, "127.0.0.1")
					if tt.got >= 0 {
						assert.Len(t, host.got, tt.got)
					}
				}}})
		})
	}
}

// TestAFetchHidesNothing: what a fetch has to do with a request's end is told apart from the providers' part in it.
func TestAFetchHidesNothing(t *testing.T) {
	run(t, map[string]row{
		"the failure of a candidate before": {settings: blind(settings{pictures: &pictures{}}, "b"), whole: showing(inside), a: twice(unavailable()),
			trace: "A 200ms A", classes: "server_error server_error", status: 503, code: "provider_unavailable", class: "server_error", provider: "alpha"},
		"a gateway that fetches nothing": {settings: blind(settings{}, "ab"), whole: showing(cat), status: 400, code: "unsupported_model_input", class: "unsupported_parameter"},
		"the request's own time is used up": {settings: blind(settings{pictures: &pictures{}}, "ab"), whole: showing(slow), header: header("X-LLM-Timeout-Ms", "2000"),
			status: 504, code: "provider_timeout", class: "deadline", provider: "alpha", returned: 2 * time.Second, headers: map[string]string{"X-LLM-Attempts": "0"}},
	})
	t.Run("a candidate that could answer later", func(t *testing.T) {
		inBubble(t, blind(settings{pictures: &pictures{}}, "a"), func(t *testing.T, w *world) {
			w.provider.Script("b-9", with(fails(429, "rate_limit_error", "rate_limit_exceeded"), "retry-after", "60"))
			require.Equal(t, 429, w.do(t, request{body: `{"model":"other","messages":[{"role":"user","content":"x"}]}`}).status)
			o := w.do(t, request{body: showing(inside)})
			assert.Equal(t, 429, o.status, o.body)
			assert.Equal(t, "60", o.header.Get("Retry-After"))
			assert.Equal(t, "a:unfetched;b:throttled", o.header.Get("X-LLM-Routing-Reason"))
		})
	})
}
