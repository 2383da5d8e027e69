package fetch_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fetch"
	"spillway/internal/provider"
)

// secure serves every name over TLS with one certificate, which does not hold them all: whose it is is not what is tried here.
func secure(t *testing.T, handler http.HandlerFunc) *internet {
	n := online(t, true, handler)
	n.client.TLS = &tls.Config{InsecureSkipVerify: true}
	return n
}

// bubble runs a test in time that passes by itself: closing a connection within the process may wait for five seconds of it.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestWork(t *testing.T) {
	key := http.Header{"X-Goog-Api-Key": {"K"}, "Authorization": {"Bearer K"}}
	serve := func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/same": "/work", "/other": "https://example.com/work", "/back": "https://example.com/home", "/home": "https://pictures.example/work",
			"/plain": "http://pictures.example/work", "/inside": "https://127.0.0.1/work", "/loop": "/loop"}[r.URL.Path]
		switch {
		case to != "":
			http.Redirect(w, r, to, http.StatusFound)
		case r.URL.Path == "/work":
			w.Header().Set("Content-Type", "video/mp4")
			_, _ = io.WriteString(w, "the work")
		case r.URL.Path == "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(map[string]int{"/gone": 410, "/forbidden": 403, "/nowhere": 404}[r.URL.Path])
		}
	}
	for name, c := range map[string]struct {
		path string
		want error // nil: the work
		keys []string
	}{
		"the header goes to the work's own host":        {"/work", nil, []string{"K"}},
		"and along a redirect that stays there":         {"/same", nil, []string{"K", "K"}},
		"but not to another host":                       {"/other", nil, []string{"K", ""}},
		"nor back again once it has left":               {"/back", nil, []string{"K", "", ""}},
		"a redirect to one without TLS is not followed": {"/plain", provider.ErrUntrusted, []string{"K"}},
		"a redirect without an end is not followed":     {"/loop", provider.ErrUntrusted, []string{"K", "K", "K", "K"}},
		"403 is gone": {"/forbidden", provider.ErrGone, []string{"K"}},
		"404 is gone": {"/nowhere", provider.ErrGone, []string{"K"}},
		"410 is gone": {"/gone", provider.ErrGone, []string{"K"}},
	} {
		bubble(t, name, func(t *testing.T) {
			n := secure(t, serve)
			a, err := n.client.Work(t.Context(), provider.Artifact{URL: "https://pictures.example" + c.path + "?sig=S1", Header: key})
			var keys []string
			for _, r := range n.got {
				keys = append(keys, r.Header.Get("X-Goog-Api-Key"))
				assert.Equal(t, r.Header.Get("X-Goog-Api-Key") != "", r.Header.Get("Authorization") != "")
				assert.Empty(t, r.Header.Get("Referer"))
			}
			assert.Equal(t, c.keys, keys)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				assert.NotContains(t, err.Error(), "S1")
				return
			}
			require.NoError(t, err)
			defer a.Body.Close()
			body, err := io.ReadAll(a.Body)
			require.NoError(t, err)
			assert.Equal(t, "the work", string(body))
			assert.EqualValues(t, 8, a.Size)
			assert.Equal(t, "video/mp4", a.ContentType)
		})
	}
	bubble(t, "what may pass is neither gone nor untrusted", func(t *testing.T) {
		n := secure(t, serve)
		for _, u := range []string{"https://pictures.example/busy?sig=S1", "https://pictures.example/inside?sig=S1", "https://nobody.example/work?sig=S1", "https://127.0.0.1/work?sig=S1"} {
			_, err := n.client.Work(t.Context(), provider.Artifact{URL: u})
			require.Error(t, err)
			assert.NotErrorIs(t, err, provider.ErrGone)
			assert.NotErrorIs(t, err, provider.ErrUntrusted)
			assert.NotContains(t, err.Error(), "S1")
		}
		for _, d := range n.dialed {
			assert.NotContains(t, d, "127.0.0.1")
		}
	})
	bubble(t, "without TLS, with a user name, or nothing: not asked", func(t *testing.T) {
		n := secure(t, serve)
		for _, u := range []string{"http://pictures.example/work", "https://u@pictures.example/work", "", "file:///etc/passwd", "https://"} {
			_, err := n.client.Work(t.Context(), provider.Artifact{URL: u})
			require.ErrorIs(t, err, provider.ErrUntrusted)
		}
		assert.Empty(t, n.got)
	})
	bubble(t, "a host that an operator vouches for may be inside and plain, and leads nowhere else inside", func(t *testing.T) {
		n := online(t, false, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/away" {
				http.Redirect(w, r, "http://127.0.0.2:81/work", http.StatusFound)
				return
			}
			serve(w, r)
		})
		n.client.Known = func(hostPort string) bool { return hostPort == "127.0.0.1:80" || hostPort == "127.0.0.2:81" }
		a, err := n.client.Work(t.Context(), provider.Artifact{URL: "http://127.0.0.1/work"})
		require.NoError(t, err)
		a.Body.Close()
		_, err = n.client.Work(t.Context(), provider.Artifact{URL: "http://127.0.0.1/away"})
		require.ErrorIs(t, err, provider.ErrUntrusted)
	})
}

func TestTell(t *testing.T) { synctest.Test(t, testTell) }

func testTell(t *testing.T) {
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "https://example.com/hook", http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if string(body) != "the event" || r.Method != http.MethodPost || r.Header.Get("webhook-id") != "evt_1" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	n := secure(t, serve)
	n.client.Known = func(string) bool { return true } // for works alone: a callback's address is the client's
	tell := func(ctx context.Context, u string) (int, error) {
		return n.client.Tell(ctx, u, http.Header{"Webhook-Id": {"evt_1"}}, []byte("the event"))
	}
	status, err := tell(t.Context(), "https://example.com/hook")
	require.NoError(t, err)
	assert.Equal(t, http.StatusNoContent, status)
	status, err = tell(t.Context(), "https://example.com/moved")
	require.NoError(t, err)
	assert.Equal(t, http.StatusTemporaryRedirect, status, "a redirect is not followed")
	require.Len(t, n.got, 2)
	for _, u := range []string{"http://example.com/hook", "https://127.0.0.1/hook", "https://169.254.169.254/hook", "https://nobody.example/x", "https://u:p@example.com/hook", ""} {
		_, err := tell(t.Context(), u)
		require.ErrorIs(t, err, fetch.Unreachable, u)
	}
	assert.Len(t, n.got, 2, "nobody else was asked")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = tell(gone, "https://example.com/hook")
	require.ErrorIs(t, err, context.Canceled)
}

// TestTheSimulatorIsTold: over http and inside, on the machine of a developer, and nobody beside it.
func TestTheSimulatorIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := online(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		tell := func(u string) (int, error) { return n.client.Tell(t.Context(), u, http.Header{}, []byte("the event")) }
		_, err := tell("http://127.0.0.1:4000/_sim/callback")
		require.ErrorIs(t, err, fetch.Unreachable, "nobody has vouched for it")
		n.client.Receiver = func(hostPort string) bool { return hostPort == "127.0.0.1:4000" }
		status, err := tell("http://127.0.0.1:4000/_sim/callback")
		require.NoError(t, err)
		assert.Equal(t, http.StatusNoContent, status)
		for _, u := range []string{"http://127.0.0.1:4001/_sim/callback", "http://127.0.0.1/x", "http://localhost:4000/x", "http://u:p@127.0.0.1:4000/x"} {
			_, err := tell(u)
			require.ErrorIs(t, err, fetch.Unreachable, u)
		}
		assert.Len(t, n.got, 1)
	})
}

func TestHosts(t *testing.T) {
	known := fetch.Hosts("https://Video.example/v1", "http://127.0.0.1:4000/v1", "", "no address")
	for hostPort, want := range map[string]bool{"video.example:443": true, "127.0.0.1:4000": true, "video.example:80": false, "video.example": false, "127.0.0.1:4001": false, "": false, ":443": false} {
		assert.Equal(t, want, known(hostPort), hostPort)
	}
}
