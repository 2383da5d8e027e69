package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/ledger"
	"spillway/internal/storetest"
)

var (
	now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	key = ledger.Key{Organization: "acme", Key: "tool:send_mail:req_1:3"}
)

func TestTheMemoryKeepsWhatAStoreMust(t *testing.T) { storetest.Ledger(t, &ledger.Memory{}) }

func TestWhatBecomesOfWhatIsSaidOfAToolCall(t *testing.T) {
	entry := func(state ledger.State, owner string) *ledger.Entry {
		return &ledger.Entry{Key: key, State: state, Owner: owner, StartedAt: now.Add(-time.Minute), UpdatedAt: now.Add(-time.Minute),
			ExpiresAt: now.Add(time.Hour), Token: "before", Version: 4}
	}
	done := entry(ledger.Succeeded, "o1")
	done.Result = jsontext.Value(`{"sent":1}`)
	expired := func(e *ledger.Entry) *ledger.Entry { e.ExpiresAt = now; return e }
	mine := entry(ledger.Started, "o1")
	mine.Token = "mine"
	for name, c := range map[string]struct {
		there   *ledger.Entry
		state   ledger.State
		owner   string
		want    ledger.Verdict
		writes  bool
		version uint64       // of the entry that is shown
		shown   ledger.State // and its state
	}{
		"the first that starts has the call":                            {nil, ledger.Started, "o1", ledger.Yours, true, 1, ledger.Started},
		"another owner is told so":                                      {entry(ledger.Started, "o1"), ledger.Started, "o2", ledger.Taken, false, 4, ledger.Started},
		"another owner cannot succeed":                                  {entry(ledger.Started, "o1"), ledger.Succeeded, "o2", ledger.Taken, false, 4, ledger.Started},
		"another owner cannot fail it":                                  {entry(ledger.Started, "o1"), ledger.Failed, "o2", ledger.Taken, false, 4, ledger.Started},
		"the owner starts again: it had":                                {entry(ledger.Started, "o1"), ledger.Started, "o1", ledger.Noted, false, 4, ledger.Started},
		"the owner succeeds":                                            {entry(ledger.Started, "o1"), ledger.Succeeded, "o1", ledger.Noted, true, 5, ledger.Succeeded},
		"the owner fails":                                               {entry(ledger.Started, "o1"), ledger.Failed, "o1", ledger.Noted, true, 5, ledger.Failed},
		"what succeeded is not started by another":                      {done, ledger.Started, "o2", ledger.Done, false, 4, ledger.Succeeded},
		"what succeeded is not started by its owner":                    {done, ledger.Started, "o1", ledger.Done, false, 4, ledger.Succeeded},
		"what succeeded does not succeed again":                         {done, ledger.Succeeded, "o1", ledger.Done, false, 4, ledger.Succeeded},
		"what succeeded does not fail":                                  {done, ledger.Failed, "o1", ledger.Done, false, 4, ledger.Succeeded},
		"what failed is anybody's":                                      {entry(ledger.Failed, "o1"), ledger.Started, "o2", ledger.Yours, true, 5, ledger.Started},
		"what failed may have succeeded after all":                      {entry(ledger.Failed, "o1"), ledger.Succeeded, "o1", ledger.Noted, true, 5, ledger.Succeeded},
		"what failed fails again without a change":                      {entry(ledger.Failed, "o1"), ledger.Failed, "o1", ledger.Noted, false, 4, ledger.Failed},
		"what nobody started succeeds all the same":                     {nil, ledger.Succeeded, "o1", ledger.Noted, true, 1, ledger.Succeeded},
		"what nobody started fails without a change":                    {nil, ledger.Failed, "o1", ledger.Noted, false, 1, ledger.Failed},
		"a start past its retention is anybody's":                       {expired(entry(ledger.Started, "o1")), ledger.Started, "o2", ledger.Yours, true, 5, ledger.Started},
		"a success past its retention is forgotten":                     {expired(entry(ledger.Succeeded, "o1")), ledger.Started, "o2", ledger.Yours, true, 5, ledger.Started},
		"a failure of what is past its retention changes nothing":       {expired(entry(ledger.Started, "o1")), ledger.Failed, "o1", ledger.Noted, false, 5, ledger.Failed},
		"what this very saying wrote is its own, although it asks anew": {mine, ledger.Started, "o1", ledger.Yours, false, 4, ledger.Started},
	} {
		t.Run(name, func(t *testing.T) {
			d := ledger.Decide(key, c.there, ledger.Said{State: c.state, Owner: c.owner, Token: "mine"}, now)
			assert.Equal(t, c.want, d.Verdict)
			assert.Equal(t, c.writes, d.Write)
			assert.Equal(t, c.version, d.Entry.Version)
			assert.Equal(t, c.shown, d.Entry.State)
		})
	}
}

func TestHowLongAnEntryIsKept(t *testing.T) {
	d := ledger.Decide(key, nil, ledger.Said{State: ledger.Started, Owner: "o1"}, now)
	assert.Equal(t, now.Add(7*24*time.Hour), d.Entry.ExpiresAt)
	later := now.Add(6 * 24 * time.Hour)
	d = ledger.Decide(key, &d.Entry, ledger.Said{State: ledger.Succeeded, Owner: "o1", Result: jsontext.Value(`1`), Token: "x"}, later)
	assert.Equal(t, later.Add(7*24*time.Hour), d.Entry.ExpiresAt, "after its last change")
	assert.Equal(t, now, d.Entry.StartedAt)
	assert.True(t, d.Entry.Live(later.Add(7*24*time.Hour-time.Second)))
	assert.False(t, d.Entry.Live(later.Add(7*24*time.Hour)))
}

// faulty is a store whose calls fail as told: whether they are applied, and with which error.
type faulty struct {
	ledger.Store
	hook func(call string) (apply bool, err error)
}

func (f *faulty) Get(ctx context.Context, k ledger.Key) (*ledger.Entry, error) {
	if _, err := f.hook("get"); err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, k)
}

func (f *faulty) Swap(ctx context.Context, e ledger.Entry) error {
	apply, err := f.hook("swap")
	if apply {
		if real := f.Store.Swap(ctx, e); err == nil {
			err = real
		}
	}
	return err
}

func TestAStoreThatFails(t *testing.T) {
	broken := errors.New("throttled")
	for name, c := range map[string]struct {
		get, swap int  // how many of the first calls fail
		apply     bool // and are applied
		want      ledger.Verdict
		fails     bool
		again     ledger.Verdict // to the same owner, with the store healthy
	}{
		"a write that was applied although it failed is the caller's": {swap: 1, apply: true, want: ledger.Yours, again: ledger.Noted},
		"a write that was not applied is made again":                  {swap: 1, want: ledger.Yours, again: ledger.Noted},
		"a store that takes no writes":                                {swap: 99, fails: true, again: ledger.Yours},
		"a store that cannot be read":                                 {get: 99, fails: true, again: ledger.Yours},
	} {
		t.Run(name, func(t *testing.T) {
			seen, healthy := map[string]int{}, false
			store := &faulty{Store: &ledger.Memory{}}
			store.hook = func(call string) (bool, error) {
				seen[call]++
				if !healthy && seen[call] <= map[string]int{"get": c.get, "swap": c.swap}[call] {
					return c.apply, broken
				}
				return true, nil
			}
			d, err := ledger.Say(t.Context(), store, key, ledger.Said{State: ledger.Started, Owner: "o1", Token: "1"}, now)
			if c.fails {
				require.ErrorIs(t, err, broken)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, d.Verdict)
			healthy = true
			d, err = ledger.Say(t.Context(), store, key, ledger.Said{State: ledger.Started, Owner: "o1", Token: "2"}, now)
			require.NoError(t, err)
			assert.Equal(t, c.again, d.Verdict)
		})
	}
}

// TestAnEffectHappensOnce runs agents that crash, repeat and race over one key, each doing the tool only when it is told
// that the call is its own: a tool that succeeds takes effect once.
func TestAnEffectHappensOnce(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		store, at, effects, result := &ledger.Memory{}, now, 0, ""
		say := func(state ledger.State, owner, result string) ledger.Decision {
			at = at.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
			s := ledger.Said{State: state, Owner: owner, Token: fmt.Sprint(random.Uint64())}
			if result != "" {
				s.Result = jsontext.Value(result)
			}
			d, err := ledger.Say(t.Context(), store, key, s, at)
			require.NoError(t, err)
			return d
		}
		for range 30 {
			owner := fmt.Sprintf("agent %d", random.IntN(4))
			d := say(ledger.Started, owner, "")
			if d.Verdict == ledger.Done {
				assert.Equal(t, result, string(d.Entry.Result))
				continue
			}
			if d.Verdict != ledger.Yours {
				continue
			}
			if random.IntN(3) == 0 { // the tool took no effect
				say(ledger.Failed, owner, "")
				continue
			}
			effects++
			result = fmt.Sprint(effects)
			if random.IntN(2) == 0 { // it crashes here in the other half: the key stays its own
				say(ledger.Succeeded, owner, result)
			}
		}
		assert.LessOrEqual(t, effects, 1, "seed %d", seed)
	}
}
