// Package settings reads the environment of a function, once. It is the one table of environment names; nothing else
// of ours reads the environment.
package settings

import (
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

	taskRoot   = "LAMBDA_TASK_ROOT"
	runtimeAPI = "AWS_LAMBDA_RUNTIME_API"
)

// Names are the variables that the template must know.
func Names() []string { return []string{Config, LogLevel, Simulator, DigestKey} }

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
	s.Addr = getenv(Addr)
	switch inLambda := getenv(runtimeAPI) != ""; {
	case inLambda && s.Addr != "":
		problems = append(problems, fmt.Errorf("%s: must not be set inside Lambda", Addr))
	case !inLambda && s.Addr == "":
		problems = append(problems, fmt.Errorf("%s: is required outside Lambda: the address to listen on, such as 127.0.0.1:8080", Addr))
	}
	return s, errors.Join(problems...)
}
