package gateway

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"time"

	"spillway/internal/fault"
	"spillway/internal/ledger"
)

// Say takes what an application says of a tool call, and returns what stands of it then. read reads what is said, after the
// caller is known.
func (g *Gateway) Say(ctx context.Context, call Call, toolCall string, read func() (ledger.Said, *fault.Error)) (ledger.Decision, *fault.Error) {
	k, err := g.toolCall(call, toolCall)
	if err != nil {
		return ledger.Decision{}, err
	}
	said, err := read()
	if err != nil {
		return ledger.Decision{}, err
	}
	said.Token = cryptorand.Text()
	d, failed := ledger.Say(context.WithoutCancel(ctx), patient{g.Ledger}, k, said, time.Now())
	if failed != nil {
		g.Recorder.StoreLost("ledger", failed)
		return ledger.Decision{}, noStore("tool calls", failed)
	}
	if d.Verdict == ledger.Taken {
		return ledger.Decision{}, &fault.Error{Code: fault.IdempotencyConflict, Param: "owner", Retryable: true, RetryAfter: ledger.RetryAfter,
			Message: "another owner has started this tool call and has not said yet how it went; ask again later"}
	}
	return d, nil
}

// ToolCall is what stands of a tool call of the caller's organization.
func (g *Gateway) ToolCall(ctx context.Context, call Call, toolCall string) (*ledger.Entry, *fault.Error) {
	k, err := g.toolCall(call, toolCall)
	if err != nil {
		return nil, err
	}
	e, failed := patient{g.Ledger}.Get(context.WithoutCancel(ctx), k)
	if failed != nil {
		g.Recorder.StoreLost("ledger", failed)
		return nil, noStore("tool calls", failed)
	}
	if !e.Live(time.Now()) {
		return nil, &fault.Error{Code: fault.NotFound, Param: "key", Message: "nothing has been said of this tool call, or it was more than 7 days ago"}
	}
	return e, nil
}

// toolCall is the key of a tool call within the caller's organization.
func (g *Gateway) toolCall(call Call, toolCall string) (ledger.Key, *fault.Error) {
	j := &journey{call: call, start: time.Now()}
	if err := g.authenticate(j); err != nil {
		return ledger.Key{}, err
	}
	if err := ledger.CheckKey(toolCall); err != nil {
		return ledger.Key{}, err
	}
	if g.Ledger == nil {
		return ledger.Key{}, noStore("tool calls", errors.New("no ledger is configured"))
	}
	return ledger.Key{Organization: j.caller.Organization.Name, Key: toolCall}, nil
}

// patient is a ledger that is given up when one of its calls takes longer than a claim may.
type patient struct{ store ledger.Store }

var _ ledger.Store = patient{}

// Get implements ledger.Store.
func (p patient) Get(ctx context.Context, k ledger.Key) (*ledger.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	return p.store.Get(ctx, k)
}

// Swap implements ledger.Store.
func (p patient) Swap(ctx context.Context, e ledger.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	return p.store.Swap(ctx, e)
}
