package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"spillway/internal/runtimeapi"
	"spillway/internal/simulate"
	"spillway/internal/simulate/state"
)

// png is the beginning of a picture.
const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

// startJobs runs the gateway and the poller, both the real binaries, with tables, queues and a bucket, and a provider that makes a
// video in a moment. The gateway is at another host than the bucket, as it is in AWS.
func startJobs(t *testing.T) *stack {
	t.Helper()
	provider := simulate.New(simulate.JobTakes(300 * time.Millisecond))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = provider.Serve(listener) }()
	t.Cleanup(func() { provider.Close(); <-served })
	cloud, err := state.OpenJobs(state.Jobs{Visibility: time.Minute, Receives: 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)

	dir := configure(t, []object{{"name": "sim-veo", "kind": "veo", "base_url": "env:SPILLWAY_SIMULATOR_URL"}}, []object{{"provider": "sim-veo", "models": []string{"sim-video", "sim-video-moderated"}}})
	env := append(cloud.Env(), "SPILLWAY_SIMULATOR_URL=http://"+listener.Addr().String()+"/v1")
	url := open(t, dir, env...)
	workers, err := runtimeapi.New(runtimeapi.Function{Name: "poller", Bootstrap: poller, Dir: dir, Timeout: time.Minute, MemoryMB: 256,
		Env: append(env, "UPSTREAM_KEY="+upstreamKey)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, queue := range cloud.Names.Queues() {
		source := runtimeapi.EventSource{Function: workers, Queue: cloud.Queue(queue), QueueARN: state.QueueARN(queue), Visibility: time.Minute, Concurrency: 2,
			ItemFailures: true, AllowLoop: true}
		running.Go(func() { _ = source.Run(ctx) })
	}
	t.Cleanup(func() { stop(); running.Wait(); workers.Close() })
	return &stack{url: strings.Replace(url, "127.0.0.1", "localhost", 1), provider: provider}
}

// seen keeps the requests that a client sends, the redirected ones too.
type seen struct {
	mu   sync.Mutex
	sent []*http.Request
}

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.sent = append(s.sent, r)
	s.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// same asserts that an answer is a work.
func same(t *testing.T, resp *http.Response, want []byte) {
	t.Helper()
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
		t.Errorf("status %d, %d bytes of %d, %v", resp.StatusCode, len(got), len(want), err)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "video/mp4" {
		t.Errorf("the content type is %s", kind)
	}
}

// TestVideos: OpenAI's SDK orders a video with a picture, waits for it and downloads it, and repeats its order.
func TestVideos(t *testing.T) {
	s := startJobs(t)
	client := s.client()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	order := func() openai.VideoNewParams {
		return openai.VideoNewParams{Model: "sim-video", Prompt: "a lighthouse at dawn", Seconds: openai.VideoSeconds8, Size: openai.VideoSize1280x720,
			InputReference: openai.VideoNewParamsInputReferenceUnion{OfFile: openai.File(strings.NewReader(png), "first.png", "image/png")}}
	}
	const key = "order-17"
	made, err := client.Videos.New(ctx, order(), option.WithHeader("Idempotency-Key", key))
	if err != nil {
		t.Fatal(err)
	}
	if made.Status != openai.VideoStatusInProgress || made.Model != "sim-video" || made.Seconds != "8" || made.Size != openai.VideoSize1280x720 || made.Prompt != "a lighthouse at dawn" {
		t.Errorf("the video is not what was ordered: %s", made.RawJSON())
	}
	done, err := client.Videos.PollStatus(ctx, made.ID, 200)
	if err != nil {
		t.Fatal(err)
	}
	if done.Status != openai.VideoStatusCompleted || done.Progress != 100 || done.CompletedAt == 0 {
		t.Fatalf("the video is not done: %s", done.RawJSON())
	}
	jobs := s.provider.Jobs()
	if len(jobs) != 1 || jobs[0].Submits != 1 {
		t.Fatalf("the provider was asked for other than one video: %+v", jobs)
	}
	want, err := io.ReadAll(jobs[0].Work())
	if err != nil {
		t.Fatal(err)
	}

	t.Run("it is downloaded", func(t *testing.T) {
		resp, err := client.Videos.DownloadContent(ctx, made.ID, openai.VideoDownloadContentParams{Variant: openai.VideoDownloadContentParamsVariantVideo})
		if err != nil {
			t.Fatal(err)
		}
		same(t, resp, want)
	})
	t.Run("its link is all that anybody needs, and a plain client's key stays at home", func(t *testing.T) {
		wire := &seen{}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/jobs/"+made.ID+"/content", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer dev")
		resp, err := (&http.Client{Transport: wire}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		same(t, resp, want)
		if len(wire.sent) != 2 {
			t.Fatalf("it took %d requests", len(wire.sent))
		}
		if link := wire.sent[1]; !strings.Contains(link.URL.RawQuery, "X-Amz-Signature=") || link.Header.Get("Authorization") != "" {
			t.Errorf("the second is not one of the link alone: to %s, with Authorization: %t", link.URL.Path, link.Header.Get("Authorization") != "")
		}
	})
	t.Run("the same order again is the same video", func(t *testing.T) {
		var raw *http.Response
		again, err := client.Videos.New(ctx, order(), option.WithHeader("Idempotency-Key", key), option.WithResponseInto(&raw))
		if err != nil {
			t.Fatal(err)
		}
		if again.ID != made.ID || again.Status != openai.VideoStatusCompleted || raw.StatusCode != http.StatusAccepted || raw.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("another video, or no replay: %d %s", raw.StatusCode, again.RawJSON())
		}
		if jobs := s.provider.Jobs(); len(jobs) != 1 || jobs[0].Submits != 1 {
			t.Errorf("it was ordered again: %+v", jobs)
		}
	})
	t.Run("an order without a key is refused in words", func(t *testing.T) {
		_, err := client.Videos.New(ctx, order())
		var e *openai.Error
		if !errors.As(err, &e) {
			t.Fatalf("%v", err)
		}
		if e.StatusCode != http.StatusBadRequest || e.Code != "idempotency_key_required" {
			t.Errorf("%d %s", e.StatusCode, e.Code)
		}
	})
	t.Run("what the provider refuses is a failed video", func(t *testing.T) {
		p := order()
		p.Model, p.Prompt = "sim-video-moderated", "something that is not allowed"
		failed, err := client.Videos.NewAndPoll(ctx, p, 200, option.WithHeader("Idempotency-Key", "order-18"))
		if err != nil {
			t.Fatal(err)
		}
		if failed.Status != openai.VideoStatusFailed || failed.Error.Code != "content_filter" {
			t.Errorf("%s", failed.RawJSON())
		}
	})
	t.Run("the videos are listed", func(t *testing.T) {
		page, err := client.Videos.List(ctx, openai.VideoListParams{Limit: openai.Int(10)})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Data) != 2 || page.Data[1].ID != made.ID || page.HasMore {
			t.Errorf("%s", page.RawJSON())
		}
	})
	t.Run("all of them are listed, one a page, from either end", func(t *testing.T) {
		var want []string
		for i := range 3 {
			failed, err := client.Videos.New(ctx, openai.VideoNewParams{Model: "sim-video-moderated", Prompt: "p"}, option.WithHeader("Idempotency-Key", fmt.Sprint("order-", 20+i)))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, failed.ID)
		}
		slices.Reverse(want)
		wire := &seen{}
		for name, p := range map[string]openai.VideoListParams{"newest": {}, "oldest": {Order: openai.VideoListParamsOrderAsc}} {
			var got []string
			p.Limit = openai.Int(1)
			pages := client.Videos.ListAutoPaging(ctx, p, option.WithHTTPClient(&http.Client{Transport: wire}))
			for pages.Next() {
				if got = append(got, pages.Current().ID); len(got) > 5 {
					break
				}
			}
			if err := pages.Err(); err != nil {
				t.Fatal(err)
			}
			if name == "oldest" {
				slices.Reverse(got)
			}
			if len(got) != 5 || !slices.Equal(got[:3], want) || got[4] != made.ID {
				t.Errorf("%s first: %v, not %v, and then two more, the last of them %s", name, got, want, made.ID)
			}
		}
		if len(wire.sent) != 10 {
			t.Errorf("five videos took %d pages a list", len(wire.sent)/2)
		}
	})
}
