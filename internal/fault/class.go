// Package fault is the vocabulary of failure: the closed set of classes that a provider's answer can have, the closed
// set of codes that a client can see, the policy table that says what each class means, and the evidence that leads
// from an observed failure to its class. It decides what a failure *is*; what to do next is decided by package retry.
//
// Facts about classes, statuses and provider codes are data: policy.json, one versioned table, embedded and strictly
// decoded. Nothing here reads a clock, a socket or the environment.
package fault

import (
	"slices"
	"time"
)

// Class is what a failure is. The set is closed: policy.md §3.
type Class string

// The classes.
const (
	RateLimited          Class = "rate_limited"
	Overloaded           Class = "overloaded"
	ServerError          Class = "server_error"
	Network              Class = "network"
	Timeout              Class = "timeout"
	Conflict             Class = "conflict"
	TooEarly             Class = "too_early"
	BadResponse          Class = "bad_response"
	ContractViolation    Class = "contract_violation"
	GenerationFailed     Class = "generation_failed"
	Auth                 Class = "auth"
	Quota                Class = "quota"
	ModelUnavailable     Class = "model_unavailable"
	ContextLength        Class = "context_length"
	RequestExceedsLimit  Class = "request_exceeds_limit"
	ContentPolicy        Class = "content_policy"
	UnsupportedParameter Class = "unsupported_parameter"
	InvalidRequest       Class = "invalid_request"
	Cancelled            Class = "cancelled"
	Deadline             Class = "deadline"
	Unknown              Class = "unknown"
)

// Known reports whether the class is one of ours.
func (c Class) Known() bool { return everyClass[c] }

// ClassNames are the names of all classes, sorted.
func ClassNames() []string {
	names := make([]string, 0, len(everyClass))
	for c := range everyClass {
		names = append(names, string(c))
	}
	slices.Sort(names)
	return names
}

// Action is what a class asks for by default. Package retry turns it into a decision.
type Action string

// The actions.
const (
	// Retry asks for the same candidate again, then the next one.
	Retry Action = "retry"
	// Fallback asks for the next candidate, never the same one.
	Fallback Action = "fallback"
	// NextCredential asks for another credential of the same channel, else the request fails.
	NextCredential Action = "next_credential"
	// Larger asks for a candidate whose declared context is larger, else the request fails.
	Larger Action = "larger_context"
	// Regenerate asks for one more answer of the same candidate, then a candidate with the same features.
	Regenerate Action = "regenerate"
	// Fail ends the chain: no other provider can repair this.
	Fail Action = "fail"
	// Stop ends the request: nobody waits for it any more, or its time is gone.
	Stop Action = "stop"
)

// HoldKind says how a candidate is held after a failure.
type HoldKind string

// The kinds of hold. The zero value holds nothing.
const (
	// Throttle skips the candidate until the provider's hint has passed.
	Throttle HoldKind = "throttle"
	// Remember keeps the candidate's place and answers from memory.
	Remember HoldKind = "remember"
)

// Rule is one row of the class table.
type Rule struct {
	Class  Class
	Action Action
	// Weight is what one failure counts for the circuit: 1, 0.5 or 0.
	Weight float64
	// Code is what the client sees when the chain ends with this class.
	Code Code
	// Hold says whether and how the candidate is held, HoldFor for how long when the provider gave no hint.
	Hold    HoldKind
	HoldFor time.Duration
	// Alert says that an operator must hear of it.
	Alert bool
	// Retryable says that the same request, sent again later, may succeed.
	Retryable bool
	// Remedy tells an operator what to do. Never shown to a client.
	Remedy string
}

var everyAction = map[Action]bool{Retry: true, Fallback: true, NextCredential: true, Larger: true, Regenerate: true, Fail: true, Stop: true}

var everyClass = map[Class]bool{RateLimited: true, Overloaded: true, ServerError: true, Network: true, Timeout: true, Conflict: true,
	TooEarly: true, BadResponse: true, ContractViolation: true, GenerationFailed: true, Auth: true, Quota: true,
	ModelUnavailable: true, ContextLength: true, RequestExceedsLimit: true, ContentPolicy: true, UnsupportedParameter: true,
	InvalidRequest: true, Cancelled: true, Deadline: true, Unknown: true}
