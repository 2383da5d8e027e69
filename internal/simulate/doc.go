// Package simulate is a provider that misbehaves on purpose.
//
// It speaks the wire formats of real providers and lets the caller choose the
// fault by model name: "sim-ok" always answers, "sim-noprefill" refuses an
// assistant message in last place, "sim-f01" … "sim-f34" each break in one way
// (the table is in faults.go). It keeps a log of every call with its arrival
// time, so that a test can say what a gateway really did: how often it called,
// how long it waited, what it sent.
//
// Where it is called decides the wire format, with and without the /v1 or /v1beta that a
// base address may end with:
//
//	POST /v1/chat/completions                    sim-ok, sim-f01 …             OpenAI's chat completions
//	POST /v1/responses                           sim-responses-ok, …-f01 …     OpenAI's Responses API
//	POST /v1/messages                            sim-anthropic-ok, …-f01 …     Anthropic's Messages API
//	POST /v1beta/models/{model}:generateContent  sim-gemini-ok, …-f01 …        Gemini's, and
//	     …:streamGenerateContent?alt=sse                                       its streams
//	GET  /v1/models                              the models of the chat format
//	GET  /_sim/log, /_sim/counts; POST /_sim/reset
//
// In the three newer formats it is a strict judge: a member that the API does not have,
// turns in an order that it does not take, a tool call without its result or without its
// signature are refused in the provider's own words. A request about the weather is
// answered by calling the tool for it, and any other whose subject it mentions; a schema
// is satisfied, images are acknowledged, reasoning is shown where it is asked for.
//
// It promises bytes on the wire, including those that no HTTP framework will
// produce: a reset before the headers, an open socket that goes silent, a
// chunked body without its end. It therefore is a raw HTTP/1.1 server over any
// [net.Listener]. All its waits are timers, so that under testing/synctest, over
// a [PipeListener], twenty seconds of silence cost nothing.
//
// It is used by `make run`, by tests and by the benchmark, and is never linked
// into a function.
//
// Words: a Reply is what one call gets, byte for byte and with its silences; a
// fault is the rule that makes the replies of one model, whatever its format; a wire
// format is the way one provider spells requests, answers and errors, and knows no
// fault; a draft is an answer that a format has spelt and a fault may still break.
package simulate
