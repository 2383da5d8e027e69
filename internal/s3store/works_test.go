package s3store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/s3store"
	"spillway/internal/storetest"
)

const mega = 1 << 20

// zeros is a body of so many bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestAnUploadThatFailsIsAborted(t *testing.T) {
	api := client(embedded().URL)
	bucket := create(t, api)
	lost := errors.New("connection reset")
	at := func(what string, nth int) func(string, int) storetest.Fault {
		return func(call string, n int) storetest.Fault {
			if call == what && n == nth {
				return storetest.Fault{Lost: true, Err: lost}
			}
			return storetest.Fault{}
		}
	}
	for name, c := range map[string]struct {
		plan    func(string, int) storetest.Fault
		size    int64
		calls   map[string]int
		visible bool
	}{
		"the one call": {at("PutObject", 1), 10, map[string]int{"PutObject": 1}, false},
		"its beginning: there is nothing to abort": {at("CreateMultipartUpload", 1), 20 * mega, map[string]int{"CreateMultipartUpload": 1}, false},
		"its first part":           {at("UploadPart", 1), 20 * mega, map[string]int{"CreateMultipartUpload": 1, "UploadPart": 1, "AbortMultipartUpload": 1}, false},
		"its last part":            {at("UploadPart", 3), 20 * mega, map[string]int{"CreateMultipartUpload": 1, "UploadPart": 3, "AbortMultipartUpload": 1}, false},
		"a part that has arrived":  {arrived("UploadPart", lost), 20 * mega, map[string]int{"CreateMultipartUpload": 1, "UploadPart": 1, "AbortMultipartUpload": 1}, false},
		"its end":                  {at("CompleteMultipartUpload", 1), 20 * mega, map[string]int{"CreateMultipartUpload": 1, "UploadPart": 3, "CompleteMultipartUpload": 1, "AbortMultipartUpload": 1}, false},
		"its end that has arrived": {arrived("CompleteMultipartUpload", lost), 20 * mega, map[string]int{"CreateMultipartUpload": 1, "UploadPart": 3, "CompleteMultipartUpload": 1, "AbortMultipartUpload": 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			faults := &storetest.Faults{}
			faults.Set(c.plan)
			w := s3store.Works{API: storetest.Bucket{API: api, Faults: faults}, Bucket: bucket}
			key := "media/" + strings.ReplaceAll(name, " ", "-")
			require.ErrorIs(t, w.Put(t.Context(), key, "video/mp4", zeros(c.size), c.size), lost)
			assert.Equal(t, c.calls, faults.Calls(), "each call is made once")
			body, size, _, err := w.Open(t.Context(), key)
			if assert.Equal(t, c.visible, err == nil) && c.visible {
				assert.Equal(t, c.size, size, "what is shown is whole")
				_ = body.Close()
			}
			left, err := api.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &bucket})
			require.NoError(t, err)
			assert.Empty(t, left.Uploads)
		})
	}
}

// arrived loses the answer of the first call of an operation.
func arrived(what string, err error) func(string, int) storetest.Fault {
	return func(call string, n int) storetest.Fault {
		if call == what && n == 1 {
			return storetest.Fault{Err: err}
		}
		return storetest.Fault{}
	}
}

// scripted is S3 as far as a failed upload needs it. Its zero value takes everything.
type scripted struct {
	s3store.WorksAPI
	abort func(context.Context) error
}

func (scripted) CreateMultipartUpload(context.Context, *s3.CreateMultipartUploadInput, ...func(*s3.Options)) (*s3.CreateMultipartUploadOutput, error) {
	return &s3.CreateMultipartUploadOutput{UploadId: aws.String("upload")}, nil
}

func (scripted) UploadPart(ctx context.Context, _ *s3.UploadPartInput, _ ...func(*s3.Options)) (*s3.UploadPartOutput, error) {
	return &s3.UploadPartOutput{ETag: aws.String("etag")}, ctx.Err()
}

func (s scripted) AbortMultipartUpload(ctx context.Context, _ *s3.AbortMultipartUploadInput, _ ...func(*s3.Options)) (*s3.AbortMultipartUploadOutput, error) {
	return &s3.AbortMultipartUploadOutput{}, s.abort(ctx)
}

func TestAnAbortHasAShortTimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		aborted := 0
		w := s3store.Works{API: scripted{abort: func(ctx context.Context) error {
			aborted++
			require.NoError(t, ctx.Err(), "it is not the caller's time")
			<-ctx.Done()
			return ctx.Err()
		}}, Bucket: "b"}
		began := time.Now()
		err := w.Put(ctx, "media/x", "video/mp4", io.MultiReader(zeros(9*mega), call(cancel)), -1)
		require.ErrorIs(t, err, context.Canceled, "what went wrong first is told")
		require.ErrorContains(t, err, "aborting an upload")
		assert.Equal(t, 1, aborted)
		assert.Equal(t, 2*time.Second, time.Since(began))
	})
}

// call is an empty body that does something when it is read.
func call(do func()) io.Reader { return reader(func([]byte) (int, error) { do(); return 0, io.EOF }) }

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestAnUploadIsAbortedWhenItsBodyPanics(t *testing.T) {
	aborted := 0
	w := s3store.Works{API: scripted{abort: func(context.Context) error { aborted++; return nil }}, Bucket: "b"}
	assert.Panics(t, func() {
		_ = w.Put(t.Context(), "media/x", "video/mp4", io.MultiReader(zeros(9*mega), call(func() { panic("a body") })), -1)
	})
	assert.Equal(t, 1, aborted)
}

// recorder answers the SDK's requests without a server, which would allocate too, and notes what they were.
type recorder struct {
	mu       sync.Mutex
	requests []*http.Request
	largest  int64
}

func (w *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	n := int64(0)
	if r.Body != nil {
		var err error
		if n, err = io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests, w.largest = append(w.requests, r), max(w.largest, n)
	answer := ""
	switch {
	case r.URL.Query().Has("uploads"):
		answer = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
	case r.Method == http.MethodPost:
		answer = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Etag": {`"e"`}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

func (w *recorder) works(endpoint string) *s3store.Works {
	c := aws.Config{Region: "eu-central-1", HTTPClient: &http.Client{Transport: w}, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret", SessionToken: "session"}, nil
	})}
	if endpoint != "" {
		c.BaseEndpoint = &endpoint
	}
	return s3store.NewWorks(s3store.New(c), "bucket")
}

func TestMemoryOfAPutDoesNotGrowWithItsBody(t *testing.T) {
	for name, endpoint := range map[string]string{"over TLS, as in AWS": "", "over plain HTTP": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			w := &recorder{}
			works := w.works(endpoint)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.NoError(t, works.Put(t.Context(), "media/x", "video/mp4", zeros(60_000_000), -1))
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("60 MB: %.1f MB allocated in all", float64(allocated)/1e6)
			assert.Less(t, allocated, uint64(12*mega))
			assert.EqualValues(t, 8*mega, w.largest, "a part")
			assert.Len(t, w.requests, 1+8+1)
		})
	}
}

func TestABodyIsHashedOnlyWhereNothingElseGuardsIt(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint, host string
		unsigned       bool
	}{
		"over TLS, as in AWS": {"", "bucket.s3.eu-central-1.amazonaws.com", true},
		"over plain HTTP":     {"http://127.0.0.1:1", "127.0.0.1:1", false},
	} {
		for _, size := range []int64{10, 9 * mega} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				w := &recorder{}
				require.NoError(t, w.works(c.endpoint).Put(t.Context(), "media/x", "video/mp4", zeros(size), size))
				for _, r := range w.requests {
					assert.Equal(t, c.host, r.URL.Host)
					if r.Method != http.MethodPut {
						continue
					}
					assert.Equal(t, c.unsigned, r.Header.Get("X-Amz-Content-Sha256") == "UNSIGNED-PAYLOAD")
					assert.Empty(t, r.Header.Get("Content-Encoding"), "it is not sent in signed chunks")
					assert.Empty(t, r.TransferEncoding)
				}
			})
		}
	}
}

func TestALinkAsksItsReaderForNoHeader(t *testing.T) {
	w := &recorder{}
	link, err := w.works("").Link(t.Context(), "media/acme/job_1/a b", "video/mp4", "job_1.mp4", 90*time.Second+time.Millisecond)
	require.NoError(t, err)
	u, err := url.Parse(link)
	require.NoError(t, err)
	assert.Equal(t, "https://bucket.s3.eu-central-1.amazonaws.com/media/acme/job_1", u.Scheme+"://"+u.Host+path.Dir(u.Path))
	q := u.Query()
	assert.Equal(t, "host", q.Get("X-Amz-SignedHeaders"), "emulators do not notice any other")
	assert.Equal(t, "90", q.Get("X-Amz-Expires"))
	assert.Equal(t, "session", q.Get("X-Amz-Security-Token"))
	assert.Empty(t, w.requests, "a link takes no call")
}
