package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/jobs"
)

// A WorkStore keeps what jobs made, for those who write it and those who read it. s3store.Works says what its methods promise.
type WorkStore interface {
	jobs.Objects
	Link(ctx context.Context, name, contentType, filename string, ttl time.Duration) (string, error)
}

var _ WorkStore = (*MemoryWorks)(nil)

// WorksPart is the part in which s3store sends works, in bytes. Sizes around it are where mistakes are made.
const WorksPart = 8 << 20

// WorksBackend is what the suite Works has to know of what is behind a store.
type WorksBackend struct {
	// Left lists the uploads that were begun and neither completed nor aborted.
	Left func(t *testing.T) []string
	// Blind says that the backend reads nothing of a link but the name: neither when it ends, nor how it is to be answered.
	Blind bool
}

// Works runs what every one must do. Links are read by a client that knows nothing but their address.
func Works(t *testing.T, s WorkStore, b WorksBackend) {
	w := works{WorkStore: s, backend: b}
	t.Run("a work is read back as it was put, whatever its size and whether that is known", w.sizes)
	t.Run("a body that cannot be read to its end shows no work and leaves no upload", w.cut)
	t.Run("a body that has not the size it was said to have shows no work and leaves no upload", w.sized)
	t.Run("a repeated put replaces the work", w.replaced)
	t.Run("one that is not there is fs.ErrNotExist", func(t *testing.T) {
		_, _, _, err := w.Open(t.Context(), w.name())
		assert.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("a caller who has gone shows no work and leaves no upload", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := w.name()
		body := io.MultiReader(readerOf(WorksPart+1), readFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }))
		require.Error(t, w.Put(ctx, n, "video/mp4", body, -1))
		w.absent(t, n)
	})
	t.Run("B40 d: two links of one work are both good, more than once", w.links)
	t.Run("a link says the type and the file name, if it was given them", w.named)
	t.Run("a part of a work is read through its link", w.ranges)
	t.Run("a link ends", w.ends)
	t.Run("a link that is good for too short or too long a time is refused", func(t *testing.T) {
		for _, ttl := range []time.Duration{-time.Second, 0, time.Second - 1, time.Hour + 1, 7 * 24 * time.Hour} {
			_, err := w.Link(t.Context(), w.name(), "video/mp4", "", ttl)
			assert.Error(t, err, ttl)
		}
	})
	t.Run("a link to what is not there is not answered with a work", func(t *testing.T) {
		link, err := w.Link(t.Context(), w.name(), "video/mp4", "", time.Minute)
		require.NoError(t, err)
		// S3 denies access where the signer may not list the bucket.
		assert.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, get(t, link, "").status)
	})
}

type works struct {
	WorkStore
	backend WorksBackend
}

func (works) name() string { return fmt.Sprintf("media/acme/job_%016x/owner", rand.Uint64()) }

// pattern is what works are made of, over and over: of a length that no part is a multiple of, so that each part differs.
var pattern = func() []byte {
	b := make([]byte, 1<<20-3)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // it does not fail
	return b
}()

// readerOf reads a work of so many bytes.
func readerOf(n int64) io.Reader {
	at := 0
	return io.LimitReader(readFunc(func(p []byte) (int, error) {
		n := copy(p, pattern[at:])
		at = (at + n) % len(pattern)
		return n, nil
	}), n)
}

func bytesOf(n int64) []byte {
	b, _ := io.ReadAll(readerOf(n)) // it does not fail
	return b
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func (w works) sizes(t *testing.T) {
	for name, c := range map[string]struct {
		size  int64
		known bool
		how   func(io.Reader) io.Reader // nil: as it is
	}{
		"nothing":                {0, true, nil},
		"nothing, size unknown":  {0, false, nil},
		"one byte":               {1, true, nil},
		"one byte, size unknown": {1, false, nil},
		"one part":               {WorksPart, true, nil},
		"one part, size unknown": {WorksPart, false, nil},
		"one part, its end said with its last byte": {WorksPart, false, iotest.DataErrReader},
		"a byte more than a part":                   {WorksPart + 1, true, nil},
		"a byte more than a part, size unknown":     {WorksPart + 1, false, nil},
		"a byte more, its end said with it":         {WorksPart + 1, true, iotest.DataErrReader},
		"two parts, in halves of what was asked":    {2 * WorksPart, false, iotest.HalfReader},
		"60 MB, size unknown":                       {60_000_000, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n, body, size := w.name(), readerOf(c.size), int64(-1)
			if c.known {
				size = c.size
			}
			if c.how != nil {
				body = c.how(body)
			}
			require.NoError(t, w.Put(t.Context(), n, "video/mp4", body, size))
			got, gotSize, contentType, err := w.Open(t.Context(), n)
			require.NoError(t, err)
			defer got.Close()
			assert.Equal(t, c.size, gotSize)
			assert.Equal(t, "video/mp4", contentType)
			same(t, readerOf(c.size), got)
			w.clean(t)
		})
	}
}

// same compares two streams without holding them.
func same(t *testing.T, want, got io.Reader) {
	t.Helper()
	digest := func(r io.Reader) (string, int64) {
		h := sha256.New()
		n, err := io.Copy(h, r)
		require.NoError(t, err)
		return fmt.Sprintf("%x", h.Sum(nil)), n
	}
	wantDigest, wantSize := digest(want)
	gotDigest, gotSize := digest(got)
	require.Equal(t, wantSize, gotSize)
	assert.Equal(t, wantDigest, gotDigest)
}

// absent makes sure that a put that failed is not seen.
func (w works) absent(t *testing.T, name string) {
	t.Helper()
	_, _, _, err := w.Open(t.Context(), name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	w.clean(t)
}

func (w works) clean(t *testing.T) {
	t.Helper()
	assert.Empty(t, w.backend.Left(t), "uploads that are neither completed nor aborted")
}

func (w works) cut(t *testing.T) {
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		after int64
		err   error
	}{
		"before the first byte":                 {0, reset},
		"within the first part":                 {1000, reset},
		"where the first part ends":             {WorksPart, reset},
		"a byte after":                          {WorksPart + 1, reset},
		"within the third part":                 {2*WorksPart + 5, reset},
		"within the first part, cut short":      {1000, io.ErrUnexpectedEOF},
		"in the third, as a body cut short":     {2*WorksPart + 5, io.ErrUnexpectedEOF},
		"an end that is wrapped in another one": {1000, fmt.Errorf("reading: %w", io.EOF)},
	} {
		for _, size := range []int64{-1, 60_000_000} {
			t.Run(fmt.Sprintf("%s, size %d", name, size), func(t *testing.T) {
				n, read := w.name(), 0
				failing := readFunc(func([]byte) (int, error) {
					read++
					return 0, c.err
				})
				require.ErrorIs(t, w.Put(t.Context(), n, "video/mp4", io.MultiReader(readerOf(c.after), failing), size), c.err)
				assert.Equal(t, 1, read, "a body that failed is not read again")
				w.absent(t, n)
			})
		}
	}
}

func (w works) sized(t *testing.T) {
	for name, c := range map[string]struct{ has, said int64 }{
		"nothing of one byte":          {0, 1},
		"a byte less":                  {999, 1000},
		"a byte more":                  {1001, 1000},
		"a byte of nothing":            {1, 0},
		"a part of two":                {WorksPart, 2 * WorksPart},
		"two of one":                   {2 * WorksPart, WorksPart},
		"a byte less than three parts": {3*WorksPart - 1, 3 * WorksPart},
	} {
		t.Run(name, func(t *testing.T) {
			n := w.name()
			require.Error(t, w.Put(t.Context(), n, "video/mp4", readerOf(c.has), c.said))
			w.absent(t, n)
		})
	}
}

func (w works) replaced(t *testing.T) {
	n := w.name()
	for _, size := range []int64{WorksPart + 1, 10} {
		require.NoError(t, w.Put(t.Context(), n, "video/mp4", readerOf(size), size))
	}
	body, size, _, err := w.Open(t.Context(), n)
	require.NoError(t, err)
	defer body.Close()
	assert.EqualValues(t, 10, size)
	same(t, readerOf(10), body)
}

// answer is what a link is answered with.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// get reads a link with nothing but its address, and perhaps a range.
func get(t *testing.T, link, span string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	require.NoError(t, err)
	if span != "" {
		req.Header.Set("Range", span)
	}
	resp, err := (&http.Client{}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}

func (w works) put(t *testing.T, size int64) (name string) {
	t.Helper()
	name = w.name()
	require.NoError(t, w.Put(t.Context(), name, "video/mp4", readerOf(size), size))
	return name
}

func (w works) links(t *testing.T) {
	const size = WorksPart + 1000
	n, whole := w.put(t, size), bytesOf(size)
	first, err := w.Link(t.Context(), n, "video/webm", "job_1.webm", time.Minute)
	require.NoError(t, err)
	second, err := w.Link(t.Context(), n, "", "", time.Hour)
	require.NoError(t, err)
	for _, link := range []string{first, second, first, second} {
		resp := get(t, link, "")
		require.Equal(t, http.StatusOK, resp.status)
		assert.True(t, bytes.Equal(whole, resp.body))
	}
}

func (w works) named(t *testing.T) {
	w.unlessBlind(t)
	n := w.put(t, 10)
	for name, c := range map[string]struct{ contentType, filename, wantType, wantDisposition string }{
		"neither":          {"", "", "video/mp4", ""},
		"the type":         {"video/webm", "", "video/webm", ""},
		"both":             {"video/webm", "job_1.webm", "video/webm", "attachment; filename=job_1.webm"},
		"one with letters": {"", "späte \"Fahrt\".webm", "video/mp4", "attachment; filename*=utf-8''sp%C3%A4te%20%22Fahrt%22.webm"},
		"one with a line":  {"", "a\r\nSet-Cookie: b", "video/mp4", "attachment; filename*=utf-8''a%0D%0ASet-Cookie%3A%20b"},
	} {
		t.Run(name, func(t *testing.T) {
			link, err := w.Link(t.Context(), n, c.contentType, c.filename, time.Minute)
			require.NoError(t, err)
			resp := get(t, link, "")
			require.Equal(t, http.StatusOK, resp.status)
			assert.Equal(t, c.wantType, resp.header.Get("Content-Type"))
			assert.Equal(t, c.wantDisposition, resp.header.Get("Content-Disposition"))
		})
	}
}

// unlessBlind skips what the backend cannot show.
func (w works) unlessBlind(t *testing.T) {
	t.Helper()
	if w.backend.Blind {
		t.Skip("this emulator reads nothing of a link but the name")
	}
}

func (w works) ranges(t *testing.T) {
	const size = WorksPart + 1000
	n, whole := w.put(t, size), bytesOf(size)
	link, err := w.Link(t.Context(), n, "video/mp4", "", time.Minute)
	require.NoError(t, err)
	for span, c := range map[string]struct{ from, to int64 }{
		"bytes=0-99":                         {0, 100},
		"bytes=8388600-8388700":              {8388600, 8388701}, // across two parts
		"bytes=-10":                          {size - 10, size},
		fmt.Sprintf("bytes=%d-", size-1):     {size - 1, size},
		fmt.Sprintf("bytes=0-%d", size+1000): {0, size},
	} {
		t.Run(span, func(t *testing.T) {
			resp := get(t, link, span)
			require.Equal(t, http.StatusPartialContent, resp.status)
			assert.Equal(t, fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, size), resp.header.Get("Content-Range"))
			assert.True(t, bytes.Equal(whole[c.from:c.to], resp.body))
		})
	}
}

func (w works) ends(t *testing.T) {
	w.unlessBlind(t)
	link, err := w.Link(t.Context(), w.put(t, 10), "video/mp4", "", time.Second)
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return get(t, link, "").status == http.StatusForbidden }, 5*time.Second, 100*time.Millisecond)
}
