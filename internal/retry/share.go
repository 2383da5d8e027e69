package retry

// The reasons of empty buckets (contract.md §3.7).
const (
	// QuotaEmpty: the route's retries are used up for now; only a fallback is left.
	QuotaEmpty Reason = "retry_quota_empty"
	// ShareEmpty: the route has moved to fallbacks too often for now.
	ShareEmpty Reason = "fallback_share_empty"
)
