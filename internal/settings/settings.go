// Package settings reads the environment of a function, once. It is the one table of environment names; nothing else
// of ours reads the environment.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"spillway/internal/redact"
)

// The names of the environment. The template sets those that Names lists.
const (
	// Config is the path of the configuration; a relative one counts from LAMBDA_TASK_ROOT, or from the working
	// directory outside Lambda. Default: gateway.json.
	Config = "SPILLWAY_CONFIG"
	// LogLevel is debug, info, warn or error. Default: info.
	LogLevel = "SPILLWAY_LOG_LEVEL"
	// Simulator is the address of the simulated provider, for development; the sample configuration refers to it.
	Simulator = "SPILLWAY_SIMULATOR_URL"
	// DigestKey keys the digests of bodies and user ids in records. Empty: a random key for each environment, so that
	// digests can be compared within one environment only.
	DigestKey = "SPILLWAY_DIGEST_KEY"
	// Addr makes the function a plain HTTP server on this address instead of a Lambda.
	Addr = "SPILLWAY_ADDR"

	// IdempotencyTable, HealthTable and RequestsTable are the DynamoDB tables of the shared state, ResultsBucket the S3 bucket of
	// large answers: all of them or none. Without them each environment keeps its own state, in memory.
	IdempotencyTable = "SPILLWAY_IDEMPOTENCY_TABLE"
	HealthTable      = "SPILLWAY_HEALTH_TABLE"
	RequestsTable    = "SPILLWAY_REQUESTS_TABLE"
	ResultsBucket    = "SPILLWAY_RESULTS_BUCKET"

	// JobsTable is the DynamoDB table of media jobs; JobsQueue, GenerateQueue and WebhooksQueue are the URLs of the SQS queues
	// that drive them: all of them or none, and beside the shared state only. Without them no job can be made.
	JobsTable     = "SPILLWAY_JOBS_TABLE"
	JobsQueue     = "SPILLWAY_JOBS_QUEUE"
	GenerateQueue = "SPILLWAY_GENERATE_QUEUE"
	WebhooksQueue = "SPILLWAY_WEBHOOKS_QUEUE"

	// What Lambda sets, and for development the endpoint of an emulator; the one of a service comes before the common one
	// (https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html, 2026-11-30).
	region           = "AWS_REGION"
	accessKey        = "AWS_ACCESS_KEY_ID"
	secretKey        = "AWS_SECRET_ACCESS_KEY"
	sessionToken     = "AWS_SESSION_TOKEN"
	endpoint         = "AWS_ENDPOINT_URL"
	endpointDynamoDB = "AWS_ENDPOINT_URL_DYNAMODB"
	endpointS3       = "AWS_ENDPOINT_URL_S3"
	endpointSQS      = "AWS_ENDPOINT_URL_SQS"

	taskRoot   = "LAMBDA_TASK_ROOT"
	runtimeAPI = "AWS_LAMBDA_RUNTIME_API"
)

// Names are the variables that the template must know.
func Names() []string {
	return slices.Concat([]string{Config, LogLevel, Simulator, DigestKey}, stateNames, jobsNames)
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// Settings are a function's settings.
type Settings struct {
	// ConfigPath is absolute or relative to the working directory.
	ConfigPath string
	LogLevel   slog.Level
	// DigestKey may be empty: then the caller makes one.
	DigestKey redact.Secret
	// Simulator is the address of the simulated provider; empty but on a developer's machine.
	Simulator string
	// Addr is where to listen as a plain HTTP server; empty inside Lambda.
	Addr string
	// State is where the shared state is kept; nil: in the environment's memory.
	State *State
}

// State is where the environments keep what they share.
type State struct {
	IdempotencyTable, HealthTable, RequestsTable, ResultsBucket string
	// Jobs is where media jobs are kept and what drives them; nil: none can be made.
	Jobs *Jobs

	Region string
	// AccessKey, SecretKey and SessionToken are the execution role's. They hold for as long as an environment lives.
	AccessKey               string
	SecretKey, SessionToken redact.Secret
	// DynamoDB, S3 and SQS are the endpoints of emulators; empty: AWS's own.
	DynamoDB, S3, SQS string
}

// Jobs is the table of media jobs and the URLs of their queues: of polls, of orders to be submitted, and of callbacks.
type Jobs struct {
	Table                     string
	Polls, Generate, Webhooks string
}

// The groups of which all or none are set.
var (
	stateNames = []string{IdempotencyTable, HealthTable, RequestsTable, ResultsBucket}
	jobsNames  = []string{JobsTable, JobsQueue, GenerateQueue, WebhooksQueue}
)

// JobsNames are the variables of the table and the queues of media jobs.
func JobsNames() []string { return slices.Clone(jobsNames) }

// loadState reads where the shared state is kept. needed: there is no memory that could stand in.
func loadState(getenv func(string) string, needed bool) (*State, []error) {
	set := func(n string) bool { return getenv(n) != "" }
	jobs := needed || slices.ContainsFunc(jobsNames, set)
	if !jobs && !slices.ContainsFunc(stateNames, set) {
		return nil, nil
	}
	names := slices.Concat(stateNames, []string{region, accessKey, secretKey})
	if jobs {
		names = slices.Concat(names, jobsNames)
	}
	var problems []error
	for _, n := range names {
		switch {
		case set(n):
		case slices.Contains(jobsNames, n):
			problems = append(problems, fmt.Errorf("%s: is required for media jobs", n))
		default:
			problems = append(problems, fmt.Errorf("%s: is required, because the shared state is kept in AWS", n))
		}
	}
	s := &State{IdempotencyTable: getenv(IdempotencyTable), HealthTable: getenv(HealthTable), RequestsTable: getenv(RequestsTable), ResultsBucket: getenv(ResultsBucket),
		Region: getenv(region), AccessKey: getenv(accessKey), SecretKey: redact.NewSecret(getenv(secretKey)), SessionToken: redact.NewSecret(getenv(sessionToken)),
		DynamoDB: cmp.Or(getenv(endpointDynamoDB), getenv(endpoint)), S3: cmp.Or(getenv(endpointS3), getenv(endpoint)), SQS: cmp.Or(getenv(endpointSQS), getenv(endpoint))}
	if jobs {
		s.Jobs = &Jobs{Table: getenv(JobsTable), Polls: getenv(JobsQueue), Generate: getenv(GenerateQueue), Webhooks: getenv(WebhooksQueue)}
	}
	return s, problems
}

// Load reads the settings of a function that clients call. All problems are returned joined.
func Load(getenv func(string) string) (Settings, error) {
	s, problems := load(getenv, false)
	s.Addr = getenv(Addr)
	switch inLambda := getenv(runtimeAPI) != ""; {
	case inLambda && s.Addr != "":
		problems = append(problems, fmt.Errorf("%s: must not be set inside Lambda", Addr))
	case !inLambda && s.Addr == "":
		problems = append(problems, fmt.Errorf("%s: is required outside Lambda: the address to listen on, such as 127.0.0.1:8080", Addr))
	}
	return s, errors.Join(problems...)
}

// LoadWorker reads the settings of a function that only events invoke: it runs inside Lambda alone, and works on jobs, so that
// State and State.Jobs are set unless there is an error. All problems are returned joined; the ConfigPath is there all the
// same.
func LoadWorker(getenv func(string) string) (Settings, error) {
	s, problems := load(getenv, true)
	if getenv(runtimeAPI) == "" {
		problems = append(problems, fmt.Errorf("%s: is required: this function runs inside Lambda only", runtimeAPI))
	}
	return s, errors.Join(problems...)
}

func load(getenv func(string) string, jobsNeeded bool) (Settings, []error) {
	s := Settings{ConfigPath: cmp.Or(getenv(Config), "gateway.json"), Simulator: getenv(Simulator)}
	var problems []error
	if root := getenv(taskRoot); root != "" && !filepath.IsAbs(s.ConfigPath) {
		s.ConfigPath = filepath.Join(root, s.ConfigPath)
	}
	if text := getenv(LogLevel); text != "" {
		level, ok := levels[strings.ToLower(text)]
		if !ok {
			problems = append(problems, fmt.Errorf("%s: %q is not one of: debug, info, warn, error", LogLevel, text))
		}
		s.LogLevel = level
	}
	if key := getenv(DigestKey); key != "" {
		s.DigestKey = redact.NewSecret(key)
	}
	state, stateProblems := loadState(getenv, jobsNeeded)
	s.State = state
	return s, append(problems, stateProblems...)
}
