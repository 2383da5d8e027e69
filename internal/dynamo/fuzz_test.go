package dynamo_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"spillway/internal/breaker"
	"spillway/internal/dynamo"
	"spillway/internal/fault"
	"spillway/internal/idempotency"
)

var fuzzNow = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func FuzzCircuit(f *testing.F) {
	for _, c := range []breaker.Circuit{
		{},
		{State: breaker.Open, Version: 1, OpenedAt: fuzzNow, Until: fuzzNow.Add(30 * time.Second), Opens: 1, Class: fault.Overloaded},
		{State: breaker.HalfOpen, Version: 3, OpenedAt: fuzzNow, Opens: 1, Passed: 1, Lease: breaker.Lease{Number: 3, Until: fuzzNow.Add(time.Minute)}},
	} {
		f.Add(dynamo.FormatCircuit(c, fuzzNow))
	}
	for _, s := range []string{"", "1", "|", `1|{"state":"open"}`, `-1|{"state":"closed"}`, `18446744073709551615|{"state":"half_open","lease":18446744073709551615}`, `1|{"state":"half_open","opens":-9223372036854775808}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_ = dynamo.Spent("circuit:x", s, fuzzNow)
		c, err := dynamo.ParseCircuit(s)
		if err != nil {
			return
		}
		again, err := dynamo.ParseCircuit(dynamo.FormatCircuit(c, fuzzNow))
		if err != nil || again.State != c.State || again.Version != c.Version || again.Lease.Number != c.Lease.Number || !again.Until.Equal(c.Until) || again.Opens != c.Opens || again.Passed != c.Passed {
			t.Fatalf("%+v is written as %+v (%v)", c, again, err)
		}
		if c.Version < c.Lease.Number || c.State != breaker.HalfOpen && c.Lease.Number != 0 {
			t.Fatalf("a lease that nobody can hold: %+v", c)
		}
		for _, e := range []breaker.Event{breaker.Ask{FirstContent: time.Second}, breaker.Success{Attempt: breaker.Attempt{Began: fuzzNow, Lease: c.Lease.Number}},
			breaker.Failure{Attempt: breaker.Attempt{Began: fuzzNow, Lease: c.Lease.Number}, Class: fault.ServerError, Weight: 1}} {
			next, _ := c.Next(e, fuzzNow, 0.5)
			if next.Version < c.Version {
				t.Fatalf("%T takes version %d to %d", e, c.Version, next.Version)
			}
			if next.State == breaker.Open && c.State != breaker.Open && !next.Until.After(fuzzNow.Add(26*time.Second)) {
				t.Fatalf("opened until %s", next.Until)
			}
		}
	})
}

func FuzzHolds(f *testing.F) {
	f.Add(dynamo.FormatHolds(breaker.Holds{ThrottledUntil: fuzzNow}))
	f.Add(dynamo.FormatHolds(breaker.Holds{Remembered: breaker.Remembered{Class: fault.Auth, Status: 401, Code: "invalid_api_key", Since: fuzzNow, Until: fuzzNow.Add(time.Hour)}}))
	f.Add(`{"class":"no_such_class","until":"2031-01-01T00:00:00Z"}`)
	f.Add(`{"class":"auth","status":-5,"until":"2031-01-01T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, s string) {
		h := dynamo.ParseHolds(s)
		if !h.Answers(fuzzNow) {
			return
		}
		failure := h.Remembered.Failure("openai", fuzzNow)
		if fault.Default().Rule(failure.Class).Code == "" || failure.Status < 0 || failure.Status > 599 {
			t.Fatalf("an answer that is none: %+v", failure)
		}
	})
}

func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
func word(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }

func FuzzRecord(f *testing.F) {
	f.Add("in_progress", "F", "o", "1893456100", "1893456100000", "", "", "", []byte(nil), "", "")
	f.Add("completed", "F", "o", "1893542400", "", "200", "9", `{"Content-Type":"application/json"}`, []byte("x"), "", "")
	f.Add("completed", "F", "o", "1893542400", "", "200", "9", `{"A":1}`, []byte(nil), "results/x", "400000")
	f.Add("completed", "F", "o", "1e9", "-1", "0", "-9", "[]", []byte(nil), "x", "-1")
	f.Add("released", "", "", "", "NaN", "99999999999999999999", "", "", []byte("x"), "x", "")
	f.Fuzz(func(t *testing.T, status, fingerprint, owner, expires, until, code, size, headers string, body []byte, object, packed string) {
		it := map[string]types.AttributeValue{"id": word("org#k"), "status": word(status), "fingerprint": word(fingerprint), "owner": word(owner),
			"expires_at": number(expires), "in_progress_until": number(until), "result_status": number(code), "result_size": number(size), "result_headers": word(headers)}
		if body != nil {
			it["result_body"] = &types.AttributeValueMemberB{Value: body}
		}
		if object != "" {
			it["result_object"], it["result_object_size"] = word(object), number(packed)
		}
		r, err := dynamo.ReadRecord(it)
		if err != nil {
			return
		}
		d := idempotency.Decide(r, "F", "another", fuzzNow)
		switch d.Verdict {
		case idempotency.Replay:
			if d.Result.Status < 200 || d.Result.Status > 599 || d.Result.Size < 0 || (d.Result.Body == nil) == (d.Result.Object == nil) {
				t.Fatalf("replayed: %+v", d.Result)
			}
		case idempotency.InFlight:
			if d.RetryAfter < time.Second || d.RetryAfter > 5*time.Second {
				t.Fatalf("come back in %s", d.RetryAfter)
			}
		case idempotency.Run:
			if !r.FreeFor("F", fuzzNow) {
				t.Fatalf("it runs over %+v", r)
			}
		}
	})
}

func FuzzWindow(f *testing.F) {
	f.Add("n_378691200=3\nw_378691200=1.5\nn_378691199=1\nw_378691199=1")
	f.Add("n_=1\nn_x=1\nn_-5=1\nn_378691200=-7\nw_378691200=NaN\nn_378691199=9223372036854775807\nw_378691199=1e308\nn_378691198=1.5")
	f.Add("n_378691200=1\nw_378691200=-Inf\nsuccessor=1|{}")
	f.Add(`successor=1|{"state":"open","opened_at":"2030-01-01T00:00:00Z","changed_at":"2029-12-31T23:59:00Z"}`)
	f.Fuzz(func(t *testing.T, lines string) {
		it := map[string]types.AttributeValue{}
		for line := range strings.Lines(lines) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			it[name] = number(value)
			if name == "successor" {
				it[name] = word(value)
			}
		}
		told, stale := dynamo.ReadWindow(it, fuzzNow)
		attempts, weight := told.Window.Sum(fuzzNow)
		if attempts < 0 || !(weight >= 0) || math.IsInf(weight, 0) {
			t.Fatalf("%d attempts of weight %g", attempts, weight)
		}
		if n := len(told.Window.Buckets(fuzzNow)); n > 12 {
			t.Fatalf("%d buckets", n)
		}
		for _, name := range stale {
			if name == "id" || name == "expires_at" {
				t.Fatalf("%s is to be removed", name)
			}
		}
		if c := told.Successor; c != nil && c.State == breaker.Closed && c.Lease.Number != 0 {
			t.Fatalf("an impossible successor: %+v", c)
		}
	})
}
