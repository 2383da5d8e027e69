package suite

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"spillway/internal/simulate"
)

// Plays are the rows whose requests are not made one after the other.
var Plays = slices.Concat([]Row{
	{
		Name: "F25", Fault: "half-open with 50 concurrent requests over 8 environments",
		Candidates: []string{"sim-f25", "sim-ok"}, Environments: 8,
		Play: halfOpen, Lasts: openFor,
		Recorded: both,
	},
	{
		Name: "F25 late failure", Fault: "a slow call from before the opening fails after it",
		Candidates: []string{"sim-f25", "sim-ok"}, Environments: 2,
		Play:     late{reply: simulate.Reply{Delay: lateBy, Status: http.StatusServiceUnavailable}, calls: []string{"sim-f25", "sim-ok"}}.play,
		Recorded: both,
	},
	{
		Name: "F25 late success", Fault: "a slow call from before the opening succeeds after it",
		Candidates: []string{"sim-f25", "sim-ok"}, Environments: 2,
		Play:     late{reply: slowly(lateBy), calls: []string{"sim-f25"}}.play,
		Recorded: both,
	},
	{
		Name: "F26", Fault: "two organizations, one in an incident",
		Candidates: []string{"sim-f26a", "sim-f26b", "sim-ok"},
		Play:       incident,
		Recorded:   both,
	},
}, crashes())

// down is how a model refuses that counts against its circuit.
var down = simulate.Error(http.StatusServiceUnavailable, "server_error", "", "down")

// slowly is the healthy answer after a silence.
func slowly(d time.Duration) simulate.Reply {
	r := simulate.Healthy()
	r.Delay = d
	return r
}

// served demands the whole answer.
func (b *bench) served(o Observation, f *Findings) {
	var own Findings
	if outcome := b.row.outcome(o, &own); outcome != Whole {
		f.addf("%s: status %d, the client is left with: %s", o.id, o.Status, outcome)
	}
	for _, why := range own.list {
		f.addf("%s: %s", o.id, why)
	}
}

// called are the models of all calls since the beginning, but for those of the warm-up.
func (b *bench) called(after int) (models []string) {
	for _, c := range b.provider.Calls()[after:] {
		models = append(models, c.Model)
	}
	return models
}

// opened has the primary fail until its circuit opens: three failures in two requests, each served by the fallback.
func (b *bench) opened(ctx context.Context, f *Findings) (all []Observation) {
	for i := range 2 {
		o := b.ask(ctx, asked{id: fmt.Sprintf("suite-opening-%d", i+1), limit: 15 * time.Second})
		b.settle()
		b.served(o, f)
		all = append(all, o)
	}
	return all
}

// openFor is the longest that a circuit stays open that opens for the first time: 30 s and a tenth.
const openFor = 33*time.Second + 100*time.Millisecond

// halfOpen: when the circuit may be probed, one of 50 requests at a time does, whatever environment it is in, and all the
// others are served by the fallback while it waits.
func halfOpen(ctx context.Context, b *bench, f *Findings) []Observation {
	const requests, probeTakes = 50, 8 * time.Second
	primary := b.row.Candidates[0]
	b.provider.Script(primary, down, down, down, slowly(probeTakes))
	all := b.opened(ctx, f)
	opened := time.Now()
	f.equal("calls of the primary until its circuit opened", 3, b.provider.Count(primary))
	b.warmUp(ctx)
	pause(ctx, time.Until(opened.Add(openFor)))

	burst := make([]Observation, requests)
	var clients sync.WaitGroup
	for i := range burst {
		clients.Go(func() {
			burst[i] = b.ask(ctx, asked{id: requestID(i), limit: 30 * time.Second})
		})
	}
	clients.Wait()
	b.settle()
	var probes, during int
	for _, o := range burst {
		b.served(o, f)
		if o.Header.Get("X-LLM-Provider") == b.row.provider(primary) {
			probes++
		}
		if o.Elapsed < probeTakes {
			during++
		}
	}
	f.equal("requests that the probe served", 1, probes)
	f.equal("requests that were served while it waited", requests-1, during)
	f.equal("calls of the primary", 4, b.provider.Count(primary))
	f.list = append(f.list, b.provider.Unexpected()...)
	all[0].Calls = b.provider.Calls()
	return append(all, burst...)
}

// lateBy is when the slow call ends: after the opening, and before its limit for the first content.
const lateBy = 6 * time.Second

// late is a call that began before the circuit opened and ends after it.
type late struct {
	reply simulate.Reply
	// calls are those of its request.
	calls []string
}

func (l late) play(ctx context.Context, b *bench, f *Findings) []Observation {
	primary := b.row.Candidates[0]
	b.provider.Script(primary, l.reply, down, down, down)
	b.warmUp(ctx)
	before := len(b.provider.Calls())
	slow := make(chan Observation, 1)
	go func() { slow <- b.ask(ctx, asked{id: requestID(0), limit: 30 * time.Second}) }()
	for b.provider.Count(primary) == 0 && ctx.Err() == nil {
		pause(ctx, time.Millisecond)
	}
	all := b.opened(ctx, f)
	circuits := b.circuits(f)
	if len(circuits) != 1 || !strings.Contains(circuits[0], `open`) {
		f.addf("circuits after three failures: %q", circuits)
	}
	o := <-slow
	b.settle()
	b.served(o, f)
	if o.Elapsed < lateBy {
		f.addf("the slow call was over before the circuit opened")
	}
	f.equal("circuits after the slow call", circuits, b.circuits(f))
	want := slices.Concat([]string{primary, primary, primary, "sim-ok", primary, "sim-ok"}, l.calls[1:])
	f.equal("calls", want, b.called(before))
	all = append(all, o, b.ask(ctx, asked{id: requestID(1), limit: 15 * time.Second}))
	b.settle()
	last := all[len(all)-1]
	b.served(last, f)
	passesOver(primary)(last, f)
	all[0].Calls = b.provider.Calls()[before:]
	return all
}

// circuits are the circuits that are not plainly closed, as they stand in the table.
func (b *bench) circuits(f *Findings) (all []string) {
	items, err := b.state.Items(b.state.Names.Health)
	if err != nil {
		f.addf("reading the circuits: %v", err)
	}
	for _, item := range items {
		for name, value := range item {
			if strings.HasPrefix(name, "circuit:") {
				all = append(all, name+": "+value)
			}
		}
	}
	slices.Sort(all)
	return all
}

// incident: an organization whose every request moves twice to a fallback uses up its share. Another one, on the same
// route and in the same environment, is served all the same, and is as fast as before. The models fail in a way that
// counts against no circuit: it is the share alone that holds.
func incident(ctx context.Context, b *bench, f *Findings) (all []Observation) {
	const flood, others = 30, 6
	conflict := simulate.Error(http.StatusConflict, "invalid_request_error", "conflict", "a conflict")
	for _, model := range b.row.Candidates[:2] {
		b.provider.Script(model, slices.Repeat([]simulate.Reply{conflict}, 4*(flood+others))...)
	}
	number := 0
	ask := func(key, model string) Observation {
		o := b.ask(ctx, asked{id: requestID(number), key: key, model: model, limit: 15 * time.Second})
		b.settle()
		number++
		all = append(all, o)
		return o
	}
	var before, during []time.Duration
	healthy := func(times *[]time.Duration) {
		o := ask(otherKey, "sim-ok")
		b.served(o, f)
		*times = append(*times, o.Elapsed)
	}
	for range others {
		healthy(&before)
	}
	exhausted := 0
	for i := range flood {
		o := ask("", "")
		if e := parseError(o.Body); e != nil && e.Code == "fallback_share_exhausted" {
			f.equal("status of an exhausted share", http.StatusServiceUnavailable, o.Status)
			exhausted++
		}
		if i%(flood/others) != flood/others-1 {
			continue
		}
		healthy(&during)
		if exhausted == 0 {
			continue
		}
		other := ask(otherKey, "") // the same route, the same failures, its own share
		b.served(other, f)
		f.equal("X-LLM-Fallback of the other organization", "true", other.Header.Get("X-LLM-Fallback"))
	}
	if exhausted == 0 {
		f.addf("the organization in the incident has not used up its share in %d requests", flood)
	}
	slices.Sort(before)
	slices.Sort(during)
	if was, is := before[others/2], during[others/2]; is > 2*was+100*time.Millisecond {
		f.addf("the other organization waited %s before the incident and %s in it", was.Round(time.Millisecond), is.Round(time.Millisecond))
	}
	f.equal("circuits", 0, len(b.circuits(f)))
	all[0].Calls = b.provider.Calls()
	return all
}
