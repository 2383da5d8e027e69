package breaker_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

var (
	keyA = breaker.Key{Provider: "a", Model: "m", Region: "eu", Credential: "one"}
	keyB = breaker.Key{Provider: "b", Model: "m", Region: "eu", Credential: "one"}

	left       = fault.Observation{Local: fault.Left, Phase: fault.PhaseHeaders, Sent: true}
	cut        = fault.Observation{Local: fault.Broken, Phase: fault.PhasePostContent, Sent: true, InStream: true, Status: 200}
	noChoice   = fault.Observation{Local: fault.NoAnswer, Phase: fault.PhasePreContent, Sent: true, InStream: true, Status: 200}
	thawed     = fault.Observation{Local: fault.Broken, Phase: fault.PhaseSent, Sent: true, Reused: true}
	overloaded = status(529)
)

// desk is a Memory on a line of time.
type desk struct {
	breaker.Memory
	now time.Time
}

func newDesk() *desk { return &desk{now: start} }

func (d *desk) wait(by time.Duration) *desk {
	d.now = d.now.Add(by)
	return d
}

func (d *desk) look(k breaker.Key) breaker.View { return d.Look(d.now, []breaker.Key{k})[0] }

func (d *desk) admit(k breaker.Key) breaker.Permit { return d.Admit(d.now, k, limit) }

func (d *desk) report(p breaker.Permit, o breaker.Outcome) []breaker.Transition {
	return d.Report(d.now, p, o, middle)
}

// call makes a call that takes 100 ms, and reports it. A failure after content comes after a success.
func (d *desk) call(t *testing.T, k breaker.Key, o breaker.Outcome, afterContent ...fault.Observation) []breaker.Transition {
	t.Helper()
	p := d.admit(k)
	require.True(t, p.Allowed, "%s: %s", k, p.Reason)
	d.wait(100 * time.Millisecond)
	ts := d.report(p, o)
	for _, later := range afterContent {
		ts = append(ts, d.report(p, outcome(later))...)
	}
	return ts
}

// TestB16WhoIsToBlame: three in a row at A. What the caller or the operator did wrong opens no circuit.
func TestB16WhoIsToBlame(t *testing.T) {
	notFound := status(404)
	notFound.Code = "model_not_found"
	cases := map[string]struct {
		seen   fault.Observation
		stream bool // the content came before
		want   breaker.Reason
	}{
		"a) 404 model_not_found":            {notFound, false, breaker.HeldModelUnavailable},
		"b) 400":                            {status(400), false, breaker.OK},
		"c) cancelled by the client":        {left, false, breaker.OK},
		"e) 401":                            {status(401), false, breaker.HeldAuth},
		"f) 500":                            {status(500), false, breaker.IsOpen},
		"g) a stream cut":                   {cut, true, breaker.IsOpen},
		"h) 200 without a choice":           {noChoice, false, breaker.IsOpen},
		"a connection from before a freeze": {thawed, false, breaker.OK},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk()
			held := 0
			for range 3 {
				if d.look(keyA).Remembered != nil {
					held++
					continue
				}
				if c.stream {
					d.call(t, keyA, breaker.Succeeded(), c.seen)
				} else {
					d.call(t, keyA, outcome(c.seen))
				}
			}
			v := d.look(keyA)
			assert.Equal(t, c.want, v.Reason)
			assert.Equal(t, c.want == breaker.IsOpen, v.State == breaker.Open)
			if v.Remembered != nil {
				assert.Equal(t, 2, held, "called once, answered from memory twice")
			}
		})
	}
}

// TestB16dAThrottledCredential: the first refusal is waited for, the second holds, and after the hint it is used at once.
func TestB16dAThrottledCredential(t *testing.T) {
	d := newDesk()
	five := outcome(hinted(status(429), 5*second))
	d.call(t, keyA, five)
	assert.Equal(t, breaker.OK, d.look(keyA).Reason)
	d.wait(5*second).call(t, keyA, five)
	for range 5 {
		v := d.look(keyA)
		assert.Equal(t, breaker.Throttled, v.Reason)
		assert.Equal(t, breaker.Closed, v.State)
		assert.True(t, v.Skip())
		assert.False(t, d.admit(keyA).Allowed)
		d.wait(second)
	}
	d.call(t, keyA, five)
	assert.Equal(t, breaker.Closed, d.look(keyA).State)
}

// TestB17EverythingIsCoolingDown: the views hold what the answer needs: the soonest time and the last class of each.
func TestB17EverythingIsCoolingDown(t *testing.T) {
	both := []breaker.Key{keyA, keyB}
	t.Run("a) two open circuits", func(t *testing.T) {
		d := newDesk()
		for range 3 {
			d.call(t, keyB, outcome(status(500)))
		}
		d.wait(20 * second)
		for range 3 {
			d.call(t, keyA, outcome(overloaded))
		}
		views := d.Look(d.now, both)
		assert.Equal(t, []breaker.Reason{breaker.IsOpen, breaker.IsOpen}, []breaker.Reason{views[0].Reason, views[1].Reason})
		assert.Equal(t, []fault.Class{fault.Overloaded, fault.ServerError}, []fault.Class{views[0].LastClass, views[1].LastClass})
		assert.Equal(t, 30*second, views[0].Until.Sub(d.now))
		assert.InDelta(t, 10*second, views[1].Until.Sub(d.now), float64(second))
	})
	t.Run("b) two throttled credentials", func(t *testing.T) {
		d := newDesk()
		d.call(t, keyA, outcome(hinted(status(429), 7*second)))
		d.call(t, keyB, outcome(hinted(status(429), 20*second)))
		views := d.Look(d.now, both)
		for i, wait := range []time.Duration{7*second - 100*time.Millisecond, 20 * second} {
			assert.Equal(t, breaker.Throttled, views[i].Reason)
			assert.Equal(t, wait, views[i].Until.Sub(d.now))
			assert.Equal(t, fault.RateLimited, views[i].LastClass)
		}
	})
	t.Run("c) one failure never empties a group", func(t *testing.T) {
		d := newDesk()
		d.call(t, keyA, outcome(status(500)))
		assert.Equal(t, breaker.OK, d.look(keyA).Reason)
		assert.True(t, d.admit(keyA).Allowed)
	})
}

// TestF15InOneEnvironment: down for a minute, 26 requests 4 s apart, each with one retry unless the circuit has opened.
func TestF15InOneEnvironment(t *testing.T) {
	d := newDesk()
	d.call(t, keyA, breaker.Succeeded())
	began, calls, again := d.now, 0, time.Duration(-1)
	for i := range 26 {
		d.now = began.Add(time.Duration(i) * 4 * second)
		for range 2 {
			p := d.admit(keyA)
			if !p.Allowed {
				break
			}
			if d.now.Sub(began) >= time.Minute {
				again = max(again, d.now.Sub(began)-time.Minute)
				d.wait(500*time.Millisecond).report(p, breaker.Succeeded())
				break
			}
			calls++
			d.wait(100*time.Millisecond).report(p, outcome(status(503)))
			if p.Probe {
				break
			}
			d.wait(200 * time.Millisecond)
		}
		if again >= 0 {
			break
		}
	}
	assert.Equal(t, 4, calls)
	assert.GreaterOrEqual(t, again, time.Duration(0), "used again")
	assert.LessOrEqual(t, again, 30*second)
}

// TestF19AnEmptyAccount: one call, then answers from memory, and other credentials stay untouched.
func TestF19AnEmptyAccount(t *testing.T) {
	d := newDesk()
	quota := hinted(status(429), second)
	quota.Code = "insufficient_quota"
	d.call(t, keyA, outcome(quota))
	d.wait(2 * second)
	v := d.look(keyA)
	assert.Equal(t, breaker.HeldQuota, v.Reason)
	assert.False(t, v.Skip(), "it keeps its place")
	assert.Equal(t, fault.Quota, v.LastClass)
	assert.Equal(t, fault.Quota, v.Remembered.Failure("openai", d.now).Class)
	assert.Equal(t, time.Hour-2*second, v.Until.Sub(d.now))
	p := d.admit(keyA)
	assert.False(t, p.Allowed)
	assert.NotNil(t, p.Remembered)
	assert.Empty(t, d.report(p, breaker.Succeeded()), "a call that was not made is not heard of")

	sister := keyA
	sister.Credential = "two"
	assert.Equal(t, breaker.OK, d.look(sister).Reason)
}

func TestAMissingModelIsMissingForAllCredentials(t *testing.T) {
	d := newDesk()
	missing := status(404)
	missing.Code = "model_not_found"
	d.call(t, keyA, outcome(missing))
	sister := keyA
	sister.Credential = "two"
	for _, k := range []breaker.Key{keyA, sister} {
		assert.Equal(t, breaker.HeldModelUnavailable, d.look(k).Reason)
	}
	assert.Equal(t, breaker.OK, d.look(keyB).Reason)
	d.wait(5 * time.Minute)
	assert.True(t, d.admit(sister).Allowed)
}

// TestARefusedKeyDoesNotHideBehindAnOpenCircuit: the remembered answer comes first.
func TestARefusedKeyDoesNotHideBehindAnOpenCircuit(t *testing.T) {
	d := newDesk()
	beside := d.admit(keyA)
	for range 3 {
		d.call(t, keyA, outcome(status(500)))
	}
	d.report(beside, outcome(status(401)))
	v := d.look(keyA)
	assert.Equal(t, breaker.HeldAuth, v.Reason)
	assert.Equal(t, breaker.Open, v.State)
	assert.False(t, v.Skip())
}

func TestASuccessOnItsWayLiftsAHold(t *testing.T) {
	d := newDesk()
	beside := d.admit(keyA)
	d.call(t, keyA, outcome(status(401)))
	assert.Equal(t, breaker.HeldAuth, d.look(keyA).Reason)
	d.report(beside, breaker.Succeeded())
	assert.Equal(t, breaker.OK, d.look(keyA).Reason)
}

// TestTheLaterEndCounts: a credential that is throttled behind an open circuit is of use when both are over.
func TestTheLaterEndCounts(t *testing.T) {
	d := newDesk()
	beside := d.admit(keyA)
	for range 3 {
		d.call(t, keyA, outcome(status(500)))
	}
	d.report(beside, outcome(hinted(status(429), 40*second)))
	v := d.look(keyA)
	assert.Equal(t, breaker.IsOpen, v.Reason)
	assert.Equal(t, 40*second, v.Until.Sub(d.now))
	d.wait(35 * second)
	assert.Equal(t, breaker.Throttled, d.look(keyA).Reason)
	assert.False(t, d.admit(keyA).Allowed)
	d.wait(5 * second)
	assert.True(t, d.admit(keyA).Probe)
}

// TestF25OneProbe: of fifty requests at once, in threads of their own, one is let through.
func TestF25OneProbe(t *testing.T) {
	d := newDesk()
	for range 3 {
		d.call(t, keyA, outcome(status(500)))
	}
	d.wait(30 * second)
	assert.Equal(t, breaker.OK, d.look(keyA).Reason, "a probe is due")
	permits := make(chan breaker.Permit, 50)
	var done sync.WaitGroup
	for range 50 {
		done.Go(func() { permits <- d.Memory.Admit(d.now, keyA, limit) })
	}
	done.Wait()
	close(permits)
	var probe breaker.Permit
	refused := 0
	for p := range permits {
		if p.Allowed {
			assert.False(t, probe.Allowed, "one only")
			assert.True(t, p.Probe)
			assert.Equal(t, breaker.ProbeDue, p.Transitions[0].Cause)
			assert.Equal(t, keyA, p.Transitions[0].Key)
			probe = p
			continue
		}
		refused++
		assert.Equal(t, breaker.Probing, p.Reason)
		assert.Equal(t, d.now.Add(limit+15*second), p.Until)
	}
	assert.Equal(t, 49, refused)

	assert.Empty(t, d.report(probe, breaker.Succeeded()))
	second := d.admit(keyA)
	assert.True(t, second.Probe)
	closing := d.report(second, breaker.Succeeded())
	require.Len(t, closing, 1)
	assert.Equal(t, breaker.Closed, closing[0].To)
	assert.False(t, d.admit(keyA).Probe)
}

// TestF31AHintTooLongToWait: the credential is skipped for the hinted time.
func TestF31AHintTooLongToWait(t *testing.T) {
	d := newDesk()
	d.call(t, keyA, outcome(hinted(status(429), 30*second)))
	v := d.look(keyA)
	assert.Equal(t, breaker.Throttled, v.Reason)
	assert.Equal(t, 30*second, v.Until.Sub(d.now))
	assert.False(t, d.wait(30*second-1).admit(keyA).Allowed)
	assert.True(t, d.wait(1).admit(keyA).Allowed)
}

// TestF34TheProbeFails: one call, and open for longer.
func TestF34TheProbeFails(t *testing.T) {
	d := newDesk()
	for range 3 {
		d.call(t, keyA, outcome(status(503)))
	}
	p := d.wait(30 * second).admit(keyA)
	assert.True(t, p.Probe)
	ts := d.report(p, outcome(hinted(status(503), 0)))
	require.Len(t, ts, 1)
	assert.Equal(t, breaker.Transition{Key: keyA, From: breaker.HalfOpen, To: breaker.Open, Cause: breaker.ProbeFailed, Class: fault.ServerError,
		At: d.now, Until: d.now.Add(37500 * time.Millisecond)}, ts[0])
	assert.False(t, d.admit(keyA).Allowed)
}

// TestACallIsReportedOnceOrTwice: as a success and then as a broken stream, and anything else is ignored.
func TestACallIsReportedOnceOrTwice(t *testing.T) {
	d := newDesk()
	p := d.admit(keyA)
	d.report(p, breaker.Succeeded())
	d.report(p, breaker.Succeeded())
	d.report(p, outcome(cut))
	d.report(p, outcome(cut))
	d.report(p, breaker.Succeeded())
	h := d.Snapshot(d.now)
	require.Len(t, h, 1)
	assert.Equal(t, breaker.Health{Key: keyA, Reason: breaker.OK, Attempts: 1, Failures: 1, LastClass: fault.Network, LastError: d.now}, h[0])
}

// TestEveryAttemptReachesTheHealthRecord: also those that no circuit listens to.
func TestEveryAttemptReachesTheHealthRecord(t *testing.T) {
	d := newDesk()
	before := d.admit(keyA)
	d.call(t, keyA, breaker.Succeeded())
	d.call(t, keyA, outcome(status(400)))
	d.call(t, keyA, outcome(left))
	d.call(t, keyA, outcome(thawed))
	for range 3 {
		d.call(t, keyA, outcome(overloaded))
	}
	failedAt := d.now
	d.call(t, keyB, outcome(status(401)))
	d.report(before, breaker.Succeeded())
	h := d.Snapshot(d.now)
	require.Len(t, h, 2)
	assert.Equal(t, breaker.Health{Key: keyA, State: breaker.Open, Reason: breaker.IsOpen, Until: failedAt.Add(30 * second), Attempts: 8, Failures: 3,
		LastClass: fault.Overloaded, LastError: failedAt, ConsecutiveOpens: 1}, h[0])
	assert.Equal(t, breaker.HeldAuth, h[1].Reason)
	assert.Equal(t, fault.Auth, h[1].LastClass)
	assert.Zero(t, d.Snapshot(d.now.Add(time.Minute))[0].Attempts, "counted for a minute")
}

// TestMemoryIsBounded: what is plainly closed makes room, the one unused for longest first; what is open or held stays.
func TestMemoryIsBounded(t *testing.T) {
	d := newDesk()
	d.Max = 3
	named := func(s string) breaker.Key { return breaker.Key{Provider: s} }
	keys := func() (out []string) {
		for _, h := range d.Snapshot(d.now) {
			out = append(out, h.Key.Provider)
		}
		return out
	}
	for range 3 {
		d.call(t, named("open"), outcome(status(500)))
	}
	d.call(t, named("old"), breaker.Succeeded())
	d.call(t, named("new"), breaker.Succeeded())
	d.call(t, named("newer"), breaker.Succeeded())
	assert.Equal(t, []string{"new", "newer", "open"}, keys())

	for _, s := range []string{"new", "newer"} {
		d.call(t, named(s), outcome(status(401)))
	}
	for range 10 {
		assert.Empty(t, d.call(t, named("late"), outcome(status(500))), "unrecorded, and let through")
	}
	assert.Equal(t, []string{"new", "newer", "open"}, keys())
	d.wait(5 * time.Minute)
	d.call(t, named("late"), breaker.Succeeded())
	assert.Contains(t, keys(), "late")
	assert.Contains(t, keys(), "open")
}

// TestACallOutlivesItsEntry: forgotten in between, it takes nobody else's place in the order.
func TestACallOutlivesItsEntry(t *testing.T) {
	d := newDesk()
	d.Max = 1
	d.call(t, keyA, breaker.Succeeded())
	second := d.admit(keyA)
	d.wait(time.Minute).call(t, keyB, breaker.Succeeded())
	for i := range 5 {
		o := outcome(status(500))
		if i == 1 {
			o = breaker.Succeeded()
		}
		d.wait(70*time.Second).call(t, keyA, o)
	}
	d.report(second, outcome(status(500)))
	assert.Equal(t, breaker.Closed, d.look(keyA).State)
	assert.Equal(t, 2, d.Snapshot(d.now)[0].Failures)
}

// TestASuccessToldTwiceIsOne: three failures are half of six attempts.
func TestASuccessToldTwiceIsOne(t *testing.T) {
	d := newDesk()
	for range 3 {
		p := d.admit(keyA)
		d.report(p, breaker.Succeeded())
		d.report(p, breaker.Succeeded())
	}
	for range 3 {
		d.call(t, keyA, outcome(status(500)))
	}
	assert.Equal(t, breaker.Open, d.look(keyA).State)
}

// TestManyAtOnce is for the race detector, and for the lease: whatever the threads do, two probes never overlap.
func TestManyAtOnce(t *testing.T) {
	var m breaker.Memory
	var probing [3]atomic.Int32
	var probes atomic.Int32
	var done sync.WaitGroup
	for worker := range 8 {
		done.Go(func() {
			for i := range 500 {
				now, name := start.Add(time.Duration(i)*100*time.Millisecond), i%3
				k := breaker.Key{Provider: fmt.Sprint(name)}
				m.Look(now, []breaker.Key{k, keyA})
				p := m.Admit(now, k, time.Hour)
				if p.Probe {
					probes.Add(1)
					assert.Equal(t, int32(1), probing[name].Add(1))
					runtime.Gosched()
					probing[name].Add(-1)
				}
				o := breaker.Succeeded()
				if (worker+i)%4 != 0 {
					o = outcome(status(500))
				}
				m.Report(now, p, o, middle)
				m.Snapshot(now)
			}
		})
	}
	done.Wait()
	assert.Positive(t, probes.Load())
	assert.Len(t, m.Snapshot(start), 3)
}
