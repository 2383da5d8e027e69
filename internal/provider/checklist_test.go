// Package provider_test holds what a provider must have besides its code: CONTRIBUTING.md walks through it. Those that chat have
// one list, those that make videos and music, the studios, another.
package provider_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"
)

const (
	adapters = "internal/provider"
	// shared is the folder of what adapters share on the wire: no adapter itself.
	shared = "wire"
)

// TestAProviderHasAllThatItNeeds lists what a kind of provider lacks, be it a folder or a word of the configuration.
func TestAProviderHasAllThatItNeeds(t *testing.T) {
	repository := os.DirFS("../..")
	kinds := kindsOf(repository)
	require.Subset(t, kinds, []string{"anthropic", "elevenlabs", "fal", "gemini", "openai", "veo"}, "the kinds have been found")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			for _, lack := range lacking(repository, kind) {
				t.Error(lack)
			}
		})
	}
}

// kindsOf are the kinds that a configuration may name, and the folders of adapters.
func kindsOf(repository fs.FS) []string {
	all := map[string]bool{}
	for _, kind := range schemaKinds(repository) {
		all[kind] = true
	}
	folders, _ := fs.ReadDir(repository, adapters) // none are no kinds
	for _, f := range folders {
		if f.IsDir() && f.Name() != shared {
			all[f.Name()] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func schemaKinds(repository fs.FS) (kinds []string) {
	for _, kind := range gjson.Get(text(repository, "infra/gateway.schema.json"), "properties.providers.items.properties.kind.enum").Array() {
		kinds = append(kinds, kind.Str)
	}
	return kinds
}

// text is a file's; empty where there is none.
func text(repository fs.FS, name string) string {
	data, _ := fs.ReadFile(repository, name)
	return string(data)
}

// lacking lists what a kind lacks, in words that say where it is to be put.
func lacking(repository fs.FS, kind string) (lacks []string) {
	if s, ok := studios[kind]; ok {
		return studioLacks(repository, kind, s)
	}
	need := func(ok bool, lack string) {
		if !ok {
			lacks = append(lacks, lack)
		}
	}
	folder := adapters + "/" + kind
	for _, format := range formats(repository, folder) {
		lacks = append(lacks, formatLacks(repository, format)...)
	}
	need(slices.Contains(schemaKinds(repository), kind), "internal/catalog/file.go: the word "+kind+" for kind, and infra/gateway.schema.json anew")
	need(strings.Contains(text(repository, "functions/gateway/wire.go"), "&"+kind+".Provider{"), "functions/gateway/wire.go: an entry of the map of providers")
	policy := text(repository, "internal/fault/policy.json")
	need(gjson.Get(policy, `rows.#(provider=="`+kind+`")`).Exists() || gjson.Get(policy, `sentences.#(provider=="`+kind+`")`).Exists(),
		"internal/fault/policy.json: rows of the vendor "+kind)
	answers := "internal/fault/testdata/answers/" + kind + ".txtar"
	need(len(txtar.Parse([]byte(text(repository, answers))).Files) > 0, answers+": what it answers, and the classes of it")
	models := text(repository, "internal/catalog/models.json")
	need(gjson.Get(models, `apis.#(api=="`+kind+`")`).Exists(), "internal/catalog/models.json: what the API has no words for")
	need(gjson.Get(models, `models.#(kinds.#(=="`+kind+`"))`).Exists(), "internal/catalog/models.json: rows of its models, one of them for any other")
	need(regexp.MustCompile(`(?m)^`+kind+`/`).MatchString(text(repository, "internal/usage/prices.txt")), "internal/usage/prices.txt: the prices of "+kind+", by way of infra/prices")
	need(text(repository, "internal/simulate/"+kind+".go") != "", "internal/simulate/"+kind+".go: its format in the simulated provider")
	need(strings.Contains(text(repository, "internal/simulate/suite/formats.go"), `"`+kind+`"`), "internal/simulate/suite/formats.go: rows of the fault suite")
	need(strings.Contains(text(repository, "README.md"), "`"+kind+"`") || strings.Contains(text(repository, "README.md"), "`kind: "+kind+"`"),
		"README.md: the kind among those that are built")
	need(strings.Contains(text(repository, "infra/gateway.yaml"), kind), "infra/gateway.yaml: the kind, and its address")
	return lacks
}

// formats are the folders of an adapter that speak a wire format: its own, and those inside it that have conversations.
func formats(repository fs.FS, folder string) []string {
	all := []string{folder}
	_ = fs.WalkDir(repository, folder, func(name string, d fs.DirEntry, err error) error { // a folder that is not there has none inside
		if err == nil && name != folder && d.IsDir() && d.Name() != "testdata" && text(repository, name+"/conversation_test.go") != "" {
			all = append(all, name)
		}
		return nil
	})
	return all
}

func formatLacks(repository fs.FS, folder string) (lacks []string) {
	for _, file := range []string{"encode.go", "decode.go", "conversation_test.go"} {
		if text(repository, folder+"/"+file) == "" {
			lacks = append(lacks, folder+"/"+file)
		}
	}
	tests, _ := fs.Glob(repository, folder+"/*_test.go") // the pattern is right
	if !slices.ContainsFunc(tests, func(file string) bool { return strings.Contains(text(repository, file), "\nfunc FuzzDecode(") }) {
		lacks = append(lacks, folder+": a fuzz target FuzzDecode")
	}
	talks := append(conversations(repository, folder, "clean"), conversations(repository, folder, "failures")...)
	for _, s := range situations {
		if !slices.ContainsFunc(talks, func(c talk) bool { return c.folder == s.folder && s.is(c) }) {
			lacks = append(lacks, folder+"/testdata/"+s.folder+": a conversation with "+s.name)
		}
	}
	return lacks
}

// talk is a written-down conversation; package simulate/conversation says what is in it.
type talk struct {
	folder   string
	sections map[string]string
}

func conversations(repository fs.FS, folder, kind string) (all []talk) {
	files, _ := fs.Glob(repository, path.Join(folder, "testdata", kind, "*.txtar")) // the pattern is right
	for _, file := range files {
		all = append(all, parse(kind, text(repository, file)))
	}
	return all
}

func parse(folder, text string) talk {
	c := talk{folder, map[string]string{}}
	for _, f := range txtar.Parse([]byte(text)).Files {
		c.sections[f.Name] = string(f.Data)
	}
	return c
}

// asked reports whether a member of a request that went upstream is there.
func asked(path string) func(talk) bool {
	return func(c talk) bool {
		return c.sections["upstream"] != "" && gjson.Get(c.sections["request"], path).Exists()
	}
}

// part reports whether a request that went upstream has a piece of content of a kind.
func part(kind string) func(talk) bool { return asked(`messages.#.content.#(type=="` + kind + `")|0`) }

// in reports whether a section has a text in it.
func in(section, text string) func(talk) bool {
	return func(c talk) bool { return strings.Contains(c.sections[section], text) }
}

func all(conditions ...func(talk) bool) func(talk) bool {
	return func(c talk) bool {
		return !slices.ContainsFunc(conditions, func(is func(talk) bool) bool { return !is(c) })
	}
}

func either(conditions ...func(talk) bool) func(talk) bool {
	return func(c talk) bool {
		return slices.ContainsFunc(conditions, func(is func(talk) bool) bool { return is(c) })
	}
}

func not(is func(talk) bool) func(talk) bool { return func(c talk) bool { return !is(c) } }

// replied reports whether the reply, cut or not, begins like this: a status and a media type.
func replied(head string) func(talk) bool {
	return func(c talk) bool { return strings.HasPrefix(c.sections["reply"]+c.sections["reply, cut"], head) }
}

const (
	streamed = "200 text/event-stream"
	plain    = "200 application/json"
)

var (
	content = in("events", "content ")
	cut     = func(c talk) bool { return c.sections["reply, cut"] != "" }
)

// situations are the least that the conversations of each format must have between them.
var situations = []struct {
	folder, name string
	is           func(talk) bool
}{
	{"clean", "a text that is streamed", all(replied(streamed), in("events", ` text "`))},
	{"clean", "a text in a plain answer", all(replied(plain), in("events", ` text "`))},
	{"clean", "two tool calls in one answer, streamed", all(replied(streamed), in("events", "tool[1]"))},
	{"clean", "a tool call in a plain answer", all(replied(plain), in("events", "tool[0]"))},
	{"clean", "reasoning", in("events", " reasoning ")},
	{"clean", "an answer that was cut off at its limit", in("events", "finish length")},
	{"clean", "an answer that was filtered, or a refusal", either(in("events", "finish content_filter"), in("events", " refusal "))},
	{"clean", "usage with cached tokens", all(in("usage", "cached "), not(in("usage", "cached 0,")))},
	{"clean", "one frame that is no JSON", in("info", "skipped: 1")},
	{"clean", "a system text", asked(`messages.#(role=="system")`)},
	{"clean", "a limit", either(asked("max_tokens"), asked("max_completion_tokens"))},
	{"clean", "an effort", asked("reasoning_effort")},
	{"clean", "an image", part("image_url")},
	{"clean", "tools", asked("tools.0")},
	{"clean", "a tool that must be called", either(asked(`tool_choice.function.name`), func(c talk) bool { return gjson.Get(c.sections["request"], "tool_choice").Str == "required" })},
	{"clean", "the results of calls", asked(`messages.#(role=="tool")`)},
	{"clean", "a schema for the answer", asked("response_format.json_schema")},

	{"failures", "a key that is refused", in("failure", "class: auth\n")},
	{"failures", "a rate limit and its hint", all(in("failure", "class: rate_limited\n"), in("failure", "hint: "))},
	{"failures", "an empty account", in("failure", "class: quota\n")},
	{"failures", "a request that is too long", in("failure", "class: context_length\n")},
	{"failures", "a mistake of the caller", either(in("failure", "class: invalid_request\n"), in("failure", "class: unsupported_parameter\n"))},
	{"failures", "a model that is not there", in("failure", "class: model_unavailable\n")},
	{"failures", "a server that failed", in("failure", "class: server_error\n")},
	{"failures", "a page in place of an answer", in("reply", "<html")},
	{"failures", "an error in a plain 200", all(replied(plain), in("reply", `"error"`))},
	{"failures", "a stream without anything", all(replied(streamed), not(in("reply", "data:")), not(cut))},
	{"failures", "an error as the first event of a stream", all(replied(streamed), in("failure", "in stream: true"), in("failure", "phase: pre_content"), in("reply", "rror"))},
	{"failures", "an error after content", all(replied(streamed), content, in("failure", "in stream: true"), in("failure", "phase: post_content"))},
	{"failures", "a stream that is cut after content", all(replied(streamed), cut, content)},
	{"failures", "a stream that stops without its end", all(replied(streamed), not(cut), content, in("failure", "local cause: broken"))},
	{"failures", "two frames that are no JSON", in("info", "skipped: 2")},
}
