package jobs_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/redact"
)

var ctx = context.Background()

// running is a world with a job that a provider has accepted.
func running(t *testing.T, polls ...polled) (*world, media.Job) {
	t.Helper()
	w := newWorld()
	w.studio.submit, w.studio.poll = []submitted{accepted()}, append(polls, pending())
	j := w.post(t, order())
	require.Equal(t, media.Running, j.State)
	return w, j
}

func polling(j media.Job, seq uint64) []byte {
	return fmt.Appendf(nil, `{"do":"poll","organization":"acme","job":%q,"seq":%d}`, j.ID, seq)
}

func TestAJobFromItsOrderToItsEnd(t *testing.T) {
	w, j := running(t, pending(), pending(), succeeded())
	w.run(t, time.Minute)
	done := w.job(t, j.ID)
	assert.Equal(t, media.Succeeded, done.State)
	assert.Equal(t, mp4, string(w.objects[done.Result.Object]))
	assert.Equal(t, media.Result{Object: done.Result.Object, ContentType: "video/mp4", Size: int64(len(mp4)), SHA256: digest(mp4)}, *done.Result)
	assert.True(t, strings.HasPrefix(done.Result.Object, "media/acme/"+j.ID+"/"))
	assert.Equal(t, 3, w.studio.polls)
	assert.Equal(t, 14*time.Second, done.FinishedAt.Sub(start), "2, 4 and 8 seconds")
	require.Len(t, w.told, 1)
	assert.True(t, done.TellAt.IsZero())
	assert.Empty(t, w.queue)
	assert.Empty(t, w.trouble)
	assert.NotContains(t, fmt.Sprintf("%+v", done), "S1", "the link is kept nowhere")
	states := []media.State{}
	for _, c := range w.changes {
		states = append(states, c.State)
	}
	assert.Equal(t, []media.State{media.Submitting, media.Running, media.Running, media.Running, media.Succeeded, media.Succeeded}, states)
}

func TestDoubleSubmit(t *testing.T) {
	submitting := func(w *world, key string) (media.Job, []byte) {
		o := order()
		o.Key = key
		j, fresh, err := w.engine.Begin(ctx, o)
		require.NoError(t, err)
		require.True(t, fresh)
		return j, fmt.Appendf(nil, `{"do":"submit","organization":"acme","job":%q}`, j.ID)
	}
	t.Run("B39 a: the same message to two workers at once is one submit, and both are done with it", func(t *testing.T) {
		for i := range 50 {
			w := newWorld()
			w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
			_, body := submitting(w, fmt.Sprint("k", i))
			assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: body}, {ID: "m1", Body: body}}))
			require.Equal(t, 1, w.studio.submits)
		}
	})
	for name, c := range map[string]struct {
		find func() (string, bool, error)
		want media.State
	}{
		"and the provider has it": {func() (string, bool, error) { return "operations/9", true, nil }, media.Running},
		"and surely does not":     {func() (string, bool, error) { return "", false, nil }, media.Failed},
		"and does not answer":     {func() (string, bool, error) { return "", false, status(503, fault.ServerError) }, media.Uncertain},
		"and cannot tell":         {nil, media.Uncertain},
	} {
		t.Run("B39 b: a lease has run out without a provider's id, "+name, func(t *testing.T) {
			w := newWorld()
			if c.find != nil {
				w.canFind()
				w.studio.found = c.find
			}
			w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{succeeded()}
			j, body := submitting(w, "k1")
			w.fuse = 6 // after the submit, before its answer is written
			assert.Equal(t, []string{"m1"}, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: body}}))
			require.Equal(t, 1, w.studio.submits)
			require.Equal(t, media.Submitting, w.job(t, j.ID).State)
			w.now = w.now.Add(media.SubmitLease + time.Millisecond)
			for range 3 { // many sweepers
				_, err := w.engine.Sweep(ctx, 100)
				require.NoError(t, err)
				assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: body}}), "and its message comes again")
			}
			assert.Equal(t, c.want, w.job(t, j.ID).State)
			w.run(t, time.Minute)
			w.now = start.Add(media.Lifetime + time.Millisecond)
			_, err := w.engine.Sweep(ctx, 100)
			require.NoError(t, err)
			want := map[media.State]media.State{media.Running: media.Succeeded, media.Failed: media.Failed, media.Uncertain: media.Expired}[c.want]
			assert.Equal(t, want, w.job(t, j.ID).State, "at its deadline at the latest it is over")
			assert.Equal(t, 1, w.studio.submits, "it is not submitted again")
		})
	}
	t.Run("B39 c, d: of a batch only what failed is reported, and an unknown job blocks nobody", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		_, m1 := submitting(w, "k1")
		_, m3 := submitting(w, "k3")
		failed := w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: m1}, {ID: "m2", Body: []byte(`{"do":"submit","organization":"acme","job":"job_none"}`)}, {ID: "m3", Body: m3}})
		assert.Equal(t, []string{"m2"}, failed)
		assert.Equal(t, 2, w.studio.submits)
	})
	t.Run("B39 e: the result of a submit could not be stored: its message continues from the provider's id", func(t *testing.T) {
		w, j := running(t, succeeded())
		w.studio.poll = []polled{succeeded()}
		w.broken["put"] = errors.New("the bucket is away")
		w.run(t, 20*time.Second)
		assert.Equal(t, media.Running, w.job(t, j.ID).State)
		assert.Positive(t, w.job(t, j.ID).PollFailures)
		delete(w.broken, "put")
		w.run(t, time.Minute)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		assert.Equal(t, 1, w.studio.submits)
	})
	t.Run("B39 e: work in hand is written, and the process stops before the job says so: its message finishes it", func(t *testing.T) {
		for fuse := 1; fuse <= 20; fuse++ {
			w := newWorld()
			w.studio.submit = []submitted{{work: mp4}}
			j, body := submitting(w, "k1")
			w.fuse = fuse
			w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: body}})
			w.fuse = 0
			if left := w.job(t, j.ID); left.State == media.Running {
				assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: body}}))
				assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
			}
			assert.LessOrEqual(t, w.studio.submits, 1)
		}
	})
	t.Run("B39 e: the same, found by the sweeper", func(t *testing.T) {
		w := newWorld()
		w.studio.submit = []submitted{{work: mp4}}
		j, body := submitting(w, "k1")
		w.fuse = 11 // the job names its object, and is not over
		w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: body}})
		require.Equal(t, media.Running, w.job(t, j.ID).State)
		w.now = w.now.Add(5 * time.Minute)
		_, err := w.engine.Sweep(ctx, 100)
		require.NoError(t, err)
		w.run(t, time.Second)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		assert.Zero(t, w.studio.polls, "there is nobody to ask")
	})
	t.Run("B39 f: the same POST with the same key has the same job, and one submit", func(t *testing.T) {
		w, j := running(t)
		again, fresh, err := w.engine.Begin(ctx, order())
		require.NoError(t, err)
		assert.False(t, fresh)
		assert.Equal(t, j, again)
		assert.Equal(t, 1, w.studio.submits)
		other := order()
		other.Fingerprint = "G"
		_, _, err = w.engine.Begin(ctx, other)
		require.ErrorIs(t, err, jobs.ErrConflict)
		other = order()
		other.Organization = "other"
		theirs, fresh, err := w.engine.Begin(ctx, other)
		require.NoError(t, err)
		assert.True(t, fresh)
		assert.NotEqual(t, j.ID, theirs.ID)
	})
	t.Run("F27: the client leaves while its job is submitted: the submit goes on, and the repeat returns the job", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		client, left := context.WithCancel(ctx)
		w.engine.Studios = map[string]provider.Studio{"fal": leaving{&w.studio, left}}
		j, _ := submitting(w, "k1")
		got, err := w.engine.Submit(client, j)
		require.NoError(t, err)
		require.Error(t, client.Err())
		assert.Equal(t, media.Running, got.State)
		again, fresh, err := w.engine.Begin(ctx, order())
		require.NoError(t, err)
		assert.False(t, fresh)
		assert.Equal(t, got, again)
		assert.Equal(t, 1, w.studio.submits)
	})
	t.Run("B39 e: a copy that is made again, of another content, is another object, and the job names its own", func(t *testing.T) {
		w, j := running(t, succeeded(), succeeded())
		w.fuse = 9 // after the object, before the job
		assert.Equal(t, []string{"m"}, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: polling(j, 1)}}))
		require.Len(t, w.objects, 1)
		w.works["https://provider.test/x.mp4?sig=S1"] = work{content: mp4 + " again"}
		assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: polling(j, 1)}}))
		done := w.job(t, j.ID)
		require.Equal(t, media.Succeeded, done.State)
		assert.Len(t, w.objects, 2)
		assert.Equal(t, digest(string(w.objects[done.Result.Object])), done.Result.SHA256)
	})
	t.Run("F29: a submit's message is lost: the sweeper sends it again", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		j, _ := submitting(w, "k1")
		w.now = w.now.Add(media.Overdue + time.Second)
		_, err := w.engine.Sweep(ctx, 100)
		require.NoError(t, err)
		w.run(t, time.Second)
		assert.Equal(t, media.Running, w.job(t, j.ID).State)
	})
}

func TestWhatASubmitsAnswerMeans(t *testing.T) {
	html := failure(fault.Auth, fault.Observation{Status: 403, Sent: true})
	for name, c := range map[string]struct {
		answers []submitted
		asked   []string
		state   media.State
		code    string
	}{
		"a throttle: the next channel":                               {[]submitted{{err: status(429, fault.RateLimited)}, accepted()}, []string{"one", "two"}, media.Running, ""},
		"a key that is refused: the next channel":                    {[]submitted{{err: status(401, fault.Auth)}, accepted()}, []string{"one", "two"}, media.Running, ""},
		"no connection: the next channel":                            {[]submitted{{err: failure(fault.Network, fault.Observation{Local: fault.Dial})}, accepted()}, []string{"one", "two"}, media.Running, ""},
		"every channel throttles":                                    {[]submitted{{err: status(429, fault.RateLimited)}}, []string{"one", "two"}, media.Failed, "provider_rate_limited"},
		"a mistake of the client":                                    {[]submitted{{err: status(400, fault.InvalidRequest)}, accepted()}, []string{"one"}, media.Failed, "invalid_input"},
		"a wrong key, as Google says it: 400 is no definite refusal": {[]submitted{{err: status(400, fault.Auth)}, accepted()}, []string{"one"}, media.Failed, "provider_error"},
		"a spent quota, with 400":                                    {[]submitted{{err: status(400, fault.Quota)}, accepted()}, []string{"one"}, media.Failed, "provider_error"},
		"402":                                                        {[]submitted{{err: status(402, fault.Quota)}, accepted()}, []string{"one", "two"}, media.Running, ""},
		"404: a model that this one does not have":                   {[]submitted{{err: status(404, fault.ModelUnavailable)}, accepted()}, []string{"one", "two"}, media.Running, ""},
		"502":                                {[]submitted{{err: status(502, fault.ServerError)}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"503, overloaded":                    {[]submitted{{err: status(503, fault.Overloaded)}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"a 503 that says when to come again": {[]submitted{{err: status(503, fault.RateLimited)}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"moderation, as 400":                 {[]submitted{{err: status(400, fault.ContentPolicy)}, accepted()}, []string{"one"}, media.Failed, "content_filter"},
		"moderation, as 403, is no reason to ask another": {[]submitted{{err: status(403, fault.ContentPolicy)}, accepted()}, []string{"one"}, media.Failed, "content_filter"},
		"F27: the connection broke after it was sent":     {[]submitted{{err: lost()}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"500": {[]submitted{{err: status(500, fault.ServerError)}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"408": {[]submitted{{err: &fault.Failure{Observation: fault.Observation{Status: 408, Sent: true, Parsed: true}, Class: fault.Timeout, Ambiguous: true}}}, []string{"one"}, media.Uncertain, ""},
		"403 without an error body, as a proxy answers":        {[]submitted{{err: html}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"our own deadline, after it was sent":                  {[]submitted{{err: failure(fault.Deadline, fault.Observation{Local: fault.OutOfTime, Sent: true})}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"an error that nobody has classified":                  {[]submitted{{err: errors.New("?")}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"accepted, without anything to ask for it by":          {[]submitted{{}, accepted()}, []string{"one"}, media.Uncertain, ""},
		"the work itself":                                      {[]submitted{{work: mp4}}, []string{"one"}, media.Succeeded, ""},
		"the work itself, which is none":                       {[]submitted{{work: "<html>busy</html>"}}, []string{"one"}, media.Failed, "provider_error"},
		"a request that the first adapter cannot put in words": {[]submitted{{err: failure(fault.UnsupportedParameter, fault.Observation{Local: fault.Refused, Param: "seconds"})}, accepted()}, []string{"one", "two"}, media.Running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.studio.submit, w.studio.poll = c.answers, []polled{pending()}
			j := w.post(t, order())
			assert.Equal(t, c.state == media.Uncertain, j.State == media.Uncertain && j.LastError.Message != "", "one of which nobody knows says why")
			assert.Equal(t, c.state, j.State)
			assert.Equal(t, c.asked, w.studio.asked)
			assert.LessOrEqual(t, w.studio.created[j.ID], 1)
			if c.code != "" {
				require.NotNil(t, j.Error)
				assert.Equal(t, c.code, j.Error.Code)
			}
			assert.Len(t, w.called, len(c.asked))
		})
	}
	t.Run("B40: what a provider says of a mistake is told without addresses, hosts and keys", func(t *testing.T) {
		w := newWorld()
		said := fault.Observation{Status: 400, Sent: true, Parsed: true, Message: "cannot fetch https://client.test/x.png?sig=S1 for one.test with sk-12345678901 : it is no picture"}
		w.studio.submit = []submitted{{err: failure(fault.InvalidRequest, said)}}
		j := w.post(t, order())
		require.Equal(t, media.Failed, j.State)
		assert.Equal(t, "the provider refused the request: cannot fetch for with : it is no picture", j.Error.Message)
		assert.Equal(t, j.LastError, *j.Error)
		assert.Equal(t, j.Error.Message, j.View().Error.Message)
	})
	t.Run("nobody can take it: it waits, and expires", func(t *testing.T) {
		w := newWorld()
		o := order()
		o.Model = "unheard-of"
		j, _, err := w.engine.Begin(ctx, o)
		require.NoError(t, err)
		_, err = w.engine.Submit(ctx, j)
		require.ErrorIs(t, err, jobs.ErrNobody)
		assert.Equal(t, []string{"submitting it: no channel can take the job"}, w.trouble, "and whoever runs the gateway learns of it")
		assert.Equal(t, media.Queued, w.job(t, j.ID).State)
		w.now = w.now.Add(media.Lifetime)
		_, err = w.engine.Sweep(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, media.Expired, w.job(t, j.ID).State)
	})
	t.Run("an organization's own key comes first, and where a channel takes no other it is the only one", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{{err: status(429, fault.RateLimited)}}, []polled{pending()}
		for model, want := range map[string][]string{"veo": {"one own", "one main", "two main"}, "veo-own": {"only own"}} {
			o := order()
			o.Organization, o.Model, o.Key = "bring", model, model
			w.called = nil
			w.post(t, o)
			var got []string
			for _, c := range w.called {
				got = append(got, c.Channel.Name+" "+c.Credential.Alias)
			}
			assert.Equal(t, want, got)
		}
	})
}

func TestWhatAPollsAnswerMeans(t *testing.T) {
	works := func(u string) polled {
		return polled{Status: provider.Status{State: media.Succeeded, Artifact: &provider.Artifact{URL: u}}}
	}
	for name, c := range map[string]struct {
		answer polled
		state  media.State
		code   string
	}{
		"B40 b: the link answers 403 when it is copied":               {works("https://provider.test/gone"), media.Failed, "result_expired"},
		"F28: done, without a work":                                   {polled{Status: provider.Status{State: media.Succeeded}}, media.Failed, "upstream_no_artifact"},
		"done, with a work at no address":                             {works(""), media.Failed, "upstream_no_artifact"},
		"an empty work":                                               {works("empty"), media.Failed, "upstream_no_artifact"},
		"an address that must not be asked":                           {works("inside"), media.Failed, "provider_error"},
		"a page in place of a video":                                  {works("html"), media.Failed, "provider_error"},
		"a song in place of a video":                                  {works("song"), media.Failed, "provider_error"},
		"a work that is too large":                                    {works("large"), media.Failed, "provider_error"},
		"a work that is cut short: it is asked for again":             {works("cut"), media.Running, ""},
		"a work that has not the size it was said to have":            {works("short"), media.Running, ""},
		"a work that cannot be read now":                              {works("busy"), media.Running, ""},
		"F28: an unknown word":                                        {polled{Status: provider.Status{State: media.Running, Strange: "REHEARSING"}}, media.Running, ""},
		"F28: 502":                                                    {polled{err: status(502, fault.ServerError)}, media.Running, ""},
		"F28: 404 on a known job":                                     {polled{Status: provider.Status{State: media.Expired, Error: media.Error{Code: "expired", Message: "gone"}}}, media.Expired, "expired"},
		"moderation":                                                  {polled{Status: provider.Status{State: media.Failed, Error: media.Error{Code: "content_filter", Message: "refused"}}}, media.Failed, "content_filter"},
		"it failed, and nobody says why":                              {polled{Status: provider.Status{State: media.Failed}}, media.Failed, "provider_error"},
		"cancelled at the provider":                                   {polled{Status: provider.Status{State: media.Cancelled}}, media.Cancelled, ""},
		"an error that nobody has classified says nothing of the job": {polled{err: errors.New("?")}, media.Running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, j := running(t, c.answer)
			w.works = map[string]work{"empty": {size: 0, content: "", err: nil}, "inside": {err: provider.ErrUntrusted}, "html": {content: "<html>"}, "song": {content: mp3},
				"large": {content: mp4, size: 2 << 30}, "cut": {content: mp4, cut: true}, "short": {content: mp4, size: 1000}, "busy": {err: errors.New("503")}}
			w.works["empty"] = work{content: "", cut: false, size: -1}
			w.run(t, 3*time.Second)
			got := w.job(t, j.ID)
			assert.Equal(t, c.state, got.State)
			assert.Equal(t, 1, w.studio.polls)
			if c.code != "" {
				require.NotNil(t, got.Error)
				assert.Equal(t, c.code, got.Error.Code)
			}
			if c.state == media.Running {
				assert.Len(t, w.queue, 1, "it is asked for again")
				assert.EqualValues(t, 2, got.Seq)
			} else {
				assert.Empty(t, w.queue)
			}
			assert.Nil(t, got.Result)
			assert.Equal(t, c.answer.Strange, got.Strange)
			assert.NotContains(t, fmt.Sprint(w.trouble, got), "S1")
		})
	}
	t.Run("a job that goes on says what went wrong last", func(t *testing.T) {
		w := newWorld()
		w.studio.submit = []submitted{{err: status(429, fault.RateLimited)}, accepted()}
		w.studio.poll = []polled{{err: status(502, fault.ServerError)}, pending(), succeeded()}
		j := w.post(t, order())
		assert.Equal(t, media.Error{Code: "provider_rate_limited", Message: "the provider answered with an error: rate_limited", Class: "rate_limited"}, j.LastError)
		w.run(t, 3*time.Second)
		got := w.job(t, j.ID)
		assert.Equal(t, media.Running, got.State)
		assert.Equal(t, "provider_unavailable", got.LastError.Code)
		assert.Nil(t, got.View().Error, "which is no client's affair while it goes on")
		w.run(t, time.Minute)
		got = w.job(t, j.ID)
		assert.Equal(t, media.Succeeded, got.State)
		assert.Nil(t, got.Error)
		assert.Nil(t, got.View().Error)
	})
	t.Run("F28: a provider that is down and wants to be asked each second does not end a job in half a minute", func(t *testing.T) {
		w, j := running(t)
		soon := fault.Hint{Known: true, Wait: time.Second}
		w.studio.poll = []polled{{err: &fault.Failure{Observation: fault.Observation{Status: 503, Sent: true, Parsed: true, Hint: soon}, Class: fault.Overloaded}}}
		w.run(t, 10*time.Minute)
		assert.Equal(t, media.Running, w.job(t, j.ID).State)
		w.studio.poll = []polled{succeeded()}
		w.run(t, time.Minute)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
	})
	t.Run("nor one that is up, and whose work takes twenty minutes", func(t *testing.T) {
		w, j := running(t)
		w.studio.poll = []polled{{Status: provider.Status{State: media.Running, Hint: time.Second}}}
		w.run(t, 20*time.Minute)
		assert.Equal(t, media.Running, w.job(t, j.ID).State)
		assert.Less(t, w.studio.polls, media.MaxPolls*3/4)
		w.studio.poll = []polled{succeeded()}
		w.run(t, time.Minute)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
	})
	t.Run("its channel is not configured any more: whoever runs the gateway has a quarter of an hour to bring it back", func(t *testing.T) {
		w, j := running(t)
		w.studio.poll = []polled{succeeded()}
		whole := w.engine.Catalog
		w.engine.Catalog = &catalog.Catalog{}
		w.run(t, 15*time.Minute)
		got := w.job(t, j.ID)
		assert.Equal(t, media.Running, got.State)
		assert.Equal(t, "no_provider_available", got.LastError.Code)
		assert.Contains(t, w.trouble, "asking its provider: the channel or the credential that has the job is not configured any more")
		assert.Zero(t, w.studio.polls)
		w.engine.Catalog = whole
		w.run(t, 2*time.Minute)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
	})
	t.Run("F28: twenty failures in a row end it", func(t *testing.T) {
		w, j := running(t)
		w.studio.poll = []polled{{err: status(502, fault.ServerError)}}
		w.run(t, 25*time.Minute)
		got := w.job(t, j.ID)
		assert.Equal(t, media.Failed, got.State)
		assert.Equal(t, media.MaxPollFailures, w.studio.polls)
		assert.Equal(t, "provider_unavailable", got.Error.Code)
	})
}

func TestMessages(t *testing.T) {
	t.Run("F29: every message twice: one end, and no more polls than a message at a time needs", func(t *testing.T) {
		w, j := running(t, pending(), pending(), succeeded())
		w.studio.poll = []polled{pending(), pending(), succeeded()}
		for range 40 {
			if len(w.queue) == 0 {
				break
			}
			d := w.queue[0]
			w.queue = w.queue[1:]
			if d.at.After(w.now) {
				w.now = d.at
			}
			w.deliver(d)
			w.deliver(d)
		}
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		assert.Equal(t, 1, w.ends[j.ID])
		assert.Equal(t, 3, w.studio.polls, "the second one of each is a duplicate")
		assert.Len(t, w.told, 1)
		assert.Len(t, w.objects, 1)
	})
	t.Run("F29: a lost poll is sent again by the sweeper, two minutes after it was due", func(t *testing.T) {
		w, j := running(t, succeeded())
		w.queue = nil
		w.now = w.now.Add(media.Overdue)
		did, err := w.engine.Sweep(ctx, 100)
		require.NoError(t, err)
		assert.Empty(t, did)
		w.now = w.now.Add(3 * time.Second)
		w.engine.Jobs = &lagging{Store: w.engine.Jobs} // all three find it
		for range 3 {
			did, err = w.engine.Sweep(ctx, 100)
			require.NoError(t, err)
			assert.Equal(t, map[media.Task]int{media.Enqueue: 1}, did)
		}
		w.engine.Jobs = store{w}
		did, err = w.engine.Sweep(ctx, 100)
		require.NoError(t, err)
		assert.Empty(t, did, "for two minutes more its message is on its way")
		w.run(t, time.Second)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		assert.Equal(t, 1, w.studio.polls, "three sweepers are one poll")
	})
	t.Run("a message of the next poll, whose write is not there, is as good as the old one", func(t *testing.T) {
		w, j := running(t)
		assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: polling(j, 2)}}))
		assert.EqualValues(t, 2, w.job(t, j.ID).Seq)
	})
	t.Run("a hint above 900 s has no message: the sweeper asks when it has come", func(t *testing.T) {
		w, j := running(t)
		w.studio.poll = []polled{{Status: provider.Status{State: media.Running, Hint: 20 * time.Minute}}, succeeded()}
		w.run(t, 10*time.Second)
		assert.Empty(t, w.queue)
		w.now = w.job(t, j.ID).NextPollAt.Add(time.Millisecond)
		_, err := w.engine.Sweep(ctx, 100)
		require.NoError(t, err)
		w.run(t, time.Second)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
	})
	t.Run("a queue that takes nothing loses no job", func(t *testing.T) {
		w, j := running(t, pending(), succeeded())
		d := w.queue[0]
		w.broken["send"] = errors.New("the queue is away")
		w.now = w.now.Add(2 * time.Second)
		assert.True(t, w.deliver(d))
		assert.EqualValues(t, 2, w.job(t, j.ID).Seq)
		assert.NotEmpty(t, w.trouble)
		delete(w.broken, "send")
		w.queue = nil
		w.now = w.now.Add(3 * time.Minute)
		_, err := w.engine.Sweep(ctx, 100)
		require.NoError(t, err)
		w.run(t, time.Minute)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
	})
	t.Run("a store that does not answer has the message come again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, j := running(t, succeeded())
			for _, call := range []string{"get", "replace"} {
				w.broken[call] = errors.New("the table is away")
				assert.Equal(t, []string{"m"}, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: polling(j, 1)}}))
				delete(w.broken, call)
			}
			assert.Equal(t, media.Running, w.job(t, j.ID).State)
			w.studio.poll = []polled{succeeded()}
			assert.Empty(t, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m", Body: polling(j, 1)}}))
			assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		})
	})
	t.Run("a panic is its own message's failure", func(t *testing.T) {
		w, j := running(t)
		bad := w.engine.Studios
		w.engine.Studios = map[string]provider.Studio{"fal": panicking{}}
		assert.Equal(t, []string{"m1", "m3"}, w.engine.HandleBatch(ctx, []jobs.Record{{ID: "m1", Body: polling(j, 1)}, {ID: "m2", Body: polling(j, 0)}, {ID: "m3", Body: polling(j, 1)}}))
		assert.Equal(t, []string{"string", "string"}, w.panics, "of what type, and not what it says")
		w.engine.Studios = bad
	})
	t.Run("when less than five seconds are left the rest comes again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, j := running(t)
			w.engine.Studios = map[string]provider.Studio{"fal": slow{w}}
			within, cancel := context.WithTimeout(ctx, 15*time.Second)
			defer cancel()
			var records []jobs.Record
			for i := range 8 {
				records = append(records, jobs.Record{ID: fmt.Sprint("m", i), Body: polling(j, 1)})
			}
			begun := time.Now()
			failed := w.engine.HandleBatch(within, records)
			assert.Equal(t, []string{"m5", "m6", "m7"}, failed)
			assert.Equal(t, 10*time.Second, time.Since(begun))
			assert.EqualValues(t, 2, w.job(t, j.ID).Seq, "what was begun is written down")
			assert.Equal(t, []string{"m0"}, w.engine.HandleBatch(expiring(t, 4*time.Second), records[:1]))
		})
	})
}

// expiring is a context that ends soon.
func expiring(t *testing.T, d time.Duration) context.Context {
	c, cancel := context.WithTimeout(ctx, d)
	t.Cleanup(cancel)
	return c
}

type panicking struct{ provider.Studio }

func (panicking) Submit(context.Context, provider.Task) (provider.Submission, error) {
	panic("sk-secret")
}

func (panicking) Poll(context.Context, provider.Task) (provider.Status, error) { panic("sk-secret") }

type slow struct{ w *world }

// leaving is a provider that sees whether its caller breaks off.
type leaving struct {
	*studio
	left context.CancelFunc
}

func (l leaving) Submit(ctx context.Context, t provider.Task) (provider.Submission, error) {
	l.left()
	if ctx.Err() != nil {
		return provider.Submission{}, failure(fault.Cancelled, fault.Observation{Local: fault.Left, Sent: true})
	}
	return l.studio.Submit(ctx, t)
}

func (slow) Synchronous() bool                                                  { return false }
func (slow) Submit(context.Context, provider.Task) (provider.Submission, error) { panic("twice") }
func (slow) Cancel(context.Context, provider.Task) (bool, error)                { return false, nil }
func (s slow) Poll(ctx context.Context, _ provider.Task) (provider.Status, error) {
	<-ctx.Done()
	return provider.Status{}, failure(fault.Deadline, fault.Observation{Local: fault.OutOfTime, Sent: true})
}

func TestDeadlinesAndCancels(t *testing.T) {
	t.Run("at its deadline a job is asked for a last time, its provider is asked to stop, and it is expired", func(t *testing.T) {
		w, j := running(t)
		asked := 0
		w.studio.cancel = func() (bool, error) { asked++; return false, nil }
		w.run(t, media.Lifetime+time.Second)
		got := w.job(t, j.ID)
		assert.Equal(t, media.Expired, got.State)
		assert.Equal(t, 1, asked)
		assert.Equal(t, media.Lifetime, got.FinishedAt.Sub(start))
		assert.Len(t, w.told, 1)
	})
	for name, c := range map[string]struct {
		submit []submitted
		poll   polled
		want   string
	}{
		"one of which nobody knows": {[]submitted{{err: lost()}}, pending(),
			"it never became known whether the provider had taken the job, and it was not submitted again; the last that was heard: the provider answered with an error: network"},
		"one whose provider is silent": {[]submitted{accepted()}, polled{err: status(503, fault.Overloaded), Status: provider.Status{}},
			"the job did not end before its deadline; the last that was heard: the provider answered with an error: overloaded"},
		"one that failed to be asked for, and then was": {[]submitted{accepted()}, pending(), "the job did not end before its deadline"},
	} {
		t.Run("expired, "+name+", it says what is known of it", func(t *testing.T) {
			w := limited(catalog.Jobs{MaxPollFailures: 100})
			w.studio.submit, w.studio.poll = c.submit, []polled{{err: status(502, fault.ServerError)}, c.poll}
			j := w.post(t, order())
			w.run(t, media.Lifetime)
			_, err := w.engine.Sweep(ctx, 10)
			require.NoError(t, err)
			got := w.job(t, j.ID)
			require.Equal(t, media.Expired, got.State)
			assert.Equal(t, &media.Error{Code: "expired", Message: c.want}, got.Error)
			assert.Equal(t, c.want, got.View().Error.Message)
		})
	}
	t.Run("one that waits until its deadline says that nobody took it", func(t *testing.T) {
		w := newWorld()
		w.engine.Studios = nil
		j, _, err := w.engine.Begin(ctx, order())
		require.NoError(t, err)
		w.now = w.now.Add(media.Lifetime)
		_, err = w.engine.Sweep(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, "no provider took the job before its deadline", w.job(t, j.ID).Error.Message)
	})
	t.Run("one whose provider's answer makes us panic ends at its deadline all the same, and its callback is told", func(t *testing.T) {
		w, j := running(t)
		w.engine.Studios = map[string]provider.Studio{"fal": panicking{}}
		w.queue = nil
		w.now = w.now.Add(media.Lifetime)
		_, err := w.engine.Sweep(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, media.Expired, w.job(t, j.ID).State)
		assert.Equal(t, []string{"string"}, w.panics)
		w.run(t, time.Second)
		assert.Len(t, w.told, 1)
	})
	t.Run("jobs that cannot be read keep no other from being looked after", func(t *testing.T) {
		w, j := running(t)
		w.queue, w.studio.poll = nil, []polled{succeeded()}
		w.engine.Jobs = partly{w.engine.Jobs}
		w.now = w.now.Add(media.Overdue + time.Minute)
		did, err := w.engine.Sweep(ctx, 10)
		require.ErrorIs(t, err, errUnread)
		assert.Equal(t, map[media.Task]int{media.Enqueue: 1}, did)
		w.run(t, time.Second)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
	})
	t.Run("one that is done at its deadline is not thrown away", func(t *testing.T) {
		w, j := running(t)
		w.queue, w.studio.poll = nil, []polled{succeeded()}
		w.now = w.now.Add(media.Lifetime)
		_, err := w.engine.Sweep(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
	})
	for name, c := range map[string]struct {
		state  media.State
		cancel func() (bool, error)
		want   jobs.Cancelled
		then   media.State
	}{
		"a queued job": {media.Queued, nil, jobs.Confirmed, media.Cancelled},
		"a running job, and the provider confirms": {media.Running, func() (bool, error) { return true, nil }, jobs.Confirmed, media.Cancelled},
		"a running job, and the provider will see": {media.Running, func() (bool, error) { return false, nil }, jobs.Asked, media.Running},
		"a running job, and nobody could be asked": {media.Running, func() (bool, error) { return false, status(503, fault.ServerError) }, jobs.NotNow, media.Running},
		"a job of which nobody knows":              {media.Uncertain, nil, jobs.NotNow, media.Uncertain},
		"a job that is over":                       {media.Failed, nil, jobs.Over, media.Failed},
	} {
		t.Run("cancelling "+name, func(t *testing.T) {
			w := newWorld()
			w.studio.poll, w.studio.cancel = []polled{pending()}, c.cancel
			w.studio.submit = map[media.State][]submitted{media.Running: {accepted()}, media.Uncertain: {{err: lost()}}, media.Failed: {{err: status(400, fault.InvalidRequest)}}}[c.state]
			j, _, err := w.engine.Begin(ctx, order())
			require.NoError(t, err)
			if c.state != media.Queued {
				_, err = w.engine.Submit(ctx, j)
				require.NoError(t, err)
			}
			require.Equal(t, c.state, w.job(t, j.ID).State)
			for range 2 {
				got, what, err := w.engine.Cancel(ctx, "acme", j.ID)
				require.NoError(t, err)
				assert.Equal(t, c.then, got.State)
				assert.Equal(t, c.want, what)
				if c.then == media.Cancelled {
					c.want = jobs.Over
				}
			}
			none, _, err := w.engine.Cancel(ctx, "other", j.ID)
			require.NoError(t, err)
			assert.Nil(t, none)
		})
	}
	t.Run("a job that a provider takes while it is cancelled is not called cancelled without asking", func(t *testing.T) {
		w, j := running(t)
		asked := 0
		w.studio.cancel = func() (bool, error) { asked++; return false, nil }
		old := media.New(j.ID, j.Organization, j.Kind, j.Model, j.Request, j.EventID, start) // as it was read before
		w.engine.Jobs = &stale{Store: w.engine.Jobs, first: old}
		got, what, err := w.engine.Cancel(ctx, "acme", j.ID)
		require.NoError(t, err)
		assert.Equal(t, media.Running, got.State)
		assert.Equal(t, jobs.Asked, what)
		assert.Equal(t, 1, asked)
	})
}

// lagging is a store whose index stays as it was when it was asked first.
type lagging struct {
	media.Store
	open []media.Job
}

func (l *lagging) Open(ctx context.Context, before time.Time, limit int) (_ []media.Job, err error) {
	if l.open == nil {
		l.open, err = l.Store.Open(ctx, before, limit)
	}
	return l.open, err
}

// stale is a store whose first answer is of a moment ago.
type stale struct {
	media.Store
	first media.Job
	read  bool
}

func (s *stale) Get(ctx context.Context, organization, id string) (*media.Job, error) {
	if !s.read {
		s.read = true
		return &s.first, nil
	}
	return s.Store.Get(ctx, organization, id)
}

func TestCallbacks(t *testing.T) {
	ended := func(t *testing.T) (*world, media.Job) {
		w, j := running(t, polled{Status: provider.Status{State: media.Failed, Error: media.Error{Code: "content_filter", Message: "refused"}}})
		return w, j
	}
	t.Run("an event is signed as Standard Webhooks has it, and holds what the client may see", func(t *testing.T) {
		w, j := ended(t)
		w.run(t, time.Minute)
		require.Len(t, w.told, 1)
		e := w.told[0]
		assert.Equal(t, "https://example.com/hook", e.address)
		assert.Equal(t, w.job(t, j.ID).EventID, e.header.Get("webhook-id"))
		assert.Equal(t, fmt.Sprint(start.Add(2*time.Second).Unix()), e.header.Get("webhook-timestamp"))
		key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		require.NoError(t, err)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(e.header.Get("webhook-id") + "." + e.header.Get("webhook-timestamp") + "." + e.body))
		assert.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), e.header.Get("webhook-signature"))
		assert.JSONEq(t, fmt.Sprintf(`{"type":"media.job.failed","timestamp":"2030-01-01T00:00:02Z","data":{"id":%q,"object":"media.job","kind":"video","status":"failed","model":"veo","progress":0,"created_at":1893456000,
			"finished_at":1893456002,"deadline":1893457800,"error":{"code":"content_filter","message":"refused"},"result":null}}`, j.ID), e.body)
	})
	for name, c := range map[string]struct {
		answer func(n int) (int, error)
		told   int
		taken  bool
	}{
		"200 ends it":                            {func(int) (int, error) { return 200, nil }, 1, true},
		"410 ends it, untold":                    {func(int) (int, error) { return 410, nil }, 1, false},
		"500 twice is told three times":          {func(n int) (int, error) { return map[bool]int{true: 500, false: 204}[n < 3], nil }, 3, true},
		"a redirect is no answer":                {func(int) (int, error) { return 302, nil }, media.MaxTells, false},
		"nobody there is told of it eight times": {func(int) (int, error) { return 0, errors.New("no public host") }, media.MaxTells, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, j := ended(t)
			w.answer = c.answer
			w.run(t, 2*time.Hour)
			assert.Len(t, w.told, c.told)
			assert.True(t, w.job(t, j.ID).TellAt.IsZero())
			assert.Equal(t, c.taken, !w.job(t, j.ID).ToldAt.IsZero())
			for _, e := range w.told {
				assert.Equal(t, w.told[0].body, e.body)
				assert.Equal(t, w.told[0].header.Get("webhook-id"), e.header.Get("webhook-id"))
			}
		})
	}
	t.Run("a lost message is sent again by the sweeper, and one that comes twice tells once", func(t *testing.T) {
		w, j := ended(t)
		w.now = w.now.Add(2 * time.Second)
		d := w.queue[0]
		w.queue = nil
		assert.True(t, w.deliver(d))
		w.queue = nil // the message to tell it
		w.now = w.now.Add(media.Overdue + time.Millisecond)
		w.engine.Jobs = &lagging{Store: w.engine.Jobs}
		for range 2 {
			did, err := w.engine.Sweep(ctx, 10)
			require.NoError(t, err)
			assert.Equal(t, map[media.Task]int{media.Tell: 1}, did)
		}
		w.run(t, time.Minute)
		assert.Len(t, w.told, 1)
		assert.True(t, w.job(t, j.ID).TellAt.IsZero())
	})
	t.Run("without a secret nothing is told", func(t *testing.T) {
		for _, secret := range []string{"", "whsec_", "whsec_%"} {
			w, _ := ended(t)
			w.engine.Signing = func(string) redact.Secret { return redact.NewSecret(secret) }
			w.run(t, 2*time.Hour)
			assert.Empty(t, w.told)
			assert.NotEmpty(t, w.trouble)
		}
	})
	t.Run("a job without a callback tells nobody", func(t *testing.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{succeeded()}
		o := order()
		o.Callback = ""
		j := w.post(t, o)
		w.run(t, time.Minute)
		assert.Equal(t, media.Succeeded, w.job(t, j.ID).State)
		assert.Empty(t, w.told)
		assert.Empty(t, w.queue)
	})
}

// partly is a store in which a job cannot be read.
type partly struct{ media.Store }

var errUnread = errors.New("its status is \"paused\"")

func (p partly) Open(ctx context.Context, before time.Time, limit int) ([]media.Job, error) {
	all, err := p.Store.Open(ctx, before, limit)
	return all, errors.Join(err, errUnread)
}
