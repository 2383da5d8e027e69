package suite

import (
	"context"
	"fmt"
	"sync"
	"time"

	"spillway/internal/media"
	"spillway/internal/runtimeapi"
)

const (
	stormJobs    = 200
	stormClients = 8
	// stormLasts is how long environments are killed.
	stormLasts = 40 * time.Second
)

// storm is F30 for media.
var storm = Row{
	Name: "F30 media", Fault: "200 jobs, through messages that come twice, late, out of order or never, calls that are cut off, and environments that are killed at random",
	Stage: Stage{Gateways: 4, Pollers: 6, Cuts: 0.02, Queues: unreliable{drop: 0.05, duplicate: 0.2, delay: 0.2, late: 3 * time.Second, shuffle: true}},
	Job:   throughTheStorm, Lasts: 90 * time.Second, Recorded: jobPass,
}

func throughTheStorm(ctx context.Context, s *studio, f *Findings) []life {
	began := time.Now()
	stormy, calm := context.WithTimeout(ctx, stormLasts)
	defer calm()
	var kills map[string]int
	var weather sync.WaitGroup
	weather.Go(func() { kills = s.killAtRandom(stormy, 50*time.Millisecond, 500*time.Millisecond) })
	orders, posts := s.placeAll(ctx, f)
	placed := time.Since(began)
	weather.Wait()
	s.settled(ctx, 100*time.Second, f)
	s.drained(ctx, 20*time.Second, f)

	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	all := s.lives(orders)
	s.checkAll(all, f)
	f.equal("jobs", stormJobs, len(s.annals.ids()))
	var uncertain int
	for i, l := range all {
		l.checkEnd(s.kills, f)
		if l.was(media.Uncertain) {
			uncertain++
		}
		if l.end() == media.Succeeded {
			s.checkWork(ctx, orders[i], f)
		}
	}
	if kills["gateway"] == 0 || kills["poller"] == 0 || kills["sweeper"] == 0 {
		f.addf("the storm was none: %v", kills)
	}
	s.checkDeadLetters(ctx, f)
	messages, deliveries, events := s.book.counts()
	_, _, ends := accountOf(all)
	s.notef("seed %d: %s, %d of them once uncertain; placed with %d orders in %s, all over after %s", s.seed, ends, uncertain, posts, placed.Round(time.Second),
		time.Since(began).Round(time.Second))
	s.notef("%d messages in %d deliveries and %d events, %d lost; %d calls of store, queues and bucket cut off; killed: gateway %d, poller %d, sweeper %d times",
		messages, deliveries, events, s.lost(), s.cuts, kills["gateway"], kills["poller"], kills["sweeper"])
	return all
}

// placeAll places the orders of the storm, as clients do that repeat them until they know that they are taken.
func (s *studio) placeAll(ctx context.Context, f *Findings) (orders []order, posts int) {
	var clients sync.WaitGroup
	var mu sync.Mutex
	orders = make([]order, stormJobs)
	for c := range stormClients {
		r := s.random(uint64(200 + c)) //nolint:gosec // a small count
		clients.Go(func() {
			for i := c; i < stormJobs; i += stormClients {
				pause(ctx, time.Duration(r.Int64N(int64(1500*time.Millisecond))))
				o := s.ordered([]string{video, videoFal, song}[i%3], fmt.Sprintf("storm-%03d", i))
				o.callback += []string{"", "?fail=1", "?forget=1", "", ""}[i%5] // some do not take it, or take it and say that they have not
				var own Findings
				a, tries := s.place(ctx, o, &own)
				o.id = a.job().ID
				mu.Lock()
				orders[i] = o
				posts += tries
				f.list = append(f.list, own.list...)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return orders, posts
}

// killAtRandom ends an environment every so often until ctx ends, in the middle of its work, and returns how many of each function. The
// functions and the pauses are drawn; what they are doing just then is for the machine to say.
func (s *studio) killAtRandom(ctx context.Context, shortest, longest time.Duration) map[string]int {
	const within = 12 * time.Millisecond // of which an invocation lasts, mostly
	r, count := s.random(100), map[string]int{}
	fronts := []struct {
		name  string
		front *runtimeapi.Front
	}{{"gateway", s.gateway}, {"gateway", s.gateway}, {"poller", s.poller}, {"poller", s.poller}, {"sweeper", s.sweeper}}
	for {
		pause(ctx, shortest+time.Duration(r.Int64N(int64(longest-shortest))))
		victim, after, which := fronts[r.IntN(len(fronts))], time.Duration(r.Int64N(int64(within))), r.Int()
		pid, ok := atWork(ctx, victim.front, which)
		if ctx.Err() != nil {
			return count
		}
		if pause(ctx, after); ok && s.kill(victim.front, pid) {
			count[victim.name]++
		}
	}
}

// atWork waits, but not for long, until one of a function's processes has something to do.
func atWork(ctx context.Context, f *runtimeapi.Front, which int) (pid int, ok bool) {
	for until := time.Now().Add(sweepEvery); time.Now().Before(until) && ctx.Err() == nil; pause(ctx, time.Millisecond) {
		var busy []int
		for _, e := range f.Environments() {
			if e.Busy {
				busy = append(busy, e.PID)
			}
		}
		if len(busy) > 0 {
			return busy[which%len(busy)], true
		}
	}
	return 0, false
}
