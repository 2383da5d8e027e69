package elevenlabs_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/catalog"
	"spillway/internal/fault"
	"spillway/internal/media"
	"spillway/internal/provider"
	"spillway/internal/provider/elevenlabs"
	"spillway/internal/provider/wire"
)

// TestBareSamplesAreNotOrdered: they would be paid for and then be thrown away, since nothing tells them from noise.
func TestBareSamplesAreNotOrdered(t *testing.T) {
	s := &elevenlabs.Studio{Desk: wire.Desk{Wire: &wire.Client{}, Policy: fault.Default()}} // it reaches nobody
	for _, format := range []string{"pcm_44100", "ulaw_8000", "alaw_8000", "mp3"} {
		j := media.Job{Kind: media.Music, Request: []byte(`{"model":"m","prompt":"p","output_format":"` + format + `"}`)}
		_, err := s.Submit(t.Context(), provider.Task{Job: &j, Channel: &catalog.Channel{Provider: &catalog.Provider{BaseURL: "http://127.0.0.1:1"}}, Credential: &catalog.Credential{}})
		f, ok := errors.AsType[*fault.Failure](err)
		require.True(t, ok, format)
		assert.Equal(t, fault.Refused, f.Local, format)
		assert.Equal(t, "output_format", f.Param, format)
		assert.False(t, f.Sent || f.Ambiguous)
	}
}
