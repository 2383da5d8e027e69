package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/jobs"
	"spillway/internal/media"
	"spillway/internal/provider"
)

// TestWhateverStopsAJobIsMadeOnce lets the process stop before and after any effect, in a submit, a poll, a telling or a sweep, and lets the queue
// deliver twice, late, out of order and never. Then it lets time pass without trouble, and looks at what must hold.
func TestWhateverStopsAJobIsMadeOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		if rapid.Bool().Draw(t, "the provider can tell") {
			w.canFind()
		}
		w.studio.atOnce = rapid.Bool().Draw(t, "it answers with the work itself")
		w.studio.submit = rapid.SliceOfN(rapid.SampledFrom([]submitted{accepted(), accepted(), {work: mp4}, {err: lost()}, {err: status(429, fault.RateLimited)},
			{err: status(503, fault.ServerError)}, {err: status(400, fault.InvalidRequest)}}), 1, 3).Draw(t, "submits")
		w.studio.poll = append(rapid.SliceOfN(rapid.SampledFrom([]polled{pending(), pending(), {err: status(502, fault.ServerError)},
			{Status: provider.Status{State: media.Running, Hint: 20 * time.Minute}}}), 0, 4).Draw(t, "polls"),
			rapid.SampledFrom([]polled{succeeded(), succeeded(), pending(), {Status: provider.Status{State: media.Failed}}, {Status: provider.Status{State: media.Succeeded}}}).Draw(t, "end"))
		found := rapid.Bool().Draw(t, "it has it")
		w.studio.found = func() (string, bool, error) { return "operations/1", found && w.studio.submits > 0, nil }
		w.studio.cancel = func() (bool, error) { return found, nil }
		w.answer = func(int) (int, error) { return 204, nil }

		health := moody(t, w)
		mood := func() {
			health.views = map[string]breaker.View{}
			for _, channel := range []string{"one", "two"} {
				switch rapid.SampledFrom([]string{"well", "well", "well", "open", "throttled", "taken", "held"}).Draw(t, channel) {
				case "open":
					health.views[channel] = isOpen
				case "throttled":
					health.views[channel] = throttled
				case "taken":
					health.taken = map[string]bool{channel: true}
				case "held":
					health.views[channel] = held(fault.Auth, rapid.SampledFrom([]int{401, 400, 503}).Draw(t, "status"))
				default:
					delete(health.taken, channel)
				}
			}
		}

		id := ""
		process := func(do func()) {
			defer func() {
				if v := recover(); v != nil && v != any(crashed{}) {
					panic(v)
				}
				w.mu.Lock()
				w.fuse = 0
				w.mu.Unlock()
			}()
			w.fuse = rapid.IntRange(0, 14).Draw(t, "stops after")
			do()
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"post", "deliver", "deliver", "deliver", "sweep", "time", "cancel", "mood"}).Draw(t, "what") {
			case "post":
				process(func() {
					j, fresh, err := w.engine.Begin(context.Background(), order())
					if err != nil {
						t.Fatalf("begin: %v", err)
					}
					if id != "" && j.ID != id {
						t.Fatalf("one key has two jobs")
					}
					id = j.ID
					if fresh {
						_, _ = w.engine.Start(context.Background(), j)
					} else {
						_, _ = w.engine.Resume(context.Background(), j)
					}
				})
			case "deliver":
				if len(w.queue) == 0 {
					continue
				}
				at := rapid.IntRange(0, len(w.queue)-1).Draw(t, "which") // out of order, and early
				d := w.queue[at]
				fate := rapid.SampledFrom([]string{"once", "once", "twice", "lost"}).Draw(t, "fate")
				if fate != "twice" {
					w.queue = append(w.queue[:at], w.queue[at+1:]...)
				}
				if fate == "lost" {
					continue
				}
				process(func() {
					if !w.deliver(d) && fate == "once" {
						w.queue = append(w.queue, d)
					}
				})
			case "sweep":
				process(func() { _, _ = w.engine.Sweep(context.Background(), 100) })
			case "time":
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "s")) * time.Second)
			case "mood":
				mood()
			case "cancel":
				if id != "" && rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					process(func() { _, _, _ = w.engine.Cancel(context.Background(), "acme", id) })
				}
			}
		}
		if rapid.Bool().Draw(t, "all are well in the end") {
			health.views, health.taken = nil, nil
		}
		if id == "" {
			j, _, err := w.engine.Begin(context.Background(), order())
			if err != nil {
				t.Fatalf("begin: %v", err)
			}
			id = j.ID
			_, _ = w.engine.Submit(context.Background(), j)
		}
		for range 90 { // an hour and a half without trouble: the sweeper comes every minute
			if _, err := w.engine.Sweep(context.Background(), 100); err != nil {
				t.Fatalf("sweep: %v", err)
			}
			w.run(t, time.Minute)
		}

		j := w.job(t, id)
		switch {
		case w.studio.created[id] > 1:
			t.Fatalf("it was submitted %d times", w.studio.created[id])
		case !j.State.Terminal():
			t.Fatalf("it is %s for ever", j.State)
		case w.ends[id] != 1:
			t.Fatalf("it ended %d times", w.ends[id])
		case (j.Result != nil) != (j.State == media.Succeeded):
			t.Fatalf("it is %s with the result %v", j.State, j.Result)
		case j.Result != nil && digest(string(w.objects[j.Result.Object])) != j.Result.SHA256:
			t.Fatalf("its object is not what it names")
		case !j.TellAt.IsZero() || len(w.told) == 0:
			t.Fatalf("its callback was not told")
		case health.open != 0:
			t.Fatalf("%d visits and permits are left", health.open)
		case w.failed > 0 || len(w.queue) > 0:
			t.Fatalf("%d messages for the dead letters, %d without an end", w.failed, len(w.queue))
		}
		for _, e := range w.told {
			if e.header.Get("webhook-id") != j.EventID || e.body != w.told[0].body {
				t.Fatalf("one end is told as two events")
			}
		}
		for _, p := range w.panics {
			if p != fmt.Sprintf("%T", crashed{}) {
				t.Fatalf("it panicked with a %s", p)
			}
		}
	})
}

// TestPoisonBlocksNobody: what cannot be handled is reported each time, alone.
func TestPoisonBlocksNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.studio.submit, w.studio.poll = []submitted{accepted()}, []polled{pending()}
		j := w.post(t, order())
		good := func(id string) jobs.Record {
			return jobs.Record{ID: id, Body: fmt.Appendf(nil, `{"do":"poll","organization":"acme","job":%q,"seq":1}`, j.ID)}
		}
		bodies := [][]byte{nil, []byte("}{"), []byte(`"x"`), []byte(`{}`), []byte(`{"do":"poll","organization":"acme","job":"job_none"}`),
			fmt.Appendf(nil, `{"do":"dance","organization":"acme","job":%q}`, j.ID), fmt.Appendf(nil, `{"do":"poll","organization":"other","job":%q}`, j.ID),
			bytes.Repeat([]byte(" "), 5000), []byte(`{"do":"poll","organization":"acme","job":"x","seq":-1}`)}
		var records []jobs.Record
		var want []string
		for i := range rapid.IntRange(1, 12).Draw(t, "messages") {
			id := fmt.Sprint("m", i)
			if rapid.Bool().Draw(t, "good") {
				records = append(records, good(id))
				continue
			}
			records = append(records, jobs.Record{ID: id, Body: rapid.SampledFrom(bodies).Draw(t, "body")})
			want = append(want, id)
		}
		if got := w.engine.HandleBatch(context.Background(), records); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("reported are %v, not %v", got, want)
		}
	})
}
