package elevenlabs_test

import (
	"flag"
	"testing"

	"spillway/internal/catalog"
	"spillway/internal/provider"
	"spillway/internal/provider/elevenlabs"
	"spillway/internal/provider/wire"
	"spillway/internal/simulate/conversation"
)

var update = flag.Bool("update", false, "write what was seen into testdata/jobs/*.txtar; read the difference before committing it")

func TestConversations(t *testing.T) {
	conversation.Studio{
		New:      func(d wire.Desk) provider.Studio { return &elevenlabs.Studio{Desk: d} },
		Provider: catalog.Provider{Kind: "elevenlabs", Vendor: "elevenlabs", BaseURL: "http://elevenlabs.test/v1", Headers: map[string]string{"X-Team": "films"}},
		Model:    "music_v1",
	}.Run(t, *update)
}
