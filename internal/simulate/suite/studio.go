package suite

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"spillway/internal/media"
	"spillway/internal/runtimeapi"
	"spillway/internal/simulate"
	"spillway/internal/simulate/state"
)

const (
	// visibility of the queues, and how often a message is received before it is put aside. The template's 15 minutes are six times
	// the poller's timeout, as Lambda wants it; here nothing runs for longer than a few seconds, and what a killed poller had in its
	// hands must come again within the suite's time.
	visibility = 6 * time.Second
	receives   = 5
	// sweepEvery is the schedule, whose shortest rate at EventBridge is a minute.
	sweepEvery = 2 * time.Second

	pollerTimeout  = 60 * time.Second
	sweeperTimeout = 30 * time.Second

	webhookSecret = "whsec_c3VpdGUtd2ViaG9vay1zZWNyZXQtb2YtMzItYnl0ZXM="
)

// jobLimits are the limits of jobs that a whole life fits into: minutes become seconds.
var jobLimits = Overrides{"deadline_ms": 60_000, "lease_ms": 15_000, "overdue_ms": 4_000, "first_poll_ms": 1_000, "slowest_poll_ms": 4_000}

// Stage is how the stage of a row's jobs differs from one without faults.
type Stage struct {
	// Takes is how long the provider takes for a job; 0 is two seconds.
	Takes time.Duration
	// Gateways and Pollers are how many environments there are at most; 0 is 2 and 3.
	Gateways, Pollers int
	// Limits are added to jobLimits.
	Limits Overrides
	// Cuts is the share of the store's, the queues' and the bucket's calls that are cut off, half of them before they are done and half
	// after.
	Cuts float64
	// Queues are the faults of each queue.
	Queues unreliable
	// Sluice puts a provider that is down before the simulated one.
	Sluice bool
}

// studio is what a row of jobs runs on: the three functions' binaries, the shared state with its queues, what feeds them, and a
// simulated provider that also receives the callbacks. Everything random on it comes from one seed.
type studio struct {
	row      Row
	seed     uint64
	provider *simulate.Provider
	sluice   *sluice // nil: there is none
	state    *state.State
	annals   annals
	book     book
	log      safeBuffer

	gateway, poller, sweeper *runtimeapi.Front
	url, simulator           string
	starve                   context.CancelFunc
	feeding, running         sync.WaitGroup
	entrance                 *http.Server

	mu    sync.Mutex
	watch state.Watch // besides the annals
	kills []time.Time
	drops int        // messages that a queue has lost
	wire  *rand.Rand // draws the calls that are cut off, of which there were so many
	cuts  int
	calm  bool     // no more are
	notes []string // printed below the row, whatever its verdict
}

// safeBuffer is a log that three fronts write to.
type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// text is what has been written.
func (b *safeBuffer) text() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.Bytes())
}

// newStudio starts a studio. Its files lie in dir.
func newStudio(row Row, bin binaries, dir string, seed uint64) (_ *studio, err error) {
	s := &studio{row: row, seed: seed, wire: rand.New(rand.NewPCG(seed, 300)), //nolint:gosec // as in random
		provider: simulate.New(simulate.JobTakes(cmp.Or(row.Stage.Takes, 2*time.Second)))}
	defer func() {
		if err != nil {
			_ = s.stop()
		}
	}()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the functions: %w", err)
	}
	s.simulator = "http://" + upstream.Addr().String()
	s.running.Go(func() { _ = s.provider.Serve(upstream) }) // ends with the provider
	if row.Stage.Sluice {
		if s.sluice, err = openSluice(s.simulator); err != nil {
			return nil, err
		}
	}
	if s.state, err = state.OpenJobs(state.Jobs{Visibility: visibility, Receives: receives}); err != nil {
		return nil, fmt.Errorf("opening the shared state: %w", err)
	}
	s.state.Watch(s.see)
	configuration := filepath.Join(dir, "gateway.json")
	if err := os.WriteFile(configuration, row.Stage.configuration(), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	if err := s.boot(bin, configuration); err != nil {
		return nil, fmt.Errorf("starting the functions: %w: %s", err, cut(string(s.log.text())))
	}
	entrance, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for clients: %w", err)
	}
	s.url = "http://" + entrance.Addr().String()
	s.entrance = &http.Server{Handler: s.gateway, ReadHeaderTimeout: time.Minute}
	s.running.Go(func() { _ = s.entrance.Serve(entrance) }) // ends with the server
	s.feed()
	return s, nil
}

// boot starts the functions, as the template has them but for their times.
func (s *studio) boot(bin binaries, configuration string) (err error) {
	env := append(s.state.Env(), "SPILLWAY_CONFIG="+configuration, "SPILLWAY_SIMULATOR_URL="+s.simulator+"/v1", "SIM_KEY="+upstreamKey,
		"SUITE_WEBHOOK_SECRET="+webhookSecret)
	if s.sluice != nil {
		env = append(env, sluiceKey+"="+s.sluice.url)
	}
	front := func(name, bootstrap string, timeout time.Duration, mode runtimeapi.InvokeMode, environments int, options ...runtimeapi.Option) *runtimeapi.Front {
		if err != nil {
			return nil
		}
		var f *runtimeapi.Front
		f, err = runtimeapi.New(runtimeapi.Function{Name: name, Bootstrap: bootstrap, Env: env, Timeout: timeout, MemoryMB: 256, Concurrency: environments,
			Mode: mode, Freeze: true, Stdout: &s.log, Stderr: &s.log}, append(options, runtimeapi.Prestart(1))...)
		return f
	}
	s.gateway = front("gateway", bin.gateway, functionTimeout, runtimeapi.Stream, cmp.Or(s.row.Stage.Gateways, 2), runtimeapi.Strict())
	s.poller = front("poller", bin.poller, pollerTimeout, runtimeapi.Buffered, cmp.Or(s.row.Stage.Pollers, 3))
	s.sweeper = front("sweeper", bin.sweeper, sweeperTimeout, runtimeapi.Buffered, 2)
	return err
}

// feed starts what invokes the poller and the sweeper. It ends with stop.
func (s *studio) feed() {
	ctx, cancel := context.WithCancel(context.Background())
	s.starve = cancel
	names := s.state.Names
	for i, q := range []struct {
		name  string
		batch int
	}{{names.Polls, 10}, {names.Generate, 1}, {names.Webhooks, 10}} {
		source := runtimeapi.EventSource{Function: courier{to: s.poller, book: &s.book}, Queue: s.unreliable(s.state.Queue(q.name), s.random(uint64(i))),
			QueueARN: state.QueueARN(q.name), BatchSize: q.batch, Concurrency: 2, Visibility: visibility, ItemFailures: true, AllowLoop: true, Log: &s.log}
		s.feeding.Go(func() { s.complain(source.Run(ctx)) })
	}
	schedule := runtimeapi.Schedule{Function: s.sweeper, ARN: "arn:aws:scheduler:us-east-1:000000000000:schedule/default/sweep", Every: sweepEvery, Log: &s.log}
	s.feeding.Go(func() { s.complain(schedule.Run(ctx)) })
}

func (s *studio) complain(err error) {
	if err != nil {
		fmt.Fprintf(&s.log, "a source of events does not run: %v\n", err)
	}
}

// random is a source of randomness of its own for each use.
func (s *studio) random(use uint64) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed, use)) //nolint:gosec // it guards nothing, and must come again
}

// see is the watch of the state's wire.
func (s *studio) see(c state.Call, m state.Moment) bool {
	s.annals.note(c, m, s.state.Names.Jobs)
	s.mu.Lock()
	watch := s.watch
	cut := !s.calm && s.row.Stage.Cuts > 0 && s.wire.Float64() < s.row.Stage.Cuts/2 // of the call in each of its two moments
	if cut {
		s.cuts++
	}
	s.mu.Unlock()
	return !cut && (watch == nil || watch(c, m))
}

// Watch sets who watches the wire from now on, besides the annals; nil: nobody.
func (s *studio) Watch(w state.Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = w
}

// stop ends everything that runs, and returns what Lambda would have let pass and would have surprised a client.
func (s *studio) stop() error {
	if s.starve != nil {
		s.starve()
	}
	if s.entrance != nil {
		_ = s.entrance.Close()
	}
	var all []error
	for _, f := range []*runtimeapi.Front{s.gateway, s.poller, s.sweeper} {
		if f == nil {
			continue
		}
		_ = f.Close() // it has no error
		for _, v := range f.Violations() {
			all = append(all, fmt.Errorf("the answer to a client breaks a rule of the platform: %s", v))
		}
	}
	s.feeding.Wait() // not before the fronts: their end ends the invocations under way
	_ = s.provider.Close()
	if s.sluice != nil {
		_ = s.sluice.server.Close()
	}
	s.running.Wait()
	if s.state != nil {
		s.state.Close()
	}
	return errors.Join(all...)
}

// notef adds a line to what is printed below the row.
func (s *studio) notef(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// kill notes a kill and makes it, of a process that is there.
func (s *studio) kill(f *runtimeapi.Front, pid int) bool {
	at := time.Now()
	if f.Kill(pid) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills = append(s.kills, at)
	return true
}

// killAll ends every environment of a function.
func (s *studio) killAll(f *runtimeapi.Front) {
	for _, e := range f.Environments() {
		s.kill(f, e.PID)
	}
}

// configuration is the stage's gateway.json.
func (st Stage) configuration() []byte {
	type object = map[string]any
	limits := maps.Clone(jobLimits)
	maps.Copy(limits, st.Limits)
	channel := func(provider string, models ...string) object {
		return object{"provider": provider, "models": models, "credentials": []object{{"alias": "only", "secret": "env:SIM_KEY"}}}
	}
	digest := sha256.Sum256([]byte(clientKey))
	providers := []object{
		{"name": "sim-veo", "kind": "veo", "base_url": "env:SPILLWAY_SIMULATOR_URL"},
		{"name": "sim-fal", "kind": "fal", "base_url": "env:SPILLWAY_SIMULATOR_URL"},
		{"name": "sim-elevenlabs", "kind": "elevenlabs", "base_url": "env:SPILLWAY_SIMULATOR_URL"},
	}
	channels := []object{channel("sim-veo", modelsOf("veo")...), channel("sim-fal", modelsOf("fal")...), channel("sim-elevenlabs", modelsOf("elevenlabs")...)}
	if st.Sluice {
		providers = append(providers, object{"name": "sluice-veo", "kind": "veo", "base_url": "env:" + sluiceKey}, object{"name": "sluice-fal", "kind": "fal", "base_url": "env:" + sluiceKey})
		first := channel("sluice-veo", video)
		first["priority"] = -1
		channels[1] = channel("sluice-fal", videoFal)
		channels = append(channels, first)
	}
	out, err := json.MarshalIndent(object{
		"version": "fault-suite", "jobs": limits, "providers": providers, "channels": channels,
		"organizations": []object{{"name": "suite", "models": []string{"*"}, "webhook_secret": "env:SUITE_WEBHOOK_SECRET"}},
		"keys":          []object{{"sha256": hex.EncodeToString(digest[:]), "alias": "suite", "organization": "suite"}},
	}, "", "  ")
	if err != nil {
		panic("suite: encoding a configuration: " + err.Error()) // a stage's options are JSON values
	}
	return out
}

// settled waits until nothing of any job is left to be done, and says what there is if that takes longer than limit.
func (s *studio) settled(ctx context.Context, limit time.Duration, f *Findings) {
	var open []string
	for until := time.Now().Add(limit); time.Now().Before(until) && ctx.Err() == nil; pause(ctx, 500*time.Millisecond) {
		items, err := s.state.Items(s.state.Names.Jobs)
		if err != nil {
			f.addf("reading the jobs: %v", err)
			return
		}
		open = open[:0]
		for _, item := range items {
			if !over(media.State(item["status"])) || item["due"] != "" {
				open = append(open, item["job"]+" "+item["status"])
			}
		}
		if len(open) == 0 {
			return
		}
	}
	f.addf("after %s something is left to be done for %d jobs: %s", limit, len(open), strings.Join(open[:min(len(open), 5)], ", "))
}

// drained waits until no queue has a message any more, and says how many there are if that takes longer than limit.
func (s *studio) drained(ctx context.Context, limit time.Duration, f *Findings) {
	var left int
	for until := time.Now().Add(limit); time.Now().Before(until) && ctx.Err() == nil; pause(ctx, 250*time.Millisecond) {
		left = 0
		for _, queue := range s.state.Names.Queues() {
			n, err := s.state.Messages(queue)
			if err != nil {
				f.addf("counting the messages of %s: %v", queue, err)
				return
			}
			left += n
		}
		if left == 0 {
			return
		}
	}
	f.addf("after %s there are still %d messages in the queues", limit, left)
}

// lives are what is known of jobs at the end, by the orders that made them.
func (s *studio) lives(orders []order) (all []life) {
	made, told, records := map[string]simulate.Job{}, map[string][]string{}, parseRecords(s.log.text())
	for _, j := range s.provider.Jobs() {
		made[j.Prompt] = j
	}
	for _, c := range s.provider.Callbacks() {
		var event media.Announcement
		_ = json.Unmarshal([]byte(c.Body), &event) // what is no job's is nobody's
		told[event.Data.ID] = append(told[event.Data.ID], c.ID)
	}
	for _, o := range orders {
		j := made[o.prompt]
		l := life{name: o.key, id: o.id, writes: s.annals.of(o.id), submits: j.Submits, polls: j.Polls, events: told[o.id]}
		for _, r := range records {
			switch {
			case r.text("job") != o.id:
			case r.kind() == "job_finished":
				l.counted++
			case r.kind() == "unknown_status":
				l.strange++
			}
		}
		all = append(all, l)
	}
	return all
}
