// Package simulate is a provider that misbehaves on purpose.
//
// It speaks the wire formats of real providers and lets the caller choose the
// fault by model name: "sim-ok" always answers, "sim-noprefill" refuses an
// assistant message in last place, "sim-f01" … "sim-f34" each break in one way
// (the table is in faults.go; studio_models.go has that of videos and music). It keeps
// a log of every call with its arrival time, so that a test can say what a gateway
// really did: how often it called, how long it waited, what it sent.
//
// Where it is called decides the wire format, with and without the /v1 or /v1beta that a
// base address may end with:
//
//	POST /v1/chat/completions                    sim-ok, sim-f01 …             OpenAI's chat completions
//	POST /v1/responses                           sim-responses-ok, …-f01 …     OpenAI's Responses API
//	POST /v1/messages                            sim-anthropic-ok, …-f01 …     Anthropic's Messages API
//	POST /v1beta/models/{model}:generateContent  sim-gemini-ok, …-f01 …        Gemini's, and
//	     …:streamGenerateContent?alt=sse                                       its streams
//	POST /v1beta/models/{model}:predictLongRunning
//	                                             sim-video …                   Google's operations, which make videos, with
//	     GET …/operations/{id}, …/files/{id}:download                          what becomes of one, and its video
//	POST /v1/{model}                             sim-video-fal …               fal's queue, which makes videos, with all
//	                                                                           that its answers give addresses of
//	POST /v1/music                               sim-music …                   ElevenLabs' music
//	GET  /v1/models                              the models of the chat format
//	GET  /_sim/log, /_sim/counts, /_sim/jobs, /_sim/callbacks; POST /_sim/callback, /_sim/reset
//
// In all formats but the first it is a strict judge: a member that the API does not have,
// turns in an order that it does not take, a tool call without its result or without its
// signature are refused in the provider's own words. A request about the weather is
// answered by calling the tool for it, and any other whose subject it mentions; a schema
// is satisfied, images are acknowledged, reasoning is shown where it is asked for.
//
// Videos and music are jobs, which have a life of their own: for a third of its 6 s one waits in the queue, for the rest it is
// worked on, and then its work is there, 200 kB that depend on the job's id alone. GET /_sim/jobs lists them, each
// with how many orders with its prompt were taken, how often it was asked for, and how often its work was. A model's ending
// says how its jobs misbehave:
//
//	-lost       takes the order and cuts the connection before a byte of its answer: the job is there
//	-refused    refuses orders: 429, at fal 403
//	-down       answers orders with 503 for ever, and takes none
//	-502        answers the first five polls of a job with a proxy's 502, then goes on
//	-gone       knows a job for one poll, then answers 404
//	-strange    answers the first three polls with a state that nobody knows, then goes on
//	-late       answers polls with the hint to come again after 8 s
//	-never      takes the order and never ends
//	-failed     ends with an error of its own
//	-moderated  refuses the content: sim-video at the end, the others at once
//	-empty      succeeds and has no work
//	-expired    succeeds, and the address of the work answers 403
//	-cut        breaks the work off in the middle, the first time
//	-slow       lets the work trickle over 20 s
//	-big        makes a work of 60 MB, never held in memory
//
// sim-music, which answers an order with the work itself, has those that need no poll: -lost, -refused, -down, -never,
// -moderated, -empty, -cut, -slow and -big.
//
// POST /_sim/callback stands for an application that is told of its jobs, and GET /_sim/callbacks lists what it was told; its
// address may ask it to fail, to forget and to be slow ([Callback]).
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
// fault; a draft is an answer that a format has spelt and a fault may still break. A studio is
// to jobs what a wire format is to answers, and a conduct what a fault is.
package simulate
