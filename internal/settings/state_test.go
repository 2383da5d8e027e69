package settings_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/redact"
	"spillway/internal/settings"
)

// inLambda is the environment of a function with everything in it.
func inLambda() map[string]string {
	return map[string]string{"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s",
		"AWS_SESSION_TOKEN": "t", "SPILLWAY_IDEMPOTENCY_TABLE": "i", "SPILLWAY_HEALTH_TABLE": "h", "SPILLWAY_REQUESTS_TABLE": "r", "SPILLWAY_RESULTS_BUCKET": "b",
		"SPILLWAY_JOBS_TABLE": "j", "SPILLWAY_JOBS_QUEUE": "http://sqs/polls", "SPILLWAY_GENERATE_QUEUE": "http://sqs/generate", "SPILLWAY_WEBHOOKS_QUEUE": "http://sqs/webhooks"}
}

func TestWhereTheStateIs(t *testing.T) {
	jobs := &settings.Jobs{Table: "j", Polls: "http://sqs/polls", Generate: "http://sqs/generate", Webhooks: "http://sqs/webhooks"}
	whole := settings.State{IdempotencyTable: "i", HealthTable: "h", RequestsTable: "r", ResultsBucket: "b", Jobs: jobs, Region: "eu-central-1", AccessKey: "a",
		SecretKey: redact.NewSecret("s"), SessionToken: redact.NewSecret("t")}
	with := func(change func(*settings.State)) *settings.State { s := whole; change(&s); return &s }
	for name, c := range map[string]struct {
		set  map[string]string
		want *settings.State
	}{
		"everything is set":                            {nil, &whole},
		"without tables the state is in memory":        {without("STATE", "JOBS"), nil},
		"without jobs the other state is shared":       {without("JOBS"), with(func(s *settings.State) { s.Jobs = nil })},
		"an endpoint counts for every service":         {map[string]string{"AWS_ENDPOINT_URL": "http://all"}, with(func(s *settings.State) { s.DynamoDB, s.S3, s.SQS = "http://all", "http://all", "http://all" })},
		"the endpoint of a service comes before it":    {map[string]string{"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_SQS": "http://sqs"}, with(func(s *settings.State) { s.DynamoDB, s.S3, s.SQS = "http://all", "http://all", "http://sqs" })},
		"and may be set without one that is for every": {map[string]string{"AWS_ENDPOINT_URL_S3": "http://s3"}, with(func(s *settings.State) { s.S3 = "http://s3" })},
	} {
		t.Run(name, func(t *testing.T) {
			env := inLambda()
			maps.Copy(env, c.set)
			got, err := settings.Load(environment(env))
			require.NoError(t, err)
			assert.Equal(t, c.want, got.State)
		})
	}
}

// groups are the names of each group of variables.
var groups = map[string][]string{
	"STATE": {"SPILLWAY_IDEMPOTENCY_TABLE", "SPILLWAY_HEALTH_TABLE", "SPILLWAY_REQUESTS_TABLE", "SPILLWAY_RESULTS_BUCKET"},
	"JOBS":  {"SPILLWAY_JOBS_TABLE", "SPILLWAY_JOBS_QUEUE", "SPILLWAY_GENERATE_QUEUE", "SPILLWAY_WEBHOOKS_QUEUE"},
	"AWS":   {"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
}

// without empties variables, and those of groups.
func without(names ...string) map[string]string {
	empty := map[string]string{}
	for _, n := range names {
		for _, one := range append(slices.Clone(groups[n]), n) {
			empty[one] = ""
		}
	}
	return empty
}

func TestAGroupIsWholeOrNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		load  func(func(string) string) (settings.Settings, error)
		empty map[string]string
		want  []string // the names, in their order
	}{
		"one table is missing":             {settings.Load, without("SPILLWAY_HEALTH_TABLE"), []string{"SPILLWAY_HEALTH_TABLE"}},
		"one queue is missing":             {settings.Load, without("SPILLWAY_GENERATE_QUEUE"), []string{"SPILLWAY_GENERATE_QUEUE"}},
		"jobs need the shared state":       {settings.Load, without("STATE"), groups["STATE"]},
		"the state needs credentials":      {settings.Load, without("AWS", "JOBS"), groups["AWS"]},
		"all that is missing is told":      {settings.Load, without("SPILLWAY_RESULTS_BUCKET", "AWS_REGION", "SPILLWAY_JOBS_TABLE"), []string{"SPILLWAY_RESULTS_BUCKET", "AWS_REGION", "SPILLWAY_JOBS_TABLE"}},
		"a worker cannot do without jobs":  {settings.LoadWorker, without("JOBS"), groups["JOBS"]},
		"a worker cannot do without state": {settings.LoadWorker, without("STATE", "JOBS"), slices.Concat(groups["STATE"], groups["JOBS"])},
		"a worker cannot do without the rest of Lambda": {settings.LoadWorker, without("STATE", "JOBS", "AWS", "AWS_LAMBDA_RUNTIME_API"),
			slices.Concat(groups["STATE"], groups["AWS"], groups["JOBS"], []string{"AWS_LAMBDA_RUNTIME_API"})},
	} {
		t.Run(name, func(t *testing.T) {
			env := inLambda()
			maps.Copy(env, c.empty)
			_, err := c.load(environment(env))
			require.Error(t, err)
			var names []string
			for _, problem := range strings.Split(err.Error(), "\n") {
				n, why, _ := strings.Cut(problem, ": ")
				names = append(names, n)
				assert.Contains(t, why, "is required")
			}
			assert.Equal(t, c.want, names)
		})
	}
}

func TestAWorkerIsNoServer(t *testing.T) {
	env := inLambda()
	env["LAMBDA_TASK_ROOT"], env["SPILLWAY_SIMULATOR_URL"] = "/var/task", "http://127.0.0.1:1/v1"
	got, err := settings.LoadWorker(environment(env))
	require.NoError(t, err)
	assert.Equal(t, "/var/task/gateway.json", got.ConfigPath)
	assert.Equal(t, "http://127.0.0.1:1/v1", got.Simulator)
	require.NotNil(t, got.State)
	assert.NotNil(t, got.State.Jobs)
}
