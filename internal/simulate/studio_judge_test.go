package simulate_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/simulate"
)

// call makes any request of a client that knows nothing of the APIs.
func (u upstream) call(t testing.TB, method, path, body string, headers map[string]string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://sim.test"+path, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := u.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(all)
}

var (
	googleKey = map[string]string{"X-Goog-Api-Key": "key"}
	falKey    = map[string]string{"Authorization": "Key key"}
	songKey   = map[string]string{"Xi-Api-Key": "key"}
)

const (
	veoPath  = "/v1beta/models/sim-video:predictLongRunning"
	falPath  = "/sim-video-fal"
	songPath = "/v1/music"
)

// TestJobAPIsAreStrict: a bad order is refused in the provider's own words, and is no job.
func TestJobAPIsAreStrict(t *testing.T) {
	instance := func(more string) string { return `{"instances":[{"prompt":"p"` + more + `}]}` }
	parameters := func(p string) string { return `{"instances":[{"prompt":"p"}],"parameters":{` + p + `}}` }
	for name, tt := range map[string]struct {
		method, path string
		headers      map[string]string
		body         string
		status       int
		why          string
	}{
		"an operation":                                {"POST", veoPath, googleKey, instance(`,"image":{"bytesBase64Encoded":"aGk=","mimeType":"image/png"}`), 200, `{"name":"models/sim-video/operations/job-sim-000001"}`},
		"an operation with all its parameters":        {"POST", veoPath, googleKey, parameters(`"aspectRatio":"9:16","durationSeconds":8,"resolution":"1080p","negativePrompt":"n","personGeneration":"allow_adult","sampleCount":1`), 200, `"name"`},
		"an operation without a key":                  {"POST", veoPath, nil, instance(``), 403, "PERMISSION_DENIED"},
		"an operation with a bad key":                 {"POST", veoPath, map[string]string{"X-Goog-Api-Key": "bad"}, instance(``), 400, "API_KEY_INVALID"},
		"an operation with another API's key":         {"POST", veoPath, falKey, instance(``), 403, "PERMISSION_DENIED"},
		"an operation that is no JSON":                {"POST", veoPath, googleKey, `{`, 400, "Invalid JSON payload received."},
		"an operation with a member of fal's":         {"POST", veoPath, googleKey, instance(`,"aspect_ratio":"16:9"`), 400, `Unknown name \"aspect_ratio\": Cannot find field.`},
		"an operation with a seed":                    {"POST", veoPath, googleKey, parameters(`"seed":1`), 400, `Unknown name \"seed\": Cannot find field.`},
		"an operation without an instance":            {"POST", veoPath, googleKey, `{}`, 400, "Exactly one instance"},
		"an operation without a prompt":               {"POST", veoPath, googleKey, `{"instances":[{}]}`, 400, "prompt is required"},
		"an operation with a picture without type":    {"POST", veoPath, googleKey, instance(`,"image":{"bytesBase64Encoded":"aGk="}`), 400, "instances[0].image"},
		"an operation of five seconds":                {"POST", veoPath, googleKey, parameters(`"durationSeconds":5`), 400, "durationSeconds is out of range"},
		"an operation of an odd shape":                {"POST", veoPath, googleKey, parameters(`"aspectRatio":"4:3"`), 400, "aspectRatio '4:3'"},
		"an operation of an odd size":                 {"POST", veoPath, googleKey, parameters(`"resolution":"480p"`), 400, "resolution '480p'"},
		"an operation with two samples":               {"POST", veoPath, googleKey, parameters(`"sampleCount":2`), 400, "sampleCount"},
		"an operation of a model that there is not":   {"POST", "/v1/models/sim-other:predictLongRunning", googleKey, instance(``), 404, "NOT_FOUND"},
		"an operation of fal's model":                 {"POST", "/v1/models/sim-video-fal:predictLongRunning", googleKey, instance(``), 404, "NOT_FOUND"},
		"an operation that there is not":              {"GET", "/v1/models/sim-video/operations/x", googleKey, "", 404, "Operation not found."},
		"an operation that is put":                    {"PUT", "/v1/models/sim-video/operations/x", googleKey, "", 404, "NOT_FOUND"},
		"an operation that is got where one is begun": {"GET", veoPath, googleKey, "", 404, "NOT_FOUND"},
		"another method of a model of Google's":       {"POST", "/v1beta/models/sim-video:predict", googleKey, instance(``), 404, "NOT_FOUND"},
		"another address of Google's":                 {"GET", "/v1beta/nothing", googleKey, "", 404, "NOT_FOUND"},
		"a file without a key":                        {"GET", "/v1beta/files/x:download?alt=media", nil, "", 403, "PERMISSION_DENIED"},
		"a file that there is not":                    {"GET", "/v1beta/files/x:download?alt=media", googleKey, "", 403, "File or it may not exist"},

		"a request of the queue":                  {"POST", falPath, falKey, `{"prompt":"p"}`, 200, `"status":"IN_QUEUE","queue_position":2,"request_id":"job-sim-000001","response_url":"http://sim.test/sim-video-fal/requests/job-sim-000001"`},
		"a request with all its members":          {"POST", "/v1" + falPath, falKey, `{"prompt":"p","duration":"8s","aspect_ratio":"16:9","resolution":"720p","image_url":"https://x.test/a","negative_prompt":"n","seed":1}`, 200, "http://sim.test/v1/sim-video-fal/requests/job-sim-000001/cancel"},
		"a request without a key":                 {"POST", falPath, nil, `{"prompt":"p"}`, 401, `{"detail":"Authentication is required to access this application."}`},
		"a request with a bearer":                 {"POST", falPath, map[string]string{"Authorization": "Bearer key"}, `{"prompt":"p"}`, 401, "Authentication is required"},
		"a request with a bad key":                {"POST", falPath, map[string]string{"Authorization": "Key bad"}, `{"prompt":"p"}`, 401, "No user found for Key ID and Secret"},
		"a request that is no JSON":               {"POST", falPath, falKey, `[`, 422, "value is not a valid dict"},
		"a request with a member of Google's":     {"POST", falPath, falKey, `{"prompt":"p","aspectRatio":"16:9"}`, 422, `{"detail":[{"loc":["body","aspectRatio"],"msg":"extra fields not permitted","type":"value_error.extra"}]}`},
		"a request without a prompt":              {"POST", falPath, falKey, `{}`, 422, `{"detail":[{"loc":["body","prompt"],"msg":"field required","type":"value_error.missing"}]}`},
		"a request of five seconds":               {"POST", falPath, falKey, `{"prompt":"p","duration":"5s"}`, 422, `permitted: '4s', '6s', '8s'`},
		"a request of an odd shape":               {"POST", falPath, falKey, `{"prompt":"p","aspect_ratio":"1:1"}`, 422, `"aspect_ratio"`},
		"a request of an odd size":                {"POST", falPath, falKey, `{"prompt":"p","resolution":"480p"}`, 422, `"resolution"`},
		"a request with a picture of no address":  {"POST", falPath, falKey, `{"prompt":"p","image_url":"a.png"}`, 422, `"image_url"`},
		"a request of a model that there is not":  {"POST", "/fal-ai/other", falKey, `{"prompt":"p"}`, 404, "does not exist"},
		"a request that there is not":             {"GET", falPath + "/requests/x/status?logs=0", falKey, "", 404, `{"detail":"Request not found"}`},
		"a result that there is not":              {"GET", falPath + "/requests/x", falKey, "", 404, "Request not found"},
		"a cancellation of nothing":               {"PUT", falPath + "/requests/x/cancel", falKey, "", 404, `{"status":"NOT_FOUND"}`},
		"a cancellation that is posted":           {"POST", falPath + "/requests/x/cancel", falKey, "", 405, "Not allowed to POST"},
		"another address of a request":            {"GET", falPath + "/requests/x/logs", falKey, "", 404, "Not found"},
		"a file of fal's that there is not":       {"GET", "/files/b/x/output.mp4", nil, "", 404, "File not found"},
		"a file of fal's by another name":         {"GET", "/files/b/x/input.mp4", nil, "", 404, "Not found"},
		"a file of fal's, and the key is told":    {"GET", "/files/b/x/output.mp4", falKey, "", 400, "must not get a key"},
		"a file of fal's, and another key is too": {"GET", "/files/b/x/output.mp4", map[string]string{"Authorization": "Bearer key"}, "", 400, "must not get a key"},

		"music":                                {"POST", songPath + "?output_format=mp3_44100_128", songKey, `{"prompt":"p","model_id":"sim-music","music_length_ms":30000,"force_instrumental":true}`, 200, "ID3"},
		"music without a key":                  {"POST", songPath, nil, `{"prompt":"p","model_id":"sim-music"}`, 401, "needs_authorization"},
		"music with a bad key":                 {"POST", songPath, map[string]string{"Xi-Api-Key": "bad"}, `{"prompt":"p","model_id":"sim-music"}`, 401, `{"detail":{"status":"invalid_api_key","message":"Invalid API key"}}`},
		"music that is no JSON":                {"POST", songPath, songKey, `"p"`, 422, "Input should be a valid dictionary"},
		"music with a member of the gateway's": {"POST", songPath, songKey, `{"prompt":"p","model_id":"sim-music","length_seconds":30}`, 422, `{"detail":[{"loc":["body","length_seconds"],"msg":"Extra inputs are not permitted","type":"extra_forbidden"}]}`},
		"music without a prompt":               {"POST", songPath, songKey, `{"model_id":"sim-music"}`, 422, `{"detail":[{"loc":["body","prompt"],"msg":"Field required","type":"missing"}]}`},
		"music of a second":                    {"POST", songPath, songKey, `{"prompt":"p","model_id":"sim-music","music_length_ms":1000}`, 422, "between 10000 and 300000"},
		"music in another format":              {"POST", songPath + "?output_format=pcm_44100", songKey, `{"prompt":"p","model_id":"sim-music"}`, 422, "mp3 only"},
		"music of a model that there is not":   {"POST", songPath, songKey, `{"prompt":"p"}`, 400, "model_not_found"},
		"music that is got":                    {"GET", songPath, songKey, "", 405, "Not allowed to GET"},
		"another address of music's":           {"POST", songPath + "/plan", songKey, `{}`, 404, "Not found"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				status, answer := u.call(t, tt.method, tt.path, tt.body, tt.headers)
				assert.Equal(t, tt.status, status, answer)
				assert.Contains(t, answer, tt.why)
				if status == 200 {
					assert.Len(t, u.Jobs(), 1)
				} else {
					assert.Empty(t, u.Jobs())
				}
			})
		})
	}
}

// TestAJobIsAskedForWhereItIs: in another API's words, by another model's name or before it is done there is nothing.
func TestAJobIsAskedForWhereItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		u.call(t, "POST", veoPath, `{"instances":[{"prompt":"p"}]}`, googleKey)
		u.call(t, "POST", falPath, `{"prompt":"p"}`, falKey)
		for path, want := range map[string]int{
			"/v1beta/models/sim-video/operations/job-sim-000001":      200,
			"/v1beta/models/sim-video-lost/operations/job-sim-000001": 404,
			"/v1beta/models/sim-video/operations/job-sim-000002":      404,
			"/v1beta/files/job-sim-000001:download?alt=media":         403,
		} {
			status, answer := u.call(t, "GET", path, "", googleKey)
			assert.Equal(t, want, status, path+answer)
		}
		for path, want := range map[string]int{
			falPath + "/requests/job-sim-000002/status": 202,
			falPath + "/requests/job-sim-000001/status": 404,
			falPath + "/requests/job-sim-000002":        400,
		} {
			status, answer := u.call(t, "GET", path, "", falKey)
			assert.Equal(t, want, status, path+answer)
		}
		status, _ := u.call(t, "GET", "/files/b/job-sim-000002/output.mp4", "", nil)
		assert.Equal(t, 404, status)
		time.Sleep(6 * time.Second)
		status, _ = u.call(t, "GET", "/files/b/job-sim-000002/output.mp4", "", nil)
		assert.Equal(t, 200, status)
		status, _ = u.call(t, "GET", "/v1beta/files/job-sim-000001:download?alt=media", "", falKey)
		assert.Equal(t, 403, status)
		assert.Equal(t, []int{1, 2}, []int{u.Jobs()[0].Polls, u.Jobs()[1].Polls}, "what is asked for elsewhere is not counted")
	})
}

// TestWhatIsNotThereIsNotGivenOut: a job that has no work has no file either.
func TestWhatIsNotThereIsNotGivenOut(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		for _, model := range []string{"sim-video-fal-empty", "sim-video-fal-failed"} {
			u.call(t, "POST", "/"+model, `{"prompt":"p"}`, falKey)
		}
		time.Sleep(time.Minute)
		for _, j := range u.Jobs() {
			status, _ := u.call(t, "GET", "/files/b/"+j.ID+"/output.mp4", "", nil)
			assert.Equal(t, 404, status, j.Model)
		}
	})
}

// TestASlowWorkIsAsSlowAsItIsToldToBe.
func TestASlowWorkIsAsSlowAsItIsToldToBe(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		l := u.order(t, "sim-music-slow", "http://sim.test/v1", `{"model":"m","prompt":"p"}`)
		l.live(t, 1)
		assert.Equal(t, "work: 200000 bytes of audio/mpeg, in 2s", l.seen[0])
	}, simulate.SlowTakes(2*time.Second))
}

// TestAnyBaseAddress: with a version or without one, the addresses in the answers lead back.
func TestAnyBaseAddress(t *testing.T) {
	for _, base := range []string{"http://sim.test", "http://sim.test/v1", "http://sim.test/v1beta"} {
		for _, model := range []string{"sim-video", "sim-video-fal", "sim-music"} {
			t.Run(base+" "+model, func(t *testing.T) {
				inBubble(t, func(t *testing.T, u upstream) {
					l := u.order(t, model, base, `{"model":"m","prompt":"p"}`)
					l.live(t, 10)
					assert.Equal(t, sumOf(t, u.Jobs()[0]), l.seen[len(l.seen)-1])
				})
			})
		}
	}
}

// TestAJobMovesOn: the places before it in fal's queue, and the time that a job takes.
func TestAJobMovesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		u.call(t, "POST", falPath, `{"prompt":"p"}`, falKey)
		var words []string
		for range 9 {
			status, answer := u.call(t, "GET", falPath+"/requests/job-sim-000001/status?logs=0", "", falKey)
			var s struct {
				Status   string `json:"status"`
				Position *int   `json:"queue_position"`
			}
			require.NoError(t, json.Unmarshal([]byte(answer), &s))
			assert.Equal(t, s.Status == "COMPLETED", status == 200)
			if s.Position != nil {
				s.Status += " " + string(rune('0'+*s.Position))
			}
			words = append(words, s.Status)
			time.Sleep(time.Minute / 8)
		}
		assert.Equal(t, []string{"IN_QUEUE 2", "IN_QUEUE 1", "IN_QUEUE 0", "IN_PROGRESS", "IN_PROGRESS", "IN_PROGRESS", "IN_PROGRESS", "IN_PROGRESS", "COMPLETED"}, words)
	}, simulate.JobTakes(time.Minute))
}

// TestAJobIsCancelled: one that waits at once, one that runs is told of by a later poll, and one that is done is not.
func TestAJobIsCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		model     string
		after     time.Duration
		confirmed bool
		then      string // what the next poll says
		job       simulate.Job
	}{
		"while it waits":           {"sim-video-fal", time.Second, true, "cancelled", simulate.Job{State: "cancelled", Cancels: 1}},
		"while it runs":            {"sim-video-fal", 3 * time.Second, false, "cancelled", simulate.Job{State: "cancelled", Cancels: 1}},
		"when it is done":          {"sim-video-fal", 7 * time.Second, false, "running", simulate.Job{State: "succeeded", Cancels: 1}},
		"one that would never end": {"sim-video-fal-never", time.Hour, false, "cancelled", simulate.Job{State: "cancelled", Cancels: 1}},
		"an operation cannot be":   {"sim-video", time.Second, false, "running", simulate.Job{State: "running"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, u upstream) {
				l := u.order(t, tt.model, "http://sim.test/v1", `{"model":"m","prompt":"p"}`)
				taken, err := l.studio.Submit(t.Context(), l.task)
				require.NoError(t, err)
				l.task.Job.Upstream = taken.Upstream
				time.Sleep(tt.after)
				stopped := time.Now()
				confirmed, err := l.studio.Cancel(t.Context(), l.task)
				require.NoError(t, err)
				assert.Equal(t, tt.confirmed, confirmed)
				time.Sleep(2 * time.Second)
				s, err := l.studio.Poll(t.Context(), l.task)
				require.NoError(t, err)
				assert.Equal(t, tt.then, string(s.State))
				got := u.Jobs()[0]
				assert.Equal(t, tt.job, simulate.Job{State: got.State, Cancels: got.Cancels})
				if got.State == "cancelled" {
					assert.Equal(t, stopped, got.Finished)
					_, err := l.studio.Cancel(t.Context(), l.task)
					require.NoError(t, err)
					assert.Equal(t, stopped, u.Jobs()[0].Finished, "once")
				}
			})
		})
	}
}

// TestMusicThatNeverComes: the order is taken, and whoever waits waits.
func TestMusicThatNeverComes(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		l := u.order(t, "sim-music-never", "http://sim.test/v1", `{"model":"m","prompt":"p"}`)
		ctx, cancel := context.WithTimeout(t.Context(), 140*time.Second)
		defer cancel()
		_, err := l.studio.Submit(ctx, l.task)
		assert.Contains(t, failed(err), ", ambiguous")
		assert.Equal(t, "running", u.Jobs()[0].State)
	})
}

// TestOrdersAreCountedByTheirPrompt: whichever API they come to. A second order is what a gateway must not make by itself.
func TestOrdersAreCountedByTheirPrompt(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		for _, model := range []string{"sim-video-lost", "sim-music-cut", "sim-music-cut", "sim-music-down"} {
			u.order(t, model, "http://sim.test/v1", `{"model":"m","prompt":"once"}`).live(t, 1)
		}
		u.order(t, "sim-video-fal", "http://sim.test/v1", `{"model":"m","prompt":"other"}`).live(t, 1)
		var listed []simulate.Job
		require.NoError(t, json.Unmarshal([]byte(u.get(t, http.MethodGet, "/_sim/jobs")), &listed))
		require.Len(t, listed, 4)
		var seen []string
		for _, j := range listed {
			seen = append(seen, j.ID+" "+j.Model+" "+j.Prompt+" "+string(rune('0'+j.Submits)))
		}
		assert.Equal(t, []string{"job-sim-000001 sim-video-lost once 3", "job-sim-000002 sim-music-cut once 3", "job-sim-000003 sim-music-cut once 3",
			"job-sim-000004 sim-video-fal other 1"}, seen)
		assert.Equal(t, 1, u.Count("sim-music-down"), "the log has what was refused, too")

		u.get(t, http.MethodPost, "/_sim/reset")
		assert.Equal(t, "[]", u.get(t, http.MethodGet, "/_sim/jobs"))
		l := u.order(t, "sim-video", "http://sim.test/v1", `{"model":"m","prompt":"once"}`)
		l.live(t, 1)
		assert.Equal(t, []any{"job-sim-000005", 1}, []any{u.Jobs()[0].ID, u.Jobs()[0].Submits}, "no id is given twice")
	})
}

// TestMusicBreaksOffForTheFirstOrderOnly: the next with the same prompt is whole.
func TestMusicBreaksOffForTheFirstOrderOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		for _, want := range []string{"work: 100000 of 200000 bytes", "work: 200000 bytes of audio/mpeg"} {
			l := u.order(t, "sim-music-cut", "http://sim.test/v1", `{"model":"m","prompt":"p"}`)
			l.live(t, 1)
			assert.Equal(t, want, l.seen[0])
		}
	})
}

// TestAScriptedModelHasNoOtherBehaviour, in its jobs as in its answers.
func TestAScriptedModelHasNoOtherBehaviour(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		late := simulate.Healthy()
		late.Delay = time.Minute
		u.Script("sim-video-lost", simulate.Reply{Status: 500}, late, simulate.Healthy())
		l := u.order(t, "sim-video-lost", "http://sim.test/v1", `{"model":"m","prompt":"p"}`)
		start := time.Now()
		l.live(t, 1)
		l.live(t, 2)
		assert.Equal(t, time.Minute+time.Second, time.Since(start))
		assert.Equal(t, []string{"submit: server_error 500, ambiguous", "accepted", "succeeded", "work: opening the work: status 418: it is not given out now"}, l.seen)
		assert.Equal(t, []string{`call 4 of "sim-video-lost": its script has no reply left`}, u.Unexpected())
	})
}

// TestTheLogHidesEveryKey of the three.
func TestTheLogHidesEveryKey(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		for _, model := range []string{"sim-video", "sim-video-fal", "sim-music"} {
			l := u.order(t, model, "http://sim.test/v1", `{"model":"m","prompt":"p"}`)
			l.live(t, 10)
			assert.NotZero(t, u.Count(model))
		}
		assert.NotContains(t, u.get(t, http.MethodGet, "/_sim/log"), sesame)
	})
}

// TestABigWorkIsNotHeld: it is made while it is written.
func TestABigWorkIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, u upstream) {
		l := u.order(t, "sim-video-fal-big", "http://sim.test", `{"model":"m","prompt":"p"}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l.live(t, 10)
		runtime.ReadMemStats(&after)
		assert.Contains(t, l.seen, "work: 62914560 bytes of video/mp4")
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "bytes that were allocated, both sides together")
	})
}

// TestWorksDifferByTheirJobs, and by nothing else.
func TestWorksDifferByTheirJobs(t *testing.T) {
	a, b := simulate.Job{ID: "a", API: "veo", Size: 1000}, simulate.Job{ID: "b", API: "veo", Size: 1000}
	assert.Equal(t, sumOf(t, a), sumOf(t, a))
	assert.NotEqual(t, sumOf(t, a), sumOf(t, b))
	work, err := io.ReadAll(a.Work())
	require.NoError(t, err)
	assert.Len(t, work, 1000)
}

// TestTheOverviewNamesEveryEnding of a model's name.
func TestTheOverviewNamesEveryEnding(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, m := range simulate.JobModels() {
		ending := m.Name
		for _, healthy := range []string{"sim-video-fal", "sim-video", "sim-music"} {
			if rest, ok := strings.CutPrefix(m.Name, healthy); ok {
				ending = rest
				break
			}
		}
		assert.Contains(t, string(text), "//\t"+ending, m.Name)
		assert.NotEmpty(t, m.Does)
	}
}
