package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

// A closed circuit lets every call through, counts, and opens by rule (a) or (b).

func TestClosedOpens(t *testing.T) {
	cases := map[string]struct {
		happens func(*line)
		cause   breaker.Cause // "": stays closed
	}{
		"two failures are not enough": {func(l *line) { l.fails(2) }, ""},
		"three failures and nothing else": {func(l *line) { l.fails(3) },
			breaker.FailureRate},
		"three failures are half of the last ten seconds": {func(l *line) { l.oks(3); l.fails(3) },
			breaker.FailureRate},
		"three failures are less than half of them": {func(l *line) { l.oks(4); l.fails(3) }, ""},
		"failures spread over the window": {func(l *line) {
			for range 3 {
				l.fails(1)
				l.wait(19 * second)
			}
			l.fails(1)
		}, breaker.FailureRate},
		"failures that never share a window": {func(l *line) {
			for range 10 {
				l.fails(1)
				l.oks(1)
				l.wait(35 * second)
			}
		}, ""},
		"half of the last ten seconds, but little of the window": {func(l *line) {
			l.oks(30)
			l.wait(15 * second)
			l.oks(3)
			l.fails(3)
		}, ""},
		"ten failures of the last ten seconds need no part of the window": {func(l *line) {
			for range 12 { // 240 successes, two of each pair of calls
				l.oks(20)
				l.wait(4 * second)
			}
			l.wait(10 * second)
			for range 10 { // never in a row
				l.oks(1)
				l.fails(1)
			}
		}, breaker.FailureRate},
		"half weights need twice as many": {func(l *line) {
			for range 4 {
				l.wait(time.Millisecond)
				l.next(breaker.Failure{Attempt: l.call(), Class: fault.RateLimited, Weight: 0.5})
			}
		}, ""},
		"throttled every other time is a quarter by weight": {func(l *line) {
			for range 30 {
				l.oks(1)
				l.next(breaker.Failure{Attempt: l.call(), Class: fault.RateLimited, Weight: 0.5})
			}
		}, ""},
		"five in a row, however long it takes": {func(l *line) {
			for range 5 {
				l.fails(1)
				l.wait(2 * time.Minute)
			}
		}, breaker.FailuresInARow},
		"five in a row of half weight": {func(l *line) {
			for range 5 {
				l.next(breaker.Failure{Attempt: l.call(), Class: fault.RateLimited, Weight: 0.5})
				l.wait(2 * time.Minute)
			}
		}, breaker.FailuresInARow},
		"a success ends the row": {func(l *line) {
			for range 4 {
				l.fails(1)
				l.wait(2 * time.Minute)
			}
			l.oks(1)
			for range 4 {
				l.wait(2 * time.Minute)
				l.fails(1)
			}
		}, ""},
		"a verdict of no weight neither counts nor ends the row": {func(l *line) {
			for range 4 {
				l.fails(1)
				l.wait(2 * time.Minute)
				l.next(breaker.NoVerdict{Attempt: l.call()})
			}
			l.fails(1)
		}, breaker.FailuresInARow},
		"four in a row of a provider known as healthy":  {func(l *line) { l.oks(100); l.fails(4) }, breaker.FailuresInARow},
		"three in a row of a provider known as healthy": {func(l *line) { l.oks(100); l.fails(3) }, ""},
		"five in a row of a provider with one error in ten": {func(l *line) {
			for range 10 {
				l.oks(9)
				l.fails(1)
			}
			l.oks(1)
			l.fails(5)
		}, ""},
		"six in a row of such a provider": {func(l *line) {
			for range 10 {
				l.oks(9)
				l.fails(1)
			}
			l.oks(1)
			l.fails(6)
		}, breaker.FailuresInARow},
		"a hundred mistakes of callers": {func(l *line) {
			for range 100 {
				l.next(breaker.NoVerdict{Attempt: l.call()})
				l.next(breaker.Failure{Attempt: l.call(), Class: fault.InvalidRequest})
			}
		}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLine()
			c.happens(l)
			if c.cause == "" {
				assert.Empty(t, l.changes)
				assert.Equal(t, breaker.Closed, l.State)
				return
			}
			assert.Equal(t, []breaker.Cause{c.cause}, l.causes())
			assert.Equal(t, breaker.Open, l.State)
		})
	}
}

// TestTheOrderIsThatOfTheBeginning: an outage is seen through the answers to the calls from before it.
func TestTheOrderIsThatOfTheBeginning(t *testing.T) {
	l := newLine()
	l.oks(100)
	before := l.calls(20)
	during := l.wait(second).calls(4)
	for i, a := range during {
		l.wait(10 * time.Millisecond).fail(a)
		l.ok(before[i])
		l.ok(before[10+i])
	}
	assert.Equal(t, []breaker.Cause{breaker.FailuresInARow}, l.causes())
}

// TestACallOnItsWayMayYetSucceed: a row does not reach across it, and where it is found to have failed it does.
func TestACallOnItsWayMayYetSucceed(t *testing.T) {
	l := newLine()
	l.oks(100)
	calls := l.calls(5)
	for i, a := range calls {
		if i != 2 {
			l.fail(a)
		}
	}
	assert.Equal(t, breaker.Closed, l.State)
	l.fail(calls[2])
	assert.Equal(t, []breaker.Cause{breaker.FailuresInARow}, l.causes())
}

// TestABusyStartIsNotAnOutage: of forty calls made at once the failures come in first. As many as came in of the ten calls
// that count as on their way are not yet half.
func TestABusyStartIsNotAnOutage(t *testing.T) {
	l := newLine()
	calls := l.calls(40)
	for i := range 9 {
		l.fail(calls[4*i])
	}
	assert.Empty(t, l.changes)
	l.fail(calls[39])
	assert.Equal(t, []breaker.Cause{breaker.FailureRate}, l.causes())
}

// TestAStreamThatBreaksCountsOnce: as an attempt when its content came, as a failure when it broke, and as no success in
// the row.
func TestAStreamThatBreaksCountsOnce(t *testing.T) {
	l := newLine()
	broken := func() {
		a := l.call()
		l.ok(a)
		f := failure(a)
		f.AfterContent = true
		l.wait(time.Minute).next(f)
	}
	for range 4 {
		broken()
	}
	attempts, weight := l.Window.Sum(l.now)
	assert.Equal(t, 0, attempts, "the content came a minute ago")
	assert.Equal(t, 1.0, weight)
	assert.Empty(t, l.changes)
	broken()
	assert.Equal(t, []breaker.Cause{breaker.FailuresInARow}, l.causes())

	soon := newLine()
	for range 3 {
		a := soon.call()
		soon.ok(a)
		f := failure(a)
		f.AfterContent = true
		soon.next(f)
	}
	assert.Equal(t, []breaker.Cause{breaker.FailureRate}, soon.causes(), "three of three attempts failed")
}

func TestTheFirstFailureBeginsAWatch(t *testing.T) {
	l := newLine()
	l.oks(5)
	assert.False(t, l.Watched(l.now))
	assert.True(t, l.Plain(l.now))
	l.fails(1)
	first := l.WatchUntil
	assert.Equal(t, l.now.Add(time.Minute), first)
	assert.True(t, l.Watched(l.now))
	assert.False(t, l.Plain(l.now))
	l.wait(10 * second).fails(1)
	assert.Equal(t, first, l.WatchUntil, "it is not renewed while it runs")
}
