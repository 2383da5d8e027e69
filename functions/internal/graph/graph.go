// Package graph builds what the functions have in common, so that no wire.go repeats another: the clients of AWS, the
// configuration, and the engine of media jobs. Nothing is decided here. Beside the stores it is the only package of the
// functions that knows the AWS SDK.
package graph
