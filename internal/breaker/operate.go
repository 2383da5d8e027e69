package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Order is what an operator asks of one key.
type Order string

// The orders.
const (
	// OrderOpen opens the circuit: no call until its time has passed, then probes as after any opening.
	OrderOpen Order = "open"
	// OrderHold skips the candidate until its time has passed; then it is called as before, without a probe.
	OrderHold Order = "hold"
	// OrderReset closes the circuit, forgets what was counted, and lifts every hold.
	OrderReset Order = "reset"
)

// maxTurns bounds how often an order gives way to environments that change the circuit at the same time.
const maxTurns = 8

// Operate carries out an order. The next snapshot shows it, so that every environment follows within seconds. What an
// environment changes at the same moment comes first, and the order after it. The transitions are the caller's to emit.
//
// A crash between the two writes of a reset leaves the circuit closed and the hold in place: the order can be repeated.
func Operate(ctx context.Context, s Store, k Key, o Order, length time.Duration, now time.Time) ([]Transition, error) {
	if o == OrderHold {
		if err := s.Hold(ctx, k, Holds{ThrottledUntil: now.Add(length)}, now); err != nil {
			return nil, fmt.Errorf("holding %s: %w", k, err)
		}
		return nil, nil
	}
	known, err := s.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	current := known[k.String()].Circuit
	for range maxTurns {
		next, ts := current.ordered(o, length, now)
		changed, err := s.Swap(ctx, k, current.Version, next, now)
		if errors.Is(err, ErrChanged) {
			current = changed
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("changing the circuit of %s: %w", k, err)
		}
		if o == OrderReset {
			for _, held := range []Key{k, k.Channel()} {
				if err := s.Hold(ctx, held, Holds{}, now); err != nil {
					return nil, fmt.Errorf("lifting the holds of %s: %w", held, err)
				}
			}
		}
		return named(ts, k), nil
	}
	return nil, fmt.Errorf("changing the circuit of %s: %w each of %d times", k, ErrChanged, maxTurns)
}

// ordered is the circuit after an order.
func (c Circuit) ordered(o Order, length time.Duration, now time.Time) (Circuit, []Transition) {
	if o == OrderReset {
		return c.to(Closed, ByOperator, now)
	}
	c.Opens++
	c.OpenedAt, c.Class, c.Until = now, "", now.Add(length)
	return c.to(Open, ByOperator, now)
}
