package retry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/retry"
)

var (
	now     = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	yes, no = true, false
)

// failed makes what a failure is to Decide.
func failed(o fault.Observation, change ...func(*retry.Failed)) retry.Failed {
	f := fault.Default().Classify(o)
	out := retry.Failed{Failure: f, Rule: fault.Default().Rule(f.Class)}
	for _, c := range change {
		c(&out)
	}
	return out
}

func status(n int) fault.Observation {
	return fault.Observation{Status: n, Phase: fault.PhaseHeaders, Sent: true}
}

func code(n int, word string) fault.Observation {
	o := status(n)
	o.Code = word
	return o
}

func hinted(o fault.Observation, wait time.Duration) fault.Observation {
	o.Hint = fault.Hint{Known: true, Wait: wait}
	return o
}

func asked(o fault.Observation, shouldRetry *bool) fault.Observation {
	o.ShouldRetry = shouldRetry
	return o
}

var (
	dial    = fault.Observation{Local: fault.Dial, Phase: fault.PhaseConnect}
	reset   = fault.Observation{Local: fault.Broken, Phase: fault.PhaseSent, Sent: true}
	stale   = fault.Observation{Local: fault.Broken, Phase: fault.PhaseSent, Sent: true, Reused: true}
	silent  = fault.Observation{Local: fault.Silent, Phase: fault.PhaseSent, Sent: true}
	empty   = fault.Observation{Local: fault.NoAnswer, Status: 200, InStream: true, Phase: fault.PhasePreContent, Sent: true}
	breach  = fault.Observation{Local: fault.Breach, Status: 200, Phase: fault.PhasePostContent, Sent: true}
	left    = fault.Observation{Local: fault.Left, Sent: true}
	outTime = fault.Observation{Local: fault.OutOfTime, Sent: true}
)

func streaming(f *retry.Failed)    { f.Streaming = true }
func replayUnsafe(f *retry.Failed) { f.ReplayUnsafe = true }
func truncated(f *retry.Failed)    { f.Truncated = true }
func inlined(f *retry.Failed)      { f.Inlined = true }
func larger(f *retry.Failed)       { f.Truncated, f.Larger = true, true }

// The situations: the first call of the first of three candidates, and so on.
var (
	first     = retry.Progress{Attempts: 1}
	retried   = retry.Progress{Attempts: 2, Retries: 1}
	second    = retry.Progress{Attempts: 3, Fallbacks: 1}
	three     = retry.Ahead{Candidates: 2}
	two       = retry.Ahead{Candidates: 1}
	alone     = retry.Ahead{}
	keyed     = retry.Ahead{Credentials: 1}
	keyedMore = retry.Ahead{Credentials: 1, Candidates: 1}
)

const plenty = time.Minute

// backoff is the first backoff drawn in the middle.
const backoff = 200 * time.Millisecond

func TestDecide(t *testing.T) {
	again := func(wait time.Duration, r retry.Reason) retry.Decision {
		return retry.Decision{Step: retry.Again, Wait: wait, Reason: r}
	}
	next := func(r retry.Reason) retry.Decision { return retry.Decision{Step: retry.Next, Reason: r} }
	hop := func(r retry.Reason) retry.Decision { return retry.Decision{Step: retry.Hop, Reason: r} }
	end := func(r retry.Reason) retry.Decision { return retry.Decision{Step: retry.End, Reason: r} }
	for name, c := range map[string]struct {
		failed   retry.Failed
		progress retry.Progress
		ahead    retry.Ahead
		left     time.Duration
		want     retry.Decision
	}{
		// Classes that retry: once on the same candidate, then the next one.
		"a throttle is retried":                   {failed(status(429)), first, three, plenty, again(backoff, retry.Transient)},
		"an overload is retried":                  {failed(status(529)), first, three, plenty, again(backoff, retry.Transient)},
		"a 503 is retried":                        {failed(status(503)), first, three, plenty, again(backoff, retry.Transient)},
		"a refused connection is retried":         {failed(dial), first, three, plenty, again(backoff, retry.Transient)},
		"a reset is retried":                      {failed(reset), first, three, plenty, again(backoff, retry.Transient)},
		"an answered timeout is retried":          {failed(status(504)), first, three, plenty, again(backoff, retry.Transient)},
		"a 408 is retried":                        {failed(status(408)), first, three, plenty, again(backoff, retry.Transient)},
		"a conflict is retried":                   {failed(status(409)), first, three, plenty, again(backoff, retry.Transient)},
		"too early is retried":                    {failed(status(425)), first, three, plenty, again(backoff, retry.Transient)},
		"an unusable answer is retried":           {failed(empty), first, three, plenty, again(backoff, retry.Transient)},
		"a broken contract is generated anew":     {failed(breach), first, three, plenty, again(0, retry.RegenerateOnce)},
		"a second failure moves on":               {failed(status(503)), retried, three, plenty, next(retry.RetriesUsed)},
		"a second failure of the last one ends":   {failed(status(503)), retried, alone, plenty, end(retry.RetriesUsed)},
		"a second broken contract moves on":       {failed(breach), retried, three, plenty, next(retry.RetriesUsed)},
		"what was cut off gets a larger limit":    {failed(breach, larger), first, three, plenty, again(0, retry.LargerLimit)},
		"cut off at the largest limit moves on":   {failed(breach, truncated), first, three, plenty, next(retry.NoLargerLimit)},
		"cut off at the largest limit ends alone": {failed(breach, truncated), first, alone, plenty, end(retry.NoLargerLimit)},
		"cut off after a retry moves on":          {failed(breach, larger), retried, three, plenty, next(retry.RetriesUsed)},
		"cut off, and attempts kept for others":   {failed(breach, larger), second, two, plenty, next(retry.KeptForOthers)},
		"a second broken contract, alone, ends":   {failed(breach), retried, alone, plenty, end(retry.RetriesUsed)},
		"the lone candidate is retried":           {failed(status(503)), first, alone, plenty, again(backoff, retry.Transient)},
		"the second of three leaves its retry":    {failed(status(503)), second, two, plenty, next(retry.KeptForOthers)},
		"the second of two is retried":            {failed(status(503)), second, alone, plenty, again(backoff, retry.Transient)},
		"the fourth call is the last":             {failed(status(503)), retry.Progress{Attempts: 4, Fallbacks: 2}, two, plenty, end(retry.AttemptsUsed)},
		"the third candidate is the last":         {failed(status(503)), retry.Progress{Attempts: 3, Fallbacks: 2, Retries: 1}, two, plenty, end(retry.FallbacksUsed)},
		"candidates beyond the third do not bind": {failed(status(503)), retry.Progress{Attempts: 1}, retry.Ahead{Candidates: 9}, plenty, again(backoff, retry.Transient)},

		// Hints.
		"a hint is waited":                      {failed(hinted(status(429), 2*time.Second)), first, three, plenty, again(2100*time.Millisecond, retry.Hinted)},
		"a hint of a 503 as well":               {failed(hinted(status(503), time.Second)), first, three, plenty, again(1050*time.Millisecond, retry.Hinted)},
		"a hint of nothing is a moment":         {failed(hinted(status(429), 0)), first, three, plenty, again(150*time.Millisecond, retry.Hinted)},
		"the longest hint":                      {failed(hinted(status(429), 5*time.Second)), first, three, plenty, again(5125*time.Millisecond, retry.Hinted)},
		"a longer hint is not cut":              {failed(hinted(status(429), 5*time.Second+1)), first, three, plenty, next(retry.HintTooLong)},
		"a longer hint, alone":                  {failed(hinted(status(429), 1800*time.Second)), first, alone, 2 * time.Hour, end(retry.HintTooLong)},
		"a hint beyond counting":                {failed(hinted(status(429), 365*24*time.Hour)), first, three, plenty, next(retry.HintTooLong)},
		"a hint that does not fit the deadline": {failed(hinted(status(429), 4*time.Second)), first, three, 5 * time.Second, next(retry.NoTime)},
		"a hint that just fits":                 {failed(hinted(status(429), 4*time.Second)), first, three, 5125 * time.Millisecond, again(4125*time.Millisecond, retry.Hinted)},
		"a hint changes nothing about money":    {failed(hinted(code(429, "insufficient_quota"), time.Second)), first, three, plenty, end(retry.FailFast)},
		"a backoff that does not fit":           {failed(status(503)), first, two, 1100 * time.Millisecond, next(retry.NoTime)},
		"a backoff that does not fit, alone":    {failed(status(503)), first, alone, 1100 * time.Millisecond, end(retry.NoTime)},
		"no attempt without its useful time":    {failed(status(503)), first, three, 999 * time.Millisecond, end(retry.NoTime)},
		"no time is left at all":                {failed(status(503)), first, three, -time.Second, end(retry.NoTime)},
		"the useful time itself is enough":      {failed(status(400)), first, three, time.Second, end(retry.FailFast)},

		// x-should-retry.
		"the provider says no (B11 k)":                  {failed(asked(status(503), &no)), first, three, plenty, next(retry.ProviderSaysNo)},
		"the provider says no, alone":                   {failed(asked(status(503), &no)), first, alone, plenty, end(retry.ProviderSaysNo)},
		"the provider says yes to a 503":                {failed(asked(status(529), &yes)), first, three, plenty, again(backoff, retry.Transient)},
		"yes is no more than one retry":                 {failed(asked(status(529), &yes)), retried, three, plenty, next(retry.RetriesUsed)},
		"yes to what nobody knows":                      {failed(asked(status(302), &yes)), first, three, plenty, again(backoff, retry.Transient)},
		"yes to what nobody knows, once":                {failed(asked(status(302), &yes)), retried, three, plenty, end(retry.FailFast)},
		"yes to a 404":                                  {failed(asked(status(404), &yes)), first, three, plenty, again(backoff, retry.Transient)},
		"yes to a 404 with its code":                    {failed(asked(code(404, "model_not_found"), &yes)), first, three, plenty, end(retry.FailFast)},
		"yes does not override 401 (B11 l)":             {failed(asked(status(401), &yes)), first, three, plenty, end(retry.FailFast)},
		"yes does not override 402":                     {failed(asked(status(402), &yes)), first, three, plenty, end(retry.FailFast)},
		"what could not be read is sent, at once":       {failed(status(400), inlined), first, three, plenty, again(0, retry.InlinedContent)},
		"no means the request as it was":                {failed(asked(status(400), &no), inlined), first, alone, plenty, again(0, retry.InlinedContent)},
		"what could not be read is sent once":           {failed(status(400), inlined), retried, three, plenty, end(retry.FailFast)},
		"what could not be read is no way past the cap": {failed(status(400), inlined), retry.Progress{Attempts: 4}, alone, plenty, end(retry.AttemptsUsed)},
		"yes does not override 400":                     {failed(asked(status(400), &yes)), first, three, plenty, end(retry.FailFast)},
		"yes does not override a refusal":               {failed(asked(code(400, "content_policy_violation"), &yes)), first, three, plenty, end(retry.FailFast)},
		"yes does not override money in a 429":          {failed(asked(code(429, "insufficient_quota"), &yes)), first, three, plenty, end(retry.FailFast)},
		"yes does not repeat what cannot fit":           {failed(asked(code(400, "context_length_exceeded"), &yes)), first, alone, plenty, end(retry.NoLargerContext)},

		// Silence.
		"a silent provider is left":                {failed(silent), first, three, plenty, next(retry.SilentProvider)},
		"a silent provider, alone, is asked again": {failed(silent), first, alone, plenty, again(0, retry.Transient)},
		"a silent provider, alone, twice":          {failed(silent), retried, alone, plenty, end(retry.RetriesUsed)},
		"a silent one after the last fallback":     {failed(silent), retry.Progress{Attempts: 3, Fallbacks: 2}, two, plenty, again(0, retry.Transient)},
		"a proxy's word for silence (524)":         {failed(status(524)), first, three, plenty, next(retry.SilentProvider)},
		"a proxy's word for silence, alone":        {failed(status(524)), first, alone, plenty, again(0, retry.Transient)},

		// 500 while streaming.
		"a 500 is retried":                  {failed(status(500)), first, three, plenty, again(backoff, retry.Transient)},
		"a 500 to a stream moves on":        {failed(status(500), streaming), first, three, plenty, next(retry.StreamedError)},
		"a 500 to a stream, alone":          {failed(status(500), streaming), first, alone, plenty, end(retry.StreamedError)},
		"a 502 to a stream is retried":      {failed(status(502), streaming), first, three, plenty, again(backoff, retry.Transient)},
		"an overload as 500 to a stream":    {failed(code(500, "overloaded"), streaming), first, three, plenty, again(backoff, retry.Transient)},
		"a typed server error inside a 200": {failed(fault.Observation{Status: 200, InStream: true, Type: "server_error"}, streaming), first, three, plenty, again(backoff, retry.Transient)},
		"the number 500 inside a 200":       {failed(fault.Observation{Status: 500, InStream: true, Code: "500"}, streaming), first, three, plenty, again(backoff, retry.Transient)},

		// Replay-unsafe work stops where the work may have been done.
		"a reset of unsafe work":               {failed(reset, replayUnsafe), first, three, plenty, end(retry.ReplayUnsafe)},
		"silence about unsafe work":            {failed(silent, replayUnsafe), first, three, plenty, end(retry.ReplayUnsafe)},
		"a 504 to unsafe work":                 {failed(status(504), replayUnsafe), first, three, plenty, end(retry.ReplayUnsafe)},
		"a stale connection under unsafe work": {failed(stale, replayUnsafe), first, three, plenty, end(retry.ReplayUnsafe)},
		"unsafe work that was never sent":      {failed(dial, replayUnsafe), first, three, plenty, again(backoff, retry.Transient)},
		"unsafe work that was refused":         {failed(status(429), replayUnsafe), first, three, plenty, again(backoff, retry.Transient)},

		// A kept connection that had died.
		"a stale connection is replayed at once":  {failed(stale), first, three, plenty, again(0, retry.StaleConnection)},
		"a stale connection is no retry":          {failed(stale), retried, three, plenty, again(0, retry.StaleConnection)},
		"a stale connection is replayed once":     {failed(stale), retry.Progress{Attempts: 2, Replayed: true}, three, plenty, next(retry.KeptForOthers)},
		"a stale connection twice, alone":         {failed(stale), retry.Progress{Attempts: 2, Replayed: true}, alone, plenty, again(backoff, retry.Transient)},
		"a stale connection on the fourth call":   {failed(stale), retry.Progress{Attempts: 4}, alone, plenty, end(retry.AttemptsUsed)},
		"a stale connection while quota is empty": {failed(stale, func(f *retry.Failed) { f.NoRetries = true }), first, three, plenty, again(0, retry.StaleConnection)},

		// Credentials.
		"a bad key hops":                             {failed(status(401)), first, keyed, plenty, hop(retry.OtherCredential)},
		"an empty wallet hops":                       {failed(status(402)), first, keyed, plenty, hop(retry.OtherCredential)},
		"the last key fails fast":                    {failed(status(401)), first, three, plenty, end(retry.FailFast)},
		"a hop is no fallback":                       {failed(status(401)), retry.Progress{Attempts: 3, Fallbacks: 2}, keyed, plenty, hop(retry.OtherCredential)},
		"a hop costs an attempt":                     {failed(status(401)), retry.Progress{Attempts: 4}, keyed, plenty, end(retry.AttemptsUsed)},
		"a throttled key is retried first":           {failed(status(429)), first, keyed, plenty, again(backoff, retry.Transient)},
		"a throttled key then hops":                  {failed(status(429)), retried, keyed, plenty, hop(retry.RetriesUsed)},
		"a key that is throttled for long hops":      {failed(hinted(status(429), time.Minute)), first, keyedMore, 2 * plenty, hop(retry.HintTooLong)},
		"keys count among those that are left":       {failed(status(429)), retry.Progress{Attempts: 2}, keyedMore, plenty, hop(retry.KeptForOthers)},
		"a server's failure is no matter of the key": {failed(status(503)), retried, keyedMore, plenty, next(retry.RetriesUsed)},

		// A larger context.
		"too long moves to a larger one":       {failed(code(400, "context_length_exceeded")), first, retry.Ahead{Candidates: 2, Larger: 1}, plenty, next(retry.LargerCandidate)},
		"too long for all":                     {failed(code(400, "context_length_exceeded")), first, three, plenty, end(retry.NoLargerContext)},
		"too long after the last fallback":     {failed(code(400, "context_length_exceeded")), retry.Progress{Attempts: 3, Fallbacks: 2}, retry.Ahead{Candidates: 1, Larger: 1}, plenty, end(retry.FallbacksUsed)},
		"too large a request moves on (B01 d)": {failed(fault.Observation{Provider: "openai", Status: 429, Message: "Limit 30000, Requested 37313"}), first, three, plenty, next(retry.NeverSame)},
		"too large a request, alone":           {failed(fault.Observation{Provider: "openai", Status: 429, Message: "Limit 30000, Requested 37313"}), first, alone, plenty, end(retry.NoCandidate)},

		// What no other provider can repair.
		"the caller's mistake":               {failed(status(400)), first, three, plenty, end(retry.FailFast)},
		"a refusal":                          {failed(code(400, "content_filter")), first, three, plenty, end(retry.FailFast)},
		"a missing model":                    {failed(status(404)), first, three, plenty, end(retry.FailFast)},
		"a parameter that is not taken":      {failed(code(400, "unsupported_parameter")), first, three, plenty, end(retry.FailFast)},
		"what nobody knows":                  {failed(status(302)), first, three, plenty, end(retry.FailFast)},
		"a generation that failed":           {retry.Failed{Failure: &fault.Failure{Class: fault.GenerationFailed}, Rule: fault.Default().Rule(fault.GenerationFailed)}, first, three, plenty, end(retry.FailFast)},
		"a client that left":                 {failed(left), first, three, plenty, end(retry.Irrepairable)},
		"our own deadline":                   {failed(outTime), first, three, plenty, end(retry.Irrepairable)},
		"a client that left, with time gone": {failed(left), first, three, 0, end(retry.Irrepairable)},

		// What others have decided.
		"an opened circuit moves on":                    {failed(status(503), func(f *retry.Failed) { f.Opened = true }), first, three, plenty, next(retry.CircuitOpened)},
		"an opened circuit, alone":                      {failed(status(503), func(f *retry.Failed) { f.Opened = true }), first, alone, plenty, end(retry.CircuitOpened)},
		"an empty retry quota leaves a fallback":        {failed(status(503), func(f *retry.Failed) { f.NoRetries = true }), first, three, plenty, next(retry.QuotaEmpty)},
		"an empty retry quota, alone":                   {failed(status(503), func(f *retry.Failed) { f.NoRetries = true }), first, alone, plenty, end(retry.QuotaEmpty)},
		"an empty fallback share leaves a retry":        {failed(status(503), func(f *retry.Failed) { f.NoShare = true }), first, three, plenty, again(backoff, retry.Transient)},
		"an empty fallback share ends":                  {failed(status(503), func(f *retry.Failed) { f.NoShare = true }), retried, three, plenty, end(retry.ShareEmpty)},
		"an empty share has no say without a candidate": {failed(status(503), func(f *retry.Failed) { f.NoShare = true }), retried, alone, plenty, end(retry.RetriesUsed)},
	} {
		t.Run(name, func(t *testing.T) {
			got := retry.Decide(retry.Default(), c.progress, c.failed, c.ahead, now, now.Add(c.left), 0.5)
			assert.Equal(t, c.want, got)
		})
	}
}

// TestEveryClass decides on each class at its first and its second failure, with others left.
func TestEveryClass(t *testing.T) {
	retries := [2]retry.Step{retry.Again, retry.Next}
	fails := [2]retry.Step{retry.End, retry.End}
	want := map[fault.Class][2]retry.Step{
		fault.RateLimited: retries, fault.Overloaded: retries, fault.ServerError: retries, fault.Network: retries, fault.Timeout: retries,
		fault.Conflict: retries, fault.TooEarly: retries, fault.BadResponse: retries, fault.ContractViolation: retries,
		fault.RequestExceedsLimit: {retry.Next, retry.Next},
		fault.GenerationFailed:    fails, fault.Auth: fails, fault.Quota: fails, fault.ModelUnavailable: fails, fault.ContextLength: fails,
		fault.ContentPolicy: fails, fault.UnsupportedParameter: fails, fault.InvalidRequest: fails, fault.Cancelled: fails,
		fault.Deadline: fails, fault.Unknown: fails,
	}
	for _, name := range fault.ClassNames() {
		class := fault.Class(name)
		f := retry.Failed{Failure: &fault.Failure{Class: class}, Rule: fault.Default().Rule(class)}
		for i, p := range []retry.Progress{first, retried} {
			got := retry.Decide(retry.Default(), p, f, three, now, now.Add(plenty), 0.5)
			assert.Equal(t, want[class][i], got.Step, "%s, call %d: %s", class, i+1, got.Reason)
		}
	}
}

// TestRoutes is what a route's own policy changes.
func TestRoutes(t *testing.T) {
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		route    catalog.Route
		failed   retry.Failed
		progress retry.Progress
		ahead    retry.Ahead
		step     retry.Step
		reason   retry.Reason
	}{
		"fallback on any":                           {catalog.Route{FallbackOnAny: true}, failed(status(400)), first, two, retry.Next, retry.RouteFallsBack},
		"fallback on any, with none left":           {catalog.Route{FallbackOnAny: true}, failed(status(400)), first, alone, retry.End, retry.RouteFallsBack},
		"fallback on a named class":                 {catalog.Route{FallbackOn: set(fault.Auth)}, failed(status(401)), first, two, retry.Next, retry.RouteFallsBack},
		"another credential comes first":            {catalog.Route{FallbackOn: set(fault.Auth)}, failed(status(401)), first, keyedMore, retry.Hop, retry.OtherCredential},
		"another class is not meant":                {catalog.Route{FallbackOn: set(fault.Auth)}, failed(status(400)), first, two, retry.End, retry.FailFast},
		"too long falls back where it is told":      {catalog.Route{FallbackOn: set(fault.ContextLength)}, failed(code(400, "context_length_exceeded")), first, two, retry.Next, retry.RouteFallsBack},
		"nothing falls back for a client that left": {catalog.Route{FallbackOnAny: true}, failed(left), first, two, retry.End, retry.Irrepairable},
		"nothing falls back with unsafe work":       {catalog.Route{FallbackOnAny: true}, failed(reset, replayUnsafe), first, two, retry.End, retry.ReplayUnsafe},

		"a class that may not fall back is retried": {catalog.Route{NoFallbackOn: set(fault.ServerError)}, failed(status(503)), first, two, retry.Again, retry.Transient},
		"and then ends":                       {catalog.Route{NoFallbackOn: set(fault.ServerError)}, failed(status(503)), retried, two, retry.End, retry.RouteForbids},
		"it keeps no attempts for others":     {catalog.Route{NoFallbackOn: set(fault.ServerError), MaxRetries: n(3)}, failed(status(503)), retry.Progress{Attempts: 3, Retries: 2}, three, retry.Again, retry.Transient},
		"a silent one that may not fall back": {catalog.Route{NoFallbackOn: set(fault.Timeout)}, failed(silent), first, two, retry.Again, retry.Transient},
		"a ban beats any":                     {catalog.Route{FallbackOnAny: true, NoFallbackOn: set(fault.Quota)}, failed(status(402)), first, two, retry.End, retry.RouteForbids},
		"a ban is no ban on credentials":      {catalog.Route{NoFallbackOn: set(fault.Auth)}, failed(status(401)), first, keyed, retry.Hop, retry.OtherCredential},

		"silence: retry":                {catalog.Route{RetrySilence: true}, failed(silent), first, two, retry.Again, retry.Transient},
		"stream_500: retry":             {catalog.Route{RetryStream500: true}, failed(status(500), streaming), first, two, retry.Again, retry.Transient},
		"no retries":                    {catalog.Route{MaxRetries: n(0)}, failed(status(503)), first, two, retry.Next, retry.RetriesUsed},
		"no fallbacks":                  {catalog.Route{MaxFallbacks: n(0)}, failed(status(503)), retried, two, retry.End, retry.FallbacksUsed},
		"no fallbacks, a silent one":    {catalog.Route{MaxFallbacks: n(0)}, failed(silent), first, two, retry.Again, retry.Transient},
		"one attempt":                   {catalog.Route{MaxAttempts: n(1)}, failed(status(503)), first, two, retry.End, retry.AttemptsUsed},
		"no retry of one class":         {catalog.Route{Retries: map[fault.Class]int{fault.RateLimited: 0}}, failed(status(429)), first, two, retry.Next, retry.RetriesUsed},
		"the others keep theirs":        {catalog.Route{Retries: map[fault.Class]int{fault.RateLimited: 0}}, failed(status(503)), first, two, retry.Again, retry.Transient},
		"two retries of one class":      {catalog.Route{Retries: map[fault.Class]int{fault.ServerError: 2}}, failed(status(503)), retried, two, retry.Again, retry.Transient},
		"a retry of a class that fails": {catalog.Route{Retries: map[fault.Class]int{fault.InvalidRequest: 1}}, failed(status(400)), first, two, retry.Again, retry.Transient},
		"and then it fails":             {catalog.Route{Retries: map[fault.Class]int{fault.InvalidRequest: 1}}, failed(status(400)), retried, two, retry.End, retry.FailFast},
		"a longer useful time":          {catalog.Route{MinUseful: 2 * plenty}, failed(status(503)), first, two, retry.End, retry.NoTime},
	} {
		t.Run(name, func(t *testing.T) {
			got := retry.Decide(retry.For(&c.route), c.progress, c.failed, c.ahead, now, now.Add(plenty), 0.5)
			assert.Equal(t, c.step, got.Step)
			assert.Equal(t, c.reason, got.Reason)
		})
	}
}

func set(classes ...fault.Class) map[fault.Class]bool {
	out := map[fault.Class]bool{}
	for _, c := range classes {
		out[c] = true
	}
	return out
}

// TestDefault is contract.md §3.4 to §3.6.
func TestDefault(t *testing.T) {
	assert.Equal(t, retry.Limits{MaxRetries: 1, MaxFallbacks: 2, MaxAttempts: 4, Base: 200 * time.Millisecond, Factor: 2, Cap: 2 * time.Second,
		MaxHint: 5 * time.Second, MinUseful: time.Second}, retry.Default())
	assert.Equal(t, retry.Default(), retry.For(&catalog.Route{}), "a route without a policy of its own has the default")
	assert.Equal(t, 600*time.Second, retry.DefaultIdle)
	assert.Equal(t, 20*time.Second, retry.DefaultStall)
	assert.Equal(t, 120*time.Second, retry.DefaultRequest)
	assert.Equal(t, 1500*time.Millisecond, retry.AfterFinish)
}

func TestEligible(t *testing.T) {
	rule := fault.Default().Rule
	assert.True(t, retry.Default().Eligible(rule(fault.ServerError)))
	assert.True(t, retry.Default().Eligible(rule(fault.ContextLength)))
	assert.False(t, retry.Default().Eligible(rule(fault.Auth)))
	assert.False(t, retry.Default().Eligible(rule(fault.InvalidRequest)))
	assert.False(t, retry.Default().Eligible(rule(fault.Cancelled)))
	assert.True(t, retry.Limits{FallbackOnAny: true}.Eligible(rule(fault.Auth)))
	assert.False(t, retry.Limits{FallbackOnAny: true}.Eligible(rule(fault.Cancelled)))
	assert.False(t, retry.Limits{NoFallbackOn: set(fault.ServerError)}.Eligible(rule(fault.ServerError)))
}

// TestBackoff: base 200 ms, doubled each time, 2 s at most, ± 50 %.
func TestBackoff(t *testing.T) {
	l := retry.Default()
	for n, middle := range []time.Duration{200, 400, 800, 1600, 2000, 2000} {
		middle *= time.Millisecond
		assert.Equal(t, middle, retry.Backoff(l, n, 0.5), "retry %d", n)
		assert.Equal(t, middle/2, retry.Backoff(l, n, 0), "retry %d", n)
	}
	l.FullJitter = true
	assert.Equal(t, time.Duration(0), retry.Backoff(l, 0, 0))
	assert.Equal(t, 100*time.Millisecond, retry.Backoff(l, 0, 0.5))
	rapid.Check(t, func(t *rapid.T) {
		n, random := rapid.IntRange(0, 5000).Draw(t, "n"), rapid.Float64Range(0, 0.9999999).Draw(t, "random")
		l := retry.Default()
		d := retry.Backoff(l, n, random)
		assert.GreaterOrEqual(t, d, l.Base/2)
		assert.Less(t, d, l.Cap*3/2)
		l.FullJitter = true
		assert.Less(t, retry.Backoff(l, n, random), l.Cap)
		assert.GreaterOrEqual(t, retry.Backoff(l, n, random), time.Duration(0))
	})
}

// TestAfterHint: a hint is never waited less than it asks, and at most 10 % and 250 ms more.
func TestAfterHint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hint := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(366*24*time.Hour)).Draw(t, "hint"))
		random := rapid.Float64Range(0, 0.9999999).Draw(t, "random")
		got := retry.AfterHint(hint, random)
		if hint <= 0 {
			assert.GreaterOrEqual(t, got, 100*time.Millisecond)
			assert.LessOrEqual(t, got, 200*time.Millisecond)
			return
		}
		assert.GreaterOrEqual(t, got, hint)
		assert.LessOrEqual(t, got-hint, hint/10)
		assert.LessOrEqual(t, got-hint, 250*time.Millisecond)
	})
}

// TestDecisionsHoldTheirBounds draws whole situations: only a retry waits, no wait is negative or passes the deadline,
// a hint is waited in full, and nothing is begun beyond the limits.
func TestDecisionsHoldTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := retry.Default()
		l.FullJitter = rapid.Bool().Draw(t, "full jitter")
		l.FallbackOnAny = rapid.Bool().Draw(t, "any")
		class := fault.Class(rapid.SampledFrom(fault.ClassNames()).Draw(t, "class"))
		f := retry.Failed{Rule: fault.Default().Rule(class), Failure: &fault.Failure{Class: class, Ambiguous: rapid.Bool().Draw(t, "ambiguous"),
			Evidence: rapid.SampledFrom([]fault.Evidence{fault.ByStatus, fault.ByGeneric, fault.ByNothing}).Draw(t, "evidence"),
			Observation: fault.Observation{Status: rapid.SampledFrom([]int{0, 200, 429, 500, 503}).Draw(t, "status"),
				Local: rapid.SampledFrom([]fault.Local{"", fault.Broken, fault.Silent}).Draw(t, "local"),
				Phase: fault.PhaseSent, Reused: rapid.Bool().Draw(t, "reused"),
				ShouldRetry: rapid.SampledFrom([]*bool{nil, &yes, &no}).Draw(t, "should retry"),
				Hint:        fault.Hint{Known: rapid.Bool().Draw(t, "hinted"), Wait: time.Duration(rapid.Int64Range(0, int64(8*time.Second)).Draw(t, "hint"))}}},
			Streaming: rapid.Bool().Draw(t, "streaming"), ReplayUnsafe: rapid.Bool().Draw(t, "unsafe"), Opened: rapid.Bool().Draw(t, "opened")}
		p := retry.Progress{Attempts: rapid.IntRange(1, 5).Draw(t, "attempts"), Retries: rapid.IntRange(0, 2).Draw(t, "retries"),
			Replayed: rapid.Bool().Draw(t, "replayed"), Fallbacks: rapid.IntRange(0, 3).Draw(t, "fallbacks")}
		ahead := retry.Ahead{Candidates: rapid.IntRange(0, 3).Draw(t, "candidates"), Credentials: rapid.IntRange(0, 2).Draw(t, "credentials")}
		ahead.Larger = rapid.IntRange(0, ahead.Candidates).Draw(t, "larger")
		left := time.Duration(rapid.Int64Range(-int64(time.Second), int64(20*time.Second)).Draw(t, "left"))

		d := retry.Decide(l, p, f, ahead, now, now.Add(left), rapid.Float64Range(0, 0.9999).Draw(t, "random"))
		assert.NotEmpty(t, d.Reason)
		assert.GreaterOrEqual(t, d.Wait, time.Duration(0))
		if d.Step == retry.End {
			assert.Zero(t, d.Wait)
			return
		}
		assert.Less(t, p.Attempts, l.MaxAttempts)
		assert.GreaterOrEqual(t, left-d.Wait, l.MinUseful)
		assert.False(t, f.ReplayUnsafe && f.Ambiguous)
		switch d.Step {
		case retry.Again:
			if d.Reason == retry.Hinted {
				assert.GreaterOrEqual(t, d.Wait, f.Hint.Wait)
				assert.LessOrEqual(t, f.Hint.Wait, l.MaxHint)
			}
			if d.Reason != retry.StaleConnection {
				assert.Less(t, p.Retries, l.MaxRetries)
			}
		case retry.Next:
			assert.Zero(t, d.Wait)
			assert.Positive(t, ahead.Candidates)
			assert.Less(t, p.Fallbacks, l.MaxFallbacks)
		case retry.Hop:
			assert.Zero(t, d.Wait)
			assert.Positive(t, ahead.Credentials)
		default:
			t.Fatalf("no such step: %q", d.Step)
		}
	})
}
