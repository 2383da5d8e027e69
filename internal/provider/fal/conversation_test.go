package fal_test

import (
	"flag"
	"testing"

	"spillway/internal/catalog"
	"spillway/internal/provider"
	"spillway/internal/provider/fal"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

var update = flag.Bool("update", false, "write what was seen into testdata/jobs/*.txtar; read the difference before committing it")

func TestConversations(t *testing.T) {
	conversation.Studio{
		New:      func(d wire.Desk) provider.Studio { return &fal.Studio{Desk: d} },
		Provider: catalog.Provider{Kind: "fal", Vendor: "fal", BaseURL: "http://fal.test", Headers: map[string]string{"X-Team": "films"}},
		Model:    "fal-ai/veo3.1",
	}.Run(t, *update)
}
