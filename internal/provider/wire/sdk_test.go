package wire_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// closedEarly is the body of a request of AWS's SDK, closed before the transport had looked whether there is more of it.
type closedEarly struct{ io.Reader }

func (closedEarly) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }
func (closedEarly) Close() error                     { return nil }

// TestAnAnswerOutlivesTheBodyOfItsRequest: AWS's SDK closes a request's body when the answer's head is there. The answer, here longer
// than what is read with its head, still comes to its end, and its connection serves the next call.
func TestAnAnswerOutlivesTheBodyOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := strings.Repeat("x", 64<<10)
		p := newPeer(t, func(conn net.Conn, _ int, _ *http.Request) bool {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(answer))
			synctest.Wait() // the transport is done with the request
			return say(conn, answer)
		})
		c := p.client(t)
		for range 2 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin.String(), closedEarly{strings.NewReader("{}")})
			require.NoError(t, err)
			r.ContentLength = 2
			given := r.Body
			resp, err := c.RoundTrip(r)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, answer, string(got))
			assert.Equal(t, given, r.Body, "the caller's request is left as it is")
		}
		assert.EqualValues(t, 1, p.conns.Load())
	})
}
