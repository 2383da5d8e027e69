package catalog_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
)

// TestPolicyOfARoute: a route's rows come before the policy table, on that route and no other.
func TestPolicyOfARoute(t *testing.T) {
	const alias = `"alias": "support-v1",`
	data := read(t, "working_full")
	require.Contains(t, string(data), alias)
	data = bytes.Replace(data, []byte(alias), []byte(alias+`"policy": [{"provider": "groq", "status": 498, "type": "t", "code": "c", "class": "quota"}, {"status": 418, "class": "overloaded"}],`), 1)
	c, err := catalog.Load(data, environment(map[string]string{"MAIN_KEY": "sk-main-0123456789"}))
	require.NoError(t, err)
	own := c.Routes[chat.RequestedModel("support-v1")].Faults
	require.NotNil(t, own)
	for name, f := range map[string]struct {
		seen fault.Observation
		want fault.Class
	}{
		"what the row names":   {fault.Observation{Provider: "groq", Status: 498, Type: "t", Code: "c"}, fault.Quota},
		"another code":         {fault.Observation{Provider: "groq", Status: 498, Type: "t", Code: "d"}, fault.Overloaded},
		"another provider":     {fault.Observation{Provider: "openai", Status: 498, Type: "t", Code: "c"}, fault.Overloaded},
		"a row of a status":    {fault.Observation{Provider: "openai", Status: 418}, fault.Overloaded},
		"what no row is about": {fault.Observation{Provider: "groq", Status: 401}, fault.Auth},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, f.want, own.Classify(f.seen).Class) })
	}
	assert.Nil(t, c.Routes[chat.RequestedModel("eager")].Faults)
}
