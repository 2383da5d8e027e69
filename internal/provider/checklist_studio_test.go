package provider_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"
)

// A studio is a kind that makes videos or music. Its errors are those of a vendor, and it is polled or answers with the work.
type studio struct {
	vendor string
	polled bool
}

var studios = map[string]studio{
	"elevenlabs": {vendor: "elevenlabs"},
	"fal":        {vendor: "fal", polled: true},
	"veo":        {vendor: "gemini", polled: true},
}

// studioLacks lists what a studio lacks.
func studioLacks(repository fs.FS, kind string, s studio) (lacks []string) {
	need := func(ok bool, lack string) {
		if !ok {
			lacks = append(lacks, lack)
		}
	}
	folder := adapters + "/" + kind
	for _, file := range []string{"encode.go", "conversation_test.go"} {
		need(text(repository, folder+"/"+file) != "", folder+"/"+file)
	}
	need(!s.polled || strings.Contains(text(repository, folder+"/decode_test.go"), "\nfunc FuzzDecode("), folder+"/decode_test.go: a fuzz target FuzzDecode")
	var talks []talk
	files, _ := fs.Glob(repository, folder+"/testdata/jobs/*.txtar") // the pattern is right
	for _, file := range files {
		talks = append(talks, parse("jobs", text(repository, file)))
	}
	for _, situation := range jobSituations {
		if situation.polled && !s.polled || situation.at && s.polled {
			continue
		}
		need(slices.ContainsFunc(talks, situation.is), folder+"/testdata/jobs: a conversation with "+situation.name)
	}
	need(slices.Contains(schemaKinds(repository), kind), "internal/catalog/file.go: the word "+kind+" for kind, and infra/gateway.schema.json anew")
	need(gjson.Get(text(repository, "internal/fault/policy.json"), `rows.#(provider=="`+s.vendor+`")`).Exists(), "internal/fault/policy.json: rows of the vendor "+s.vendor)
	answers := "internal/fault/testdata/answers/" + s.vendor + ".txtar"
	need(len(txtar.Parse([]byte(text(repository, answers))).Files) > 0, answers+": what it answers, and the classes of it")
	models := text(repository, "internal/catalog/models.json")
	need(slices.ContainsFunc(gjson.Get(models, `apis.#(api=="`+kind+`").cannot`).Array(), func(f gjson.Result) bool { return f.Str == "chat" }),
		"internal/catalog/models.json: what the API has no words for, chat among it")
	need(gjson.Get(models, `models.#(kinds.#(=="`+kind+`"))`).Exists(), "internal/catalog/models.json: rows of its models, one of them for any other")
	need(strings.Contains(text(repository, "functions/internal/graph/jobs.go"), "&"+kind+".Studio{"), "functions/internal/graph/jobs.go: an entry of the map of studios")
	need(strings.Contains(text(repository, "README.md"), "`"+kind+"`"), "README.md: the kind among those that are built")
	need(strings.Contains(text(repository, "infra/gateway.yaml"), kind+" (https://"), "infra/gateway.yaml: the kind, and its address")
	return lacks
}

// task reports whether a conversation is a call of that name.
func task(call string) func(talk) bool {
	return func(c talk) bool { return gjson.Get(c.sections["task"], "call").Str == call }
}

// there reports whether a section is there, be it empty.
func there(section string) func(talk) bool {
	return func(c talk) bool { _, ok := c.sections[section]; return ok }
}

var (
	submit    = task("submit")
	poll      = task("poll")
	reached   = func(c talk) bool { return c.sections["upstream"] != "" }
	ambiguous = in("outcome", "ambiguous: true")
)

// jobSituations are the least that the conversations of each studio must have between them; polled ones those of a studio that
// is polled, at ones those of a studio that answers at once.
var jobSituations = []struct {
	name       string
	polled, at bool
	is         func(talk) bool
}{
	{"an order that is accepted", true, false, all(submit, reached, in("outcome", "handle: "))},
	{"an order that is answered with the work", false, true, all(submit, reached, in("outcome", "work: \""), not(in("outcome", "work is lost")))},
	{"a work that breaks off", false, true, all(submit, reached, in("outcome", "work is lost"))},
	{"an order that it has no words for", false, false, all(submit, not(reached), in("outcome", "local cause: refused"))},
	{"a key that is refused", false, false, all(submit, in("outcome", "class: auth"), not(ambiguous))},
	{"a rate limit and its hint", false, false, all(submit, in("outcome", "class: rate_limited"), in("outcome", "hint: "), not(ambiguous))},
	{"a mistake of the caller", false, false, all(submit, in("outcome", "class: invalid_request"), not(ambiguous))},
	{"an order after which the connection breaks", false, false, all(submit, there("reply, none"), ambiguous)},
	{"an order for which there is no connection", false, false, all(submit, there("reply, unreachable"), not(reached), in("outcome", "local cause: dial"), not(ambiguous))},
	{"an order after which the server fails", false, false, all(submit, in("reply", "50"), in("outcome", "class: server_error"), ambiguous)},
	{"an order whose answer says nothing of a job", true, false, all(submit, replied("200 "), in("outcome", "class: bad_response"), ambiguous)},
	{"an answer without a work", false, true, all(submit, replied("200 "), in("outcome", "work: none\n"))},
	{"a content that is refused with the order", false, true, all(submit, in("outcome", "class: content_policy"), not(ambiguous))},
	{"a job that is not done", true, false, all(poll, in("outcome", "state: running\n"), not(in("outcome", "strange: ")))},
	{"a hint of when to ask again", true, false, all(poll, in("outcome", "state: running\n"), in("outcome", "hint: "))},
	{"a state that nobody knows", true, false, all(poll, in("outcome", "state: running\n"), in("outcome", "strange: "))},
	{"a job that is done", true, false, all(poll, in("outcome", "state: succeeded\n"), in("outcome", "work at: "))},
	{"a job that is done and has nothing to show", true, false, all(poll, in("outcome", "upstream_no_artifact"))},
	{"a job whose content is refused", true, false, all(poll, in("outcome", "state: failed\n"), in("outcome", "content_filter"))},
	{"a job that failed", true, false, all(poll, in("outcome", "state: failed\n"), in("outcome", "provider_error"))},
	{"a job that was cancelled", true, false, all(poll, in("outcome", "state: cancelled\n"))},
	{"a job that is not there any more", true, false, all(poll, replied("404"), in("outcome", "state: expired\n"))},
	{"a question at which the server fails", true, false, all(poll, replied("50"), in("outcome", "class: server_error"), not(in("outcome", "state: ")))},
	{"a question whose answer says nothing of the job", true, false, all(poll, in("outcome", "class: bad_response"), not(in("outcome", "state: ")))},
	{"a job that is to be cancelled", false, false, all(task("cancel"), in("outcome", "confirmed: "))},
}

// madeUpStudio is a repository with one studio that has all that it needs and nothing else.
func madeUpStudio() fstest.MapFS {
	files := map[string]string{
		"infra/gateway.schema.json":                  `{"properties": {"providers": {"items": {"properties": {"kind": {"enum": ["acme"]}}}}}}`,
		"infra/gateway.yaml":                         "# acme (https://acme.test/v1)\n",
		"internal/fault/policy.json":                 `{"rows": [{"provider": "acme"}]}`,
		"internal/fault/testdata/answers/acme.txtar": "-- auth --\n401\n",
		"internal/catalog/models.json":               `{"apis": [{"api": "acme", "cannot": ["chat"]}], "models": [{"kinds": ["acme"]}]}`,
		"README.md":                                  "Built: `acme`.\n",
		"functions/internal/graph/jobs.go":           "\t\"acme\": &acme.Studio{},\n",

		"internal/provider/acme/encode.go":            "package acme\n",
		"internal/provider/acme/conversation_test.go": "package acme_test\n",
		"internal/provider/acme/decode_test.go":       "package acme\n\nfunc FuzzDecode(f *testing.F) {}\n",
	}
	const sent = "-- upstream --\nPOST\n"
	for i, talk := range []struct{ call, sections string }{
		{"submit", sent + "-- outcome --\nhandle: a\n"},
		{"submit", sent + "-- outcome --\nwork: \"a\"\n"},
		{"submit", sent + "-- outcome --\nwork: \"a\"\nwork is lost: network\n"},
		{"submit", "-- outcome --\nlocal cause: refused\n"},
		{"submit", sent + "-- outcome --\nclass: auth\n"},
		{"submit", sent + "-- outcome --\nclass: rate_limited\nhint: 1s\n"},
		{"submit", sent + "-- outcome --\nclass: invalid_request\n"},
		{"submit", sent + "-- reply, none --\n-- outcome --\nclass: network\nambiguous: true\n"},
		{"submit", "-- reply, unreachable --\n-- outcome --\nlocal cause: dial\n"},
		{"submit", sent + "-- reply --\n503 text/plain\n\n-- outcome --\nclass: server_error\nambiguous: true\n"},
		{"submit", sent + "-- reply --\n200 text/plain\n\n-- outcome --\nclass: bad_response\nambiguous: true\n"},
		{"submit", sent + "-- reply --\n200 text/plain\n\n-- outcome --\nwork: none\n"},
		{"submit", sent + "-- outcome --\nclass: content_policy\n"},
		{"poll", "-- outcome --\nstate: running\n"},
		{"poll", "-- outcome --\nstate: running\nstrange: a\nhint: 1s\n"},
		{"poll", "-- outcome --\nstate: succeeded\nwork at: a\n"},
		{"poll", "-- outcome --\nstate: failed\nerror: upstream_no_artifact\n"},
		{"poll", "-- outcome --\nstate: failed\nerror: content_filter\n"},
		{"poll", "-- outcome --\nstate: failed\nerror: provider_error\n"},
		{"poll", "-- outcome --\nstate: cancelled\n"},
		{"poll", "-- reply --\n404 text/plain\n\n-- outcome --\nstate: expired\n"},
		{"poll", "-- reply --\n502 text/plain\n\n-- outcome --\nclass: server_error\n"},
		{"poll", "-- outcome --\nclass: bad_response\n"},
		{"cancel", "-- outcome --\nconfirmed: false\n"},
	} {
		files["internal/provider/acme/testdata/jobs/"+string(rune('a'+i))+".txtar"] = `-- task --` + "\n" + `{"call": "` + talk.call + `"}` + "\n" + talk.sections
	}
	repository := fstest.MapFS{}
	for name, data := range files {
		repository[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return repository
}

// TestTheListOfStudiosFindsEachLack: each file of a studio that has everything is taken away, and its lack is told; and so is
// each situation.
func TestTheListOfStudiosFindsEachLack(t *testing.T) {
	polled, atOnce := studio{"acme", true}, studio{"acme", false}
	require.Empty(t, studioLacks(madeUpStudio(), "acme", polled))
	require.Empty(t, studioLacks(madeUpStudio(), "acme", atOnce))

	for _, c := range []struct{ without, want string }{
		{"infra/gateway.schema.json", "internal/catalog/file.go: the word acme"},
		{"infra/gateway.yaml", "infra/gateway.yaml: the kind"},
		{"internal/fault/policy.json", "internal/fault/policy.json: rows"},
		{"internal/fault/testdata/answers/acme.txtar", "internal/fault/testdata/answers/acme.txtar: "},
		{"internal/catalog/models.json", "internal/catalog/models.json: what the API has no words for, chat among it"},
		{"README.md", "README.md: the kind"},
		{"functions/internal/graph/jobs.go", "functions/internal/graph/jobs.go: an entry of the map of studios"},
		{"internal/provider/acme/encode.go", "internal/provider/acme/encode.go"},
		{"internal/provider/acme/conversation_test.go", "internal/provider/acme/conversation_test.go"},
		{"internal/provider/acme/decode_test.go", "internal/provider/acme/decode_test.go: a fuzz target FuzzDecode"},
	} {
		t.Run("without "+c.without, func(t *testing.T) {
			repository := madeUpStudio()
			delete(repository, c.without)
			assert.Contains(t, strings.Join(studioLacks(repository, "acme", polled), "\n"), c.want)
		})
	}
	for _, s := range jobSituations {
		t.Run("without "+s.name, func(t *testing.T) {
			repository, gone := madeUpStudio(), false
			maps.DeleteFunc(repository, func(name string, f *fstest.MapFile) bool {
				is := strings.Contains(name, "/jobs/") && s.is(parse("jobs", string(f.Data)))
				gone = gone || is
				return is
			})
			require.True(t, gone)
			of := polled
			of.polled = !s.at
			assert.Contains(t, studioLacks(repository, "acme", of), "internal/provider/acme/testdata/jobs: a conversation with "+s.name)
		})
	}
}
