package jobs

import (
	"context"
	"math/rand/v2"
	"time"

	"spillway/internal/breaker"
	"spillway/internal/fault"
	"spillway/internal/route"
	"spillway/internal/telemetry"
)

// Circuits is a Health: the circuits and holds of a fleet, as chats have them. Its fields must be set before use.
type Circuits struct {
	Fleet *breaker.Fleet
	// Policy says what a failure weighs, and whom it has held.
	Policy *fault.Policy
	// To is told of circuits that have changed.
	To *telemetry.Recorder
}

var _ Health = (*Circuits)(nil)

// Visit implements Health.
func (c *Circuits) Visit(ctx context.Context) Visit {
	return &visit{of: c, visit: c.Fleet.Begin(ctx, time.Now())}
}

type visit struct {
	of    *Circuits
	visit *breaker.Visit
}

func (v *visit) Look(all []route.Candidate) []breaker.View {
	keys := make([]breaker.Key, len(all))
	for i, c := range all {
		keys[i] = breaker.KeyOf(c.Channel, c.Credential)
	}
	v.visit.Ready()
	return v.visit.Look(time.Now(), keys)
}

// Admit lets a submit be a probe, as any call: nothing else asks such a provider for work, so that one which was passed over while
// another could serve would never be found to be back. What that costs is one order at a time, and not one while the circuit is
// open: should the provider answer it with a 5xx, nobody knows whether the job was made, and the order is lost.
func (v *visit) Admit(c route.Candidate, within time.Duration) Permit {
	p := v.visit.Admit(time.Now(), breaker.KeyOf(c.Channel, c.Credential), within)
	if !p.Allowed {
		return nil
	}
	v.emit(p.Transitions)
	return &permit{of: v, permit: p}
}

func (v *visit) End() { v.emit(v.visit.End()) }

func (v *visit) emit(ts []breaker.Transition) {
	for _, t := range ts {
		v.of.To.Transition(time.Now(), t.Key.Provider, t.Key.String(), t.From.String(), t.To.String(), string(t.Cause), string(t.Class))
	}
}

type permit struct {
	of     *visit
	permit breaker.Permit
	told   bool
}

func (p *permit) Report(f *fault.Failure, stalled bool) {
	o := breaker.Succeeded()
	if f != nil {
		o = breaker.Failed(f, p.of.of.Policy.Rule(f.Class))
		if stalled {
			o.Weight = 1 // our own deadline says nothing of a provider, unless no provider may take so long
		}
	}
	p.tell(o)
}

func (p *permit) Free() { p.tell(breaker.Outcome{Class: fault.Cancelled}) }

func (p *permit) tell(o breaker.Outcome) {
	if p.told {
		return
	}
	p.told = true
	p.of.emit(p.of.visit.Report(time.Now(), p.permit, o, rand.Float64())) //nolint:gosec // it spreads load, and guards nothing
}
