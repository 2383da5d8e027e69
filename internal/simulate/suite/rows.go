package suite

import (
	"slices"
	"time"
)

var (
	both     = map[Mode]Verdict{Live: Pass, Complete: Pass}
	liveSafe = map[Mode]Verdict{Live: Safe, Complete: Pass}

	asClient = Overrides{"upstream_stream": "as_client", "attempt_ms": 8000}
	// The two answers of sim-f22.
	noJSON   = `{"answer": "spillway", "level":`
	noObject = `["not", "what", "was", "asked", "for"]`

	noQuota = refused{status: 502, code: "provider_error", class: "quota"}
	noKey   = refused{status: 502, code: "provider_error", class: "auth"}
)

// Rows is the fault table. What each row demands is stated in the fault suite's
// specification; a row here is that sentence as data, or a Play.
var Rows = slices.Concat(chatRows, otherRows())

// chatRows are the rows in OpenAI's chat format.
var chatRows = []Row{
	{
		Name: "F01", Fault: "429 with Retry-After: 2, once",
		Candidates: []string{"sim-f01", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f01", "sim-f01"},
			Classes: []string{"rate_limited"},
			Conduct: waits(2*time.Second, 3*time.Second),
		}},
		Recorded: both,
	},
	{
		Name: "F02", Fault: "429 for ever, no hint",
		Candidates: []string{"sim-f02", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f02", "sim-f02", "sim-ok"},
			Classes: []string{"rate_limited", "rate_limited"},
			Conduct: waits(50*time.Millisecond, 3*time.Second),
		}},
		Recorded: both,
	},
	{
		Name: "F03 stream", Fault: "500 once, streaming",
		Candidates: []string{"sim-f03", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f03", "sim-ok"},
			Classes: []string{"server_error"},
		}},
		Recorded: both,
	},
	{
		Name: "F03 retry", Fault: "500 once, streaming, on a route that retries it",
		Candidates: []string{"sim-f03", "sim-ok"},
		Route:      Overrides{"stream_500": "retry"},
		Steps: []Step{{
			Calls:   []string{"sim-f03", "sim-f03"},
			Classes: []string{"server_error"},
		}},
		Recorded: both,
	},
	{
		Name: "F03 plain", Fault: "500 once, not streaming",
		Candidates: []string{"sim-f03", "sim-ok"},
		Plain:      true,
		Steps: []Step{{
			Calls:   []string{"sim-f03", "sim-f03"},
			Classes: []string{"server_error"},
		}},
		Recorded: both,
	},
	{
		Name: "F04", Fault: "503 for ever",
		Candidates: []string{"sim-f04", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f04", "sim-f04", "sim-ok"},
			Classes: []string{"server_error", "server_error"},
		}},
		Recorded: both,
	},
	{
		Name: "F04 store down", Fault: "503 for ever, and the store of the shared state refuses every call",
		Candidates: []string{"sim-f04", "sim-ok"},
		Store:      StoreDown,
		Steps: []Step{{
			Calls:   []string{"sim-f04", "sim-f04", "sim-ok"},
			Classes: []string{"server_error", "server_error"},
		}},
		Recorded: both,
	},
	{
		Name: "F04 store silent", Fault: "503 for ever, and the store of the shared state answers nothing",
		Candidates: []string{"sim-f04", "sim-ok"},
		Store:      StoreSilent,
		Steps: []Step{{
			Calls:   []string{"sim-f04", "sim-f04", "sim-ok"},
			Classes: []string{"server_error", "server_error"},
			Within:  3 * time.Second, // each failure may wait 250 ms for the sum of all
		}},
		Recorded: both,
	},
	{
		Name: "F05", Fault: "TCP reset before headers, once",
		Candidates: []string{"sim-f05", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f05", "sim-f05"},
			Classes: []string{"network"},
		}},
		Recorded: both,
	},
	{
		Name: "F06", Fault: "accepts, never answers",
		Candidates: []string{"sim-f06", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f06", "sim-ok"},
			Classes: []string{"timeout"},
			Within:  12 * time.Second,
			Conduct: abandons("sim-f06"),
		}},
		Recorded: both,
	},
	{
		Name: "F07", Fault: "headers at once, the first token after 20 s",
		Candidates: []string{"sim-f07", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f07", "sim-ok"},
			Classes: []string{"timeout"},
			Within:  15 * time.Second,
			Conduct: abandons("sim-f07"),
		}},
		Recorded: both,
	},
	{
		Name: "F08", Fault: "stream cut after 40 of 60 tokens",
		Candidates: []string{"sim-f08", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f08"},
			Classes: []string{"network"},
			Conduct: brokenOff{tokens: 40, code: "provider_disconnect", class: "network"}.check,
		}},
		Complete: []Step{{
			Calls:   []string{"sim-f08", "sim-f08", "sim-ok"},
			Classes: []string{"network", "network"},
		}},
		Recorded: liveSafe,
	},
	{
		Name: "F09", Fault: "silent for 30 s after 20 tokens",
		Candidates:    []string{"sim-f09", "sim-ok"},
		Route:         Overrides{"idle_ms": 10000, "stall_ms": 10000},
		CommitByRoute: true,
		Steps: []Step{{
			Calls:   []string{"sim-f09"},
			Classes: []string{"timeout"},
			Within:  11 * time.Second,
			Conduct: all(lasts(9*time.Second), abandons("sim-f09"),
				brokenOff{tokens: 20, code: "stream_interrupted", class: "timeout"}.check),
		}},
		Complete: []Step{{
			Calls:   []string{"sim-f09", "sim-ok"},
			Classes: []string{"timeout"},
			Within:  12 * time.Second,
			Conduct: abandons("sim-f09"),
		}},
		Recorded: liveSafe,
	},
	{
		Name: "F10", Fault: "one malformed chunk",
		Candidates: []string{"sim-f10", "sim-ok"},
		Steps:      []Step{{Calls: []string{"sim-f10"}}},
		Recorded:   both,
	},
	{
		Name: "F11", Fault: "no [DONE], the socket stays open",
		Candidates: []string{"sim-f11", "sim-ok"},
		Steps: []Step{{
			Calls:  []string{"sim-f11"},
			Within: 2500 * time.Millisecond, // the answer takes 0.3 s, the end mark may be waited for 1.5 s
		}},
		Recorded: both,
	},
	{
		Name: "F12 larger", Fault: "400 context_length_exceeded; the fallback declares a larger context",
		Candidates: []string{"sim-f12", "sim-ok"},
		Channels:   map[string]Overrides{"sim-f12": {"context": 128_000}, "sim-ok": {"context": 1_000_000}},
		Steps: []Step{{
			Calls:   []string{"sim-f12", "sim-ok"},
			Classes: []string{"context_length"},
		}},
		Recorded: both,
	},
	{
		Name: "F12 equal", Fault: "400 context_length_exceeded; the fallback's context is no larger",
		Candidates: []string{"sim-f12", "sim-ok"},
		Channels:   map[string]Overrides{"sim-f12": {"context": 128_000}, "sim-ok": {"context": 128_000}},
		Steps: []Step{{
			Right:   CleanError,
			Calls:   []string{"sim-f12"},
			Classes: []string{"context_length"},
			Conduct: refused{status: 502, code: "provider_error", class: "context_length"}.check,
		}},
		Recorded: both,
	},
	{
		Name: "F13", Fault: "400 content policy",
		Candidates: []string{"sim-f13", "sim-ok"},
		Steps: []Step{{
			Right:   CleanError,
			Calls:   []string{"sim-f13"},
			Classes: []string{"content_policy"},
			Conduct: refused{status: 502, code: "provider_error", class: "content_policy"}.check,
		}},
		Recorded: both,
	},
	{
		// That no prefill is sent is checked of every call: its messages are the
		// client's, byte for byte.
		Name: "F14", Fault: "cut at 40 tokens; the fallback refuses a prefill",
		Candidates:    []string{"sim-f14", "sim-noprefill"},
		CommitByRoute: true,
		Steps: []Step{{
			Calls:   []string{"sim-f14"},
			Classes: []string{"network"},
			Conduct: brokenOff{tokens: 40, code: "provider_disconnect", class: "network"}.check,
		}},
		Complete: []Step{{
			Calls:   []string{"sim-f14", "sim-f14", "sim-noprefill"},
			Classes: []string{"network", "network"},
		}},
		Recorded: liveSafe,
	},
	{
		// The first outage minute begins with the first call. Three failures open the
		// circuit, for 30 s and then for longer; the probe that ends the row's outage
		// comes at the latest 30 s after it.
		Name: "F15", Fault: "down for 60 s, then healthy; 26 requests 4 s apart, over 8 environments",
		Candidates: []string{"sim-f15", "sim-ok"}, Environments: 8,
		Steps:    slices.Repeat([]Step{{After: 4 * time.Second, Unplanned: true}}, 26),
		Conduct:  outage{model: "sim-f15", lasts: time.Minute, calls: 4, backWithin: 30 * time.Second}.check,
		Recorded: both,
	},
	{
		Name: "F16", Fault: "503 for ever, accounting: what was refused cost nothing",
		Candidates: []string{"sim-f16", "gpt-4o-mini"},
		Names:      map[string]string{"gpt-4o-mini": "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f16", "sim-f16", "gpt-4o-mini"},
			Classes: []string{"overloaded", "overloaded"},
			Conduct: books{}.check,
		}},
		Recorded: both,
	},
	{
		// What was generated and not used is the gateway's to pay. A plain answer is
		// held back in either mode, so that the cut is recovered from in both.
		Name: "F16 wasted", Fault: "cut after 40 of 60 tokens, accounting",
		Candidates: []string{"gpt-4o", "gpt-4o-mini"},
		Names:      map[string]string{"gpt-4o": "sim-f08", "gpt-4o-mini": "sim-ok"},
		Plain:      true,
		Steps: []Step{{
			Calls:   []string{"gpt-4o", "gpt-4o", "gpt-4o-mini"},
			Classes: []string{"network", "network"},
			Conduct: books{waste: true}.check,
		}},
		Recorded: both,
	},
	{
		Name: "F17", Fault: "overloaded inside a 200 stream, before content",
		Candidates: []string{"sim-f17", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f17", "sim-f17", "sim-ok"},
			Classes: []string{"overloaded", "overloaded"},
		}},
		Recorded: both,
	},
	{
		// The body's type makes it a server error, and the class's default action
		// holds: the exception for streaming requests is for the status 500.
		Name: "F18a", Fault: "200 with an error body",
		Candidates: []string{"sim-f18a", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f18a", "sim-f18a", "sim-ok"},
			Classes: []string{"server_error", "server_error"},
		}},
		Recorded: both,
	},
	{
		Name: "F18b", Fault: "200 with empty choices, or what stands for them",
		Candidates: []string{"sim-f18b", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f18b", "sim-f18b", "sim-ok"},
			Classes: []string{"bad_response", "bad_response"},
		}},
		Recorded: both,
	},
	{
		Name: "F18c", Fault: "200 with HTML",
		Candidates: []string{"sim-f18c", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f18c", "sim-f18c", "sim-ok"},
			Classes: []string{"bad_response", "bad_response"},
		}},
		Recorded: both,
	},
	{
		Name: "F18d", Fault: "200 with zero bytes",
		Candidates: []string{"sim-f18d", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f18d", "sim-f18d", "sim-ok"},
			Classes: []string{"bad_response", "bad_response"},
		}},
		Recorded: both,
	},
	{
		Name: "F19", Fault: "insufficient quota as 429 with Retry-After: 1",
		Candidates: []string{"sim-f19", "sim-ok"},
		Steps: []Step{
			{
				Right:   CleanError,
				Calls:   []string{"sim-f19"},
				Classes: []string{"quota"},
				Within:  time.Second,
				Conduct: all(noQuota.check, alerts("quota")),
			},
			{
				Right:   CleanError, // from memory: neither a call nor a fallback
				Within:  time.Second,
				Conduct: noQuota.check,
			},
		},
		Recorded: both,
	},
	{
		Name: "F20", Fault: "invalid key, here as 400 in Google's shape",
		Candidates: []string{"sim-f20", "sim-ok"},
		Steps: []Step{
			{
				Right:   CleanError,
				Calls:   []string{"sim-f20"},
				Classes: []string{"auth"},
				Within:  time.Second,
				Conduct: all(noKey.check, alerts("auth")),
			},
			{
				Right:   CleanError, // from memory: neither a call nor a fallback
				Within:  time.Second,
				Conduct: noKey.check,
			},
		},
		Recorded: both,
	},
	{
		Name: "F21", Fault: "cut inside a tool call",
		Candidates: []string{"sim-f21", "sim-ok"},
		Tool:       true,
		Steps: []Step{{
			Calls:   []string{"sim-f21"},
			Classes: []string{"network"},
			Conduct: brokenOff{inCall: true, code: "provider_disconnect", class: "network"}.check,
		}},
		Complete: []Step{{
			Calls:   []string{"sim-f21", "sim-f21", "sim-ok"},
			Classes: []string{"network", "network"},
		}},
		Recorded: liveSafe,
	},
	{
		Name: "F21 whole", Fault: "cut inside a tool call, on a route that sends calls in one piece",
		Candidates: []string{"sim-f21", "sim-ok"},
		Route:      Overrides{"tool_deltas": "whole"},
		Tool:       true,
		Steps: []Step{{
			Calls:   []string{"sim-f21", "sim-f21", "sim-ok"},
			Classes: []string{"network", "network"},
			Conduct: inOnePiece,
		}},
		Recorded: both,
	},
	{
		Name: "F22", Fault: "structured output that is no JSON, then one that breaks the schema",
		Candidates: []string{"sim-f22", "sim-ok"},
		Schema:     true,
		Steps: []Step{
			{
				Calls:   []string{"sim-f22"},
				Classes: []string{"contract_violation"},
				Conduct: breaksContract(noJSON),
			},
			{
				Calls:   []string{"sim-f22"},
				Classes: []string{"contract_violation"},
				Conduct: breaksContract(noObject),
			},
		},
		Complete: []Step{{
			Calls:   []string{"sim-f22", "sim-f22", "sim-ok"},
			Classes: []string{"contract_violation", "contract_violation"},
		}},
		Recorded: liveSafe,
	},
	{
		Name: "F23", Fault: "three candidates fail differently",
		Candidates: []string{"sim-f23a", "sim-f23b", "sim-f23c"},
		Steps: []Step{{
			Right:   CleanError,
			Calls:   []string{"sim-f23a", "sim-f23a", "sim-f23b", "sim-f23c"},
			Classes: []string{"overloaded", "overloaded", "server_error", "rate_limited"},
			Conduct: all(refused{status: 429, code: "provider_rate_limited", class: "rate_limited", retryable: true}.check, listsAllCalls),
		}},
		Recorded: both,
	},
	{
		Name: "F24", Fault: "slow everywhere; the second call starts with 1.8 s left and is cut by the deadline",
		Candidates: []string{"sim-f24", "sim-f07"},
		Headers:    map[string]string{"X-LLM-Timeout-Ms": "8000"},
		Steps: []Step{{
			Right:   CleanError,
			Calls:   []string{"sim-f24", "sim-f24"},
			Classes: []string{"server_error", "deadline"},
			Within:  9 * time.Second,
			Conduct: all(startsBefore(7*time.Second),
				refused{status: 504, code: "provider_timeout", class: "deadline", retryable: true}.check),
		}},
		Recorded: both,
	},
	{
		Name: "F24 useful", Fault: "slow everywhere; the 2 s left after the first call are less than is useful here",
		Candidates: []string{"sim-f24", "sim-f07"},
		Route:      Overrides{"min_useful_ms": 3000},
		Headers:    map[string]string{"X-LLM-Timeout-Ms": "8000"},
		Steps: []Step{{
			Right:   CleanError,
			Calls:   []string{"sim-f24"},
			Classes: []string{"server_error"},
			Within:  7 * time.Second,
			Conduct: refused{status: 503, code: "provider_unavailable", class: "server_error", retryable: true}.check,
		}},
		Recorded: both,
	},
	{
		Name: "F31", Fault: "429 with Retry-After: 30",
		Candidates: []string{"sim-f31", "sim-ok"},
		Steps: []Step{
			{
				Calls:   []string{"sim-f31", "sim-ok"},
				Classes: []string{"rate_limited"},
				Within:  2 * time.Second,
			},
			{
				Calls:   []string{"sim-ok"},
				Conduct: passesOver("sim-f31"),
			},
			{
				After:   28 * time.Second, // the hold lies less than 30 s back
				Calls:   []string{"sim-ok"},
				Conduct: passesOver("sim-f31"),
			},
			{
				After:   3 * time.Second, // it ended at the latest 30 s after the second request
				Calls:   []string{"sim-f31", "sim-ok"},
				Classes: []string{"rate_limited"},
			},
		},
		Recorded: both,
	},
	{
		Name: "F32", Fault: "cut after the 200, before the first token",
		Candidates: []string{"sim-f32", "sim-ok"},
		Steps: []Step{{
			Calls:   []string{"sim-f32", "sim-f32", "sim-ok"},
			Classes: []string{"bad_response", "bad_response"},
		}},
		Recorded: both,
	},
	{
		Name: "F33", Fault: "headers stall; body stalls; two channels that stream as the client does",
		Candidates: []string{"sim-f33a", "sim-f33b", "sim-ok"},
		Channels:   map[string]Overrides{"sim-f33a": asClient, "sim-f33b": asClient},
		Plain:      true,
		Steps: []Step{{
			Calls:   []string{"sim-f33a", "sim-f33b", "sim-ok"},
			Classes: []string{"timeout", "timeout"},
			Within:  18 * time.Second,
			Conduct: all(lasts(15*time.Second), abandons("sim-f33a", "sim-f33b"), ambiguous),
		}},
		Recorded: both,
	},
	{
		// A circuit that opens stays open for 30 s, one that reopens for 37.5 s, each
		// ± 10 %. What separates the two is the time from 33 s to 33.75 s.
		Name: "F34", Fault: "the half-open probe fails",
		Candidates: []string{"sim-f34", "sim-ok"},
		Steps: []Step{
			{
				Calls:   []string{"sim-f34", "sim-f34", "sim-ok"},
				Classes: []string{"overloaded", "overloaded"},
			},
			{
				Calls:   []string{"sim-f34", "sim-ok"}, // the third failure opens it, which ends the retries
				Classes: []string{"overloaded"},
			},
			{
				Calls:   []string{"sim-ok"},
				Conduct: passesOver("sim-f34"),
			},
			{
				After:   33100 * time.Millisecond,
				Calls:   []string{"sim-f34", "sim-ok"}, // the probe, without a retry
				Classes: []string{"overloaded"},
			},
			{
				After:   33200 * time.Millisecond,
				Calls:   []string{"sim-ok"}, // open for longer than the first time
				Conduct: passesOver("sim-f34"),
			},
			{
				After:   8500 * time.Millisecond,
				Calls:   []string{"sim-f34", "sim-ok"}, // and not for ever
				Classes: []string{"overloaded"},
			},
		},
		Recorded: both,
	},
}
