package idempotency_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/idempotency"
	"spillway/internal/storetest"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func TestWhatARepeatedRequestGets(t *testing.T) {
	result := &idempotency.Result{Status: 200}
	running := func(until time.Time) *idempotency.Record {
		return &idempotency.Record{Status: idempotency.InProgress, Fingerprint: "F", Owner: "o1", InProgressUntil: until, ExpiresAt: now.Add(time.Hour)}
	}
	done := func(expires time.Time) *idempotency.Record {
		return &idempotency.Record{Status: idempotency.Completed, Fingerprint: "F", Owner: "o1", ExpiresAt: expires, Result: result}
	}
	for name, c := range map[string]struct {
		record      *idempotency.Record
		fingerprint idempotency.Fingerprint
		owner       string
		want        idempotency.Decision
	}{
		"no record: it runs":                                             {nil, "F", "o2", idempotency.Decision{Verdict: idempotency.Run}},
		"B35 a: running, four seconds left":                              {running(now.Add(4 * time.Second)), "F", "o2", idempotency.Decision{Verdict: idempotency.InFlight, RetryAfter: 4 * time.Second}},
		"running, two minutes left: five seconds at most":                {running(now.Add(2 * time.Minute)), "F", "o2", idempotency.Decision{Verdict: idempotency.InFlight, RetryAfter: 5 * time.Second}},
		"running, a moment left: a second at least":                      {running(now.Add(time.Millisecond)), "F", "o2", idempotency.Decision{Verdict: idempotency.InFlight, RetryAfter: time.Second}},
		"a fraction of a second counts as a whole one":                   {running(now.Add(2100 * time.Millisecond)), "F", "o2", idempotency.Decision{Verdict: idempotency.InFlight, RetryAfter: 3 * time.Second}},
		"B35 b: the owner is dead: it runs":                              {running(now.Add(-time.Second)), "F", "o2", idempotency.Decision{Verdict: idempotency.Run}},
		"the owner is dead at the very moment":                           {running(now), "F", "o2", idempotency.Decision{Verdict: idempotency.Run}},
		"B35 c: running without an end: live until it expires":           {running(time.Time{}), "F", "o2", idempotency.Decision{Verdict: idempotency.InFlight, RetryAfter: 5 * time.Second}},
		"B35 d: finished, past its retention and not swept yet: it runs": {done(now.Add(-time.Second)), "F", "o2", idempotency.Decision{Verdict: idempotency.Run}},
		"B35 g: finished: replayed":                                      {done(now.Add(time.Hour)), "F", "o2", idempotency.Decision{Verdict: idempotency.Replay, Result: result}},
		"B36 a: another request, the first finished":                     {done(now.Add(time.Hour)), "G", "o2", idempotency.Decision{Verdict: idempotency.Mismatch}},
		"B36 b: another request, the first in flight":                    {running(now.Add(time.Minute)), "G", "o2", idempotency.Decision{Verdict: idempotency.Mismatch}},
		"another request over a dead owner's record: it is told so":      {running(now.Add(-time.Second)), "G", "o2", idempotency.Decision{Verdict: idempotency.Mismatch}},
		"another request over an expired record: it runs":                {done(now.Add(-time.Second)), "G", "o2", idempotency.Decision{Verdict: idempotency.Run}},
		"a record of its own, written by a claim whose answer was lost":  {running(now.Add(time.Minute)), "F", "o1", idempotency.Decision{Verdict: idempotency.Run}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, idempotency.Decide(c.record, c.fingerprint, c.owner, now))
		})
	}
}

func TestHowLongARecordIsInProgress(t *testing.T) {
	deadline := now.Add(2 * time.Minute)
	assert.Equal(t, now.Add(125*time.Second), idempotency.Until(false, deadline, now), "a killed request frees its key within 130 s")
	assert.Equal(t, now.Add(90*time.Second), idempotency.Until(true, now.Add(15*time.Minute), now), "a stream within 90 s")
	assert.Equal(t, now.Add(25*time.Second), idempotency.Until(true, now.Add(20*time.Second), now), "never past the invocation")
}

func TestWhichRequestsAreTheSame(t *testing.T) {
	base := `{"model":"m","n":1.0,"messages":[{"role":"user","content":"h\u00e9"}],"stream":false}`
	of := func(t *testing.T, method, path, media, body string) idempotency.Fingerprint {
		t.Helper()
		f, err := idempotency.Of(method, path, media, []byte(body))
		require.NoError(t, err)
		return f
	}
	want := of(t, "POST", "/v1/chat/completions", "application/json", base)
	for name, c := range map[string]struct {
		path, body string
		same       bool
	}{
		"the same bytes":                    {"/v1/chat/completions", base, true},
		"B36 c: another order, more spaces": {"/v1/chat/completions", "{ \"stream\": false, \"messages\": [ {\"content\":\"hé\", \"role\":\"user\"} ],\n\"n\":1.0, \"model\":\"m\"}", true},
		"B36 d: another path":               {"/v1/embeddings", base, false},
		"B36 e: stream flipped":             {"/v1/chat/completions", strings.Replace(base, "false", "true", 1), false},
		"a number written otherwise":        {"/v1/chat/completions", strings.Replace(base, "1.0", "1", 1), false},
		"another text":                      {"/v1/chat/completions", strings.Replace(base, "u00e9", "u00e8", 1), false},
		"the order of an array":             {"/v1/chat/completions", `{"a":[1,2]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := of(t, "POST", c.path, "application/json", c.body)
			assert.Equal(t, c.same, got == want)
		})
	}
	t.Run("a large number keeps all its digits", func(t *testing.T) {
		assert.NotEqual(t, of(t, "POST", "/", "", `{"seed":9007199254740993}`), of(t, "POST", "/", "", `{"seed":9007199254740992}`))
	})
	t.Run("duplicate names are refused", func(t *testing.T) {
		_, err := idempotency.Of("POST", "/", "", []byte(`{"a":1,"a":2}`))
		assert.Error(t, err)
	})
	t.Run("the body is not changed", func(t *testing.T) {
		body := []byte(base)
		_, err := idempotency.Of("POST", "/", "", body)
		require.NoError(t, err)
		assert.Equal(t, base, string(body))
	})
}

func TestMultipartBodies(t *testing.T) {
	body := func(boundary string, parts ...string) string {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString("--" + boundary + "\r\n" + p + "\r\n")
		}
		return b.String() + "--" + boundary + "--\r\n"
	}
	model := "Content-Disposition: form-data; name=\"model\"\r\n\r\nwhisper"
	file := "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF"
	of := func(boundary, body string) idempotency.Fingerprint {
		f, err := idempotency.Of("POST", "/v1/audio/transcriptions", "multipart/form-data; boundary="+boundary, []byte(body))
		require.NoError(t, err)
		return f
	}
	want := of("one", body("one", model, file))
	assert.Equal(t, want, of("two", body("two", model, file)), "the boundary is not part")
	assert.NotEqual(t, want, of("one", body("one", file, model)), "the order of the fields is")
	assert.NotEqual(t, want, of("one", body("one", model, strings.Replace(file, "RIFF", "RIFX", 1))), "so is the content")
	assert.NotEqual(t, want, of("one", body("one", model, strings.Replace(file, "a.wav", "b.wav", 1))), "and the file's name")
	_, err := idempotency.Of("POST", "/", "multipart/form-data; boundary=one", []byte("--one\r\nbroken"))
	assert.Error(t, err)
}

func TestARecordingIsWhatWasSent(t *testing.T) {
	var r idempotency.Recording
	r.Add([]byte("data: a\n\n"))
	r.Add([]byte("data: [DONE]\n\n"))
	result, ok := r.Result(200, map[string]string{"Content-Type": "text/event-stream"}, true)
	require.True(t, ok)
	zip, err := gzip.NewReader(bytes.NewReader(result.Body))
	require.NoError(t, err)
	body, err := io.ReadAll(zip)
	require.NoError(t, err)
	assert.Equal(t, "data: a\n\ndata: [DONE]\n\n", string(body))
	assert.EqualValues(t, len(body), result.Size)
	assert.True(t, result.Stream)

	t.Run("an empty body is a body", func(t *testing.T) {
		var r idempotency.Recording
		_, ok := r.Result(200, nil, false)
		assert.True(t, ok)
	})
	t.Run("what cannot be packed small enough is not kept", func(t *testing.T) {
		var r idempotency.Recording
		noise, random := make([]byte, 1<<20), rand.NewChaCha8([32]byte{})
		for range idempotency.MaxKept/len(noise) + 1 {
			_, _ = random.Read(noise)
			r.Add(noise)
		}
		_, ok := r.Result(200, nil, false)
		assert.False(t, ok)
	})
}

func FuzzOf(f *testing.F) {
	f.Add("application/json", []byte(`{"a":[1,2.50,"x"],"b":null}`))
	f.Add("multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"))
	f.Add("text/plain", []byte("x"))
	f.Fuzz(func(t *testing.T, media string, body []byte) {
		before := bytes.Clone(body)
		one, err := idempotency.Of("POST", "/", media, body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		two, again := idempotency.Of("POST", "/", media, body)
		if one != two || (err == nil) != (again == nil) {
			t.Fatal("the same request has two fingerprints")
		}
		if (err == nil) != (len(one) == 64) {
			t.Fatal("a fingerprint is there exactly when the body could be read")
		}
	})
}

func TestTheMemoryKeepsWhatAStoreMust(t *testing.T) { storetest.Idempotency(t, &idempotency.Memory{}) }

// TestWhatARecordingCosts: a function has 256 MB, and the answer that is being sent besides.
func TestWhatARecordingCosts(t *testing.T) {
	noise, random := make([]byte, 1<<20), rand.NewChaCha8([32]byte{})
	measure := func(pieces int) (total uint64, kept bool) {
		var r idempotency.Recording
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range pieces {
			_, _ = random.Read(noise)
			r.Add(noise)
		}
		_, kept = r.Result(200, nil, false)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, kept
	}
	total, kept := measure(idempotency.MaxKept/len(noise) - 1)
	assert.True(t, kept)
	assert.Less(t, total, uint64(5*idempotency.MaxKept), "garbage included")
	total, kept = measure(2 * idempotency.MaxKept / len(noise))
	assert.False(t, kept)
	assert.Less(t, total, uint64(5*idempotency.MaxKept), "what is too long is let go")
}
