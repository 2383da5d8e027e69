package graph

import (
	"errors"
	"fmt"

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
