package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spillway/internal/simulate"
	"spillway/internal/simulate/bench/answer"
	"spillway/internal/simulate/state"
)

const (
	// storeTakes is how much longer each call of the store takes than on this machine: about what DynamoDB does within its
	// region. What is added to a request is then the calls that it waited for.
	storeTakes = 3 * time.Millisecond
	// mostShared bounds the requests of each kind in a run: each takes as long as its calls.
	mostShared = 200
	// idle are the processes that are left alone until their snapshot is too old.
	idle = 5
	// tooOld is the age from which a snapshot is not used any more, and a little (policy.md §6).
	tooOld = 5100 * time.Millisecond
	// failures in each run. Each is followed by successes, so that no circuit opens.
	failures, successes = 10, 4

	failing      = "bench-failing"
	failingRoute = "bench-failing-then-short"
)

// shared measures what the shared state costs: gateways that have it beside gateways that do not, and the calls that its store
// gets.
type shared struct {
	state    *state.State
	with     *target
	without  *target
	idleWith []*target // left alone
	idleAlso []*target // without, left alone as well
}

// share starts the gateways with and without shared state, each behind a function URL: as a plain HTTP server one would hold
// the end of a short answer until its books are closed.
func (s *stage) share(ctx context.Context, bootstrap, upstream, folder string) (err error) {
	s.shared = new(shared)
	if s.shared.state, err = state.Open(); err != nil {
		return err
	}
	s.closers = append(s.closers, s.shared.state.Close)
	s.shared.state.Delay(storeTakes)
	provider, url, err := failingProvider()
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() { provider.Close() })
	settings, err := sharedConfiguration()
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	file := filepath.Join(folder, "shared.json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	env := []string{"SPILLWAY_CONFIG=" + file, "SPILLWAY_SIMULATOR_URL=" + upstream + "/v1", "FAILING_URL=" + url + "/v1", "SIM_KEY=bench-upstream-key"}
	for i := range idle + 1 {
		with, errWith := s.function(bootstrap, slices.Concat(env, s.shared.state.Env()))
		without, errWithout := s.function(bootstrap, env)
		if err := errors.Join(errWith, errWithout); err != nil {
			return err
		}
		if i == 0 {
			s.shared.with, s.shared.without = with, without
			continue
		}
		s.shared.idleWith, s.shared.idleAlso = append(s.shared.idleWith, with), append(s.shared.idleAlso, without)
	}
	return s.shared.warmUp(ctx)
}

func (s *shared) warmUp(ctx context.Context) error {
	for _, t := range slices.Concat([]*target{s.with, s.without}, s.idleWith, s.idleAlso) {
		for range 100 {
			if _, err := t.plain(ctx); err != nil {
				return fmt.Errorf("warming up: %w", err)
			}
		}
	}
	return nil
}

// failingProvider has a model that fails once and then answers a few times, for ever.
func failingProvider() (*simulate.Provider, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listening: %w", err)
	}
	provider := simulate.New(simulate.Gap(0))
	turn := append([]simulate.Reply{simulate.Error(500, "server_error", "", "failed")}, slices.Repeat([]simulate.Reply{simulate.Healthy()}, successes)...)
	provider.Script(failing, slices.Repeat(turn, 1000)...)
	go func() { _ = provider.Serve(listener) }() // ends with the provider
	return provider, "http://" + listener.Addr().String(), nil
}

func sharedConfiguration() ([]byte, error) {
	type object = map[string]any
	digest := sha256.Sum256([]byte(clientKey))
	credentials := []object{{"alias": "only", "secret": "env:SIM_KEY"}}
	return json.Marshal(object{
		"version": "bench",
		"providers": []object{{"name": "upstream", "kind": "openai", "base_url": "env:SPILLWAY_SIMULATOR_URL", "prices": "sim"},
			{"name": "failing", "kind": "openai", "base_url": "env:FAILING_URL", "prices": "sim"}},
		"channels": []object{{"provider": "upstream", "models": []string{answer.Short}, "credentials": credentials},
			{"provider": "failing", "models": []string{failing}, "credentials": credentials}},
		"routes":        []object{{"alias": failingRoute, "models": []string{failing, answer.Short}}},
		"organizations": []object{{"name": "bench", "models": []string{"*"}}},
		"keys":          []object{{"sha256": hex.EncodeToString(digest[:]), "alias": "bench", "organization": "bench"}},
	})
}

// keyed is the target for requests with the Idempotency-Keys that key makes.
func (t *target) keyed(key func() string) *target {
	return &target{url: t.url, pid: t.pid, client: t.client, key: key}
}

// counted is how many calls the store got: those that read, those that write, and apart from them those that write traces of
// requests which did not go well.
type counted struct{ reads, writes, traces int }

func (c *counted) add(other counted) {
	c.reads, c.writes, c.traces = c.reads+other.reads, c.writes+other.writes, c.traces+other.traces
}

// count is what the store gets while something is done, and what follows from it at once.
func (s *shared) count(do func() error) (counted, error) {
	before := len(s.state.Calls())
	err := do()
	time.Sleep(50 * time.Millisecond) // after the last answer a gateway has its own books to close
	var c counted
	for _, call := range s.state.Calls()[before:] {
		switch {
		case strings.HasPrefix(call.Operation, "Get"):
			c.reads++
		case call.Table == s.state.Names.Requests:
			c.traces++
		default:
			c.writes++
		}
	}
	return c, err
}

// measured is one kind of request, and how it is made of each gateway.
type measured struct {
	name          string
	with, without func() (time.Duration, error)
}

// measure makes each kind of request of both gateways, in turns, and adds the calls and the time of each.
func (s *shared) measure(ctx context.Context, o options, r *report) error {
	fresh := s.with.keyed(rand.Text)
	replayed := s.with.keyed(func() string { return "bench-replayed" })
	if _, err := replayed.plain(ctx); err != nil { // the one that is replayed
		return err
	}
	plainly := func() (time.Duration, error) { return s.without.plain(ctx) }
	streamed := func() (time.Duration, error) { return s.without.firstContent(ctx) }
	requests := min(o.requests, mostShared)
	for _, m := range []measured{
		{"no key, snapshot fresh", func() (time.Duration, error) { return s.with.plain(ctx) }, plainly},
		{"with a key, plain", func() (time.Duration, error) { return fresh.plain(ctx) }, plainly},
		{"with a key, a stream to its first content", func() (time.Duration, error) { return fresh.firstContent(ctx) }, streamed},
		{"a replay", func() (time.Duration, error) { return replayed.plain(ctx) }, plainly},
	} {
		var total counted
		var with, without []time.Duration
		for done := 0; done < requests; done += turn {
			c, err := s.count(func() (err error) { with, err = timed(with, turn, m.with); return err })
			if err != nil {
				return err
			}
			total.add(c)
			if without, err = timed(without, turn, m.without); err != nil {
				return err
			}
		}
		s.add(r, m.name, total, len(with), with, without)
	}
	return errors.Join(s.stale(ctx, r), s.failed(ctx, r))
}

// timed makes so many requests and adds how long each took.
func timed(took []time.Duration, n int, ask func() (time.Duration, error)) ([]time.Duration, error) {
	for range n {
		d, err := ask()
		if err != nil {
			return took, err
		}
		took = append(took, d)
	}
	return took, nil
}

// stale makes one request of each gateway that was left alone.
func (s *shared) stale(ctx context.Context, r *report) error {
	select {
	case <-time.After(tooOld):
	case <-ctx.Done():
		return ctx.Err()
	}
	var with, without []time.Duration
	c, err := s.count(func() error {
		for i := range s.idleWith {
			var errWith, errWithout error
			with, errWith = timed(with, 1, func() (time.Duration, error) { return s.idleWith[i].plain(ctx) })
			without, errWithout = timed(without, 1, func() (time.Duration, error) { return s.idleAlso[i].plain(ctx) })
			if err := errors.Join(errWith, errWithout); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.add(r, "no key, snapshot too old", c, len(with), with, without)
	return nil
}

// failed makes requests whose first candidate fails, and that the next one answers at once. The successes after each keep the
// circuit closed; that they are reported now and then, while it is watched, is a part of what a failure costs.
func (s *shared) failed(ctx context.Context, r *report) error {
	request := strings.Replace(shortStream, answer.Short, failingRoute, 1)
	once := func(t *target) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			_, at, err := t.read(ctx, chatPath, request, `"content":"`)
			return at.mark, err
		}
	}
	var with, without []time.Duration
	var total counted
	for range failures {
		for _, of := range []struct {
			target *target
			took   *[]time.Duration
			count  bool
		}{{s.without, &without, false}, {s.with, &with, true}} {
			c, err := s.count(func() (err error) {
				if *of.took, err = timed(*of.took, 1, once(of.target)); err != nil {
					return err
				}
				_, err = timed(nil, successes, once(of.target))
				return err
			})
			if err != nil {
				return err
			}
			if of.count {
				total.add(c)
			}
		}
	}
	s.add(r, "a failed attempt, then another candidate", total, failures, with, without)
	return nil
}

func (s *shared) add(r *report, name string, c counted, requests int, with, without []time.Duration) {
	calls := "calls of the store for each request"
	r.add(figure{section: calls, name: name, unit: "reads"}, float64(c.reads)/float64(requests))
	r.add(figure{section: calls, name: name, unit: "writes"}, float64(c.writes)/float64(requests))
	if c.traces > 0 {
		r.add(figure{section: calls, name: name, unit: "traces"}, float64(c.traces)/float64(requests))
	}
	r.add(figure{section: fmt.Sprintf("latency p50 that the shared state adds, with a store that takes %s for each call", storeTakes), name: name, unit: "ms"},
		(median(with)-median(without)).Seconds()*1e3)
}
