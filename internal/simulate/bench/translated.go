package main

import (
	"context"
	"errors"
	"time"

	"spillway/internal/simulate/bench/answer"
)

// translated measures what the gateway adds, over net/http, for an OpenAI client whose upstream speaks another format: beside a
// direct call of the upstream in that format, and beside the format that has not to be translated.
func (s *stage) translated(ctx context.Context, o options, r *report) error {
	kinds := []struct {
		name            string
		direct, gateway func(*answer.Format) (time.Duration, error)
	}{
		{"a plain answer, streamed upstream",
			func(f *answer.Format) (time.Duration, error) { return s.direct.whole(ctx, f.Path(false), f.Ask(false)) },
			func(f *answer.Format) (time.Duration, error) {
				return s.gateway.whole(ctx, chatPath, answer.Request(f.Model, false))
			}},
		{"the first content of a stream",
			func(f *answer.Format) (time.Duration, error) {
				return s.direct.first(ctx, f.Path(true), f.Ask(true), f)
			},
			func(f *answer.Format) (time.Duration, error) {
				return s.gateway.first(ctx, chatPath, answer.Request(f.Model, true), answer.OpenAI)
			}},
	}
	for _, k := range kinds {
		direct, gateway := map[*answer.Format][]time.Duration{}, map[*answer.Format][]time.Duration{}
		for done := 0; done < o.requests; done += turn {
			for _, f := range answer.Formats {
				var errDirect, errGateway error
				direct[f], errDirect = again(direct[f], f, k.direct)
				gateway[f], errGateway = again(gateway[f], f, k.gateway)
				if err := errors.Join(errDirect, errGateway); err != nil {
					return err
				}
			}
		}
		for _, f := range answer.Formats {
			r.add(figure{section: "latency p50 that the gateway adds over net/http, by the upstream's format: " + k.name, name: f.Name, unit: "ms"},
				(median(gateway[f])-median(direct[f])).Seconds()*1e3)
		}
	}
	return nil
}

// again asks for one turn more, and adds how long each answer took.
func again(took []time.Duration, f *answer.Format, ask func(*answer.Format) (time.Duration, error)) ([]time.Duration, error) {
	for range turn {
		d, err := ask(f)
		if err != nil {
			return took, err
		}
		took = append(took, d)
	}
	return took, nil
}
