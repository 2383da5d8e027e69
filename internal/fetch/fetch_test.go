package fetch_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/chat"
	"spillway/internal/fetch"
	"spillway/internal/simulate"
)

// The first bytes of each kind.
const (
	png  = "\x89PNG\r\n\x1a\n...."
	jpeg = "\xff\xd8\xff\xe0...."
	gif  = "GIF89a...."
	webp = "RIFF\x04\x00\x00\x00WEBPVP8 ...."
	pdf  = "%PDF-1.7 ...."
)

// far is a host of the public internet, by its address; nobody dials it.
const far = "93.184.215.14"

// internet is what a client sees: one server behind every public address, and a resolver. It counts both.
type internet struct {
	mu     sync.Mutex
	names  map[string][]string // a name's answers, one after another; the last one stays. Each is a list, separated by spaces
	asked  []string
	dialed []string
	got    []*http.Request

	listener *simulate.PipeListener
	client   *fetch.Client
}

// online serves a handler until the test ends.
func online(t *testing.T, secure bool, handler http.HandlerFunc) *internet {
	t.Helper()
	n := &internet{names: map[string][]string{"pictures.example": {far}, "example.com": {far}}, listener: simulate.NewPipeListener()}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.got = append(n.got, r)
		n.mu.Unlock()
		handler(w, r)
	}))
	require.NoError(t, server.Listener.Close())
	server.Listener = n.listener
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	n.client = &fetch.Client{Lookup: n.lookup, Dial: n.dial}
	if secure {
		server.StartTLS()
		n.client.TLS = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs} //nolint:forcetypeassert // it is one
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return n
}

func (n *internet) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, host)
	answers := n.names[host]
	if len(answers) == 0 {
		return nil, errors.New("no such host: " + host)
	}
	if len(answers) > 1 {
		n.names[host] = answers[1:]
	}
	var all []netip.Addr
	for _, a := range strings.Fields(answers[0]) {
		all = append(all, netip.MustParseAddr(a))
	}
	return all, nil
}

func (n *internet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	return n.listener.Dial(ctx)
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// nobody is a server that must not be asked.
func nobody(t *testing.T) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("somebody asked") }
}

func TestWhatIsFetchedIsWhatItsFirstBytesSay(t *testing.T) {
	tests := map[string]struct {
		kind    chat.PartKind
		body    string
		media   string
		refusal fetch.Refusal
	}{
		"a PNG":                       {chat.ImagePart, png, "image/png", ""},
		"a JPEG":                      {chat.ImagePart, jpeg, "image/jpeg", ""},
		"a GIF":                       {chat.ImagePart, gif, "image/gif", ""},
		"a WebP":                      {chat.ImagePart, webp, "image/webp", ""},
		"a PDF as a file":             {chat.FilePart, pdf, "application/pdf", ""},
		"a PDF as an image":           {chat.ImagePart, pdf, "", fetch.WrongImage},
		"an image as a file":          {chat.FilePart, png, "", fetch.WrongFile},
		"a page that says image/png":  {chat.ImagePart, "<html><body>hello", "", fetch.WrongImage},
		"a vector image with scripts": {chat.ImagePart, `<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>`, "", fetch.WrongImage},
		"a bitmap":                    {chat.ImagePart, "BM......", "", fetch.WrongImage},
		"nothing":                     {chat.ImagePart, "", "", fetch.WrongImage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := online(t, false, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "image/png")
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := n.client.Fetch(t.Context(), tt.kind, "http://pictures.example/a?sig=x#frag")
			if tt.refusal != "" {
				assert.Equal(t, tt.refusal, err)
				assert.Zero(t, got)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.media, got.Media)
			assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(tt.body)), got.Base64)
			assert.Equal(t, []string{far + ":80"}, n.dialed)
		})
	}
}

func TestNothingOfOursIsSent(t *testing.T) {
	n := online(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if r.URL.Path == "/signed" {
			http.Redirect(w, r, "http://example.com/next", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, png)
	})
	_, err := n.client.Fetch(t.Context(), chat.ImagePart, "http://pictures.example/signed?sig=SECRET")
	require.NoError(t, err)
	require.Len(t, n.got, 2)
	for _, r := range n.got {
		assert.Equal(t, http.MethodGet, r.Method)
		assert.Equal(t, http.Header{"User-Agent": {"spillway"}, "Accept": {"*/*"}, "Connection": {"close"}}, r.Header)
	}
	assert.Equal(t, "example.com", n.got[1].Host)
	assert.NotContains(t, n.got[1].RequestURI, "SECRET")
}

// TestHostileAddresses: none of these is dialled. Names are answered as the most obliging resolver would answer them.
func TestHostileAddresses(t *testing.T) {
	local := map[string][]string{"localhost": {"127.0.0.1 ::1"}, "metadata.example": {"169.254.169.254"}, "inside.example": {"10.0.0.5 fd00::5"}, "mapped.example": {"::ffff:127.0.0.1"},
		"localtest.example.": {"127.0.0.1"}, "2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"}, "127.1": {"127.0.0.1"}, "127.0.0.1.": {"127.0.0.1"}, "0x7f.1": {"127.0.0.1"}}
	for address, want := range map[string]fetch.Refusal{
		"http://127.0.0.1:9001/2018-06-01/runtime/invocation/next": fetch.Unreachable,
		"http://localhost/":                       fetch.Unreachable,
		"http://localtest.example./":              fetch.Unreachable,
		"http://169.254.169.254/latest/meta-data": fetch.Unreachable,
		"http://metadata.example/":                fetch.Unreachable,
		"http://inside.example/":                  fetch.Unreachable,
		"http://mapped.example/":                  fetch.Unreachable,
		"http://nowhere.example/":                 fetch.Unreachable,
		"http://2130706433/":                      fetch.Unreachable,
		"http://0x7f000001/":                      fetch.Unreachable,
		"http://0x7f.1/":                          fetch.Unreachable,
		"http://0177.0.0.1/":                      fetch.Unreachable,
		"http://127.1/":                           fetch.Unreachable,
		"http://127.0.0.1./":                      fetch.Unreachable,
		"http://①②⑦.0.0.①/":                       fetch.Unreachable,
		"http://[::1]/":                           fetch.Unreachable,
		"http://[::ffff:127.0.0.1]/":              fetch.Unreachable,
		"http://[::ffff:7f00:1]:80/":              fetch.Unreachable,
		"http://[fe80::1%25eth0]/":                fetch.Unreachable,
		"http://[fd00:ec2::254]/":                 fetch.Unreachable,
		"https://[64:ff9b::a9fe:a9fe]/":           fetch.Unreachable,
		"http://100.64.0.1/":                      fetch.Unreachable,
		"http://0.0.0.0:9001/":                    fetch.Unreachable,
		"http://pictures.example:0x50/":           fetch.NotHTTP,
		"http://user:pass@pictures.example/":      fetch.NotHTTP,
		"http://pictures.example@127.0.0.1/":      fetch.NotHTTP,
		"http:///etc/passwd":                      fetch.NotHTTP,
		"http:pictures.example":                   fetch.NotHTTP,
		"file:///etc/passwd":                      fetch.NotHTTP,
		"gopher://pictures.example/":              fetch.NotHTTP,
		"ftp://pictures.example/a.png":            fetch.NotHTTP,
		"://":                                     fetch.NotHTTP,
		"":                                        fetch.NotHTTP,
	} {
		t.Run(address, func(t *testing.T) {
			n := online(t, false, nobody(t))
			for name, answers := range local {
				n.names[name] = answers
			}
			_, err := n.client.Fetch(t.Context(), chat.ImagePart, address)
			assert.Equal(t, want, err)
			assert.Empty(t, n.dialed)
		})
	}
}

// TestTheAddressThatWasJudgedIsDialled: a resolver that gives a public address first and a private one then gains nothing.
func TestTheAddressThatWasJudgedIsDialled(t *testing.T) {
	n := online(t, false, says(png))
	n.names["pictures.example"] = []string{far, "127.0.0.1"}
	_, err := n.client.Fetch(t.Context(), chat.ImagePart, "http://pictures.example/")
	require.NoError(t, err)
	assert.Equal(t, []string{far + ":80"}, n.dialed)
	assert.Equal(t, []string{"pictures.example"}, n.asked, "looked up once")

	_, err = n.client.Fetch(t.Context(), chat.ImagePart, "http://pictures.example/")
	assert.Equal(t, fetch.Unreachable, err)
	assert.Len(t, n.dialed, 1)
}

func TestAPrivateAddressBesideAPublicOneIsLeftOut(t *testing.T) {
	n := online(t, false, says(png))
	n.names["pictures.example"] = []string{"10.0.0.1 ::ffff:93.184.215.14 127.0.0.1"}
	_, err := n.client.Fetch(t.Context(), chat.ImagePart, "http://pictures.example/")
	require.NoError(t, err)
	assert.Equal(t, []string{far + ":80"}, n.dialed)
}

func TestRedirectsAreJudgedEachTime(t *testing.T) {
	for name, tt := range map[string]struct {
		secure  bool
		from    string
		to      func(hop int) string
		refusal fetch.Refusal
		got     int // requests that the server saw
	}{
		"three of them":               {from: "http://pictures.example/0", to: hops(3), got: 4},
		"four of them":                {from: "http://pictures.example/0", to: hops(4), refusal: fetch.Redirected, got: 4},
		"to a private address":        {from: "http://pictures.example/0", to: always("http://127.0.0.1:9001/"), refusal: fetch.Unreachable, got: 1},
		"to the metadata service":     {from: "http://pictures.example/0", to: always("http://169.254.169.254/"), refusal: fetch.Unreachable, got: 1},
		"to a name of a private host": {from: "http://pictures.example/0", to: always("http://localhost/"), refusal: fetch.Unreachable, got: 1},
		"to a name that has moved":    {from: "http://moving.example/0", to: always("http://moving.example/1"), refusal: fetch.Unreachable, got: 1},
		"to another scheme":           {from: "http://pictures.example/0", to: always("file:///etc/passwd"), refusal: fetch.Redirected, got: 1},
		"with a user's name":          {from: "http://pictures.example/0", to: always("http://a:b@pictures.example/"), refusal: fetch.Redirected, got: 1},
		"from https to http":          {secure: true, from: "https://example.com/0", to: always("http://example.com/1"), refusal: fetch.Redirected, got: 1},
		"from https to https":         {secure: true, from: "https://example.com/0", to: always("https://example.com/last"), got: 2},
		"to itself":                   {from: "http://pictures.example/0", to: always("http://pictures.example/0"), refusal: fetch.Redirected, got: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // closing TLS over a pipe takes its time
				n := online(t, tt.secure, func(w http.ResponseWriter, r *http.Request) {
					var hop int
					if _, err := fmt.Sscanf(r.URL.Path, "/%d", &hop); err == nil && tt.to(hop) != "" {
						http.Redirect(w, r, tt.to(hop), http.StatusFound)
						return
					}
					_, _ = io.WriteString(w, png)
				})
				n.names["localhost"] = []string{"127.0.0.1"}
				n.names["moving.example"] = []string{far, "192.168.0.1"}
				_, err := n.client.Fetch(t.Context(), chat.ImagePart, tt.from)
				if tt.refusal == "" {
					require.NoError(t, err)
				} else {
					assert.Equal(t, tt.refusal, err)
				}
				assert.Len(t, n.got, tt.got)
			})
		})
	}
}

// hops redirects so many times.
func hops(n int) func(int) string {
	return func(hop int) string {
		if hop >= n {
			return ""
		}
		return fmt.Sprintf("/%d", hop+1)
	}
}

func always(to string) func(int) string { return func(int) string { return to } }

func TestACertificateIsChecked(t *testing.T) {
	n := online(t, true, nobody(t))
	n.client.TLS = nil
	_, err := n.client.Fetch(t.Context(), chat.ImagePart, "https://example.com/")
	assert.Equal(t, fetch.Unreachable, err)
}

func TestWhatIsNoAnswerIsRefused(t *testing.T) {
	const limit = 5 << 20
	tests := map[string]struct {
		answer  http.HandlerFunc
		refusal fetch.Refusal
	}{
		"not found": {http.NotFound, fetch.NotFound},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, fetch.NotFound},
		"a part of it": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, png)
		}, fetch.NotFound},
		"as large as may be": {says(png + strings.Repeat("a", limit-len(png))), ""},
		"one byte too many":  {says(png + strings.Repeat("a", limit-len(png)+1)), fetch.TooLarge},
		"a length too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999")
			_, _ = io.WriteString(w, png)
		}, fetch.TooLarge},
		"a length that is a lie": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, png)
			_ = http.NewResponseController(w).Flush() // so that no length is sent
			for range 6 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, fetch.TooLarge},
		"cut in the middle": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, png)
		}, fetch.Unreachable},
		"headers beyond all measure": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("a", 100<<10)) }, fetch.Unreachable},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b\x08....")
		}, fetch.WrongImage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := online(t, false, tt.answer)
			_, err := n.client.Fetch(t.Context(), chat.ImagePart, "http://pictures.example/private?sig=SECRET")
			if tt.refusal == "" {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, tt.refusal, err)
			assert.NotContains(t, err.Error(), "example")
			assert.NotContains(t, err.Error(), "SECRET")
		})
	}
}

func TestASlowAnswerIsNotWaitedFor(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"nothing comes": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"byte by byte": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, png)
			for r.Context().Err() == nil {
				time.Sleep(100 * time.Millisecond)
				_, _ = io.WriteString(w, "a")
				_ = http.NewResponseController(w).Flush()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := online(t, false, answer)
				began := time.Now()
				_, err := n.client.Fetch(t.Context(), chat.ImagePart, "http://pictures.example/")
				assert.Equal(t, fetch.TooSlow, err)
				assert.Equal(t, 5*time.Second, time.Since(began))
			})
		})
	}
}

// TestTheRequestsOwnEndIsNoRefusal: it says nothing of what stands at the address.
func TestTheRequestsOwnEndIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := online(t, false, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n.client.Fetch(ctx, chat.ImagePart, "http://pictures.example/")
		assert.Equal(t, context.DeadlineExceeded, err)
	})
}

func TestAHostThatDoesNotAnswerLeavesTimeForItsNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := online(t, false, says(png))
		n.names["pictures.example"] = []string{"2606:4700:4700::1111 " + far}
		n.client.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "[2606") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return n.dial(ctx, network, address)
		}
		began := time.Now()
		_, err := n.client.Fetch(t.Context(), chat.ImagePart, "http://pictures.example/")
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(began))
	})
}

// The zero value guards the network itself: a real server on the loopback is not reached.
func TestTheZeroValueReachesNoLoopback(t *testing.T) {
	server := httptest.NewServer(nobody(t))
	defer server.Close()
	for _, address := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)} {
		_, err := new(fetch.Client).Fetch(t.Context(), chat.ImagePart, address)
		assert.Equal(t, fetch.Unreachable, err)
	}
}
