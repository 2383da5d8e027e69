package settings_test

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/settings"
)

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestLoad(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want settings.Settings
	}{
		"inside Lambda the configuration lies beside bootstrap": {
			map[string]string{"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "LAMBDA_TASK_ROOT": "/var/task"},
			settings.Settings{ConfigPath: "/var/task/gateway.json", LogLevel: slog.LevelInfo},
		},
		"a relative path counts from the task root": {
			map[string]string{"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "LAMBDA_TASK_ROOT": "/var/task", "SPILLWAY_CONFIG": "conf/live.json"},
			settings.Settings{ConfigPath: "/var/task/conf/live.json"},
		},
		"an absolute path is taken as it is": {
			map[string]string{"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "LAMBDA_TASK_ROOT": "/var/task", "SPILLWAY_CONFIG": "/opt/live.json"},
			settings.Settings{ConfigPath: "/opt/live.json"},
		},
		"outside Lambda there is an address to listen on": {
			map[string]string{"SPILLWAY_ADDR": "127.0.0.1:8080"},
			settings.Settings{ConfigPath: "gateway.json", Addr: "127.0.0.1:8080"},
		},
		"the level is read in the case of the template": {
			map[string]string{"SPILLWAY_ADDR": ":1", "SPILLWAY_LOG_LEVEL": "WARN"},
			settings.Settings{ConfigPath: "gateway.json", Addr: ":1", LogLevel: slog.LevelWarn},
		},
		"the level is read in lower case": {
			map[string]string{"SPILLWAY_ADDR": ":1", "SPILLWAY_LOG_LEVEL": "debug"},
			settings.Settings{ConfigPath: "gateway.json", Addr: ":1", LogLevel: slog.LevelDebug},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := settings.Load(environment(c.env))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want []string
	}{
		"no address outside Lambda": {nil, []string{"SPILLWAY_ADDR: is required outside Lambda"}},
		"an address inside Lambda": {
			map[string]string{"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "SPILLWAY_ADDR": ":8080"},
			[]string{"SPILLWAY_ADDR: must not be set inside Lambda"},
		},
		"a level that is none": {
			map[string]string{"SPILLWAY_ADDR": ":1", "SPILLWAY_LOG_LEVEL": "loud"},
			[]string{`SPILLWAY_LOG_LEVEL: "loud" is not one of: debug, info, warn, error`},
		},
		"a level between two levels": {
			map[string]string{"SPILLWAY_ADDR": ":1", "SPILLWAY_LOG_LEVEL": "info+2"},
			[]string{`SPILLWAY_LOG_LEVEL: "info+2" is not one of`},
		},
		"all problems at once": {
			map[string]string{"SPILLWAY_LOG_LEVEL": "loud"},
			[]string{"SPILLWAY_LOG_LEVEL", "SPILLWAY_ADDR: is required outside Lambda"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := settings.Load(environment(c.env))
			require.Error(t, err)
			problems := strings.Split(err.Error(), "\n")
			require.Len(t, problems, len(c.want))
			for i, want := range c.want {
				assert.Contains(t, problems[i], want)
			}
		})
	}
}

// TestTemplateNames compares the table of names with the template's, both ways: a variable that nobody reads and one
// that nobody can set are the same mistake.
func TestTemplateNames(t *testing.T) {
	template, err := os.ReadFile("../../template.yaml")
	require.NoError(t, err)
	var set []string
	for _, m := range regexp.MustCompile(`(?m)^\s+(SPILLWAY_\w+):`).FindAllSubmatch(template, -1) {
		set = append(set, string(m[1]))
	}
	slices.Sort(set)
	known := slices.Sorted(slices.Values(settings.Names()))
	assert.Equal(t, known, slices.Compact(set), "the names of settings.Names and the variables of template.yaml")
}

// TestConfigurationNames holds the sample configuration to the same table.
func TestConfigurationNames(t *testing.T) {
	config, err := os.ReadFile("../../infra/gateway.yaml")
	require.NoError(t, err)
	used := regexp.MustCompile(`env:(SPILLWAY_\w+)`).FindAllSubmatch(config, -1)
	require.NotEmpty(t, used)
	for _, m := range used {
		assert.Contains(t, settings.Names(), string(m[1]), "infra/gateway.yaml refers to it")
	}
}
