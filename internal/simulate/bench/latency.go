package main

import (
	"context"
	"time"
)

// turn is how many requests are made of one target before the next has its turn.
const turn = 50

// kind is what is asked for.
type kind struct {
	name string
	ask  func(*target, context.Context) (time.Duration, error)
}

var (
	plain        = kind{"plain answer, streamed upstream as is the default", (*target).plain}
	asAsked      = kind{"plain answer, plain upstream too (upstream_stream: as_client)", (*target).asAsked}
	firstContent = kind{"first content of a stream", (*target).firstContent}
)

// latencies measures one request at a time: a plain answer to its end, and a stream to its first content.
func (s *stage) latencies(ctx context.Context, o options, r *report) error {
	kinds := []kind{plain, asAsked, firstContent}
	took := map[string]map[*target][]time.Duration{}
	for _, k := range kinds {
		took[k.name] = map[*target][]time.Duration{}
	}
	for done := 0; done < o.requests; done += turn {
		for _, t := range s.targets() {
			for _, k := range kinds {
				for range turn {
					d, err := k.ask(t, ctx)
					if err != nil {
						return err
					}
					took[k.name][t] = append(took[k.name][t], d)
				}
			}
		}
	}
	for _, k := range kinds {
		p50 := func(t *target) float64 { return median(took[k.name][t]).Seconds() * 1e3 }
		of := func(name string, target float64) figure {
			return figure{section: "latency p50, one request at a time: " + k.name, name: name, unit: "ms", target: target}
		}
		r.add(of("the upstream, called directly", 0), p50(s.direct))
		r.add(of("added by net/http's reverse proxy, for comparison", 0), p50(s.proxy)-p50(s.direct))
		r.add(of("added by the gateway over net/http", 0.44), p50(s.gateway)-p50(s.direct))
		r.add(of("an echo behind the Lambda front end", 0), p50(s.echoFront))
		r.add(of("the gateway there, minus the echo", 0.40), p50(s.gatewayFront)-p50(s.echoFront))
		r.add(of("the same, minus the direct call too", 0), p50(s.gatewayFront)-p50(s.echoFront)-p50(s.direct))
	}
	return nil
}
