package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	defaults := options{addr: "127.0.0.1:3000", aws: "embedded", providers: "simulated", config: "infra/gateway.yaml", out: "build/local", concurrency: 10}
	shown := defaults
	shown.demo = true
	all := options{addr: ":1", aws: "http://127.0.0.1:4566", providers: "config", config: "my.json", out: "there", event: "e.json", seed: true, concurrency: 3,
		faults: queueFaults{drop: 0.05, duplicate: 1, late: 0.5, reorder: true}}
	there := defaults
	there.aws = all.aws
	tests := map[string]struct {
		args    []string
		aws     string // AWS_ENDPOINT_URL
		want    options
		problem string // printed
	}{
		"without flags the defaults count":          {nil, "", defaults, ""},
		"every flag is heeded":                      {strings.Fields("-addr :1 -aws http://127.0.0.1:4566 -providers config -config my.json -out there -invoke e.json -seed -concurrency 3 -queue-faults drop=0.05,duplicate=1,late=0.5,reorder"), "http://elsewhere", all, ""},
		"a demonstration is asked for":              {[]string{"-demo"}, "", shown, ""},
		"the endpoint may stand in the environment": {nil, all.aws, there, ""},
		"an endpoint must be a URL":                 {[]string{"-aws", "localhost"}, "", options{}, `-aws "localhost" is neither "embedded" nor the URL of an endpoint`},
		"providers are one of two":                  {[]string{"-providers", "real"}, "", options{}, `-providers "real" is neither "simulated" nor "config"`},
		"a seed that nobody would see is refused":   {[]string{"-seed"}, "", options{}, "-seed needs the URL of an endpoint in -aws or AWS_ENDPOINT_URL"},
		"a demonstration has simulated providers":   {[]string{"-demo", "-providers", "config"}, "", options{}, "-demo shows the simulated provider's jobs"},
		"no environment serves nobody":              {[]string{"-concurrency", "0"}, "", options{}, "-concurrency must be at least 1"},
		"a fault of queues that is none":            {[]string{"-queue-faults", "drop=0.1,loss=0.1"}, "", options{}, `"loss=0.1" is none of drop=P, duplicate=P, late=P and reorder`},
		"more than always is no probability":        {[]string{"-queue-faults", "drop=1.1"}, "", options{}, "drop=P is a probability, from 0 to 1"},
		"nor is nothing":                            {[]string{"-queue-faults", "late"}, "", options{}, "late=P is a probability, from 0 to 1"},
		"a stray word is refused":                   {[]string{"start"}, "", options{}, `"start" is no flag`},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			var output bytes.Buffer
			got, err := parseOptions(test.args, func(name string) string { return map[string]string{"AWS_ENDPOINT_URL": test.aws}[name] }, &output)
			if test.problem != "" {
				if err == nil || !strings.Contains(output.String(), test.problem) {
					t.Errorf("got %v and %q, want %q", err, output.String(), test.problem)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
	if _, err := parseOptions([]string{"-h"}, os.Getenv, new(bytes.Buffer)); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h gives %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	f := function{env: map[string]string{"SPILLWAY_CONFIG": "gateway.json", "OPENAI_API_KEY": ""}}
	mine := map[string]string{"OPENAI_API_KEY": "k", "OTHER_KEY": "o", "HOME": "/h"}
	lookup := func(name string) (string, bool) { value, ok := mine[name]; return value, ok }
	configuration := []byte(`{"a":[{"secret":"env:OPENAI_API_KEY"},{"secret":"env:UNSET_KEY"}],"b":"env:OTHER_KEY"}`)
	tests := map[string]struct {
		o    options
		want []string
	}{
		"simulated: no key of mine reaches the function": {
			options{providers: simulated},
			[]string{"AWS_ENDPOINT_URL=http://aws", "OPENAI_API_KEY=", "SIM_KEY=simulated", "SIM_WEBHOOK_SECRET=" + webhookSecret, "SPILLWAY_CONFIG=gateway.json", "SPILLWAY_SIMULATOR_URL=http://sim"},
		},
		"config: what the configuration names, and only that": {
			options{providers: fromFile},
			[]string{"AWS_ENDPOINT_URL=http://aws", "OPENAI_API_KEY=k", "OTHER_KEY=o", "SPILLWAY_CONFIG=gateway.json"},
		},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			got, err := test.o.environment(f, "http://aws", "http://sim", configuration, lookup)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got  %v, %v\nwant %v", got, err, test.want)
			}
		})
	}
	if _, err := (options{providers: fromFile, config: "x.json"}).environment(f, "", "", []byte("{"), lookup); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("a broken configuration gives %v", err)
	}
}
