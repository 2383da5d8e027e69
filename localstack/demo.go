package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"spillway/internal/dynamo"
	"spillway/internal/media"
	"spillway/internal/settings"
	"spillway/internal/simulate"
)

// demoLasts bounds the demonstration, without the build.
const demoLasts = 40 * time.Second

// demo runs the stack, beside one that may be running, has it make media jobs, shows what becomes of them, and ends. Something that is
// not as it should be is an error.
func demo(ctx context.Context, o options, stdout, terminal io.Writer) error {
	stderr := &sharedWriter{to: terminal}
	d, err := readDeployment()
	if err != nil {
		return err
	}
	s, err := o.bringUp(ctx, d, d.functions, func(f function) string { return "demo-" + logOf(f) }, stderr)
	if err != nil {
		return stopped(ctx, err)
	}
	defer s.close()
	s.feed(o, d, stderr)
	entrance, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for the demonstration: %w", err)
	}
	front := s.functions[d.entrance()]
	open, shut := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { _ = serve(open, entrance, front.front) }) // ends with open: whoever calls it is this function
	defer serving.Wait()
	defer shut()

	ctx, cancel := context.WithTimeout(ctx, demoLasts)
	defer cancel()
	p := &performance{out: stdout, url: "http://" + entrance.Addr().String(), stack: s, table: front.env[settings.JobsTable], began: time.Now()}
	if err := p.run(ctx); err != nil {
		return fmt.Errorf("demonstrating media jobs: %w", err)
	}
	return nil
}

// A performance is one run of the demonstration.
type performance struct {
	out   io.Writer
	url   string
	stack *running
	table string
	began time.Time
}

func (p *performance) run(ctx context.Context) error {
	of := "-" + rand.Text()[:6] // a key is bound to its job for as long as the table keeps it
	callback := strings.TrimSuffix(p.stack.simulator.url, "/v1") + "/_sim/callback"
	video := order{"/v1/videos", "my-video" + of, `{"model":"sim-video","prompt":"a lighthouse in the rain","callback_url":"` + callback + `"}`}
	var jobs []media.View
	for _, o := range []order{video, {"/v1/music", "my-song" + of, `{"model":"sim-music","prompt":"a slow waltz"}`},
		{"/v1/videos", "my-mistake" + of, `{"model":"sim-video-fal-never","prompt":"the wrong film"}`}} {
		j, _, err := p.order(ctx, o, http.StatusAccepted)
		if err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	again, header, err := p.order(ctx, video, http.StatusAccepted)
	if err != nil {
		return err
	}
	if again.ID != jobs[0].ID || header.Get("Idempotent-Replayed") != "true" {
		return errors.New("the same order with the same key is not the same job")
	}
	p.sayf("the same job: Idempotent-Replayed: true\n")
	if _, _, err := p.call(ctx, http.MethodPost, "/v1/jobs/"+jobs[2].ID+"/cancel", "", "", http.StatusOK, http.StatusAccepted); err != nil {
		return err
	}
	if err := p.watch(ctx, jobs, []media.State{media.Succeeded, media.Succeeded, media.Cancelled}); err != nil {
		return err
	}
	for _, j := range jobs[:2] {
		if err := p.fetch(ctx, j.ID); err != nil {
			return err
		}
	}
	if err := p.told(ctx, jobs[0].ID); err != nil {
		return err
	}
	return p.finish(ctx, jobs)
}

// order is a job that is asked for.
type order struct{ path, key, body string }

func (p *performance) order(ctx context.Context, o order, want int) (j media.View, header http.Header, err error) {
	text, header, err := p.call(ctx, http.MethodPost, o.path, o.key, o.body, want)
	if err != nil {
		return j, nil, err
	}
	if err := json.Unmarshal(text, &j); err != nil || j.ID == "" {
		return j, nil, fmt.Errorf("%s has answered with no job: %s", o.path, text)
	}
	return j, header, nil
}

// call makes a request as a client does, and shows it and its answer.
func (p *performance) call(ctx context.Context, method, path, key, body string, want ...int) ([]byte, http.Header, error) {
	shown := "curl -X " + method
	if key != "" {
		shown += " -H 'Idempotency-Key: " + key + "'"
	}
	if body != "" {
		shown += " -d '" + body + "'"
	}
	p.sayf("$ %s %s\n", shown, path)
	status, header, text, err := p.ask(ctx, method, path, key, body)
	if err != nil {
		return nil, nil, err
	}
	p.sayf("%d %s\n", status, text)
	if !slices.Contains(want, status) {
		return nil, nil, fmt.Errorf("%s %s was answered with %d, not with %v", method, path, status, want)
	}
	return text, header, nil
}

func (p *performance) ask(ctx context.Context, method, path, key, body string) (status int, header http.Header, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("calling the gateway: %w", err)
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil, nil, fmt.Errorf("reading the gateway's answer: %w", err)
	}
	return resp.StatusCode, resp.Header, []byte(strings.TrimSpace(string(text))), nil
}

// look is a job as it is now.
func (p *performance) look(ctx context.Context, id string) (j media.View, err error) {
	status, _, text, err := p.ask(ctx, http.MethodGet, "/v1/jobs/"+id, "", "")
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal(text, &j); err != nil || status != http.StatusOK || j.ID != id {
		return j, fmt.Errorf("the job %s is answered with %d: %s", id, status, text)
	}
	return j, nil
}

// watch shows each change of the jobs until they have ended, as they are to.
func (p *performance) watch(ctx context.Context, jobs []media.View, ends []media.State) error {
	p.sayf("\nGET /v1/jobs/{id}, whenever something has changed:\n\n")
	seen := map[string]string{}
	for {
		open := 0
		for i, j := range jobs {
			now, err := p.look(ctx, j.ID)
			if err != nil {
				return err
			}
			if line := fmt.Sprintf("%-10s %3d %%", now.Status, now.Progress); seen[j.ID] != line {
				seen[j.ID] = line
				p.sayf("%6.1f s  %s  %-5s %-20s %s\n", time.Since(p.began).Seconds(), j.ID[:12], now.Kind, now.Model, line)
			}
			switch {
			case !now.Status.Terminal():
				open++
			case now.Status != ends[i]:
				return fmt.Errorf("the job of %s is %s, not %s: %+v", now.Model, now.Status, ends[i], now.Error)
			}
		}
		if open == 0 {
			return nil
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return errors.New("the jobs did not end in time")
		}
	}
}

// fetch follows a job's link, without any key, and holds what is there to what the job says of it.
func (p *performance) fetch(ctx context.Context, id string) error {
	p.sayf("\n")
	_, header, err := p.call(ctx, http.MethodGet, "/v1/jobs/"+id+"/content", "", "", http.StatusFound)
	if err != nil {
		return err
	}
	j, err := p.look(ctx, id)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, header.Get("Location"), nil)
	if err != nil {
		return fmt.Errorf("following the link of %s: %w", id, err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("following the link of %s: %w", id, err)
	}
	defer resp.Body.Close()
	digest := sha256.New()
	n, err := io.Copy(digest, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the link of %s gives out %d bytes with %d: %w", id, n, resp.StatusCode, err)
	}
	if sum := hex.EncodeToString(digest.Sum(nil)); j.Result == nil || sum != j.Result.SHA256 || n != j.Result.Size {
		return fmt.Errorf("the link of %s gives out %d bytes of %s, the job says %+v", id, n, sum, j.Result)
	}
	p.sayf("the link gave out %d bytes of %s, with the digest that the job names\n", n, resp.Header.Get("Content-Type"))
	return nil
}

// told waits for the event of a job's end.
func (p *performance) told(ctx context.Context, id string) error {
	for {
		for _, c := range p.stack.simulator.provider.Callbacks() {
			if strings.Contains(c.Body, id) {
				p.sayf("\nits callback was told: webhook-id %s, webhook-signature %s\n", c.ID, c.Signature)
				return nil
			}
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return errors.New("the callback was not told in time")
		}
	}
}

// finish shows the jobs as people see them in the DynamoDB console, and how often the provider was called for each.
func (p *performance) finish(ctx context.Context, jobs []media.View) error {
	for _, j := range jobs[:2] {
		if err := p.row(ctx, j.ID); err != nil {
			return err
		}
	}
	p.sayf("\nWhat the provider counts:\n\n")
	for _, j := range p.stack.simulator.provider.Jobs() {
		p.sayf("  %-20s %d submits, %d polls, %d downloads, %d cancels: %s\n", j.Model, j.Submits, j.Polls, j.Downloads, j.Cancels, j.State)
		if j.Submits != 1 {
			return fmt.Errorf("the provider has taken the order of %s %d times", j.Model, j.Submits)
		}
		if j.Model == jobs[2].Model && j.State != simulate.JobCancelled {
			return fmt.Errorf("the provider goes on with what was cancelled: %s", j.State)
		}
	}
	p.sayf("\ndone after %.1f s\n", time.Since(p.began).Seconds())
	return nil
}

// row shows the item of a job, attribute by attribute.
func (p *performance) row(ctx context.Context, id string) error {
	out, err := dynamo.New(p.stack.aws.config()).Scan(ctx, &dynamodb.ScanInput{TableName: &p.table})
	if err != nil {
		return fmt.Errorf("reading the table of jobs: %w", err)
	}
	for _, item := range out.Items {
		if shownAs(item["job"]) != id {
			continue
		}
		p.sayf("\nThe row of %s in %s:\n\n", id, p.table)
		var names []string
		for name := range item {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			p.sayf("  %-16s %s\n", name, shownAs(item[name]))
		}
		return nil
	}
	return fmt.Errorf("the table of jobs has no row of %s", id)
}

// shownAs is a value as the console shows it, in one line.
func shownAs(v dynamodbtypes.AttributeValue) string {
	var text string
	switch v := v.(type) {
	case *dynamodbtypes.AttributeValueMemberS:
		text = v.Value
	case *dynamodbtypes.AttributeValueMemberN:
		text = v.Value
	case *dynamodbtypes.AttributeValueMemberB:
		text = string(v.Value)
	}
	const most = 140
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

func (p *performance) sayf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// wait returns ctx's error when that ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
