package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	shape "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	bucket "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/breaker"
	"spillway/internal/dynamo"
	"spillway/internal/idempotency"
	"spillway/internal/s3store"
	"spillway/internal/simulate"
	"spillway/internal/storetest"
)

// cloud is an emulator of AWS outside of any bubble.
type cloud struct{ endpoint string }

// clouds are the emulators that a test runs against: the embedded one always, and what AWS_ENDPOINT_URL names.
func clouds(t *testing.T, test func(*testing.T, cloud)) {
	t.Run("kumo", func(t *testing.T) { test(t, embedded()) })
	t.Run("endpoint", func(t *testing.T) {
		endpoint := os.Getenv("AWS_ENDPOINT_URL")
		if endpoint == "" {
			t.Skip("AWS_ENDPOINT_URL names no endpoint; `make test-aws` sets it")
		}
		test(t, cloud{endpoint})
	})
}

// embedded is the one in the process. There is one for all tests: its services are shared by all servers, and a server that
// is made while another one works is a race.
var embedded = sync.OnceValue(func() cloud { return cloud{kumo.NewServer().URL} })

// single makes each call over a connection of its own, and reads the answer at once. A connection that is kept alive is
// read all the time, and a bubble in which somebody reads from the network never sees its clock move.
type single struct{}

func (single) RoundTrip(r *http.Request) (*http.Response, error) {
	var d net.Dialer
	conn, err := d.DialContext(r.Context(), "tcp", r.URL.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	r = r.Clone(r.Context())
	r.Close = true
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	answers := bufio.NewReader(conn)
	response, err := http.ReadResponse(answers, r)
	for err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(answers, r)
	}
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// config is for calls within a bubble.
func (c cloud) config() aws.Config {
	return aws.Config{Region: "eu-central-1", BaseEndpoint: &c.endpoint, HTTPClient: &http.Client{Transport: single{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		})}
}

// setup is for what is made outside of the bubble.
func (c cloud) setup() aws.Config {
	config := c.config()
	config.HTTPClient = nil
	return config
}

func (c cloud) table(t *testing.T) string {
	t.Helper()
	api, name := sdk.NewFromConfig(c.setup()), fmt.Sprintf("test-%016x", rand.Uint64())
	_, err := api.CreateTable(t.Context(), &sdk.CreateTableInput{TableName: &name, BillingMode: shape.BillingModePayPerRequest,
		AttributeDefinitions: []shape.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: shape.ScalarAttributeTypeS}},
		KeySchema:            []shape.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: shape.KeyTypeHash}}})
	require.NoError(t, err)
	require.NoError(t, sdk.NewTableExistsWaiter(api).Wait(t.Context(), &sdk.DescribeTableInput{TableName: &name}, 30*time.Second))
	return name
}

func (c cloud) bucket(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("test-%016x", rand.Uint64())
	_, err := s3store.New(c.setup()).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name,
		CreateBucketConfiguration: &bucket.CreateBucketConfiguration{LocationConstraint: bucket.BucketLocationConstraintEuCentral1}})
	require.NoError(t, err)
	return name
}

// stores are the gateway's stores in a cloud, with what goes wrong with the calls of each.
type stores struct {
	keys, objects, health storetest.Faults
	claims                *dynamo.Idempotency
	circuits              *dynamo.Health
}

// inCloud runs a test with a gateway whose stores are in a cloud.
func inCloud(t *testing.T, c cloud, s settings, test func(*testing.T, *world, *stores)) {
	t.Helper()
	keys, health, objects := c.table(t), c.table(t), c.bucket(t)
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		all := &stores{}
		tables := dynamo.New(c.config())
		all.claims = &dynamo.Idempotency{API: storetest.Table{API: tables, Faults: &all.keys}, Table: keys}
		s.claims = all.claims
		s.objects = &s3store.Objects{API: storetest.Bucket{API: s3store.New(c.config()), Faults: &all.objects}, Bucket: objects}
		all.circuits = &dynamo.Health{API: storetest.Table{API: tables, Faults: &all.health}, Table: health}
		s.health = &breaker.Fleet{Store: all.circuits}
		w.handler = w.gateway(t, s)
		test(t, w, all)
	})
}

// failing is a plan in which calls of one operation, "": of any, fail: the first n, 0: all.
func failing(call string, n int, f storetest.Fault) func(string, int) storetest.Fault {
	return func(c string, i int) storetest.Fault {
		if call != "" && c != call || n > 0 && i > n {
			return storetest.Fault{}
		}
		return f
	}
}

// TestEveryWriteOfAKeyFailsInEveryWay: a write of the table fails, with or without an effect, or its answer is late. The
// request is repeated when the table is well again.
func TestEveryWriteOfAKeyFailsInEveryWay(t *testing.T) {
	c := embedded()
	runs, unknown := asks("alone", false), asks("nothing", false)
	for name, r := range map[string]struct {
		call     string
		times    int
		lost     bool
		slow     time.Duration
		body     string
		status   int
		trace    string
		kept     string
		returned time.Duration
		again    int
		replayed bool
	}{
		"a claim that was not written is made again":                      {call: "PutItem", times: 1, lost: true, body: runs, status: 200, trace: "A", kept: "stored", returned: 50 * time.Millisecond, again: 200, replayed: true},
		"a claim that was written is found":                               {call: "PutItem", times: 1, body: runs, status: 200, trace: "A", kept: "stored", again: 200, replayed: true},
		"a throttled table: 503 after 500 ms, nobody is called":           {call: "PutItem", lost: true, body: runs, status: 503, returned: 500 * time.Millisecond, again: 200},
		"every claim is written, none is answered":                        {call: "PutItem", body: runs, status: 200, trace: "A", kept: "stored", again: 200, replayed: true},
		"nothing works: 503":                                              {lost: true, body: runs, status: 503, returned: 500 * time.Millisecond, again: 200},
		"a claim that was written and cannot be read: 503, until it ends": {body: runs, status: 503, returned: 500 * time.Millisecond, again: 409},
		"a slow claim that was not written is made again":                 {call: "PutItem", times: 1, lost: true, slow: time.Second, body: runs, status: 200, trace: "A", kept: "stored", returned: 350 * time.Millisecond, again: 200, replayed: true},
		"a slow claim that was written is found":                          {call: "PutItem", times: 1, slow: time.Second, body: runs, status: 200, trace: "A", kept: "stored", returned: 300 * time.Millisecond, again: 200, replayed: true},
		"a table that hangs: 503 after 500 ms":                            {lost: true, slow: time.Minute, body: runs, status: 503, returned: 500 * time.Millisecond, again: 200},
		"a table that hangs after the claim: 503 after 500 ms":            {slow: time.Minute, body: runs, status: 503, returned: 500 * time.Millisecond, again: 409},

		"a result that was not written is written again":   {call: "UpdateItem", times: 1, lost: true, body: runs, status: 200, trace: "A", kept: "stored", again: 200, replayed: true},
		"a result that was written is found":               {call: "UpdateItem", times: 1, body: runs, status: 200, trace: "A", kept: "stored", again: 200, replayed: true},
		"B37 e: no result is written: the client has it":   {call: "UpdateItem", lost: true, body: runs, status: 200, trace: "A", kept: "store_failed", again: 409},
		"every result is written, none is answered":        {call: "UpdateItem", body: runs, status: 200, trace: "A", kept: "stored", again: 200, replayed: true},
		"a slow result that is not written":                {call: "UpdateItem", lost: true, slow: time.Minute, body: runs, status: 200, trace: "A", kept: "store_failed", returned: 1500 * time.Millisecond, again: 409},
		"a slow result that is written is there all right": {call: "UpdateItem", slow: time.Minute, body: runs, times: 1, status: 200, trace: "A", kept: "stored", returned: 750 * time.Millisecond, again: 200, replayed: true},

		"a release that was not made is made again":     {call: "DeleteItem", times: 1, lost: true, body: unknown, status: 404, kept: "released", again: 404},
		"a release that was made is found":              {call: "DeleteItem", times: 1, body: unknown, status: 404, kept: "released", again: 404},
		"no release is made: the key frees itself":      {call: "DeleteItem", lost: true, body: unknown, status: 404, kept: "release_failed", again: 409},
		"every release is made, none is answered":       {call: "DeleteItem", body: unknown, status: 404, kept: "release_failed", again: 404},
		"a slow release that is not made":               {call: "DeleteItem", lost: true, slow: time.Minute, body: unknown, status: 404, kept: "release_failed", returned: 1500 * time.Millisecond, again: 409},
		"a slow release that is made has freed the key": {call: "DeleteItem", slow: time.Minute, body: unknown, status: 404, kept: "release_failed", returned: 1500 * time.Millisecond, again: 404},
	} {
		errs := storetest.Errors()
		if r.slow > 0 {
			errs = map[string]error{"slow": nil}
		}
		for kind, err := range errs {
			t.Run(name+", "+kind, func(t *testing.T) {
				inCloud(t, c, settings{}, func(t *testing.T, w *world, s *stores) {
					w.provider.Script("a-1", alpha.says("Hello"), alpha.says("Hello"))
					s.keys.Set(failing(r.call, r.times, storetest.Fault{Lost: r.lost, Err: err, Takes: r.slow}))
					first := w.do(t, keyed("k", r.body))
					s.keys.Set(nil)
					assert.Equal(t, r.status, first.status, first.body)
					assert.Equal(t, r.trace, trace(first.calls))
					assert.Equal(t, r.kept, lastIdempotency(first))
					assert.Equal(t, r.returned, first.returned)
					if r.status == 503 {
						checkError(t, first, true)
						assert.Equal(t, "store_unavailable", gjson.Get(first.body, "error.code").Str)
					}
					if r.status == 200 {
						assert.Zero(t, first.pieces[len(first.pieces)-1].at-first.committed(), "the answer does not wait for its record")
					}
					again := w.do(t, keyed("k", r.body))
					assert.Equal(t, r.again, again.status, again.body)
					assert.Equal(t, r.replayed, again.header.Get("Idempotent-Replayed") == "true")
					if r.again == 409 {
						time.Sleep(126 * time.Second)
						want := r.status
						if want == 503 {
							want = 200
						}
						assert.Equal(t, want, w.do(t, keyed("k", r.body)).status, "its time has run out")
					}
				})
			})
		}
	}
}

// noise is a text of n characters that gzip makes a quarter shorter, and no more.
func noise(n int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	random, out := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range out {
		out[i] = letters[random.IntN(len(letters))]
	}
	return string(out)
}

// wide is a text of n characters of three bytes each.
func wide(n int) string {
	random, out := rand.New(rand.NewPCG(3, 4)), make([]rune, n)
	for i := range out {
		out[i] = rune(0x4e00 + random.IntN(0x5000))
	}
	return string(out)
}

// says is an answer in pieces that a frame can hold.
func says(text string) simulate.Reply {
	var pieces []string
	for letters := []rune(text); len(letters) > 0; {
		n := min(len(letters), 100_000)
		pieces, letters = append(pieces, string(letters[:n])), letters[n:]
	}
	return alpha.says(pieces...)
}

// TestLargeAnswers are B37 a to d, with the size limit of a strict emulator where there is one.
func TestLargeAnswers(t *testing.T) {
	clouds(t, func(t *testing.T, c cloud) {
		for name, r := range map[string]struct {
			text   string
			object bool
		}{
			"B37 a: 300 KB packed stand in the record":                   {text: noise(390_000)},
			"B37 b: 401 KB packed are an object":                         {text: noise(530_000), object: true},
			"B37 c: 3 MB packed are an object":                           {text: noise(4_000_000), object: true},
			"B37 d: 200 000 characters of three bytes each":              {text: wide(200_000), object: true},
			"4 MB of one letter are small once packed, and come as 4 MB": {text: strings.Repeat("a", 4_000_000)},
		} {
			for mode, stream := range map[string]bool{"plain": false, "stream": true} {
				t.Run(name+", "+mode, func(t *testing.T) {
					inCloud(t, c, settings{}, func(t *testing.T, w *world, s *stores) {
						w.provider.Script("a-1", says(r.text))
						first := w.do(t, keyed("k", asks("alone", stream)))
						require.Equal(t, 200, first.status)
						require.Equal(t, "stored", lastIdempotency(first), first.raw)
						there, err := s.claims.Get(t.Context(), idempotency.Key{Organization: "org", Key: "k"})
						require.NoError(t, err)
						assert.Equal(t, r.object, there.Result.Object != nil)
						assert.Equal(t, r.object, s.objects.Calls()["PutObject"] == 1)
						assert.Equal(t, r.object, len(there.Result.Body) == 0)
						assert.EqualValues(t, len(first.body), there.Result.Size)
						again := w.do(t, keyed("k", asks("alone", stream)))
						assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
						assert.True(t, first.body == again.body, "%d and %d bytes", len(first.body), len(again.body))
						assert.Empty(t, again.calls)
					})
				})
			}
		}
	})
}

// TestEveryCallOfTheBucketFailsInEveryWay: an answer that is too large for a record.
func TestEveryCallOfTheBucketFailsInEveryWay(t *testing.T) {
	c := embedded()
	large := says(noise(600_000))
	for name, r := range map[string]struct {
		first, second storetest.Fault // of the bucket, while the first and while the second request are served
		call          string
		times         int
		record        bool // the table fails, not the bucket
		kept          string
		returned      time.Duration
		again         int
		waited        time.Duration
	}{
		"an object that was not written is written again":         {call: "PutObject", times: 1, first: storetest.Fault{Lost: true}, kept: "stored", again: 200},
		"B37 f: an object that was written is written over":       {call: "PutObject", times: 1, kept: "stored", again: 200},
		"no object is written, and so no record of it":            {call: "PutObject", first: storetest.Fault{Lost: true}, kept: "store_failed", again: 409},
		"an object that nobody knows to be there has no record":   {call: "PutObject", kept: "store_failed", again: 409},
		"a slow object is given up":                               {call: "PutObject", first: storetest.Fault{Takes: time.Minute}, kept: "store_failed", returned: 1500 * time.Millisecond, again: 409},
		"B37 f: the object is written, the record is not":         {call: "UpdateItem", record: true, first: storetest.Fault{Lost: true}, kept: "store_failed", again: 409},
		"an object that cannot be read: 503, and it is not lost":  {call: "GetObject", second: storetest.Fault{Lost: true}, kept: "stored", again: 503},
		"an object that hangs: 503 after 5 s, and it is not lost": {call: "GetObject", second: storetest.Fault{Lost: true, Takes: time.Minute}, kept: "stored", again: 503, waited: 5 * time.Second},
	} {
		for _, kind := range []string{"connection reset", "deadline"} {
			err, slow := storetest.Errors()[kind], r.first.Takes+r.second.Takes > 0
			if slow && kind != "deadline" { // the error is the context's own
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				inCloud(t, c, settings{}, func(t *testing.T, w *world, s *stores) {
					w.provider.Script("a-1", large, large)
					faults := &s.objects
					if r.record {
						faults = &s.keys
					}
					if !slow {
						r.first.Err, r.second.Err = err, err
					}
					if r.call != "GetObject" {
						faults.Set(failing(r.call, r.times, r.first))
					}
					first := w.do(t, keyed("k", asks("alone", true)))
					assert.Equal(t, 200, first.status)
					assert.Equal(t, r.kept, lastIdempotency(first))
					assert.Equal(t, r.returned, first.returned)
					faults.Set(nil)
					if r.kept != "stored" {
						there, err := s.claims.Get(t.Context(), idempotency.Key{Organization: "org", Key: "k"})
						require.NoError(t, err)
						assert.Equal(t, idempotency.InProgress, there.Status, "no half record")
						assert.Nil(t, there.Result)
					}
					if r.call == "GetObject" {
						faults.Set(failing(r.call, r.times, r.second))
					}
					again := w.do(t, keyed("k", asks("alone", true)))
					assert.Equal(t, r.again, again.status)
					assert.Equal(t, r.waited, again.returned)
					assert.Empty(t, again.calls)
					faults.Set(nil)
					if r.again != 409 {
						assert.True(t, first.body == w.do(t, keyed("k", asks("alone", true))).body, "it is replayed")
						return
					}
					time.Sleep(96 * time.Second)
					last := w.do(t, keyed("k", asks("alone", true)))
					assert.Equal(t, "stored", lastIdempotency(last), "its time has run out: it runs anew")
				})
			})
		}
	}
}

// TestAHealthWriteThatFailsIsDroppedAndCounted: it costs a failing call 250 ms at most, and changes no answer.
func TestAHealthWriteThatFailsIsDroppedAndCounted(t *testing.T) {
	c := embedded()
	serve := func(t *testing.T, f storetest.Fault) (o, next outcome, calls map[string]int) {
		t.Helper()
		inCloud(t, c, settings{}, func(t *testing.T, w *world, s *stores) {
			w.provider.Script("a-1", unavailable(), unavailable(), unavailable())
			w.provider.Script("b-9", beta.says("Hello"), beta.says("Hello"))
			s.health.Set(failing("", 0, f))
			o = w.do(t, request{body: asks("fast", true)})
			next = w.do(t, request{body: asks("fast", true)})
			calls = s.health.Calls()
		})
		return o, next, calls
	}
	healthy, then, _ := serve(t, storetest.Fault{})
	require.NotContains(t, healthy.raw+then.raw, "store_lost")
	require.Equal(t, "closed>open:failure_rate", then.transitions())
	for kind, err := range storetest.Errors() {
		for name, lost := range map[string]bool{"without an effect": true, "with its effect": false} {
			t.Run(kind+", "+name, func(t *testing.T) {
				o, next, calls := serve(t, storetest.Fault{Lost: lost, Err: err})
				assert.Equal(t, 200, o.status)
				assert.Equal(t, healthy.text(t), o.text(t))
				assert.Equal(t, trace(healthy.calls), trace(o.calls))
				assert.Equal(t, healthy.returned, o.returned)
				assert.Contains(t, o.raw, `"msg":"store_lost"`)
				assert.Contains(t, o.raw, `"StoreErrors"`)
				assert.Equal(t, then.transitions(), next.transitions(), "its own circuit goes on")
				assert.Equal(t, trace(then.calls), trace(next.calls))
				assert.Positive(t, calls["UpdateItem"])
			})
		}
	}
	t.Run("hangs", func(t *testing.T) {
		o, next, _ := serve(t, storetest.Fault{Lost: true, Takes: time.Minute})
		assert.Equal(t, healthy.text(t), o.text(t))
		assert.Equal(t, healthy.status, o.status)
		assert.Contains(t, o.raw, `"msg":"store_lost"`)
		assert.LessOrEqual(t, o.committed(), healthy.committed()+2*250*time.Millisecond+25*time.Millisecond, "250 ms for each of two failures, and 25 ms before planning")
		assert.LessOrEqual(t, next.committed(), then.committed()+250*time.Millisecond+25*time.Millisecond)
		assert.Equal(t, then.transitions(), next.transitions())
	})
}

// TestARecordPastItsRetentionIsAbsent: the table's own sweeping may be days late, and neither emulator sweeps.
func TestARecordPastItsRetentionIsAbsent(t *testing.T) {
	clouds(t, func(t *testing.T, c cloud) {
		inCloud(t, c, settings{}, func(t *testing.T, w *world, s *stores) {
			w.provider.Script("a-1", alpha.says("Hello"), alpha.says("again"))
			require.Equal(t, 200, w.do(t, keyed("k", asks("alone", false))).status)
			time.Sleep(24*time.Hour - 2*time.Second)
			assert.Equal(t, "true", w.do(t, keyed("k", asks("alone", false))).header.Get("Idempotent-Replayed"))
			time.Sleep(3 * time.Second)
			there, err := s.claims.Get(t.Context(), theKey)
			require.NoError(t, err)
			require.NotNil(t, there, "it still stands in the table")
			anew := w.do(t, keyed("k", asks("alone", false)))
			assert.Empty(t, anew.header.Get("Idempotent-Replayed"))
			assert.Contains(t, anew.body, "again")
			assert.Equal(t, "stored", lastIdempotency(anew))
		})
	})
}

// another is the gateway of an environment beside the first one, over the same tables.
func (s *stores) another(t *testing.T, w *world, more settings) {
	t.Helper()
	more.claims, more.health = s.claims, &breaker.Fleet{Store: &dynamo.Health{API: s.circuits.API, Table: s.circuits.Table}}
	w.handler = w.gateway(t, more)
}

// TestWhoIsToBlameAcrossEnvironments is B16: three in a row at A, and then a request in another environment.
func TestWhoIsToBlameAcrossEnvironments(t *testing.T) {
	c := embedded()
	for name, r := range map[string]struct {
		reply  simulate.Reply
		stream bool
		leaves time.Duration
		calls  int // of three requests
		next   int // status in the other environment
		trace  string
	}{
		"a: a model that does not exist is held, not open": {reply: fails(404, "invalid_request_error", "model_not_found"), calls: 1, next: 502},
		"b: an invalid request":                            {reply: fails(400, "invalid_request_error", ""), calls: 3, next: 200, trace: "A"},
		"c: cancelled by the client":                       {reply: late(time.Second, alpha.says("x")), leaves: 500 * time.Millisecond, calls: 3, next: 200, trace: "A"},
		"e: a bad key is held, not open":                   {reply: badKey(), calls: 1, next: 502},
		"f: 500":                                           {reply: fails(500, "server_error", ""), calls: 3, next: 503},
		"g: a stream that is cut":                          {reply: cut(alpha.role(), alpha.text("Hel")), stream: true, calls: 3, next: 503},
		"h: no choices":                                    {reply: body(`{"id":"x","object":"chat.completion","model":"a-1","choices":[]}`), calls: 3, next: 503},
	} {
		t.Run(name, func(t *testing.T) {
			set := settings{route: `"max_attempts": 1`}
			inCloud(t, c, set, func(t *testing.T, w *world, s *stores) {
				w.provider.Script("a-1", r.reply, r.reply, r.reply)
				for range 3 {
					w.do(t, request{body: asks("alone", r.stream), leaves: departure{after: r.leaves}})
				}
				assert.Len(t, w.calls(), r.calls)
				s.another(t, w, set)
				w.provider.Script("a-1", alpha.says("Hello"))
				o := w.do(t, request{body: asks("alone", false)})
				assert.Equal(t, r.next, o.status, o.body)
				assert.Equal(t, r.trace, trace(o.calls))
				all, err := s.circuits.Snapshot(t.Context())
				require.NoError(t, err)
				k := breaker.Key{Provider: "alpha", Model: "a-1", Credential: "a-key"}
				assert.Equal(t, r.next == 503, all[k.String()].Circuit.State == breaker.Open)
			})
		})
	}
	t.Run("d: 429 with a hint of 5 s: it is left alone so long, and then used at once", func(t *testing.T) {
		set := settings{route: `"max_attempts": 1`}
		inCloud(t, c, set, func(t *testing.T, w *world, s *stores) {
			limited := with(fails(429, "requests", "rate_limit_exceeded"), "Retry-After", "5")
			w.provider.Script("a-1", limited, limited)
			for range 3 {
				w.do(t, request{body: asks("alone", false)})
			}
			assert.Len(t, w.calls(), 2, "the second refusal holds")
			s.another(t, w, set)
			held := w.do(t, request{body: asks("alone", false)})
			assert.Equal(t, "all_credentials_rate_limited", gjson.Get(held.body, "error.code").Str)
			assert.Equal(t, "5", held.header.Get("Retry-After"))
			time.Sleep(5 * time.Second)
			w.provider.Script("a-1", alpha.says("Hello"))
			assert.Equal(t, 200, w.do(t, request{body: asks("alone", false)}).status)
		})
	})
}

// TestEverythingIsCoolingDownElsewhere is B17 a in an environment that has seen none of it.
func TestEverythingIsCoolingDownElsewhere(t *testing.T) {
	inCloud(t, embedded(), settings{}, func(t *testing.T, w *world, s *stores) {
		now := time.Now()
		for model, c := range map[string]breaker.Circuit{
			"a-1": {State: breaker.Open, Version: 1, Opens: 1, OpenedAt: now, Until: now.Add(40 * time.Second), Class: "overloaded"},
			"b-9": {State: breaker.Open, Version: 1, Opens: 1, OpenedAt: now, Until: now.Add(10 * time.Second), Class: "server_error"},
		} {
			provider := map[string]string{"a-1": "alpha", "b-9": "beta"}[model]
			_, err := s.circuits.Swap(t.Context(), breaker.Key{Provider: provider, Model: model, Credential: strings.ToLower(letters[model]) + "-key"}, 0, c, now)
			require.NoError(t, err)
		}
		o := w.do(t, request{body: asks("fast", false)})
		checkError(t, o, true)
		assert.Equal(t, 503, o.status)
		assert.Empty(t, o.calls)
		assert.Equal(t, "10", o.header.Get("Retry-After"))
		e := gjson.Get(o.body, "error")
		assert.Equal(t, "provider_unavailable", e.Get("code").Str)
		assert.Equal(t, `["overloaded","server_error"]`, e.Get("attempts.#.class").Raw)
	})
}
