// Command circuit shows the circuits and holds that the environments of a deployment share, and carries out an operator's
// orders: open, hold, reset. Every environment follows within seconds; what is shown may be as far behind. It needs dynamodb:GetItem and dynamodb:UpdateItem
// on the health table, and takes region, credentials and endpoint from the variables that every AWS SDK knows.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"spillway/internal/breaker"
	"spillway/internal/dynamo"
	"spillway/internal/provider/wire"
)

const synopsis = `circuit -table NAME show [KEY]
circuit -table NAME open KEY DURATION    no call until then, and after it a probe at a time, as after an outage
circuit -table NAME hold KEY DURATION    the candidate is passed over until then, and called as before after it
circuit -table NAME reset KEY            the circuit is closed, what was counted is forgotten, every hold is lifted

KEY is provider/model/region/credential, as "circuit" says it in the records; DURATION is one of Go's: 90s, 30m, 2h.
`

const (
	// longest is the longest order. A candidate that is to be out for longer belongs out of the configuration.
	longest = 24 * time.Hour
	// patience bounds a run.
	patience = 20 * time.Second
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, time.Now(), os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "circuit:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, now time.Time, stdout io.Writer) error {
	c, err := parse(args, stdout)
	if err != nil {
		return err
	}
	config, err := awsConfig(getenv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	store := &dynamo.Health{API: dynamo.New(config), Table: c.table}
	if c.order != "" {
		changes, err := breaker.Operate(ctx, store, c.key, c.order, c.length, now)
		if err != nil {
			return fmt.Errorf("giving the order: %w", err)
		}
		for _, t := range changes {
			fmt.Fprintf(stdout, "%s: %s to %s\n", t.Key, t.From, t.To)
		}
	}
	shared, err := store.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("looking at the circuits: %w", err)
	}
	return show(stdout, shared, c.only, now)
}

// command is what was asked for.
type command struct {
	table  string
	order  breaker.Order // empty: only show
	key    breaker.Key
	length time.Duration
	only   string // the key to show; empty: all
}

// parse returns flag.ErrHelp after -h.
func parse(args []string, output io.Writer) (command, error) {
	var c command
	flags := flag.NewFlagSet("circuit", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() { fmt.Fprint(output, synopsis) }
	flags.StringVar(&c.table, "table", "", "")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.table == "" {
		return c, errors.New("-table is missing: the stack's output HealthTableName names it")
	}
	word := flags.Arg(0)
	least, most := 2, 2
	switch word {
	case "show":
		least, most = 1, 2
	case string(breaker.OrderReset):
		c.order = breaker.OrderReset
	case string(breaker.OrderOpen), string(breaker.OrderHold):
		c.order, least, most = breaker.Order(word), 3, 3
	default:
		return c, fmt.Errorf("%q is none of show, open, hold and reset", word)
	}
	if n := flags.NArg(); n < least || n > most {
		return c, fmt.Errorf("%s takes other arguments:\n%s", word, synopsis)
	}
	return c, c.parseArguments(flags.Args()[1:])
}

// parseArguments reads the key and the duration.
func (c *command) parseArguments(args []string) (err error) {
	if len(args) > 0 {
		c.only = args[0]
		if c.key, err = parseKey(args[0]); err != nil {
			return err
		}
	}
	if len(args) > 1 {
		if c.length, err = time.ParseDuration(args[1]); err != nil || c.length <= 0 || c.length > longest {
			return fmt.Errorf("%q is no duration between 0 and 24h, such as 30m", args[1])
		}
	}
	return nil
}

// parseKey takes provider/model/region/credential apart: only a model has slashes of its own.
func parseKey(text string) (breaker.Key, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 4 || parts[0] == "" {
		return breaker.Key{}, fmt.Errorf("%q is not provider/model/region/credential (region and credential may be empty, the slashes stay)", text)
	}
	last := len(parts) - 1
	return breaker.Key{Provider: parts[0], Model: strings.Join(parts[1:last-1], "/"), Region: parts[last-1], Credential: parts[last]}, nil
}

// awsConfig takes what every AWS SDK reads first; what a profile or a login gives, `aws configure export-credentials` exports.
func awsConfig(getenv func(string) string) (aws.Config, error) {
	c := aws.Config{Region: cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")), HTTPClient: &http.Client{Transport: &wire.Client{}}}
	credentials := aws.Credentials{AccessKeyID: getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: getenv("AWS_SESSION_TOKEN")}
	switch {
	case c.Region == "":
		return c, errors.New("AWS_REGION is not set")
	case credentials.AccessKeyID == "" || credentials.SecretAccessKey == "":
		return c, errors.New(`AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; eval "$(aws configure export-credentials --format env)" sets those of a profile`)
	}
	c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil })
	if endpoint := cmp.Or(getenv("AWS_ENDPOINT_URL_DYNAMODB"), getenv("AWS_ENDPOINT_URL")); endpoint != "" {
		c.BaseEndpoint = &endpoint
	}
	return c, nil
}
