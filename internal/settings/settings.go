// Package settings reads the environment of a function, once. It is the one table of environment names; nothing else
// of ours reads the environment.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
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

	// What Lambda sets, and for development the endpoint of an emulator; the one of a service comes before the common one
	// (https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html, 2026-11-30).
	region           = "AWS_REGION"
	accessKey        = "AWS_ACCESS_KEY_ID"
	secretKey        = "AWS_SECRET_ACCESS_KEY"
	sessionToken     = "AWS_SESSION_TOKEN"
	endpoint         = "AWS_ENDPOINT_URL"
	endpointDynamoDB = "AWS_ENDPOINT_URL_DYNAMODB"
	endpointS3       = "AWS_ENDPOINT_URL_S3"

	taskRoot   = "LAMBDA_TASK_ROOT"
	runtimeAPI = "AWS_LAMBDA_RUNTIME_API"
)

// Names are the variables that the template must know.
func Names() []string {
	return []string{Config, LogLevel, Simulator, DigestKey, IdempotencyTable, HealthTable, RequestsTable, ResultsBucket}
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// Settings are a function's settings.
type Settings struct {
	// ConfigPath is absolute or relative to the working directory.
	ConfigPath string
	LogLevel   slog.Level
	// DigestKey may be empty: then the caller makes one.
	DigestKey redact.Secret
	// Addr is where to listen as a plain HTTP server; empty inside Lambda.
	Addr string
	// State is where the shared state is kept; nil: in the environment's memory.
	State *State
}

// State is where the environments keep what they share.
type State struct {
	IdempotencyTable, HealthTable, RequestsTable, ResultsBucket string

	Region string
	// AccessKey, SecretKey and SessionToken are the execution role's. They hold for as long as an environment lives.
	AccessKey               string
	SecretKey, SessionToken redact.Secret
	// DynamoDB and S3 are the endpoints of emulators; empty: AWS's own.
	DynamoDB, S3 string
}

// loadState reads where the shared state is kept.
func loadState(getenv func(string) string) (*State, []error) {
	var missing []string
	names := []string{IdempotencyTable, HealthTable, RequestsTable, ResultsBucket}
	for _, n := range names {
		if getenv(n) == "" {
			missing = append(missing, n)
		}
	}
	if len(missing) == len(names) {
		return nil, nil
	}
	for _, n := range []string{region, accessKey, secretKey} {
		if getenv(n) == "" {
			missing = append(missing, n)
		}
	}
	var problems []error
	for _, n := range missing {
		problems = append(problems, fmt.Errorf("%s: is required, because the shared state is kept in AWS", n))
	}
	return &State{IdempotencyTable: getenv(IdempotencyTable), HealthTable: getenv(HealthTable), RequestsTable: getenv(RequestsTable), ResultsBucket: getenv(ResultsBucket),
		Region: getenv(region), AccessKey: getenv(accessKey), SecretKey: redact.NewSecret(getenv(secretKey)), SessionToken: redact.NewSecret(getenv(sessionToken)),
		DynamoDB: cmp.Or(getenv(endpointDynamoDB), getenv(endpoint)), S3: cmp.Or(getenv(endpointS3), getenv(endpoint))}, problems
}

// Load reads the settings. All problems are returned joined.
func Load(getenv func(string) string) (Settings, error) {
	var s Settings
	var problems []error
	s.ConfigPath = getenv(Config)
	if s.ConfigPath == "" {
		s.ConfigPath = "gateway.json"
	}
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
	state, stateProblems := loadState(getenv)
	s.State, problems = state, append(problems, stateProblems...)
	s.Addr = getenv(Addr)
	switch inLambda := getenv(runtimeAPI) != ""; {
	case inLambda && s.Addr != "":
		problems = append(problems, fmt.Errorf("%s: must not be set inside Lambda", Addr))
	case !inLambda && s.Addr == "":
		problems = append(problems, fmt.Errorf("%s: is required outside Lambda: the address to listen on, such as 127.0.0.1:8080", Addr))
	}
	return s, errors.Join(problems...)
}
