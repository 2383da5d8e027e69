package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/internal/catalog/source"
	"spillway/internal/settings"
)

// The templates in testdata say beside a line what is expected of it: `# = value` of a variable, `# error: text` of a
// line that is refused (several texts parted by "; ").
var (
	wantValue = regexp.MustCompile(`(?m)^ +([A-Z_]+): .*# =(?: (.*))?$`)
	wantError = regexp.MustCompile(`# error: (.*)$`)
)

func readTestdata(t *testing.T, name string) (string, deployment, error) {
	t.Helper()
	data := readFile(t, filepath.Join("testdata", name))
	d, err := readTemplate(name, data)
	return string(data), d, err
}

func TestValues(t *testing.T) {
	text, d, err := readTestdata(t, "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"FOLDED": "word folded"}
	for _, m := range wantValue.FindAllStringSubmatch(text, -1) {
		want[m[1]] = m[2]
	}
	got := d.functions[0].env
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[name]; !ok || value != want[name] {
			t.Errorf("%s is %q (present: %v), want %q", name, value, ok, want[name])
		}
	}
	for name, value := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is %q, want it left out", name, value)
		}
	}
}

func TestFunctions(t *testing.T) {
	tests := map[string]struct {
		file string
		want []function
	}{
		"globals are merged, own properties win, a false condition leaves a function out": {"globals.yaml", []function{
			{logicalID: "PlainFunction", memoryMB: 512, timeout: 20 * time.Second, env: map[string]string{"EVERYWHERE": "global", "OVERRIDDEN": "global", "REMOVED": "global"}},
			{logicalID: "OwnFunction", memoryMB: 256, timeout: 900 * time.Second, env: map[string]string{"EVERYWHERE": "global", "OVERRIDDEN": "own", "OWN": "own"},
				url: &functionURL{authType: "NONE", stream: true}},
			{logicalID: "BufferedFunction", memoryMB: 512, timeout: 20 * time.Second, env: map[string]string{"EVERYWHERE": "global", "OVERRIDDEN": "global", "REMOVED": "global"},
				url: &functionURL{authType: "AWS_IAM"}},
		}},
		"without a property Lambda's default counts": {"defaults.yaml", []function{
			{logicalID: "BareFunction", memoryMB: 128, timeout: 3 * time.Second, env: map[string]string{}},
		}},
		"what invokes a function besides its URL, where it is enabled": {"events.yaml", []function{
			{logicalID: "PollFunction", memoryMB: 128, timeout: 30 * time.Second,
				env:       map[string]string{"QUEUE": "https://sqs.us-east-1.amazonaws.com/000000000000/spillway-Jobs", "DEAD": "letters", "AGAIN": "https://sqs.us-east-1.amazonaws.com/000000000000/letters"},
				events:    events{queues: []queueEvent{{queue: "spillway-Jobs", batchSize: 5, window: 2 * time.Second, concurrency: 3, itemFailures: true}, {queue: "letters"}}},
				allowLoop: true},
			{logicalID: "SweepFunction", memoryMB: 128, timeout: 3 * time.Second, env: map[string]string{},
				events: events{schedules: []scheduleEvent{{"sweep", time.Minute}, {"spillway-SweepFunction.Often", 5 * time.Minute}}}},
		}},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			_, d, err := readTestdata(t, test.file)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(d.functions, test.want) {
				t.Errorf("got  %+v\nwant %+v", d.functions, test.want)
			}
		})
	}
}

func TestTablesAndBuckets(t *testing.T) {
	_, d, err := readTestdata(t, "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := []table{
		{name: "spillway-Table", attributes: []attribute{{"id", "S"}, {"at", "N"}}, keys: []key{{"id", "HASH"}, {"at", "RANGE"}},
			indexes: []index{{"by-at", []key{{"at", "HASH"}}, projection{ProjectionType: "ALL"}}, {"few", []key{{"at", "HASH"}}, projection{"INCLUDE", []string{"a", "b"}}}}},
		{name: "word-table", attributes: []attribute{{"id", "S"}}, keys: []key{{"id", "HASH"}}, ttl: "until"},
	}; !reflect.DeepEqual(d.tables, want) {
		t.Errorf("got  %+v\nwant %+v", d.tables, want)
	}
	if want := []bucket{{name: "spillway-bucket"}, {"word-bucket", []lifecycleRule{{id: "r", prefix: "p/", days: 7}, {"s", "q/", true, 30, 1}}}}; !reflect.DeepEqual(d.buckets, want) {
		t.Errorf("got  %+v\nwant %+v", d.buckets, want)
	}
}

func TestQueues(t *testing.T) {
	_, d, err := readTestdata(t, "events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := []queue{
		{name: "spillway-Jobs", visibility: 180 * time.Second, dead: "letters", receives: 5},
		{name: "letters", visibility: 30 * time.Second},
		{name: "spillway-Plain", visibility: 30 * time.Second},
	}; !reflect.DeepEqual(d.queues, want) {
		t.Errorf("got  %+v\nwant %+v", d.queues, want)
	}
}

func TestErrorsNameTheirLine(t *testing.T) {
	files, err := filepath.Glob("testdata/error_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			text, _, err := readTestdata(t, name)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(err.Error(), "\n")
			want := expectedErrors(name, text)
			if len(got) != len(want) {
				t.Errorf("%d errors, want %d", len(got), len(want))
			}
			for i := range min(len(got), len(want)) {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("got  %s\nwant %s", got[i], want[i])
				}
			}
		})
	}
}

// expectedErrors is how each expected error must begin, in the order of the lines.
func expectedErrors(name, text string) []string {
	var want []string
	for i, line := range strings.Split(text, "\n") {
		m := wantError.FindStringSubmatch(line)
		if i == 0 || m == nil {
			continue
		}
		for _, message := range strings.Split(m[1], "; ") {
			want = append(want, name+":"+strconv.Itoa(i+1)+": "+message)
		}
	}
	return want
}

func TestNotATemplate(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"broken YAML names the line":  {"A: [\n", "parsing t.yaml: [1:4]"},
		"a key twice is refused":      {"A: 1\nA: 2\n", "parsing t.yaml: [2:1]"},
		"a list is not a template":    {"- a\n", "parsing t.yaml: a template is a mapping"},
		"two documents are too many":  {"A: 1\n---\nB: 1\n", "parsing t.yaml: 2 documents, want one"},
		"an empty file has no answer": {"", "parsing t.yaml: "},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			_, err := readTemplate("t.yaml", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// The template that is deployed, the Makefile that builds for it, and the folders that hold the sources agree.
func TestOwnTemplate(t *testing.T) {
	d, err := readTemplate("template.yaml", readFile(t, "../template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SPILLWAY_CONFIG": "gateway.json", "SPILLWAY_DIGEST_KEY": "", "SPILLWAY_LOG_LEVEL": "INFO", "SPILLWAY_SIMULATOR_URL": "", "OPENAI_API_KEY": "",
		"SPILLWAY_IDEMPOTENCY_TABLE": "spillway-IdempotencyTable", "SPILLWAY_HEALTH_TABLE": "spillway-HealthTable",
		"SPILLWAY_REQUESTS_TABLE": "spillway-RequestsTable", "SPILLWAY_RESULTS_BUCKET": "spillway-resultsbucket", "SPILLWAY_JOBS_TABLE": "spillway-JobsTable",
		"SPILLWAY_JOBS_QUEUE": queueURL("spillway-JobsQueue"), "SPILLWAY_GENERATE_QUEUE": queueURL("spillway-GenerateQueue"), "SPILLWAY_WEBHOOKS_QUEUE": queueURL("spillway-WebhooksQueue")}
	want := []function{
		{logicalID: "GatewayFunction", memoryMB: 256, timeout: 900 * time.Second, env: env, url: &functionURL{authType: "NONE", stream: true}},
		{logicalID: "PollerFunction", memoryMB: 256, timeout: 150 * time.Second, env: env, allowLoop: true, events: events{queues: []queueEvent{
			{queue: "spillway-JobsQueue", batchSize: 10, concurrency: 10, itemFailures: true}, {queue: "spillway-GenerateQueue", batchSize: 1, concurrency: 10, itemFailures: true},
			{queue: "spillway-WebhooksQueue", batchSize: 10, concurrency: 5, itemFailures: true}}}},
		{logicalID: "SweeperFunction", memoryMB: 256, timeout: time.Minute, env: env, events: events{schedules: []scheduleEvent{{"spillway-SweeperFunction.EveryMinute", time.Minute}}}},
	}
	functions := d.functions
	if !reflect.DeepEqual(functions, want) {
		t.Errorf("got  %+v\nwant %+v", functions, want)
	}
	own := func(name string) table {
		return table{name: "spillway-" + name, attributes: []attribute{{"id", "S"}}, keys: []key{{"id", "HASH"}}, ttl: "expires_at"}
	}
	by := func(name, hash, sort string, what projection) index {
		return index{name, []key{{hash, "HASH"}, {sort, "RANGE"}}, what}
	}
	jobs := own("JobsTable") // its indexes: those of dynamo.Jobs
	jobs.attributes = append(jobs.attributes, attribute{"organization", "S"}, attribute{"list_place", "S"}, attribute{"status", "S"}, attribute{"updated_at", "S"}, attribute{"due", "S"}, attribute{"look_at", "N"})
	jobs.indexes = []index{by("by-organization", "organization", "list_place", projection{ProjectionType: "ALL"}),
		by("by-status", "status", "updated_at", projection{"INCLUDE", []string{"job", "organization", "kind", "model", "provider", "channel", "progress", "poll_number", "last_error", "created_at", "deadline_at", "finished_at", "cost_usd"}}),
		by("due", "due", "look_at", projection{ProjectionType: "ALL"})}
	if want := []table{own("IdempotencyTable"), own("HealthTable"), own("RequestsTable"), jobs}; !reflect.DeepEqual(d.tables, want) {
		t.Errorf("got  %+v\nwant %+v", d.tables, want)
	}
	if want := []bucket{{"spillway-resultsbucket", []lifecycleRule{{"forget-results", "results/", true, 2, 0}, {"forget-media", "media/", true, 33, 1}}}}; !reflect.DeepEqual(d.buckets, want) {
		t.Errorf("got  %+v\nwant %+v", d.buckets, want)
	}
	var queues []queue
	for _, name := range []string{"Jobs", "Generate", "Webhooks"} {
		queues = append(queues, queue{"spillway-" + name + "Queue", 900 * time.Second, "spillway-" + name + "DeadLetters", 5}, queue{name: "spillway-" + name + "DeadLetters", visibility: queueVisibility})
	}
	if !reflect.DeepEqual(d.queues, queues) {
		t.Errorf("got  %+v\nwant %+v", d.queues, queues)
	}
	for _, name := range settings.Names() {
		if _, set := functions[0].env[name]; !set {
			t.Errorf("the template does not set %s", name)
		}
	}
	configuration, err := source.Read("../infra/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample, err := references(configuration)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sample {
		if _, set := functions[0].env[name]; !set && name != simulatorKey && name != webhookKey {
			t.Errorf("the sample configuration refers to %s, which the template does not set", name)
		}
	}

	listed := regexp.MustCompile(`(?m)^FUNCTIONS := (.*)$`).FindSubmatch(readFile(t, "../Makefile"))
	if listed == nil {
		t.Fatal("the Makefile lists no FUNCTIONS")
	}
	var ids []string
	for _, f := range functions {
		ids = append(ids, f.logicalID)
		readFile(t, filepath.Join("..", sourceFolder(f.logicalID), "main.go"))
	}
	if got := strings.Fields(string(listed[1])); !slices.Equal(got, ids) {
		t.Errorf("the Makefile builds %v, the template has %v", got, ids)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
