package retry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/fault"
	"spillway/internal/retry"
)

// answer is what one call of a candidate gives, after its time. The zero failure is success.
type answer struct {
	takes   time.Duration
	failure fault.Observation
	ok      bool
}

var success = answer{takes: 100 * time.Millisecond, ok: true}

func fails(o fault.Observation) answer { return answer{takes: 50 * time.Millisecond, failure: o} }

// candidate gives its answers one after another, the last one for ever. Its channel is a letter.
type candidate struct {
	channel string
	answers []answer
}

// story plays a request on a simulated clock, as the gateway does: it calls, decides, waits and moves.
type story struct {
	calls    string
	waits    []time.Duration
	reasons  []retry.Reason
	ok       bool
	duration time.Duration
}

func play(candidates []candidate, deadline time.Duration, change ...func(*retry.Failed)) story {
	var s story
	var p retry.Progress
	clock := now
	for at := 0; ; {
		c := &candidates[at]
		p.Attempts++
		s.calls += c.channel
		a := c.answers[0]
		if len(c.answers) > 1 {
			c.answers = c.answers[1:]
		}
		clock = clock.Add(a.takes)
		s.duration = clock.Sub(now)
		if a.ok {
			s.ok = true
			return s
		}
		var ahead retry.Ahead
		seen := map[string]bool{c.channel: true}
		for _, other := range candidates[at+1:] {
			if other.channel == c.channel {
				ahead.Credentials++
			} else if !seen[other.channel] {
				ahead.Candidates++
				seen[other.channel] = true
			}
		}
		d := retry.Decide(retry.Default(), p, failed(a.failure, change...), ahead, clock, now.Add(deadline), 0.5)
		s.reasons = append(s.reasons, d.Reason)
		switch d.Step {
		case retry.Again:
			s.waits = append(s.waits, d.Wait)
			clock = clock.Add(d.Wait)
			if d.Reason == retry.StaleConnection {
				p.Replayed = true
			} else {
				p.Retries++
			}
		case retry.Hop:
			at++
			p.Retries, p.Replayed = 0, false
		case retry.Next:
			for own := c.channel; candidates[at].channel == own; {
				at++
			}
			p.Fallbacks++
			p.Retries, p.Replayed = 0, false
		default:
			return s
		}
	}
}

// TestStories tells whole requests: who is called how often, in which order, after which waits.
func TestStories(t *testing.T) {
	always := func(channel string, a answer) candidate { return candidate{channel, []answer{a}} }
	then := func(channel string, a ...answer) candidate { return candidate{channel, a} }
	ms := func(n ...int) []time.Duration {
		var out []time.Duration
		for _, n := range n {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	down := fails(status(503))
	hang := answer{takes: 10 * time.Second, failure: silent}
	for name, c := range map[string]struct {
		candidates []candidate
		deadline   time.Duration
		change     []func(*retry.Failed)
		calls      string
		waits      []time.Duration
		ok         bool
	}{
		"three that all fail: 2+1+1":              {[]candidate{always("A", down), always("B", down), always("C", down)}, plenty, nil, "AABC", ms(200), false},
		"two that all fail: 2+2":                  {[]candidate{always("A", down), always("B", down)}, plenty, nil, "AABB", ms(200, 200), false},
		"one that fails: 2":                       {[]candidate{always("A", down)}, plenty, nil, "AA", ms(200), false},
		"four that all fail: the fourth rests":    {[]candidate{always("A", down), always("B", down), always("C", down), always("D", success)}, plenty, nil, "AABC", ms(200), false},
		"three that fail differently (F23)":       {[]candidate{always("A", fails(code(503, "server_is_overloaded"))), always("B", fails(status(502))), always("C", fails(status(429)))}, plenty, nil, "AABC", ms(200), false},
		"one that fails once":                     {[]candidate{then("A", down, success), always("B", success)}, plenty, nil, "AA", ms(200), true},
		"a fallback answers":                      {[]candidate{always("A", down), always("B", success)}, plenty, nil, "AAB", ms(200), true},
		"a hint is waited in full (F01)":          {[]candidate{then("A", fails(hinted(status(429), 2*time.Second)), success), always("B", success)}, plenty, nil, "AA", ms(2100), true},
		"a delay is not carried to the next":      {[]candidate{always("A", fails(hinted(status(429), 2*time.Second))), always("B", down)}, plenty, nil, "AABB", ms(2100, 200), false},
		"a long hint falls back at once (F31)":    {[]candidate{always("A", fails(hinted(status(429), 30*time.Second))), always("B", success)}, plenty, nil, "AB", nil, true},
		"a 500 to a stream (F03)":                 {[]candidate{then("A", fails(status(500)), success), always("B", success)}, plenty, []func(*retry.Failed){streaming}, "AB", nil, true},
		"a 500 otherwise (F03)":                   {[]candidate{then("A", fails(status(500)), success), always("B", success)}, plenty, nil, "AA", ms(200), true},
		"a silent provider is called once (F06)":  {[]candidate{always("A", hang), always("B", success)}, 2 * plenty, nil, "AB", nil, true},
		"three silent ones":                       {[]candidate{always("A", hang), always("B", hang), always("C", hang)}, 2 * plenty, nil, "ABCC", ms(0), false},
		"a silent one, alone":                     {[]candidate{then("A", hang, success)}, 2 * plenty, nil, "AA", ms(0), true},
		"silence until the time is gone":          {[]candidate{always("A", hang), always("B", hang)}, 20500 * time.Millisecond, nil, "AB", nil, false},
		"an empty wallet fails fast (F19)":        {[]candidate{always("A", fails(hinted(code(429, "insufficient_quota"), time.Second))), always("B", success)}, plenty, nil, "A", nil, false},
		"the caller's mistake fails fast":         {[]candidate{always("A", fails(status(400))), always("B", success)}, plenty, nil, "A", nil, false},
		"a bad key, another one works":            {[]candidate{always("A", fails(status(401))), always("A", success), always("B", success)}, plenty, nil, "AA", nil, true},
		"two bad keys do not hide behind B":       {[]candidate{always("A", fails(status(401))), always("A", fails(status(401))), always("B", success)}, plenty, nil, "AA", nil, false},
		"a throttled key, another one works":      {[]candidate{always("A", fails(hinted(status(429), time.Minute))), always("A", success), always("B", success)}, plenty, nil, "AA", nil, true},
		"three throttled keys: 2+1+1":             {[]candidate{always("A", fails(status(429))), always("A", fails(status(429))), always("A", fails(status(429)))}, plenty, nil, "AAAA", ms(200), false},
		"a fallback's bad key ends it (B15 a)":    {[]candidate{always("A", fails(status(529))), always("B", fails(status(401)))}, plenty, nil, "AAB", ms(200), false},
		"a stale connection costs no retry":       {[]candidate{then("A", fails(stale), down, success)}, plenty, nil, "AAA", ms(0, 200), true},
		"no sleep into a certain timeout (B12 b)": {[]candidate{always("A", answer{takes: 800 * time.Millisecond, failure: status(503)})}, time.Second, nil, "A", nil, false},
		"nothing is started without its time":     {[]candidate{always("A", answer{takes: 6 * time.Second, failure: status(503)}), always("B", success)}, 6500 * time.Millisecond, nil, "A", nil, false},
		"unsafe work is not repeated":             {[]candidate{always("A", hang), always("B", success)}, plenty, []func(*retry.Failed){replayUnsafe}, "A", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := play(c.candidates, c.deadline, c.change...)
			assert.Equal(t, c.calls, got.calls, "reasons: %v", got.reasons)
			assert.Equal(t, c.waits, got.waits)
			assert.Equal(t, c.ok, got.ok)
		})
	}
}
