package fault

// Code is an error code that a client can see. The set is closed: contract.md §2.
type Code string

// The codes.
const (
	ValidationFailed        Code = "validation_failed"
	UnsupportedModelAPI     Code = "unsupported_model_api"
	UnsupportedModelInput   Code = "unsupported_model_input"
	UnsupportedSchema       Code = "unsupported_schema"
	IdempotencyKeyRequired  Code = "idempotency_key_required"
	InvalidAPIKey           Code = "invalid_api_key"
	BudgetExceeded          Code = "budget_exceeded"
	ModelNotAllowed         Code = "model_not_allowed"
	KeySuspended            Code = "key_suspended"
	GuardrailBlocked        Code = "guardrail_blocked"
	PermissionDenied        Code = "permission_denied"
	ModelNotFound           Code = "model_not_found"
	NotFound                Code = "not_found"
	TraceNotKept            Code = "trace_not_kept"
	MethodNotAllowed        Code = "method_not_allowed"
	IdempotencyConflict     Code = "idempotency_conflict"
	RequestTooLarge         Code = "request_too_large"
	RateLimitedKey          Code = "rate_limited"
	AllCredentialsLimited   Code = "all_credentials_rate_limited"
	ProviderRateLimited     Code = "provider_rate_limited"
	InternalError           Code = "internal_error"
	ProviderError           Code = "provider_error"
	ProviderUnavailable     Code = "provider_unavailable"
	NoProviderAvailable     Code = "no_provider_available"
	FallbackShareExhausted  Code = "fallback_share_exhausted"
	AuthUnavailable         Code = "auth_unavailable"
	StoreUnavailable        Code = "store_unavailable"
	ProviderTimeout         Code = "provider_timeout"
	ProviderDisconnect      Code = "provider_disconnect"
	StreamInterrupted       Code = "stream_interrupted"
	DeadlineExceeded        Code = "deadline_exceeded"
	StreamContractViolation Code = "contract_violation"
	// ClientClosed is what the log shows when the client left; nobody reads it as an answer.
	ClientClosed Code = "client_closed_request"
)

// statuses is the one table of codes. Codes that only appear inside a stream have no status of their own: the 200 is
// already sent.
var statuses = map[Code]int{
	ValidationFailed:       400,
	UnsupportedModelAPI:    400,
	UnsupportedModelInput:  400,
	UnsupportedSchema:      400,
	IdempotencyKeyRequired: 400,
	InvalidAPIKey:          401,
	BudgetExceeded:         402,
	ModelNotAllowed:        403,
	KeySuspended:           403,
	GuardrailBlocked:       403,
	PermissionDenied:       403,
	ModelNotFound:          404,
	NotFound:               404,
	TraceNotKept:           404,
	MethodNotAllowed:       405,
	IdempotencyConflict:    409,
	RequestTooLarge:        413,
	RateLimitedKey:         429,
	AllCredentialsLimited:  429,
	ProviderRateLimited:    429,
	InternalError:          500,
	ProviderError:          502,
	ProviderUnavailable:    503,
	NoProviderAvailable:    503,
	FallbackShareExhausted: 503,
	AuthUnavailable:        503,
	StoreUnavailable:       503,
	ProviderTimeout:        504,
	ClientClosed:           499,
}

// Status is the HTTP status of a code; 500 for one that is not in the table.
func (c Code) Status() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return 500
}

// typeOf is the error's `type` in OpenAI's and Anthropic's words.
func typeOf(status int, class Class) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 402:
		return "billing_error"
	case status == 403:
		return "permission_error"
	case status == 429:
		return "rate_limit_error"
	case status == 504:
		return "timeout_error"
	case status >= 500 && class == Overloaded:
		return "overloaded_error"
	case status >= 500:
		return "api_error"
	default:
		return "invalid_request_error"
	}
}
