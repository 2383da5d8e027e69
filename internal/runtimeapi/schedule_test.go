//go:build linux

package runtimeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/runtimeapi"
)

const scheduleARN = "arn:aws:scheduler:eu-central-1:123456789012:schedule/default/sweep"

func TestAScheduleInvokesAtItsRateWhateverBecomesOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logs
		f := newScript(func(i invoked) ([]byte, error) {
			time.Sleep(90 * time.Second) // longer than the rate
			return nil, errors.New("on purpose")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
		defer cancel()
		must(t, runtimeapi.Schedule{Function: f, ARN: scheduleARN, Every: time.Minute, Log: &log}.Run(ctx))
		equal(t, 3*time.Minute+90*time.Second, time.Since(f.began), "it returns when all are over")
		equal(t, 3, len(f.calls))
		equal(t, 2, f.most)
		contains(t, log.String(), "on purpose")
		var e map[string]any
		must(t, json.Unmarshal([]byte(f.calls[1].event), &e))
		check(t, e["id"] != "", "it has an id")
		delete(e, "id")
		equal(t, map[string]any{"version": "0", "detail-type": "Scheduled Event", "source": "aws.scheduler", "account": "123456789012",
			"time": f.began.Add(2 * time.Minute).UTC().Format("2006-01-02T15:04:05Z"), "region": "eu-central-1", "resources": []any{scheduleARN}, "detail": "{}"}, e)
	})
}

func TestAScheduleThatCannotBeIsRefused(t *testing.T) {
	for name, s := range map[string]runtimeapi.Schedule{
		"no function": {ARN: scheduleARN, Every: time.Minute},
		"no rate":     {Function: newScript(nil), ARN: scheduleARN},
		"no ARN":      {Function: newScript(nil), ARN: "sweep", Every: time.Minute},
	} {
		t.Run(name, func(t *testing.T) { check(t, s.Run(t.Context()) != nil, "it was not refused") })
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"rate(1 minute)": time.Minute, "rate(5 minutes)": 5 * time.Minute, "rate(2 hours)": 2 * time.Hour, "rate(1 day)": 24 * time.Hour,
		"rate(1 minutes)": 0, "rate(5 minute)": 0, "rate(0 minutes)": 0, "rate(10 seconds)": 0, "cron(0 * * * ? *)": 0, "rate(1 minute) ": 0, "": 0, "rate(9999999 days)": 0,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := runtimeapi.ParseRate(text)
			equal(t, want, got)
			equal(t, want == 0, err != nil)
		})
	}
}
