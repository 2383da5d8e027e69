package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

// outcome makes what the gateway reports of an observed failure, by the default policy.
func outcome(o fault.Observation) breaker.Outcome {
	f := fault.Default().Classify(o)
	return breaker.Failed(f, fault.Default().Rule(f.Class))
}

func status(n int) fault.Observation {
	return fault.Observation{Status: n, Phase: fault.PhaseHeaders, Sent: true}
}

func hinted(o fault.Observation, wait time.Duration) fault.Observation {
	o.Hint = fault.Hint{Known: true, Wait: wait, Source: "retry-after"}
	return o
}

func TestThrottleHolds(t *testing.T) {
	throttle := func(wait time.Duration) breaker.Outcome { return outcome(hinted(status(429), wait)) }
	type event struct {
		outcome breaker.Outcome
		began   time.Duration // after start
		ended   time.Duration
	}
	cases := map[string]struct {
		events []event
		until  time.Duration // after start; 0: not held
	}{
		"a hint that nobody waits for":             {[]event{{throttle(30 * second), 0, second}}, 31 * second},
		"a hint that the request waits for itself": {[]event{{throttle(5 * second), 0, second}}, 0},
		"no hint": {[]event{{outcome(status(429)), 0, second}, {outcome(status(429)), second, 2 * second}}, 0},
		"refused again after the wait": {[]event{{throttle(5 * second), 0, second}, {throttle(4 * second), 6 * second, 7 * second}},
			11 * second},
		"refused beside each other": {[]event{{throttle(5 * second), 0, second}, {throttle(5 * second), 0, 2 * second}}, 0},
		"refused again, but a success came in between": {[]event{{throttle(5 * second), 0, second}, {breaker.Succeeded(), second, 2 * second},
			{throttle(5 * second), 6 * second, 7 * second}}, 0},
		"refused again, minutes later": {[]event{{throttle(5 * second), 0, second}, {throttle(5 * second), 80 * second, 81 * second}}, 0},
		"a shorter hint does not shorten a hold": {[]event{{throttle(30 * second), 0, second}, {throttle(10 * second), 0, 2 * second}},
			31 * second},
		"the success of a call from before does not lift it": {[]event{{throttle(30 * second), 0, second}, {breaker.Succeeded(), 0, 2 * second}},
			31 * second},
		"never longer than a day": {[]event{{throttle(365 * 24 * time.Hour), 0, second}}, second + 24*time.Hour},
		"a hint of nothing":       {[]event{{throttle(0), 0, second}, {throttle(0), 2 * second, 3 * second}}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var h breaker.Holds
			last := start
			for _, e := range c.events {
				last = start.Add(e.ended)
				h = h.After(e.outcome, start.Add(e.began), last)
			}
			assert.Equal(t, c.until > 0, h.Throttled(last))
			assert.Equal(t, c.until == 0, h.None(last))
			if c.until > 0 {
				assert.Equal(t, start.Add(c.until), h.ThrottledUntil)
				assert.False(t, h.Throttled(h.ThrottledUntil), "used at once when it has passed")
			}
			assert.False(t, h.Answers(last), "a throttle answers nothing from memory")
		})
	}
}

func TestRememberedHolds(t *testing.T) {
	quota := status(429)
	quota.Code = "insufficient_quota"
	missing := status(404)
	missing.Code = "model_not_found"
	cases := map[string]struct {
		seen   fault.Observation
		want   time.Duration
		reason breaker.Reason
	}{
		"a refused key, for five minutes":                               {status(401), 5 * time.Minute, breaker.HeldAuth},
		"a refused key, whatever hint stands beside it":                 {hinted(status(401), time.Hour), 5 * time.Minute, breaker.HeldAuth},
		"an empty account, for an hour":                                 {quota, time.Hour, breaker.HeldQuota},
		"an empty account, until the stated reset":                      {hinted(quota, 7*time.Hour), 7 * time.Hour, breaker.HeldQuota},
		"an empty account with the rate limiter's habitual Retry-After": {hinted(quota, second), time.Hour, breaker.HeldQuota},
		"a spending cap until next month is asked about again in a day": {hinted(quota, 400*time.Hour), 24 * time.Hour, breaker.HeldQuota},
		"a missing model, for five minutes":                             {missing, 5 * time.Minute, breaker.HeldModelUnavailable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := breaker.Holds{}.After(outcome(c.seen), start, start)
			assert.True(t, h.Answers(start))
			assert.False(t, h.Throttled(start))
			assert.Equal(t, c.want, h.Remembered.Until.Sub(start))
			assert.Equal(t, c.reason, h.Remembered.Reason())
			assert.False(t, h.Answers(start.Add(c.want)))

			f := h.Remembered.Failure("openai", start.Add(c.want/2))
			assert.Equal(t, fault.Default().Classify(c.seen).Class, f.Class)
			assert.Equal(t, c.seen.Status, f.Status)
			assert.Equal(t, c.seen.Code, f.Code)
			assert.Equal(t, c.want/2, f.Hint.Wait, "the rest of the hold")
			assert.Equal(t, breaker.FromMemory, f.Evidence)
		})
	}
}

func TestASuccessLiftsWhatItDisproves(t *testing.T) {
	missing := status(404)
	missing.Code = "model_not_found"
	for name, c := range map[string]struct {
		seen fault.Observation
		held bool
	}{
		"the key works":                     {status(401), false},
		"another key may reach the model":   {missing, true},
		"a connection from before a freeze": {fault.Observation{Local: fault.Broken, Phase: fault.PhaseSent, Sent: true, Reused: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := breaker.Holds{}.After(outcome(c.seen), start, start).After(breaker.Succeeded(), start, start.Add(second))
			assert.Equal(t, c.held, h.Answers(start.Add(second)))
		})
	}
}
