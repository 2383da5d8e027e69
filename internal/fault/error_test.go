package fault_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/fault"
)

// TestStatusesAndTypes is the table of contract.md §2.
func TestStatusesAndTypes(t *testing.T) {
	want := map[int]struct {
		typ   string
		codes []fault.Code
	}{
		400: {"invalid_request_error", []fault.Code{fault.ValidationFailed, fault.UnsupportedModelAPI, fault.UnsupportedModelInput,
			fault.UnsupportedSchema, fault.IdempotencyKeyRequired}},
		401: {"authentication_error", []fault.Code{fault.InvalidAPIKey}},
		402: {"billing_error", []fault.Code{fault.BudgetExceeded}},
		403: {"permission_error", []fault.Code{fault.ModelNotAllowed, fault.KeySuspended, fault.GuardrailBlocked, fault.PermissionDenied}},
		404: {"invalid_request_error", []fault.Code{fault.ModelNotFound, fault.NotFound, fault.TraceNotKept}},
		405: {"invalid_request_error", []fault.Code{fault.MethodNotAllowed}},
		409: {"invalid_request_error", []fault.Code{fault.IdempotencyConflict}},
		413: {"invalid_request_error", []fault.Code{fault.RequestTooLarge}},
		429: {"rate_limit_error", []fault.Code{fault.RateLimitedKey, fault.AllCredentialsLimited, fault.ProviderRateLimited}},
		500: {"api_error", []fault.Code{fault.InternalError}},
		502: {"api_error", []fault.Code{fault.ProviderError}},
		503: {"api_error", []fault.Code{fault.ProviderUnavailable, fault.NoProviderAvailable, fault.FallbackShareExhausted,
			fault.AuthUnavailable, fault.StoreUnavailable}},
		504: {"timeout_error", []fault.Code{fault.ProviderTimeout}},
	}
	for status, row := range want {
		for _, code := range row.codes {
			e := &fault.Error{Code: code}
			assert.Equal(t, status, e.HTTPStatus(), "code %s", code)
			assert.Equal(t, row.typ, e.Type(), "code %s", code)
		}
	}
}

func TestType(t *testing.T) {
	for name, c := range map[string]struct {
		err  fault.Error
		want string
	}{
		"an overloaded provider has a type of its own": {fault.Error{Code: fault.ProviderUnavailable, Class: fault.Overloaded}, "overloaded_error"},
		"an overload that timed out is a timeout":      {fault.Error{Code: fault.ProviderTimeout, Class: fault.Overloaded}, "timeout_error"},
		"an overload answered as a rate limit is one":  {fault.Error{Code: fault.ProviderRateLimited, Class: fault.Overloaded}, "rate_limit_error"},
		"a surfaced 422 is the caller's":               {fault.Error{Code: fault.ProviderError, Status: 422, Class: fault.InvalidRequest}, "invalid_request_error"},
		"a code that is none is a fault of ours":       {fault.Error{Code: "nonsense"}, "api_error"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.err.Type()) })
	}
}

func TestHTTPStatus(t *testing.T) {
	assert.Equal(t, 400, (&fault.Error{Code: fault.ProviderError, Status: 400}).HTTPStatus(), "a route may surface the provider's status")
	assert.Equal(t, 502, (&fault.Error{Code: fault.ProviderError}).HTTPStatus())
	assert.Equal(t, 500, fault.Code("nonsense").Status())
}

func TestRetrySeconds(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  int64
	}{
		"nothing known":               {0, 0},
		"a moment is a second":        {time.Nanosecond, 1},
		"a second":                    {time.Second, 1},
		"a second and a bit are two":  {time.Second + time.Nanosecond, 2},
		"45.837906927 s are 46":       {45837906927 * time.Nanosecond, 46},
		"half an hour":                {1800 * time.Second, 1800},
		"an excessive one is bounded": {fault.Excessive, 365 * 24 * 3600},
		"a past one is not known":     {-5 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, (&fault.Error{RetryAfter: c.after}).RetrySeconds())
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(fault.Excessive)).Draw(t, "d"))
		s := time.Duration((&fault.Error{RetryAfter: d}).RetrySeconds()) * time.Second
		assert.GreaterOrEqual(t, s, d, "a client that waits as told has waited long enough")
		assert.Less(t, s-d, time.Second)
		assert.GreaterOrEqual(t, s, time.Second)
	})
}

func TestErrorTexts(t *testing.T) {
	e := &fault.Error{Code: fault.InternalError, Message: "the gateway failed", Cause: io.ErrUnexpectedEOF}
	assert.Equal(t, "internal_error: the gateway failed: unexpected EOF", e.Error())
	assert.ErrorIs(t, e, io.ErrUnexpectedEOF)
	assert.Equal(t, "internal_error: the gateway failed", (&fault.Error{Code: fault.InternalError, Message: "the gateway failed"}).Error())

	invalid := fault.Invalid("messages[0].role", "the role is unknown")
	assert.Equal(t, &fault.Error{Code: fault.ValidationFailed, Param: "messages[0].role", Message: "the role is unknown"}, invalid)
}

// TestFailureTexts: a failure's text goes to the log, so it holds the class and the provider's code, never its message.
func TestFailureTexts(t *testing.T) {
	f := fault.Default().Classify(fault.Observation{Status: 400, Code: "invalid_value", Message: "the prompt said so"})
	assert.Equal(t, "invalid_request (invalid_value)", f.Error())
	cause := errors.New("dial tcp 10.0.0.1:443: refused")
	f = fault.Default().Classify(fault.Observation{Local: fault.Dial, Cause: cause})
	assert.Equal(t, "network", f.Error())
	assert.ErrorIs(t, f, cause)
	assert.EqualError(t, fault.Silent, "local cause: silent")
}
