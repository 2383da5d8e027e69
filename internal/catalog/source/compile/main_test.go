package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(good, []byte("version: v\n"), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("version: v\nrotes: []\n\nkeys: {}\n"), 0o600))
	out := filepath.Join(dir, "new", "gateway.json")
	tests := map[string]struct {
		args    []string
		code    int
		printed string // a part
		written string // what out holds; empty: nothing
	}{
		"the JSON is written, in a folder that is made": {[]string{"-in", good, "-out", out}, 0, "", `{"version":"v"}`},
		"a check writes nothing":                        {[]string{"-in", good, "-check"}, 0, "", ""},
		"every mistake has a line, and nothing is written": {[]string{"-in", bad, "-out", out}, 1,
			bad + ":2: rotes: is not a member that is known here (did you mean \"routes\"?)\n" + bad + ":4: keys: must be a list, not a group of members\n", ""},
		"a check finds the same":     {[]string{"-in", bad, "-check"}, 1, bad + ":4: keys: must be a list", ""},
		"a file that is not there":   {[]string{"-in", filepath.Join(dir, "none.yaml"), "-check"}, 1, "none.yaml", ""},
		"nothing to do is a mistake": {[]string{"-in", good}, 2, "either -out or -check is needed", ""},
		"and so are both":            {[]string{"-in", good, "-out", out, "-check"}, 2, "either -out or -check is needed", ""},
		"a stray word is refused":    {[]string{"-check", good}, 2, "and nothing else", ""},
		"an unknown flag is refused": {[]string{"-strict"}, 2, "-strict", ""},
		"help is no mistake":         {[]string{"-h"}, 0, "-check", ""},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(filepath.Dir(out)))
			var printed bytes.Buffer
			assert.Equal(t, test.code, run(test.args, &printed))
			assert.Contains(t, printed.String(), test.printed)
			if test.printed == "" {
				assert.Empty(t, printed.String())
			}
			written, err := os.ReadFile(out)
			if test.written == "" {
				assert.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.written, string(written))
		})
	}
}
