// Package simulate is a provider that misbehaves on purpose.
//
// It speaks the wire formats of real providers and lets the caller choose the
// fault by model name: "sim-ok" always answers, "sim-noprefill" refuses an
// assistant message in last place, "sim-f01" … "sim-f34" each break in one way
// (the table is in faults.go). It keeps a log of every call with its arrival
// time, so that a test can say what a gateway really did: how often it called,
// how long it waited, what it sent.
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
// fault is the rule that makes the replies of one model; a wire format is the
// way one provider spells requests, answers and errors.
package simulate
