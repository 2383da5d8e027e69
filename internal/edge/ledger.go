package edge

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/ledger"
)

// toolCallObject is a tool call as a client sees it.
type toolCallObject struct {
	Object    string         `json:"object"` // "tool_call"
	Key       string         `json:"key"`
	State     ledger.State   `json:"state"`
	Owner     string         `json:"owner"`
	Result    jsontext.Value `json:"result"` // null: there is none
	StartedAt time.Time      `json:"started_at"`
	UpdatedAt time.Time      `json:"updated_at"`
	ExpiresAt time.Time      `json:"expires_at"`
}

func toolCallOf(e *ledger.Entry) toolCallObject {
	return toolCallObject{Object: "tool_call", Key: e.Key.Key, State: e.State, Owner: e.Owner, Result: e.Result, StartedAt: e.StartedAt.UTC(),
		UpdatedAt: e.UpdatedAt.UTC(), ExpiresAt: e.ExpiresAt.UTC()}
}

// putToolCall takes what an application says of a tool call: 201 when the call is now its own, 200 when what it says stands,
// and 200 with the stored result, marked as a replay, when the call has succeeded before.
func (h *handler) putToolCall(x *exchange) {
	d, err := h.Gateway.Say(x.r.Context(), x.call(), x.rest, func() (ledger.Said, *fault.Error) {
		body, err := readBody(x.w, x.r)
		if err != nil {
			return ledger.Said{}, err
		}
		return ledger.Parse(body)
	})
	if err != nil {
		x.Refuse(gateway.Head{}, err)
		return
	}
	status := http.StatusOK
	switch d.Verdict {
	case ledger.Yours:
		status = http.StatusCreated
	case ledger.Done:
		x.w.Header().Set("Idempotent-Replayed", "true")
	}
	x.answer(status, toolCallOf(&d.Entry))
}

// toolCall shows what stands of a tool call.
func (h *handler) toolCall(x *exchange) {
	e, err := h.Gateway.ToolCall(x.r.Context(), x.call(), x.rest)
	if err != nil {
		x.Refuse(gateway.Head{}, err)
		return
	}
	x.answer(http.StatusOK, toolCallOf(e))
}
