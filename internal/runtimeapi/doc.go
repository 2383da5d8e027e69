// Package runtimeapi runs a Lambda function where there is no Lambda: it starts the function's real bootstrap binary,
// speaks the Runtime API with it, and is its function URL.
//
// A [Front] is one function. It keeps a pool of environments; an environment is one process of the bootstrap with a
// Runtime API of its own on 127.0.0.1, serving one invocation at a time. As in Lambda an invocation is over when the
// process asks for the next one, not when it has answered; from then on the process may be frozen.
//
// It promises what a function can observe of Lambda: the event's shape, one request per environment, reuse, freezing,
// the deadline and its kill, a client's leaving that nobody reports, and a stream that is visibly cut when its writer
// failed; with [Shape] also how slow a large stream is. It does not model how slow a cold start is.
//
// An [EventSource] invokes a function with what a [Queue] holds, and a [Schedule] at a rate; both as Lambda does, down to
// what becomes of a batch whose function failed.
//
// What Lambda lets pass although it is a mistake, or punishes without a word, [Strict] refuses and lists.
//
// Protocol: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html (2026-11); where that page is silent, the
// behaviour follows the sources of aws-lambda-runtime-interface-emulator.
package runtimeapi
