package graph

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"spillway/internal/catalog"
	"spillway/internal/settings"
)

// Config reads the configuration.
func Config(s settings.Settings, getenv func(string) string, readFile func(string) ([]byte, error)) (*catalog.Catalog, error) {
	data, err := readFile(s.ConfigPath)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config, err := catalog.Load(data, getenv)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration %s:\n%w", s.ConfigPath, err)
	}
	return config, nil
}

// Worker reads the settings and the configuration of a function that only events invoke. All problems of both are returned
// joined: such a function has nobody to answer while it cannot start.
func Worker(getenv func(string) string, readFile func(string) ([]byte, error)) (settings.Settings, *catalog.Catalog, error) {
	s, settingsErr := settings.LoadWorker(getenv)
	if settingsErr != nil {
		settingsErr = fmt.Errorf("reading the settings:\n%w", settingsErr)
	}
	config, configErr := Config(s, getenv, readFile)
	return s, config, errors.Join(settingsErr, configErr)
}

// Start serves the invocations of this process with a function of the kinds that lambda.Start takes, and does not return. A work
// that is held in memory may be a quarter of what there is: the limit has its garbage collected before the rest is used up.
func Start(handle any) {
	if memory := int64(lambdacontext.MemoryLimitInMB) << 20; memory > 0 {
		debug.SetMemoryLimit(memory / 4 * 3)
	}
	lambda.Start(handle)
}
