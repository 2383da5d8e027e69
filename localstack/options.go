package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"spillway/internal/settings"
)

// options are the flags.
type options struct {
	addr        string
	aws         string
	providers   string
	config      string
	out         string
	event       string // empty: listen
	seed        bool
	demo        bool
	concurrency int
	faults      queueFaults
}

const (
	embedded  = "embedded"
	simulated = "simulated"
	fromFile  = "config"
)

// simulatorKey is what the sample configuration calls the key of the simulated provider, which takes any.
const simulatorKey = "SIM_KEY"

// The secret that signs the events of jobs, by which the simulated provider's callbacks can be told, and what it is here: 32 bytes that
// everybody knows.
const (
	webhookKey    = "SIM_WEBHOOK_SECRET"
	webhookSecret = "whsec_c2ltdWxhdGVkLXdlYmhvb2stc2VjcmV0LTMyLWJ5dGVz"
)

// endpointVariable is what every AWS SDK heeds: as the default of -aws here, and in the function.
const endpointVariable = "AWS_ENDPOINT_URL"

// parseOptions returns flag.ErrHelp after -h; what is wrong has then been written to output.
func parseOptions(args []string, getenv func(string) string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("localstack", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.addr, "addr", "127.0.0.1:3000", "`address` of the gateway's function URL")
	flags.StringVar(&o.aws, "aws", cmp.Or(getenv(endpointVariable), embedded), "AWS services: embedded, or the `URL` of an endpoint; AWS_ENDPOINT_URL of this environment is its default")
	flags.StringVar(&o.providers, "providers", simulated, "simulated: the simulated provider alone; config: the providers of -config,\nwith the keys that it names (env:NAME) taken from this environment")
	flags.StringVar(&o.config, "config", "infra/gateway.yaml", "route configuration, a `path` to YAML, or to JSON if it ends in .json")
	flags.StringVar(&o.out, "out", "build/local", "`folder` of binaries and logs")
	flags.StringVar(&o.event, "invoke", "", "do not listen: hand the event in this `file` to the function that it is for,\nprint the answer while it streams, and end")
	flags.BoolVar(&o.seed, "seed", false, "do not listen: make the tables and buckets of the template at -aws, where they are not there yet, and end")
	flags.BoolVar(&o.demo, "demo", false, "do not listen: have media jobs made, show what becomes of them, and end")
	flags.IntVar(&o.concurrency, "concurrency", 10, "environments of a function, and so streams at the same time, at most")
	flags.Var(&o.faults, "queue-faults", "what goes wrong with messages on their way to functions, a `list` of drop=P, duplicate=P, late=P and reorder,\neach P a probability: drop=0.05,duplicate=0.2,reorder")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	problem := o.problem()
	if flags.NArg() > 0 {
		problem = fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	if problem != nil {
		fmt.Fprintln(output, problem)
		flags.Usage()
	}
	return o, problem
}

func (o options) problem() error {
	if endpoint, err := url.Parse(o.aws); o.aws != embedded && (err != nil || endpoint.Host == "") {
		return fmt.Errorf("-aws %q is neither %q nor the URL of an endpoint", o.aws, embedded)
	}
	if o.providers != simulated && o.providers != fromFile {
		return fmt.Errorf("-providers %q is neither %q nor %q", o.providers, simulated, fromFile)
	}
	if o.seed && o.aws == embedded {
		return errors.New("-seed needs the URL of an endpoint in -aws or AWS_ENDPOINT_URL: the embedded services end with this process")
	}
	if o.demo && o.providers != simulated {
		return errors.New("-demo shows the simulated provider's jobs, so that it needs -providers simulated")
	}
	if o.concurrency < 1 {
		return errors.New("-concurrency must be at least 1")
	}
	return nil
}

// environment is what a function gets beside what Lambda sets, as "NAME=value": the variables of the template, where AWS and
// the simulated provider are, and, with the providers of the configuration, the variables that it
// refers to. Nothing else of this process's environment reaches a function.
func (o options) environment(f function, endpoint, simulator string, configuration []byte, lookup func(string) (string, bool)) ([]string, error) {
	env := maps.Clone(f.env)
	env[endpointVariable] = endpoint
	if o.providers == simulated {
		env[settings.Simulator] = simulator
		env[simulatorKey], env[webhookKey] = "simulated", webhookSecret
	} else {
		names, err := references(configuration)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", o.config, err)
		}
		for _, name := range names {
			if value, set := lookup(name); set {
				env[name] = value
			}
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list, nil
}

// references are the NAMEs of every "env:NAME" in a JSON document.
func references(document []byte) ([]string, error) {
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, err
	}
	var names []string
	var collect func(any)
	collect = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, member := range v {
				collect(member)
			}
		case []any:
			for _, item := range v {
				collect(item)
			}
		case string:
			if name, ok := strings.CutPrefix(v, "env:"); ok {
				names = append(names, name)
			}
		}
	}
	collect(root)
	return names, nil
}
