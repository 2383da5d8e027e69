package anthropic

import "spillway/internal/chat"

// thinkingMode says whether and how the model reasons.
type thinkingMode struct {
	Type   thinking `json:"type"`
	Budget int64    `json:"budget_tokens,omitzero"`
}

const (
	disabled thinking = "disabled"
	between  thinking = "between_tools"
)

// budgets are the tokens that models before 4-6 may reason for (reference/providers.md §3.3, 2026-11-30). They have no
// more than high.
var budgets = map[string]int64{"minimal": 1024, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 16384, "max": 16384}

// efforts are the client's efforts in Anthropic's words (reference/providers.md §3.3, 2026-11-30).
var efforts = map[string]string{"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}

// effort writes how much the model may reason. An effort that a model has no measure for, or that a request cannot have, is
// left out: it changes how good an answer is, not what it is.
func (e *encoder) effort() {
	switch effort := e.req.Effort; {
	case effort == "":
	case effort == "none":
		e.noEffort()
	case efforts[effort] == "":
		e.leave("reasoning_effort")
	case e.model.thinks == adaptive:
		e.adapt(efforts[effort])
	case e.model.thinks == budgeted && !e.out.Choice.forced() && e.mayBegin():
		e.budget(budgets[effort])
	default:
		e.leave("reasoning_effort")
	}
}

// noEffort asks for an answer without reasoning, or with as little as the model can. Where it reasons only when it is told
// to, nothing has to be said.
func (e *encoder) noEffort() {
	switch {
	case e.model.between:
		e.out.Thinking = &thinkingMode{Type: between}
	case e.model.alwaysThinks:
		e.setEffort("low")
	case e.model.thinks == adaptive:
		e.out.Thinking = &thinkingMode{Type: disabled}
	}
}

// adapt tells a model how much to reason. One that must call a tool is not told to, but keeps the effort.
func (e *encoder) adapt(effort string) {
	if effort == "xhigh" && !e.model.xhigh {
		effort = "high"
	}
	e.setEffort(effort)
	if !e.out.Choice.forced() {
		e.out.Thinking = &thinkingMode{Type: adaptive}
	}
}

func (e *encoder) setEffort(effort string) {
	if e.out.Output == nil {
		e.out.Output = &outputConfig{}
	}
	e.out.Output.Effort = effort
}

// budget lets a model reason for so many tokens. They are a part of the output limit, which is raised where it would leave
// nothing for the answer.
func (e *encoder) budget(tokens int64) {
	e.out.Thinking = &thinkingMode{Type: budgeted, Budget: tokens}
	if e.out.MaxTokens <= tokens {
		e.out.MaxTokens = e.atMost(e.out.MaxTokens+tokens, 0)
	}
}

// mayBegin reports whether reasoning may be turned on where the conversation stands: not within an assistant's turn, be it
// continued or waiting for the results of its calls, that did not begin with reasoning of this vendor.
func (e *encoder) mayBegin() bool {
	messages := e.req.Messages
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := &messages[i]; m.Role {
		case chat.User:
			return true
		case chat.Assistant:
			return len(m.Calls) > 0 && len(m.Thinking) > 0 && m.Thinking[0].Vendor == vendor && m.Thinking[0].After == (chat.Place{})
		}
	}
	return true
}
