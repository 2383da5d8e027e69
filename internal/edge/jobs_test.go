package edge_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/edge"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
)

// TestAnOrderIsAJob: submitted once, and answered with what has become of it.
func TestAnOrderIsAJob(t *testing.T) {
	w := newWorkshop(t)
	got := w.send(t, http.MethodPost, "/v1/videos", anOrder, "Idempotency-Key", "k1", "X-Request-Id", "app-1", "X-LLM-Tags", "app=web")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	id := got.get("id").Str
	assert.Equal(t, "video", got.get("object").Str)
	assert.Equal(t, "in_progress", got.get("status").Str)
	assert.Equal(t, "veo", got.get("model").Str)
	assert.Equal(t, jobPrompt, got.get("prompt").Str)
	assert.Equal(t, "8", got.get("seconds").Str)
	for name, value := range map[string]string{"X-Request-Id": "app-1", "X-Llm-Provider": "google", "X-Llm-Policy-Version": fault.Default().Version,
		"X-Llm-Route": "veo", "X-Llm-Model": "veo", "X-Llm-Attempts": "1", "X-Llm-Fallback": "false", "X-Llm-Credential-Fallback": "false",
		"X-Llm-Routing-Reason": "first:ok;second:ok", "Location": "/v1/jobs/" + id, "Retry-After": "5", "Content-Type": "application/json", "Idempotent-Replayed": ""} {
		assert.Equal(t, value, got.header.Get(name), name)
	}
	assert.Equal(t, map[string]int{id: 1}, w.studio.submits)
	assert.Equal(t, []string{"first"}, w.studio.asked)

	job := w.send(t, http.MethodGet, "/v1/jobs/"+id, "")
	assert.Equal(t, http.StatusOK, job.status)
	assert.Equal(t, "media.job", job.get("object").Str)
	assert.Equal(t, "running", job.get("status").Str)
	for _, name := range []string{"X-Llm-Provider", "X-Llm-Attempts", "X-Llm-Routing-Reason"} {
		assert.Equal(t, got.header.Get(name), job.header.Get(name), name)
	}
	video := w.send(t, http.MethodGet, "/v1/videos/"+id, "")
	assert.JSONEq(t, got.body, video.body)

	record := w.record(t)
	assert.Equal(t, id, record["job"])
	assert.Equal(t, "video", record["kind"])
	assert.Equal(t, "answered", record["outcome"])
	assert.Equal(t, "google", record["provider"])
	assert.Equal(t, map[string]any{"app": "web"}, record["tags"])
	assert.InDelta(t, 202, record["status"], 0)
}

// TestWhoAnswersWithTheWorkIsAskedLater: the job waits for the queue.
func TestWhoAnswersWithTheWorkIsAskedLater(t *testing.T) {
	w := newWorkshop(t)
	got := w.send(t, http.MethodPost, "/v1/music", `{"model":"music","prompt":"a shanty"}`, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	assert.Equal(t, "media.job", got.get("object").Str)
	assert.Equal(t, "music", got.get("kind").Str)
	assert.Equal(t, "queued", got.get("status").Str)
	assert.Empty(t, got.header.Get("X-LLM-Provider"))
	assert.Equal(t, "sings:ok", got.header.Get("X-LLM-Routing-Reason"))
	assert.Equal(t, "0", got.header.Get("X-LLM-Attempts"))
	assert.Zero(t, w.studio.total())
	assert.Len(t, w.queue.sent, 1)
	assert.Equal(t, http.StatusNotFound, w.send(t, http.MethodGet, "/v1/videos/"+got.get("id").Str, "").status, "a song is no video")
}

func TestOrdersThatAreRefused(t *testing.T) {
	const prompted = `,"prompt":"` + jobPrompt + `"}`
	for name, tt := range map[string]struct {
		path, body string
		header     []string
		status     int
		code       fault.Code
		param      string
	}{
		"no key":                              {"", anOrder, []string{"Authorization", ""}, 401, fault.InvalidAPIKey, ""},
		"another key":                         {"", anOrder, []string{"Authorization", "Bearer nobody"}, 401, fault.InvalidAPIKey, ""},
		"no Idempotency-Key":                  {"", anOrder, nil, 400, fault.IdempotencyKeyRequired, "Idempotency-Key"},
		"no Idempotency-Key for a song":       {"/v1/music", `{"model":"music"` + prompted, nil, 400, fault.IdempotencyKeyRequired, "Idempotency-Key"},
		"an empty one":                        {"", anOrder, []string{"Idempotency-Key", ""}, 400, fault.ValidationFailed, "Idempotency-Key"},
		"one of 256 characters":               {"", anOrder, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, fault.ValidationFailed, "Idempotency-Key"},
		"one that is no UTF-8":                {"", anOrder, []string{"Idempotency-Key", "caf\xe9"}, 400, fault.ValidationFailed, "Idempotency-Key"},
		"no JSON":                             {"", `{"model":`, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "body"},
		"a name twice":                        {"", `{"model":"veo","model":"veo"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "body"},
		"nothing":                             {"", "", []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "body"},
		"a form that is no multipart":         {"", "model=veo&prompt=p", []string{"Idempotency-Key", "k", "Content-Type", "application/x-www-form-urlencoded"}, 400, fault.ValidationFailed, "Content-Type"},
		"a form without a boundary":           {"", "--b--", []string{"Idempotency-Key", "k", "Content-Type", "multipart/form-data"}, 400, fault.ValidationFailed, "Content-Type"},
		"a form that is cut short":            {"", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nve", []string{"Idempotency-Key", "k", "Content-Type", "multipart/form-data; boundary=b"}, 400, fault.ValidationFailed, "model"},
		"a form that is none":                 {"", anOrder, []string{"Idempotency-Key", "k", "Content-Type", "multipart/form-data; boundary=b"}, 400, fault.ValidationFailed, "body"},
		"a body of 6 MB":                      {"", `{"model":"veo","prompt":"` + strings.Repeat("p", 6<<20) + `"}`, []string{"Idempotency-Key", "k"}, 413, fault.RequestTooLarge, "body"},
		"seconds that are a word":             {"", `{"model":"veo","seconds":"abc"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "seconds"},
		"half a size":                         {"", `{"model":"veo","size":"1x"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "size"},
		"a time that is none":                 {"", anOrder, []string{"Idempotency-Key", "k", "X-LLM-Timeout-Ms", "x"}, 400, fault.ValidationFailed, "X-LLM-Timeout-Ms"},
		"a callback to nowhere":               {"", `{"model":"veo","callback_url":""` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"no prompt":                           {"", `{"model":"veo"}`, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "prompt"},
		"a member that nobody knows":          {"", `{"model":"veo","fps":24` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "fps"},
		"several models":                      {"", `{"model":"veo","models":["veo"]` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "models"},
		"models to fall back on":              {"", `{"model":"veo","fallback_models":["veo"]` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "fallback_models"},
		"a member of the other kind":          {"/v1/music", `{"model":"music","size":"1x1"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "size"},
		"a model that nobody knows":           {"", `{"model":"sora"` + prompted, []string{"Idempotency-Key", "k"}, 404, fault.ModelNotFound, "model"},
		"a model that this key may not call":  {"/v1/music", `{"model":"music"` + prompted, []string{"Idempotency-Key", "k", "Authorization", "Bearer " + limitedKey}, 403, fault.ModelNotAllowed, "model"},
		"a model that chats":                  {"", `{"model":"gpt"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.UnsupportedModelAPI, "model"},
		"a song of a model that makes videos": {"/v1/music", `{"model":"veo"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.UnsupportedModelAPI, "model"},
		"a model that nobody has a key for":   {"", `{"model":"unkeyed"` + prompted, []string{"Idempotency-Key", "k"}, 503, fault.NoProviderAvailable, ""},
		"tags that are none":                  {"", anOrder, []string{"Idempotency-Key", "k", "X-LLM-Tags", "a"}, 400, fault.ValidationFailed, "X-LLM-Tags"},
		"an encoded body":                     {"", anOrder, []string{"Idempotency-Key", "k", "Content-Encoding", "gzip"}, 400, fault.ValidationFailed, "Content-Encoding"},
		"a callback in plain":                 {"", `{"model":"veo","callback_url":"http://hooks.example.com/x"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback inside":                   {"", `{"model":"veo","callback_url":"https://10.0.0.7/x"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback to the metadata":          {"", `{"model":"veo","callback_url":"https://169.254.169.254/x"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback to this machine":          {"", `{"model":"veo","callback_url":"https://localhost/x"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback to an address in decimal": {"", `{"model":"veo","callback_url":"https://2130706433/x"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback with a password":          {"", `{"model":"veo","callback_url":"https://u:p@hooks.example.com/x"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback that is a word":           {"", `{"model":"veo","callback_url":"here"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback of 2049 bytes":            {"", `{"model":"veo","callback_url":"https://hooks.example.com/` + strings.Repeat("x", 2049-26) + `"` + prompted, []string{"Idempotency-Key", "k"}, 400, fault.ValidationFailed, "callback_url"},
		"a callback without a secret for it":  {"", `{"model":"veo","callback_url":"` + callback + `"` + prompted, []string{"Idempotency-Key", "k", "Authorization", "Bearer " + otherKey}, 400, fault.ValidationFailed, "callback_url"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			if tt.path == "" {
				tt.path = "/v1/videos"
			}
			got := w.send(t, http.MethodPost, tt.path, tt.body, tt.header...)
			assert.Equal(t, tt.status, got.status, got.body)
			assert.Equal(t, string(tt.code), got.get("error.code").Str, got.body)
			assert.Equal(t, tt.param, got.get("error.param").Str)
			assert.Equal(t, tt.status == 503, got.get("error.retryable").Bool())
			assert.Less(t, len(got.body), 2048)
			assert.Zero(t, w.studio.total())
			list, err := w.store.Memory.List(t.Context(), "org", media.Wanted{Limit: 10})
			require.NoError(t, err)
			assert.Empty(t, list.Jobs, "there is no job")
			assert.Equal(t, string(tt.code), w.record(t)["outcome"])
		})
	}
}

// TestOrdersThatAreTaken, although one might think that they are not.
func TestOrdersThatAreTaken(t *testing.T) {
	for name, header := range map[string][]string{
		"JSON as curl sends it":                 {"Content-Type", "application/x-www-form-urlencoded"},
		"a wish to wait for less than that":     {"X-LLM-Timeout-Ms", "1"}, // a submit that has begun goes on: it is paid for
		"a wish to wait until it is done":       {"Prefer", "wait=10"},
		"a wish that nobody understands":        {"Prefer", "wait=forever"},
		"a wish for an answer that is streamed": {"X-LLM-Commit", "complete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			got := w.send(t, http.MethodPost, "/v1/videos", anOrder, append(header, "Idempotency-Key", "k1")...)
			assert.Equal(t, http.StatusAccepted, got.status, got.body)
			assert.Equal(t, "in_progress", got.get("status").Str)
			assert.Equal(t, 1, w.studio.total())
		})
	}
}

// TestPathsOfJobsThatAreNone: what is wrong with an address is said, and no store is asked for what can be the id of no job.
func TestPathsOfJobsThatAreNone(t *testing.T) {
	long := strings.Repeat("j", 3000)
	w := newWorkshop(t)
	w.store.before = func(call string) error { return errors.New("the store was asked: " + call) }
	for request, want := range map[string]struct {
		status       int
		code         fault.Code
		param, allow string
	}{
		"GET /v1/jobs/":                     {404, fault.NotFound, "", ""},
		"GET /v1/jobs//content":             {404, fault.NotFound, "", ""},
		"POST /v1/jobs//cancel":             {404, fault.NotFound, "", ""},
		"POST /v1/videos/":                  {404, fault.NotFound, "", ""},
		"GET /v1/jobs/job_1/work":           {404, fault.NotFound, "", ""},
		"GET /v1/jobs/a%2fb":                {404, fault.NotFound, "", ""},
		"POST /v1/videos/job_1/cancel":      {404, fault.NotFound, "", ""},
		"POST /v1/videos/job_1/remix":       {404, fault.NotFound, "", ""},
		"GET /v1/music/job_1":               {404, fault.NotFound, "", ""},
		"GET /v1/jobs/" + long:              {404, fault.NotFound, "id", ""},
		"GET /v1/videos/" + long:            {404, fault.NotFound, "id", ""},
		"GET /v1/jobs/" + long + "/content": {404, fault.NotFound, "id", ""},
		"POST /v1/jobs/" + long + "/cancel": {404, fault.NotFound, "id", ""},
		"GET /v1/jobs?after=" + long:        {400, fault.ValidationFailed, "after", ""},
		"GET /v1/music":                     {405, fault.MethodNotAllowed, "", "POST"},
		"PUT /v1/videos":                    {405, fault.MethodNotAllowed, "", "GET, POST"},
		"OPTIONS /v1/videos":                {405, fault.MethodNotAllowed, "", "GET, POST"},
		"DELETE /v1/videos/job_1":           {405, fault.MethodNotAllowed, "", "GET"},
		"HEAD /v1/videos/job_1/content":     {405, fault.MethodNotAllowed, "", "GET"},
		"GET /v1/jobs/job_1/cancel":         {405, fault.MethodNotAllowed, "", "POST"},
	} {
		method, path, _ := strings.Cut(request, " ")
		got := w.send(t, method, path, "")
		assert.Equal(t, want.status, got.status, "%s: %s", request, got.body)
		assert.Equal(t, string(want.code), got.get("error.code").Str, request)
		assert.Equal(t, want.param, got.get("error.param").Str, request)
		assert.Equal(t, want.allow, got.header.Get("Allow"), request)
		assert.Equal(t, "false", got.header.Get("X-Should-Retry"), request)
	}
	for _, id := range []string{"%00", "%ff", "a%20b%22%3Cscript%3E", "a%23b", "..%3f", "%F0%9F%8E%AC"} {
		w.store.before = nil
		got := w.send(t, http.MethodGet, "/v1/jobs/"+id, "")
		assert.Equal(t, http.StatusNotFound, got.status, "%s: %s", id, got.body)
		assert.Equal(t, "id", got.get("error.param").Str)
	}
}

// TestModelsSayWhereTheyAreCalled: so that a client tells one that makes media from one that chats.
func TestModelsSayWhereTheyAreCalled(t *testing.T) {
	w := newWorkshop(t)
	for id, want := range map[string]string{"gpt": `["/v1/chat/completions"]`, "veo": `["/v1/videos"]`, "clip": `["/v1/videos"]`, "music": `["/v1/music"]`} {
		got := w.send(t, http.MethodGet, "/v1/models/"+id, "")
		require.Equal(t, http.StatusOK, got.status, got.body)
		assert.JSONEq(t, want, got.get("endpoints").Raw, id)
		assert.JSONEq(t, want, w.send(t, http.MethodGet, "/v1/models", "").get(`data.#(id=="`+id+`").endpoints`).Raw, id)
	}
}

// TestALongOrder: a picture of some MB is no part of the job's row, and reaches the provider.
func TestALongOrder(t *testing.T) {
	w := newWorkshop(t)
	order := `{"model":"veo","prompt":"p","prefer":"second","input_reference":"data:image/png;base64,` + strings.Repeat("iVBORw0KGgoA", 300_000) + `"}`
	for range 2 {
		got := w.send(t, http.MethodPost, "/v1/videos", order, "Idempotency-Key", "k1")
		require.Equal(t, http.StatusAccepted, got.status, got.body)
		assert.Equal(t, "p", got.get("prompt").Str)
		assert.Less(t, len(got.body), 2000)
	}
	assert.Equal(t, []string{"second"}, w.studio.asked)
	assert.JSONEq(t, order, string(w.studio.request))
	list, err := w.store.Memory.List(t.Context(), "org", media.Wanted{Limit: 2})
	require.NoError(t, err)
	require.Len(t, list.Jobs, 1)
	assert.Less(t, len(list.Jobs[0].Request), 1000)
}

// TestAChannelIsPreferred, and a route is called.
func TestAChannelIsPreferred(t *testing.T) {
	w := newWorkshop(t)
	got := w.send(t, http.MethodPost, "/v1/videos", `{"model":"clip","prompt":"p","prefer":"second"}`, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	assert.Equal(t, "fal", got.header.Get("X-LLM-Provider"))
	assert.Equal(t, "clip", got.header.Get("X-LLM-Route"))
	assert.Equal(t, "veo", got.header.Get("X-LLM-Model"))
	assert.Equal(t, "second:ok;first:ok", got.header.Get("X-LLM-Routing-Reason"))
	assert.Equal(t, "false", got.header.Get("X-LLM-Fallback"), "it is what was asked for")
	assert.Equal(t, []string{"second"}, w.studio.asked)
}

// TestWhatBecomesOfASubmit: whatever it is, the job is there, and the answer is the job.
func TestWhatBecomesOfASubmit(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []error
		status  string // of a video
		state   media.State
		code    string
		asked   []string
	}{
		"accepted":                          {[]error{nil}, "in_progress", media.Running, "", []string{"first"}},
		"refused, and accepted by the next": {[]error{refusal(429, fault.RateLimited), nil}, "in_progress", media.Running, "", []string{"first", "second"}},
		"refused by all":                    {[]error{refusal(429, fault.RateLimited), refusal(403, fault.Auth)}, "failed", media.Failed, "provider_error", []string{"first", "second"}},
		"the content is refused: nobody else is asked": {[]error{refusal(400, fault.ContentPolicy)}, "failed", media.Failed, "content_filter", []string{"first"}},
		"F27: cut off after it was sent":               {[]error{brokenOff()}, "in_progress", media.Uncertain, "", []string{"first"}},
		"a server error after it was sent":             {[]error{refusal(500, fault.ServerError)}, "in_progress", media.Uncertain, "", []string{"first"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			n := 0
			w.studio.answer = func(context.Context, provider.Task) (provider.Submission, error) {
				n++
				return provider.Submission{Upstream: operationID}, tt.answers[n-1]
			}
			first := w.order(t, "k1")
			for range 3 {
				again := w.order(t, "k1")
				assert.Equal(t, first.body, again.body)
				assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
			}
			assert.Equal(t, http.StatusAccepted, first.status, first.body)
			assert.Equal(t, tt.status, first.get("status").Str)
			assert.Equal(t, tt.code, first.get("error.code").Str)
			assert.Equal(t, tt.asked, w.studio.asked)
			job := w.send(t, http.MethodGet, "/v1/jobs/"+first.get("id").Str, "")
			assert.Equal(t, string(tt.state), job.get("status").Str)
			assert.Equal(t, tt.state.Terminal(), first.header.Get("Retry-After") == "", "one that is over will not change")
		})
	}
}

// TestTheSameKey: the same order is the same job, whatever has become of it, and another one is refused.
func TestTheSameKey(t *testing.T) {
	same := func(w *workshop, t *testing.T, j answered, status string) {
		again := w.order(t, "k1")
		assert.Equal(t, http.StatusAccepted, again.status, again.body)
		assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		assert.Equal(t, j.get("id").Str, again.get("id").Str)
		assert.Equal(t, status, again.get("status").Str)
		assert.Equal(t, 1, w.studio.total())
		record := w.record(t)
		assert.Equal(t, "replayed", record["outcome"])
		assert.Equal(t, "replayed", record["idempotency"])
		assert.Equal(t, j.get("id").Str, record["job"])
	}
	t.Run("while it is running, when it is done and after", func(t *testing.T) {
		w := newWorkshop(t)
		j := w.order(t, "k1")
		same(w, t, j, "in_progress")
		w.finish(t, j.get("id").Str, mp4)
		same(w, t, j, "completed")
	})
	for state, events := range map[media.State][]media.Event{
		media.Failed:    {media.Ended{State: media.Failed, Error: media.Error{Code: "content_filter", Message: "refused"}}},
		media.Cancelled: {media.Ended{State: media.Cancelled}},
		media.Expired:   {media.Ended{State: media.Expired}},
	} {
		t.Run("when it is "+string(state), func(t *testing.T) {
			w := newWorkshop(t)
			j := w.order(t, "k1")
			w.put(t, j.get("id").Str, events...)
			same(w, t, j, "failed")
		})
	}
	t.Run("while it is queued", func(t *testing.T) {
		w := newWorkshop(t)
		ask := func() answered {
			return w.send(t, http.MethodPost, "/v1/music", `{"model":"music","prompt":"p"}`, "Idempotency-Key", "k1")
		}
		first, again := ask(), ask()
		assert.Equal(t, first.body, again.body)
		assert.Equal(t, "queued", again.get("status").Str)
		assert.Len(t, w.queue.sent, 1)
	})
	t.Run("while it is submitted", func(t *testing.T) {
		w := newWorkshop(t)
		w.studio.answer = func(context.Context, provider.Task) (provider.Submission, error) {
			again := w.order(t, "k1")
			assert.Equal(t, http.StatusAccepted, again.status)
			assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
			assert.Equal(t, "submitting", w.send(t, http.MethodGet, "/v1/jobs/"+again.get("id").Str, "").get("status").Str)
			return provider.Submission{Upstream: operationID}, nil
		}
		assert.Equal(t, http.StatusAccepted, w.order(t, "k1").status)
		assert.Equal(t, 1, w.studio.total())
	})
	t.Run("when its model is not in the configuration any more", func(t *testing.T) {
		w := newWorkshop(t)
		j := w.order(t, "k1")
		w.gateway.Catalog.Organizations["org"].Models = nil
		same(w, t, j, "in_progress")
		assert.Equal(t, http.StatusForbidden, w.order(t, "k2").status, "a new one cannot be made")
	})
	for name, other := range map[string]struct{ path, body string }{
		"B36 a: another body":            {"/v1/videos", strings.Replace(anOrder, `"8"`, `"4"`, 1)},
		"B36 d: the same body for music": {"/v1/music", `{"model":"veo","prompt":"` + jobPrompt + `"}`},
		"another body, of no model":      {"/v1/videos", `{"model":"sora","prompt":"p"}`},
	} {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the first is over: ", over), func(t *testing.T) {
				w := newWorkshop(t)
				j := w.order(t, "k1")
				if over {
					w.finish(t, j.get("id").Str, mp4)
				}
				got := w.send(t, http.MethodPost, other.path, other.body, "Idempotency-Key", "k1")
				assert.Equal(t, http.StatusConflict, got.status, got.body)
				assert.Equal(t, "idempotency_conflict", got.get("error.code").Str)
				assert.False(t, got.get("error.retryable").Bool())
				assert.Equal(t, "false", got.header.Get("X-Should-Retry"))
				assert.Empty(t, got.header.Get("Retry-After"))
				assert.Equal(t, 1, w.studio.total())
			})
		}
	}
	t.Run("B36 c: the same order in another order", func(t *testing.T) {
		w := newWorkshop(t)
		j := w.order(t, "k1")
		again := w.send(t, http.MethodPost, "/v1/videos", `{"size": "1280x720", "seconds":"8", "prompt":"`+jobPrompt+`", "model":"veo"}`, "Idempotency-Key", "k1")
		assert.Equal(t, j.body, again.body)
		assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		assert.Equal(t, 1, w.studio.total())
	})
	t.Run("B36 f: of another organization", func(t *testing.T) {
		w := newWorkshop(t)
		j := w.order(t, "k1")
		other := w.send(t, http.MethodPost, "/v1/videos", anOrder, "Idempotency-Key", "k1", "Authorization", "Bearer "+otherKey)
		assert.Equal(t, http.StatusAccepted, other.status)
		assert.Empty(t, other.header.Get("Idempotent-Replayed"))
		assert.NotEqual(t, j.get("id").Str, other.get("id").Str)
		assert.Equal(t, 2, w.studio.total())
	})
}

// TestAClientThatLeavesWhileItsJobIsSubmitted is F27: its connection breaks after the provider has accepted the job, and what the
// provider has said is kept all the same.
func TestAClientThatLeavesWhileItsJobIsSubmitted(t *testing.T) {
	w := newWorkshop(t)
	ctx, leave := context.WithCancel(t.Context())
	w.studio.answer = func(ctx context.Context, _ provider.Task) (provider.Submission, error) {
		leave()
		return provider.Submission{Upstream: operationID}, ctx.Err()
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/videos", strings.NewReader(anOrder))
	r.Header.Set("Authorization", "Bearer "+liveKey)
	r.Header.Set("Idempotency-Key", "k1")
	w.handler.ServeHTTP(brokenPipe{httptest.NewRecorder()}, r)

	again := w.order(t, "k1")
	assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	assert.Equal(t, "in_progress", again.get("status").Str)
	j := w.put(t, again.get("id").Str)
	assert.Equal(t, media.Running, j.State)
	assert.Equal(t, operationID, j.Upstream)
	assert.Equal(t, 1, w.studio.total())
}

// TestAPanicWhileAJobIsSubmitted: the client is told of a fault of ours, and the job is there, claimed: nobody submits it again.
func TestAPanicWhileAJobIsSubmitted(t *testing.T) {
	w := newWorkshop(t)
	w.studio.answer = func(context.Context, provider.Task) (provider.Submission, error) { panic("a bug in an adapter") }
	got := w.order(t, "k1")
	assert.Equal(t, http.StatusInternalServerError, got.status, got.body)
	assert.Equal(t, "internal_error", got.get("error.code").Str)
	assert.Equal(t, "internal_error", w.record(t)["outcome"])
	again := w.order(t, "k1")
	assert.Equal(t, http.StatusAccepted, again.status)
	assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	assert.Equal(t, media.Submitting, w.put(t, again.get("id").Str).State)
	assert.Equal(t, 1, w.studio.total())
}

// brokenPipe is a client that cannot be written to.
type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestManyRepetitionsAtOnce: one job, one submit, and one answer that is the first.
func TestManyRepetitionsAtOnce(t *testing.T) {
	w := newWorkshop(t)
	var all sync.WaitGroup
	got := make([]answered, 200)
	for i := range got {
		all.Go(func() { got[i] = w.order(t, "k1") })
	}
	all.Wait()
	first := 0
	for _, a := range got {
		assert.Equal(t, http.StatusAccepted, a.status, a.body)
		assert.Equal(t, got[0].get("id").Str, a.get("id").Str)
		if a.header.Get("Idempotent-Replayed") == "" {
			first++
		}
	}
	assert.Equal(t, 1, first)
	assert.Equal(t, map[string]int{got[0].get("id").Str: 1}, w.studio.submits)
}

var errDown = errors.New("the table is down")

// TestWhileTheStoreIsDown: nothing is submitted that is not written down, and nothing twice.
func TestWhileTheStoreIsDown(t *testing.T) {
	when := func(failing ...string) func(string) error {
		return func(call string) error {
			for _, f := range failing {
				if f == call {
					return errDown
				}
			}
			return nil
		}
	}
	t.Run("all of it", func(t *testing.T) {
		w := newWorkshop(t)
		w.store.before = when("create", "get", "replace", "list")
		got := w.order(t, "k1")
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
		assert.Equal(t, "store_unavailable", got.get("error.code").Str)
		assert.True(t, got.get("error.retryable").Bool())
		assert.Equal(t, "2", got.header.Get("Retry-After"))
		assert.Contains(t, got.get("error.message").Str, "the job is submitted once at most")
		assert.NotContains(t, got.body, "table")
		assert.Zero(t, w.studio.total())
		for _, path := range []string{"/v1/jobs/x", "/v1/jobs", "/v1/videos/x", "/v1/videos", "/v1/jobs/x/content"} {
			assert.Equal(t, "store_unavailable", w.send(t, http.MethodGet, path, "").get("error.code").Str, path)
		}
		assert.Equal(t, "store_unavailable", w.send(t, http.MethodPost, "/v1/jobs/x/cancel", "").get("error.code").Str)
		w.store.before = nil
		assert.Equal(t, http.StatusAccepted, w.order(t, "k1").status)
		assert.Equal(t, 1, w.studio.total())
	})
	t.Run("the job is written, and nobody says so", func(t *testing.T) {
		w := newWorkshop(t)
		w.store.after, w.store.before = when("create"), when("get")
		assert.Equal(t, http.StatusServiceUnavailable, w.order(t, "k1").status)
		w.store.after, w.store.before = nil, nil
		again := w.order(t, "k1")
		assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		assert.Equal(t, "in_progress", again.get("status").Str, "nobody had submitted it, and nobody waits for the sweeper")
		assert.Equal(t, 1, w.studio.total())
		assert.Equal(t, again.get("id").Str, w.order(t, "k1").get("id").Str)
		assert.Equal(t, 1, w.studio.total())
	})
	t.Run("the job is written, and it can be read", func(t *testing.T) {
		w := newWorkshop(t)
		w.store.after = when("create")
		got := w.order(t, "k1")
		assert.Equal(t, http.StatusAccepted, got.status)
		assert.Empty(t, got.header.Get("Idempotent-Replayed"))
		assert.Equal(t, 1, w.studio.total())
	})
	t.Run("what cannot be ordered may be a job that could", func(t *testing.T) {
		w := newWorkshop(t)
		w.order(t, "k1")
		w.gateway.Catalog.Organizations["org"].Models = nil
		w.store.before = when("get")
		got := w.order(t, "k1")
		assert.Equal(t, "store_unavailable", got.get("error.code").Str, "nobody knows")
		assert.True(t, got.get("error.retryable").Bool())
	})
	t.Run("the job is there and cannot be claimed: it waits", func(t *testing.T) {
		w := newWorkshop(t)
		w.store.before = when("replace")
		got := w.order(t, "k1")
		assert.Equal(t, http.StatusAccepted, got.status, got.body)
		assert.Equal(t, "queued", got.get("status").Str)
		assert.Zero(t, w.studio.total())
		assert.Contains(t, w.records.String(), `"msg":"store_lost"`)
	})
}

// TestAGatewayWithoutJobs says what it lacks.
func TestAGatewayWithoutJobs(t *testing.T) {
	w := newWorkshop(t)
	w.gateway.Jobs, w.gateway.JobStore, w.gateway.NoJobs = nil, nil, "set SPILLWAY_JOBS_TABLE"
	for path, method := range map[string]string{"/v1/videos": "POST", "/v1/music": "POST", "/v1/jobs": "GET", "/v1/jobs/x": "GET", "/v1/jobs/x/cancel": "POST", "/v1/jobs/x/content": "GET"} {
		body := anOrder
		if path == "/v1/music" {
			body = `{"model":"music","prompt":"p"}`
		}
		got := w.send(t, method, path, body, "Idempotency-Key", "k")
		assert.Equal(t, http.StatusServiceUnavailable, got.status, path)
		assert.Equal(t, "store_unavailable", got.get("error.code").Str)
		assert.Equal(t, "set SPILLWAY_JOBS_TABLE", got.get("error.message").Str)
	}
}

func TestCancelling(t *testing.T) {
	for name, tt := range map[string]struct {
		cancel  func() (bool, error)
		events  []media.Event
		status  int
		state   media.State
		code    string
		retried bool
	}{
		"its provider confirms":        {func() (bool, error) { return true, nil }, nil, 200, media.Cancelled, "", false},
		"its provider is asked":        {func() (bool, error) { return false, nil }, nil, 202, media.Running, "", false},
		"its provider cannot be asked": {func() (bool, error) { return false, refusal(500, fault.ServerError) }, nil, 409, media.Running, "idempotency_conflict", true},
		"it has ended":                 {nil, []media.Event{media.Ended{State: media.Failed}}, 409, media.Failed, "validation_failed", false},
		"it was cancelled before":      {nil, []media.Event{media.Ended{State: media.Cancelled}}, 409, media.Cancelled, "validation_failed", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			id := w.order(t, "k1").get("id").Str
			w.put(t, id, tt.events...)
			w.studio.cancel = tt.cancel
			got := w.send(t, http.MethodPost, "/v1/jobs/"+id+"/cancel", "")
			assert.Equal(t, tt.status, got.status, got.body)
			assert.Equal(t, tt.retried, got.header.Get("Retry-After") != "")
			if tt.code == "" {
				assert.Equal(t, string(tt.state), got.get("status").Str)
			} else {
				assert.Equal(t, tt.code, got.get("error.code").Str)
				assert.Equal(t, tt.retried, got.get("error.retryable").Bool())
			}
			assert.Equal(t, tt.state, w.put(t, id).State)
		})
	}
	t.Run("it is not submitted yet", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.send(t, http.MethodPost, "/v1/music", `{"model":"music","prompt":"p"}`, "Idempotency-Key", "k1").get("id").Str
		got := w.send(t, http.MethodPost, "/v1/jobs/"+id+"/cancel", "")
		assert.Equal(t, http.StatusOK, got.status)
		assert.Equal(t, "cancelled", got.get("status").Str)
	})
	t.Run("it is being submitted, or nobody knows where it is", func(t *testing.T) {
		w := newWorkshop(t)
		w.studio.answer = func(context.Context, provider.Task) (provider.Submission, error) {
			return provider.Submission{}, brokenOff()
		}
		id := w.order(t, "k1").get("id").Str
		got := w.send(t, http.MethodPost, "/v1/jobs/"+id+"/cancel", "")
		assert.Equal(t, http.StatusConflict, got.status)
		assert.Equal(t, "2", got.header.Get("Retry-After"))
		assert.Contains(t, got.get("error.message").Str, "uncertain")
	})
}

func TestLists(t *testing.T) {
	w := newWorkshop(t)
	now := time.Now()
	w.engine.Now = func() time.Time { now = now.Add(time.Second); return now } // no two jobs of one moment
	empty := w.send(t, http.MethodGet, "/v1/jobs", "")
	assert.JSONEq(t, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`, empty.body)
	var ids []string
	for i := range 3 {
		ids = append([]string{w.order(t, fmt.Sprint("k", i)).get("id").Str}, ids...)
	}
	w.finish(t, ids[2], mp4)
	song := w.send(t, http.MethodPost, "/v1/music", `{"model":"music","prompt":"p"}`, "Idempotency-Key", "s").get("id").Str
	other := w.send(t, http.MethodPost, "/v1/videos", anOrder, "Idempotency-Key", "k", "Authorization", "Bearer "+otherKey).get("id").Str
	for query, want := range map[string]struct {
		ids  []string
		more bool
	}{
		"/v1/jobs":                           {[]string{song, ids[0], ids[1], ids[2]}, false},
		"/v1/jobs?limit=2":                   {[]string{song, ids[0]}, true},
		"/v1/jobs?limit=4":                   {[]string{song, ids[0], ids[1], ids[2]}, false},
		"/v1/jobs?status=succeeded":          {[]string{ids[2]}, false},
		"/v1/jobs?status=running&limit=1":    {[]string{ids[0]}, true},
		"/v1/jobs?kind=music":                {[]string{song}, false},
		"/v1/jobs?kind=video&status=running": {[]string{ids[0], ids[1]}, false},
		"/v1/jobs?kind=video&limit=1":        {[]string{ids[0]}, true},
		"/v1/jobs?status=expired":            {nil, false},
		"/v1/videos":                         {[]string{ids[0], ids[1], ids[2]}, false},
		"/v1/videos?limit=3&order=desc":      {[]string{ids[0], ids[1], ids[2]}, false},
		"/v1/jobs?order=asc":                 {[]string{ids[2], ids[1], ids[0], song}, false},

		"/v1/jobs?limit=2&after=" + ids[0]:                    {[]string{ids[1], ids[2]}, false},
		"/v1/jobs?limit=1&after=" + ids[0]:                    {[]string{ids[1]}, true},
		"/v1/jobs?order=asc&limit=1&after=" + ids[2]:          {[]string{ids[1]}, true},
		"/v1/jobs?after=" + ids[2]:                            {nil, false},
		"/v1/jobs?status=running&after=" + song:               {[]string{ids[0], ids[1]}, false},
		"/v1/jobs?status=running&limit=1&after=" + song:       {[]string{ids[0]}, true},
		"/v1/videos?limit=2&after=" + song:                    {[]string{ids[0], ids[1]}, true},
		"/v1/videos?order=asc&status=running&after=" + ids[2]: {[]string{ids[1], ids[0]}, false},
	} {
		got := w.send(t, http.MethodGet, query, "")
		require.Equal(t, http.StatusOK, got.status, got.body)
		var have []string
		for _, j := range got.get("data").Array() {
			have = append(have, j.Get("id").Str)
		}
		assert.Equal(t, want.ids, have, query)
		assert.Equal(t, want.more, got.get("has_more").Bool(), query)
		if len(want.ids) > 0 {
			assert.Equal(t, want.ids[len(want.ids)-1], got.get("last_id").Str)
		}
	}
	for query, param := range map[string]string{"status=done": "status", "status=": "status", "kind=chat": "kind", "limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "limit=": "limit",
		"after=": "after", "after=job_1": "after", "after=" + other: "after", "after=" + ids[0] + "x": "after", "after=" + strings.Repeat("j", 3000): "after", "after=%00": "after",
		"order=up": "order", "order=": "order", "before=" + ids[0]: "before", "kind=video&kind=": "kind", "%zz": "query", "a;b": "query", "=1": "query",
		"order=up&limit=0&kind=chat": "kind"} {
		got := w.send(t, http.MethodGet, "/v1/jobs?"+query, "")
		assert.Equal(t, http.StatusBadRequest, got.status, query)
		assert.Equal(t, param, got.get("error.param").Str, query)
		assert.Contains(t, got.get("error.message").Str, param)
		assert.Less(t, len(got.body), 1000)
	}
	assert.Equal(t, "kind", w.send(t, http.MethodGet, "/v1/videos?kind=video", "").get("error.param").Str)
}

// FuzzReadWanted: what a list is asked for is within its bounds, or refused by a name.
func FuzzReadWanted(f *testing.F) {
	for _, query := range []string{"", "status=running&kind=music&limit=100&order=asc&after=job_1", "limit=0", "limit=1&limit=101", "after=", "a;b", "%zz", "order=up", "=", strings.Repeat("n", 100) + "=1"} {
		f.Add(query, query == "")
	}
	f.Fuzz(func(t *testing.T, query string, videos bool) {
		under := media.Kind("")
		if videos {
			under = media.Video
		}
		w, after, refused := edge.ReadWanted(under, query)
		if refused != nil {
			if refused.Code != fault.ValidationFailed || refused.Param == "" || len(refused.Param) > 64 || len(refused.Message) > 500 {
				t.Fatalf("%q: %+v", query, refused)
			}
			return
		}
		if w.Limit < 1 || w.Limit > 100 || w.After != nil || videos && w.Kind != media.Video || strings.HasPrefix(query, "after=") && after == "" {
			t.Fatalf("%q became %+v, after %q", query, w, after)
		}
	})
}

// TestAListThatWasNotLookedThrough: a page on which there is nothing yet says where the next one begins.
func TestAListThatWasNotLookedThrough(t *testing.T) {
	w := newWorkshop(t)
	w.gateway.JobStore = blind{w.store}
	id := w.order(t, "k1").get("id").Str
	got := w.send(t, http.MethodGet, "/v1/jobs?status=failed", "")
	assert.JSONEq(t, `{"object":"list","data":[],"first_id":null,"last_id":"`+id+`","has_more":true}`, got.body)
	assert.Equal(t, http.StatusOK, w.send(t, http.MethodGet, "/v1/jobs?status=failed&after="+id, "").status)
	assert.Contains(t, w.records.String(), `"msg":"store_lost","operation":"job","store_error":"its status is \"paused\""`)
	assert.NotContains(t, got.body, "paused")
}

// blind looks through one job for a page, which it cannot read, and finds nothing.
type blind struct{ media.Store }

func (b blind) List(ctx context.Context, organization string, w media.Wanted) (media.Page, error) {
	page, err := b.Store.List(ctx, organization, media.Wanted{Limit: 1, After: w.After})
	if err != nil || len(page.Jobs) == 0 {
		return page, err
	}
	return media.Page{More: true, Last: page.Jobs[0].ID, Unread: errors.New(`its status is "paused"`)}, nil
}

func TestContent(t *testing.T) {
	t.Run("a link of its own each time", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		w.finish(t, id, mp4)
		links := map[string]bool{}
		for _, path := range []string{"/v1/jobs/" + id + "/content", "/v1/jobs/" + id + "/content?stream=0", "/v1/videos/" + id + "/content?stream=0"} {
			got := w.send(t, http.MethodGet, path, "")
			require.Equal(t, http.StatusFound, got.status, got.body)
			assert.Equal(t, got.get("url").Str, got.header.Get("Location"))
			assert.Contains(t, got.get("url").Str, "type=video/mp4&file="+id+".mp4&for=15m0s")
			assert.Equal(t, "video/mp4", got.get("content_type").Str)
			assert.EqualValues(t, len(mp4), got.get("size").Int())
			assert.Equal(t, "abc", got.get("sha256").Str)
			assert.Positive(t, got.get("expires_at").Int())
			assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
			links[got.get("url").Str] = true
		}
		assert.Len(t, links, 3)
		assert.NotContains(t, w.records.String(), signature)
	})
	t.Run("the work itself", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		w.finish(t, id, mp4)
		for _, path := range []string{"/v1/jobs/" + id + "/content?stream=1", "/v1/videos/" + id + "/content", "/v1/videos/" + id + "/content?variant=video"} {
			got := w.send(t, http.MethodGet, path, "")
			assert.Equal(t, http.StatusOK, got.status)
			assert.Equal(t, mp4, got.body)
			assert.Equal(t, "video/mp4", got.header.Get("Content-Type"))
			assert.Equal(t, fmt.Sprint(len(mp4)), got.header.Get("Content-Length"))
			assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
		}
	})
	t.Run("the work itself, which breaks off", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		w.finish(t, id, mp4)
		w.works.cut = true
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() { w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content?stream=1", "") })
	})
	t.Run("the work itself, larger than can be streamed", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		w.finish(t, id, strings.Repeat("x", 101))
		got := w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content?stream=1", "")
		assert.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		assert.Contains(t, got.get("error.message").Str, "link")
		for _, path := range []string{"/v1/jobs/" + id + "/content", "/v1/videos/" + id + "/content"} {
			assert.Equal(t, http.StatusFound, w.send(t, http.MethodGet, path, "").status, "its link is the answer")
		}
	})
	t.Run("the bucket is down", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		w.finish(t, id, mp4)
		w.works.broken = errDown
		for _, query := range []string{"", "?stream=1"} {
			got := w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content"+query, "")
			assert.Equal(t, "store_unavailable", got.get("error.code").Str)
			assert.NotContains(t, got.body, signature)
			assert.Empty(t, got.header.Get("Location"))
		}
	})
	t.Run("the bucket has forgotten it, or has another", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		w.finish(t, id, mp4)
		w.works.objects["media/"+id] = "short"
		got := w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content?stream=1", "")
		assert.Equal(t, "store_unavailable", got.get("error.code").Str)
		w.works.broken = fmt.Errorf("opening a work: %w", fs.ErrNotExist)
		got = w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content?stream=1", "")
		assert.Equal(t, http.StatusNotFound, got.status)
		assert.Equal(t, "not_found", got.get("error.code").Str)
		assert.False(t, got.get("error.retryable").Bool())
	})
	t.Run("not made yet", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		for _, query := range []string{"", "?stream=1"} {
			got := w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content"+query, "")
			assert.Equal(t, http.StatusNotFound, got.status)
			assert.Equal(t, "not_found", got.get("error.code").Str)
			assert.Equal(t, "status", got.get("error.param").Str)
			assert.Contains(t, got.get("error.message").Str, "running")
		}
	})
	t.Run("never made", func(t *testing.T) {
		w := newWorkshop(t)
		id := w.order(t, "k1").get("id").Str
		w.put(t, id, media.Ended{State: media.Failed, Error: media.Error{Code: "content_filter", Message: "the provider refused the content", Class: "content_policy"}})
		got := w.send(t, http.MethodGet, "/v1/videos/"+id+"/content", "")
		assert.Equal(t, http.StatusNotFound, got.status)
		assert.Equal(t, "the job is failed and has made nothing: content_filter: the provider refused the content", got.get("error.message").Str)
		assert.Equal(t, "content_policy", got.get("error.class").Str)
	})
	t.Run("asked for in a way that nobody knows", func(t *testing.T) {
		w := newWorkshop(t)
		for query, param := range map[string]string{"variant=thumbnail": "variant", "stream=yes": "stream", "%zz": "query"} {
			got := w.send(t, http.MethodGet, "/v1/videos/x/content?"+query, "")
			assert.Equal(t, http.StatusBadRequest, got.status)
			assert.Equal(t, param, got.get("error.param").Str)
		}
	})
}

// TestOthersJobsAreNobodys: a job is its organization's alone.
func TestOthersJobsAreNobodys(t *testing.T) {
	w := newWorkshop(t)
	id := w.order(t, "k1").get("id").Str
	w.finish(t, id, mp4)
	for path, method := range map[string]string{"/v1/jobs/" + id: "GET", "/v1/videos/" + id: "GET", "/v1/jobs/" + id + "/content": "GET", "/v1/videos/" + id + "/content?stream=1": "GET",
		"/v1/jobs/" + id + "/cancel": "POST", "/v1/jobs/": "GET", "/v1/jobs/" + id + "/": "GET", "/v1/jobs/" + id + "/other": "GET"} {
		got := w.send(t, method, path, "", "Authorization", "Bearer "+otherKey)
		assert.Equal(t, http.StatusNotFound, got.status, path)
		assert.Equal(t, "not_found", got.get("error.code").Str)
		assert.NotContains(t, got.body, "lighthouse")
		if !strings.HasSuffix(path, "/") && !strings.HasSuffix(path, "other") {
			assert.Equal(t, http.StatusUnauthorized, w.send(t, method, path, "", "Authorization", "Bearer x").status, path)
		}
	}
	for path, allow := range map[string]string{"/v1/jobs/" + id: "GET", "/v1/jobs/" + id + "/content": "GET", "/v1/videos": "GET, POST", "/v1/music": "POST", "/v1/jobs": "GET"} {
		got := w.send(t, http.MethodDelete, path, "")
		assert.Equal(t, http.StatusMethodNotAllowed, got.status)
		assert.Equal(t, allow, got.header.Get("Allow"))
	}
}

// TestRecordsOfJobsKeepSecrets: what was asked for, by whom it is told and where it is, is in no record.
func TestRecordsOfJobsKeepSecrets(t *testing.T) {
	w := newWorkshop(t)
	order := strings.Replace(anOrder, `"seconds"`, `"callback_url":"`+callback+`","seconds"`, 1)
	var ids []string
	for i, answer := range []error{nil, refusal(400, fault.ContentPolicy), brokenOff()} {
		w.studio.answer = func(context.Context, provider.Task) (provider.Submission, error) {
			return provider.Submission{Upstream: operationID}, answer
		}
		got := w.send(t, http.MethodPost, "/v1/videos", order, "Idempotency-Key", fmt.Sprint("PLANTED-KEY-", i))
		require.Equal(t, http.StatusAccepted, got.status, got.body)
		ids = append(ids, got.get("id").Str)
		w.send(t, http.MethodPost, "/v1/videos", order, "Idempotency-Key", fmt.Sprint("PLANTED-KEY-", i))
		w.send(t, http.MethodPost, "/v1/videos", anOrder, "Idempotency-Key", fmt.Sprint("PLANTED-KEY-", i))
	}
	w.finish(t, ids[0], mp4)
	for _, id := range ids {
		w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content", "")
		w.send(t, http.MethodGet, "/v1/jobs/"+id+"/content?stream=1", "")
		w.send(t, http.MethodPost, "/v1/jobs/"+id+"/cancel", "")
	}
	w.send(t, http.MethodPost, "/v1/videos", `{"model":"`+planted+`","prompt":"`+jobPrompt+`"}`, "Idempotency-Key", "PLANTED-KEY")
	w.store.before = func(string) error { return errDown }
	w.send(t, http.MethodPost, "/v1/videos", order, "Idempotency-Key", "PLANTED-KEY-9")
	records := w.records.String()
	assert.GreaterOrEqual(t, strings.Count(records, `"msg":"request_finished"`), 11)
	for _, word := range []string{jobPrompt, "PLANTED", "hooks.example.com", "bucket.test", liveKey, upstreamKey, operationID} {
		assert.NotContains(t, records, word)
	}
}
