package source_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/catalog/source"
)

var update = flag.Bool("update", false, "write testdata/working_*.json anew")

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob("testdata/" + pattern)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

// Each file says in its own first lines what is wrong with it: # want: line: path: message.
func TestBustedFiles(t *testing.T) {
	for _, file := range files(t, "busted_*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var want []string
			for line := range strings.Lines(string(text)) {
				if problem, ok := strings.CutPrefix(line, "# want: "); ok {
					want = append(want, file+":"+strings.TrimSuffix(problem, "\n"))
				}
			}
			require.NotEmpty(t, want, "the file does not say what is wrong with it")
			document, err := source.Read(file)
			assert.Nil(t, document)
			problems, ok := errors.AsType[source.Problems](err)
			require.True(t, ok, "%v is no Problems", err)
			assert.Equal(t, want, strings.Split(problems.Error(), "\n"))
		})
	}
}

// Each file becomes the JSON that lies beside it: go test ./internal/catalog/source -update
func TestWorkingFiles(t *testing.T) {
	for _, file := range files(t, "working_*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			document, err := source.Read(file)
			require.NoError(t, err)
			golden := strings.TrimSuffix(file, ".yaml") + ".json"
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, document, "", "  "))
			indented.WriteByte('\n')
			if *update {
				require.NoError(t, os.WriteFile(golden, indented.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), indented.String())

			again, err := source.Read(golden)
			require.NoError(t, err, "the JSON is a configuration too")
			assert.Equal(t, want, again)
			_, err = catalog.Load(document, func(string) string { return "" })
			assert.NoError(t, err, "variables that are not set stop nothing")
		})
	}
}

// TestSample holds the configuration that is deployed to what this repository says of it.
func TestSample(t *testing.T) {
	document, err := source.Read("../../../infra/gateway.yaml")
	require.NoError(t, err)
	deployed, err := catalog.Load(document, func(string) string { return "" })
	require.NoError(t, err)
	for _, k := range deployed.Keys {
		assert.True(t, k.Disabled, "the key %s must not work where no simulated provider is configured", k.Alias)
	}
	for _, ch := range deployed.Channels {
		assert.Empty(t, ch.Credentials, "%s has a key, and no variable is set", ch.Name)
	}
	local, err := catalog.Load(document, func(name string) string {
		if strings.HasSuffix(name, "_WEBHOOK_SECRET") {
			return "whsec_" + strings.Repeat("c2lt", 8)
		}
		return "http://127.0.0.1:1/v1"
	})
	require.NoError(t, err)
	assert.Empty(t, local.Notices)
	assert.Equal(t, catalog.CommitComplete, local.Routes["whole-answer-v1"].Commit)
	assert.NotEmpty(t, local.Routes["always-answer-v1"].FallbackOn)
	assert.Empty(t, local.Organizations["dev"].DefaultModel, "a bare sim-f04 shows its 503")
	assert.EqualValues(t, "sim-ok", local.Organizations["acme"].DefaultModel)
	assert.True(t, local.ByName("acme-own").BYOKOnly)
}

func TestReadJSON(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "my.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"version":"v","keys":[{}]}`), 0o600))
	_, err := source.Read(broken)
	assert.EqualError(t, err, broken+": keys[0].sha256: is required\n"+broken+": keys[0].organization: is required")

	_, err = source.Read(filepath.Join(dir, "none.yaml"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestCompileOddTexts(t *testing.T) {
	tests := map[string]struct {
		text string
		want string // a problem; empty: none
	}{
		"a byte order mark is no part of the text": {"\uFEFFversion: v\n", ""},
		"lines may end as on Windows":              {"version: v\r\nroutes: []\r\n", ""},
		"nothing at all":                           {"", "f:1: is empty: a configuration has at least a version"},
		"what is not UTF-8 says the line":          {"version: v\n# \xff\n", "f:2: is not UTF-8"},
		"a directive":                              {"%YAML 1.2\n---\nversion: v\n", "f:3: a second document begins: a configuration is one"},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			_, err := source.Compile("f", []byte(test.text))
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, test.want)
			}
		})
	}
}

// Aliases of aliases, of which a few lines make billions of values, end early.
func TestCompileBoundsAliases(t *testing.T) {
	tests := map[string]string{
		"lists of lists":      "x%d: &x%[1]d [*x%d, *x%[2]d]\n",
		"merges of merges":    "x%d: &x%[1]d {<<: [*x%d, *x%[2]d]}\n",
		"members and members": "x%d: &x%[1]d {a: *x%d, b: *x%[2]d}\n",
	}
	for sentence, line := range tests {
		t.Run(sentence, func(t *testing.T) {
			text := "version: v\nx0: &x0 {a: 1}\n"
			for i := range 40 {
				text += fmt.Sprintf(line, i+1, i)
			}
			_, err := source.Compile("f", []byte(text))
			assert.ErrorContains(t, err, "aliases make more than 100000 values of this file")
		})
	}
}

// No function reads YAML.
func TestNoFunctionLinksYAML(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-tags", "lambda.norpc", "./functions/...")
	list.Dir = "../../.."
	out, err := list.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "spillway/internal/catalog\n")
	assert.NotContains(t, string(out), "yaml")
	assert.NotContains(t, string(out), "spillway/internal/catalog/source")
}

// Whatever is in a file, the answer is a configuration that loads, or problems that each have a line.
func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "../../../infra/gateway.yaml"} {
		found, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, file := range found {
			text, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		document, err := source.Compile("f", text)
		if err == nil {
			_, err = catalog.Load(document, func(string) string { return "http://set" })
			require.NoError(t, err)
			return
		}
		problems, ok := errors.AsType[source.Problems](err)
		require.True(t, ok)
		require.NotEmpty(t, problems)
		for _, p := range problems {
			require.Positive(t, p.Line, p.String())
			require.NotEmpty(t, p.Message)
		}
	})
}
