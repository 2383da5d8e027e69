package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"spillway/internal/idempotency"
	"spillway/internal/simulate"
)

func keyed(key, body string, more ...string) request {
	r := request{body: body, header: http.Header{"Idempotency-Key": {key}}}
	for i := 0; i < len(more); i += 2 {
		r.header.Set(more[i], more[i+1])
	}
	return r
}

func asks(model string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"PROMPT-TEXT"}]}`, model, stream)
}

func TestARepeatedRequestIsReplayed(t *testing.T) {
	for name, stream := range map[string]bool{"a plain answer": false, "a stream as a stream": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{claims: &idempotency.Memory{}}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", alpha.says("Hel", "lo"))
				first := w.do(t, keyed("k1", asks("fast", stream)))
				require.Equal(t, 200, first.status)
				assert.Equal(t, "stored", lastIdempotency(first))
				again := w.do(t, keyed("k1", asks("fast", stream), "X-Llm-Timeout-Ms", "9000", "Prefer", "wait=5"))
				assert.Equal(t, 200, again.status)
				assert.Equal(t, first.body, again.body)
				assert.Empty(t, again.calls, "the provider is not called again")
				assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
				assert.Empty(t, first.header.Get("Idempotent-Replayed"))
				for _, name := range []string{"Content-Type", "X-Llm-Provider", "X-Llm-Model", "X-Llm-Attempts", "X-Llm-Fallback", "X-Llm-Route"} {
					assert.Equal(t, first.header.Get(name), again.header.Get(name), name)
				}
				assert.Equal(t, "replayed", lastIdempotency(again))
				w.provider.Script("a-1", alpha.says("other"))
				assert.Contains(t, w.do(t, keyed("k2", asks("fast", stream))).body, "other", "another key runs")
			})
		})
	}
}

// lastIdempotency is what the request's record says of its key.
func lastIdempotency(o outcome) (last string) {
	for line := range strings.Lines(o.raw) {
		if gjson.Get(line, "msg").String() == "request_finished" {
			last = gjson.Get(line, "idempotency").String()
		}
	}
	return last
}

func TestWhatAKeyGets(t *testing.T) {
	refused := fails(400, "invalid_request_error", "content_policy_violation")
	for name, c := range map[string]struct {
		a      []simulate.Reply
		first  request
		second request
		trace  string // of both
		status int    // of the second
		code   string
		kept   string // the first's key
	}{
		"a refusal is kept": {a: one(refused), first: keyed("k", asks("alone", false)), second: keyed("k", asks("alone", false)), trace: "A", status: 502, code: "provider_error", kept: "stored"},
		"a failure frees the key": {a: []simulate.Reply{fails(401, "invalid_request_error", "invalid_api_key"), alpha.says("x")}, first: keyed("k", asks("alone", false)), second: keyed("k", asks("alone", false)),
			trace: "A", status: 502, code: "provider_error", kept: "released"}, // the hold answers the second from memory
		"B20: a cut stream frees the key":                   {a: []simulate.Reply{cut(alpha.role(), alpha.text("Hel")), alpha.says("whole")}, first: keyed("k", asks("alone", true)), second: keyed("k", asks("alone", true)), trace: "A A", status: 200, kept: "released"},
		"B36 a: another body":                               {a: one(alpha.says("x")), first: keyed("k", asks("alone", false)), second: keyed("k", strings.Replace(asks("alone", false), "PROMPT-TEXT", "other", 1)), trace: "A", status: 409, code: "idempotency_conflict", kept: "stored"},
		"B36 c: another order and more spaces is the same":  {a: one(alpha.says("x")), first: keyed("k", asks("alone", false)), second: keyed("k", `{ "messages": [ {"content":"PROMPT-TEXT","role":"user"} ], "stream":false, "model":"alone" }`), trace: "A", status: 200, kept: "stored"},
		"B36 e: stream flipped":                             {a: one(alpha.says("x")), first: keyed("k", asks("alone", false)), second: keyed("k", asks("alone", true)), trace: "A", status: 409, code: "idempotency_conflict", kept: "stored"},
		"an unknown model frees the key":                    {first: keyed("k", asks("nothing", false)), second: keyed("k", asks("nothing", false)), status: 404, code: "model_not_found", kept: "released"},
		"an empty key":                                      {first: keyed("", asks("alone", false)), second: keyed("", asks("alone", false)), status: 400, code: "validation_failed"},
		"a key of 256 characters":                           {first: keyed(strings.Repeat("é", 256), asks("alone", false)), second: keyed(strings.Repeat("é", 256), asks("alone", false)), status: 400, code: "validation_failed"},
		"a key of 255 characters":                           {a: one(alpha.says("x")), first: keyed(strings.Repeat("é", 255), asks("alone", false)), second: keyed(strings.Repeat("é", 255), asks("alone", false)), trace: "A", status: 200, kept: "stored"},
		"a body that is refused claims nothing":             {first: keyed("k", `{"model":`), second: keyed("k", `{"model":`), status: 400, code: "validation_failed"},
		"a held-back whole answer is kept as it was sent":   {a: one(alpha.says("x")), first: keyed("k", asks("alone", true), "X-Llm-Commit", "complete"), second: keyed("k", asks("alone", true)), trace: "A", status: 200, kept: "stored"},
		"two keys in one request":                           {first: twoKeys(), second: twoKeys(), status: 400, code: "validation_failed"},
		"no provider is contacted when the key is replayed": {a: one(alpha.says("x")), first: keyed("k", asks("fast", false)), second: keyed("k", asks("fast", false)), trace: "A", status: 200, kept: "stored"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{claims: &idempotency.Memory{}}, func(t *testing.T, w *world) {
				if len(c.a) > 0 {
					w.provider.Script("a-1", c.a...)
				}
				first := w.do(t, c.first)
				assert.Equal(t, c.kept, lastIdempotency(first))
				second := w.do(t, c.second)
				assert.Equal(t, c.trace, trace(append(first.calls, second.calls...)))
				assert.Equal(t, c.status, second.status, second.body)
				assert.Equal(t, c.code, gjson.Get(second.body, "error.code").String())
				if c.status == 409 {
					assert.Empty(t, second.header.Get("Retry-After"))
					assert.Equal(t, "false", second.header.Get("X-Should-Retry"))
					assert.Empty(t, gjson.Get(second.body, "error.retry_after").Int())
				}
			})
		})
	}
}

func twoKeys() request {
	r := keyed("a", asks("alone", false))
	r.header["Idempotency-Key"] = []string{"a", "b"}
	return r
}

// race serves many requests at once and returns their answers.
func (w *world) race(t *testing.T, requests []request) []*httptest.ResponseRecorder {
	t.Helper()
	answers := make([]*httptest.ResponseRecorder, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		answers[i] = httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(r.body))
		for name, values := range r.header {
			req.Header[name] = values
		}
		req.Header.Set("Authorization", "Bearer "+clientKey)
		all.Go(func() { w.handler.ServeHTTP(answers[i], req) })
	}
	all.Wait()
	return answers
}

func TestRequestsAtOnceWithOneKey(t *testing.T) {
	body := asks("alone", false)
	t.Run("the others are told to come back, and then replay", func(t *testing.T) {
		inBubble(t, settings{claims: &idempotency.Memory{}}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", late(3*time.Second, alpha.says("Hello")))
			requests := make([]request, 50)
			for i := range requests {
				requests[i] = keyed("k", body)
			}
			served, refused := 0, 0
			for _, a := range w.race(t, requests) {
				switch a.Code {
				case 200:
					served++
				case 409:
					refused++
					assert.Equal(t, "idempotency_conflict", gjson.Get(a.Body.String(), "error.code").String())
					assert.Equal(t, "5", a.Header().Get("Retry-After"))
					assert.Equal(t, "true", a.Header().Get("X-Should-Retry"))
				default:
					t.Errorf("status %d: %s", a.Code, a.Body)
				}
			}
			assert.Equal(t, 1, served)
			assert.Equal(t, 49, refused)
			assert.Equal(t, "A", trace(w.calls()))
			assert.Equal(t, "true", w.do(t, keyed("k", body)).header.Get("Idempotent-Replayed"))
		})
	})
	t.Run("with Prefer: wait=30 all have the one answer", func(t *testing.T) {
		inBubble(t, settings{claims: &idempotency.Memory{}}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", late(8*time.Second, alpha.says("Hello")))
			requests := make([]request, 50)
			for i := range requests {
				requests[i] = keyed("k", body, "Prefer", "respond-async, wait=30")
			}
			bodies, replayed := map[string]int{}, 0
			for _, a := range w.race(t, requests) {
				assert.Equal(t, 200, a.Code)
				bodies[a.Body.String()]++
				if a.Header().Get("Idempotent-Replayed") == "true" {
					replayed++
				}
			}
			assert.Len(t, bodies, 1)
			assert.Equal(t, 49, replayed)
			assert.Equal(t, "A", trace(w.calls()))
		})
	})
	t.Run("who waits takes over when the first one fails", func(t *testing.T) {
		inBubble(t, settings{claims: &idempotency.Memory{}}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", late(2*time.Second, fails(400, "invalid_request_error", "invalid_value")), alpha.says("Hello"))
			codes := map[int]int{}
			for _, a := range w.race(t, []request{keyed("k", body, "Prefer", "wait=30"), keyed("k", body, "Prefer", "wait=30")}) {
				codes[a.Code]++
			}
			assert.Equal(t, map[int]int{502: 1, 200: 1}, codes)
		})
	})
	t.Run("a look that fails ends no wait", func(t *testing.T) {
		var looks atomic.Int32
		store := &flaky{Store: &idempotency.Memory{}, hook: func(call string) (bool, error) {
			if call == "get" && looks.Add(1) == 2 {
				return false, errors.New("throttled")
			}
			return true, nil
		}}
		inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", late(8*time.Second, alpha.says("Hello")))
			for _, a := range w.race(t, []request{keyed("k", body, "Prefer", "wait=30"), keyed("k", body, "Prefer", "wait=30")}) {
				assert.Equal(t, 200, a.Code)
			}
			assert.Greater(t, looks.Load(), int32(2))
			assert.Equal(t, "A", trace(w.calls()))
		})
	})
	t.Run("a wait that is too short ends in 409", func(t *testing.T) {
		inBubble(t, settings{claims: &idempotency.Memory{}}, func(t *testing.T, w *world) {
			w.provider.Script("a-1", late(8*time.Second, alpha.says("Hello")))
			began := time.Now()
			codes := map[int]int{}
			for _, a := range w.race(t, []request{keyed("k", body, "Prefer", "wait=2"), keyed("k", body, "Prefer", "wait=2")}) {
				codes[a.Code]++
			}
			assert.Equal(t, map[int]int{200: 1, 409: 1}, codes)
			assert.Equal(t, 8*time.Second, time.Since(began))
		})
	})
}

// TestAClientThatLeavesFindsItsAnswer: the work for a key goes on.
func TestAClientThatLeavesFindsItsAnswer(t *testing.T) {
	for name, leaves := range map[string]departure{
		"before the first content": {after: 500 * time.Millisecond},
		"in the middle":            {writes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settings{claims: &idempotency.Memory{}}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", late(time.Second, alpha.says("Hel", "lo ", "world")))
				r := keyed("k", asks("alone", true))
				r.leaves = leaves
				first := w.do(t, r)
				assert.True(t, first.left)
				assert.Equal(t, "stored", lastIdempotency(first))
				again := w.do(t, keyed("k", asks("alone", true)))
				assert.Empty(t, again.calls)
				assert.Contains(t, again.body, "world")
				assert.True(t, strings.HasSuffix(again.body, "data: [DONE]\n\n"))
			})
		})
	}
}

// flaky is a store whose calls fail as told: whether they are applied, and with which error.
type flaky struct {
	idempotency.Store
	hook func(call string) (apply bool, err error)
}

func (f *flaky) Claim(ctx context.Context, r idempotency.Record, now time.Time) (*idempotency.Record, error) {
	apply, err := f.hook("claim")
	if !apply {
		return nil, err
	}
	there, real := f.Store.Claim(ctx, r, now)
	if err != nil {
		return nil, err
	}
	return there, real
}

func (f *flaky) Get(ctx context.Context, k idempotency.Key) (*idempotency.Record, error) {
	if _, err := f.hook("get"); err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, k)
}

func (f *flaky) Complete(ctx context.Context, k idempotency.Key, owner string, r idempotency.Result, now time.Time) error {
	apply, err := f.hook("complete")
	if apply {
		if real := f.Store.Complete(ctx, k, owner, r, now); err == nil {
			err = real
		}
	}
	return err
}

func TestAStoreThatFails(t *testing.T) {
	broken := errors.New("throttled")
	for name, c := range map[string]struct {
		fails  map[string]bool // the calls that fail
		apply  bool            // and are applied
		once   bool            // the first time only
		status int
		trace  string
		kept   string
		again  int // status of the repetition, with the store healthy
		replay bool
	}{
		"a claim that was not written, and cannot be read: 503":       {fails: map[string]bool{"claim": true, "get": true}, status: 503, again: 200},
		"a claim that was written although it failed: it is ours":     {fails: map[string]bool{"claim": true}, apply: true, once: true, status: 200, trace: "A", kept: "stored", again: 200, replay: true},
		"a claim that was not written is made again":                  {fails: map[string]bool{"claim": true}, once: true, status: 200, trace: "A", kept: "stored", again: 200, replay: true},
		"B37 e: a result that cannot be stored: the client has it":    {fails: map[string]bool{"complete": true}, status: 200, trace: "A", kept: "store_failed", again: 409},
		"a result that was stored although it failed":                 {fails: map[string]bool{"complete": true}, apply: true, status: 200, trace: "A", kept: "stored", again: 200, replay: true},
		"a result that was not stored the first time is stored again": {fails: map[string]bool{"complete": true}, once: true, status: 200, trace: "A", kept: "stored", again: 200, replay: true},
	} {
		t.Run(name, func(t *testing.T) {
			seen, healthy := map[string]int{}, false
			store := &flaky{Store: &idempotency.Memory{}}
			store.hook = func(call string) (bool, error) {
				seen[call]++
				if healthy || !c.fails[call] || c.once && seen[call] > 1 {
					return true, nil
				}
				return c.apply, broken
			}
			inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
				w.provider.Script("a-1", alpha.says("Hello"), alpha.says("Hello"))
				first := w.do(t, keyed("k", asks("alone", false)))
				assert.Equal(t, c.status, first.status)
				assert.Equal(t, c.trace, trace(first.calls))
				assert.Equal(t, c.kept, lastIdempotency(first))
				if c.status == 503 {
					assert.Equal(t, "store_unavailable", gjson.Get(first.body, "error.code").String())
					assert.Equal(t, "2", first.header.Get("Retry-After"))
				}
				healthy = true
				again := w.do(t, keyed("k", asks("alone", false)))
				assert.Equal(t, c.again, again.status)
				assert.Equal(t, c.replay, again.header.Get("Idempotent-Replayed") == "true")
				if c.again == 409 {
					time.Sleep(126 * time.Second)
					assert.Equal(t, 200, w.do(t, keyed("k", asks("alone", false))).status, "its time has run out")
				}
			})
		})
	}
	t.Run("a store that hangs: 503 after 500 ms", func(t *testing.T) {
		inBubble(t, settings{claims: hanging{}}, func(t *testing.T, w *world) {
			o := w.do(t, keyed("k", asks("alone", false)))
			assert.Equal(t, 503, o.status)
			assert.Equal(t, 500*time.Millisecond, o.returned)
		})
	})
	t.Run("no store at all: 503, and requests without a key are served", func(t *testing.T) {
		inBubble(t, settings{storeless: true}, func(t *testing.T, w *world) {
			assert.Equal(t, 503, w.do(t, keyed("k", asks("alone", false))).status)
			w.provider.Script("a-1", alpha.says("Hello"))
			assert.Equal(t, 200, w.do(t, request{body: asks("alone", false)}).status)
		})
	})
}

// hanging is a store that answers when the context ends.
type hanging struct{ idempotency.Store }

func (hanging) Claim(ctx context.Context, _ idempotency.Record, _ time.Time) (*idempotency.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Get(ctx context.Context, _ idempotency.Key) (*idempotency.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// counted counts the renewals.
type counted struct {
	idempotency.Memory
	mu       sync.Mutex
	renewals int
}

func (c *counted) Renew(ctx context.Context, k idempotency.Key, owner string, until time.Time) error {
	c.mu.Lock()
	c.renewals++
	c.mu.Unlock()
	return c.Memory.Renew(ctx, k, owner, until)
}

func TestALongStreamKeepsItsKey(t *testing.T) {
	store := &counted{}
	inBubble(t, settings{claims: store}, func(t *testing.T, w *world) {
		frames := []string{alpha.role()}
		for i := range 20 {
			frames = append(frames, alpha.text(fmt.Sprintf("piece %d ", i)))
		}
		w.provider.Script("a-1", simulate.Events(10*time.Second, simulate.Complete, append(frames, alpha.finish("stop"), alpha.usage(), done)...))
		answered := make(chan outcome, 1)
		go func() { answered <- w.do(t, keyed("k", asks("alone", true))) }()
		for range 3 {
			time.Sleep(50 * time.Second)
			answers := w.race(t, []request{keyed("k", asks("alone", true))})
			assert.Equal(t, 409, answers[0].Code, "it is still running")
		}
		synctest.Wait()
		first := <-answered
		assert.Equal(t, 200, first.status)
		assert.Equal(t, "stored", lastIdempotency(first))
		assert.InDelta(t, 6, store.renewals, 1, "once every 30 s")
	})
}

// shelf keeps objects in memory.
type shelf struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (s *shelf) Put(_ context.Context, name, _ string, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[name] = body
	return nil
}

func (s *shelf) Get(_ context.Context, name string, limit int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.objects[name]
	if !ok || int64(len(body)) > limit {
		return nil, errors.New("no such object")
	}
	return body, nil
}

func TestALargeAnswerIsAnObject(t *testing.T) {
	noise := make([]byte, 0, 800_000)
	random := rand.New(rand.NewPCG(1, 2))
	for range cap(noise) {
		noise = append(noise, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[random.IntN(64)])
	}
	objects := &shelf{}
	inBubble(t, settings{claims: &idempotency.Memory{}, objects: objects}, func(t *testing.T, w *world) {
		w.provider.Script("a-1", alpha.says(string(noise[:400_000]), string(noise[400_000:])))
		first := w.do(t, keyed("k", asks("alone", true)))
		require.Equal(t, "stored", lastIdempotency(first))
		require.Len(t, objects.objects, 1)
		again := w.do(t, keyed("k", asks("alone", true)))
		assert.Equal(t, first.body, again.body)

		for name := range objects.objects {
			objects.objects[name] = append([]byte{}, objects.objects[name][:100]...)
		}
		assert.Equal(t, 503, w.do(t, keyed("k", asks("alone", true))).status, "an object that is not what was stored is no answer")
	})
}

func TestAReplayIsCountedWhereItsAnswerCameFrom(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		w.provider.Script("a-1", alpha.says("Hello"))
		w.do(t, keyed("k", asks("fast", false)))
		again := w.do(t, keyed("k", asks("fast", false)))
		for line := range strings.Lines(again.raw) {
			if gjson.Get(line, "msg").String() != "metrics" {
				continue
			}
			assert.Equal(t, "fast", gjson.Get(line, "route").String())
			assert.Equal(t, "alpha", gjson.Get(line, "provider").String())
			assert.False(t, gjson.Get(line, "Errors").Exists(), "a replay is no error")
		}
	})
}
