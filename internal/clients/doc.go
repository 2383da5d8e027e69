// Package clients holds tests only: the official SDKs, as clients of the real gateway binary behind a function URL, and as
// decoders of what it sends upstream. It is a module of its own, so that the SDKs never reach the product's module graph. CI
// runs it without the race detector.
package clients
