package veo_test

import (
	"flag"
	"testing"

	"spillway/internal/catalog"
	"spillway/internal/provider"
	"spillway/internal/provider/veo"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

var update = flag.Bool("update", false, "write what was seen into testdata/jobs/*.txtar; read the difference before committing it")

func TestConversations(t *testing.T) {
	conversation.Studio{
		New:      func(d wire.Desk) provider.Studio { return &veo.Studio{Desk: d} },
		Provider: catalog.Provider{Kind: "veo", Vendor: "gemini", BaseURL: "http://veo.test/v1beta", Headers: map[string]string{"X-Team": "films"}},
		Model:    "veo-3.1-generate-preview",
	}.Run(t, *update)
}
