package graph

import (
	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/dynamo"
	"spillway/internal/fault"
	"spillway/internal/fetch"
	"spillway/internal/jobs"
	"spillway/internal/provider"
	"spillway/internal/provider/elevenlabs"
	"spillway/internal/provider/fal"
	"spillway/internal/provider/veo"
	"spillway/internal/provider/wire"
	"spillway/internal/redact"
	"spillway/internal/s3store"
	"spillway/internal/settings"
	"spillway/internal/sqsqueue"
	"spillway/internal/telemetry"
	"spillway/internal/usage"
)

// Fleet builds what shares the circuits and holds with all environments, of whatever function. A process has one.
func Fleet(s *settings.State, recorder *telemetry.Recorder) *breaker.Fleet {
	return &breaker.Fleet{Store: &dynamo.Health{API: dynamo.New(AWS(s, s.DynamoDB)), Table: s.HealthTable}, Lost: recorder.StoreLost}
}

// Jobs builds what runs media jobs; fleet is the process's own. s must have State and State.Jobs.
func Jobs(s settings.Settings, c *catalog.Catalog, policy *fault.Policy, recorder *telemetry.Recorder, fleet *breaker.Fleet) *jobs.Engine {
	state := s.State
	send := sqsqueue.New(AWS(state, state.SQS))
	makers := studios(policy)
	web := &fetch.Client{Known: fetch.Hosts(baseURLs(c, makers)...), Receiver: fetch.Hosts(s.Simulator)}
	return &jobs.Engine{
		Jobs:    &dynamo.Jobs{API: dynamo.New(AWS(state, state.DynamoDB)), Table: state.Jobs.Table},
		Catalog: c,
		Studios: makers,
		Health:  &jobs.Circuits{Fleet: fleet, Policy: policy, To: recorder},
		Submits: &sqsqueue.Queue{API: send, URL: state.Jobs.Generate},
		Polls:   &sqsqueue.Queue{API: send, URL: state.Jobs.Polls},
		Tells:   &sqsqueue.Queue{API: send, URL: state.Jobs.Webhooks},
		Objects: s3store.NewWorks(s3store.New(AWS(state, state.S3)), state.ResultsBucket),
		Library: web,
		Prices:  usage.EmbeddedWorks(),
		Record:  &jobs.Records{To: recorder, Policy: policy},
		Teller:  web,
		Signing: func(organization string) redact.Secret {
			if o := c.Organizations[organization]; o != nil {
				return o.WebhookSecret
			}
			return redact.Secret{} // it is gone from the configuration
		},
	}
}

func studios(policy *fault.Policy) map[string]provider.Studio {
	desk := wire.Desk{Wire: &wire.Client{}, Policy: policy}
	return map[string]provider.Studio{"elevenlabs": &elevenlabs.Studio{Desk: desk}, "fal": &fal.Studio{Desk: desk}, "veo": &veo.Studio{Desk: desk}}
}

// baseURLs are where the operator says that those are who make works: they may be inside. Nobody else inside has a work to fetch, whatever
// a provider says.
func baseURLs(c *catalog.Catalog, makers map[string]provider.Studio) []string {
	var all []string
	for _, ch := range c.Channels {
		if makers[ch.Provider.Kind] != nil {
			all = append(all, ch.Provider.BaseURL)
		}
	}
	return all
}
