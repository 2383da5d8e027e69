package usage_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/usage"
)

// TestEmbeddedWorks: every line can be read and has a day and a source, and no two tables share a version.
func TestEmbeddedWorks(t *testing.T) {
	table, err := usage.WorksOf(usage.WorksText())
	require.NoError(t, err)
	assert.Equal(t, usage.EmbeddedWorks(), table)
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(table.Lines())))[:8]
	assert.Regexp(t, `^works-\d{4}-\d\d-\d\d\+`+digest+`$`, table.Version(), "the version is the day of the last change and the beginning of the lines' digest")
}

// TestWorks: dollars for what was asked, and unknown wherever something is missing.
func TestWorks(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		provider, model string
		work            usage.Work
		want            string // empty: unknown
	}{
		"a second costs what its resolution does":                 {"google", "veo-3.1-generate-preview", usage.Work{Kind: "video", Length: 8 * s, Resolution: "4k"}, "4.8"},
		"where no resolution was asked for, the provider's own":   {"google", "veo-3.1-generate-preview", usage.Work{Kind: "video", Length: 4 * s}, "1.6"},
		"where no length was asked for, the provider's own":       {"google", "veo-3.1-fast-generate-preview", usage.Work{Kind: "video", Resolution: "1080p"}, "0.96"},
		"a provider has another name":                             {"gemini", "veo-3.1-lite-generate-preview", usage.Work{Kind: "video", Length: 6 * s, Resolution: "720p"}, "0.3"},
		"a resolution that the model has no price for":            {"google", "veo-3.1-lite-generate-preview", usage.Work{Kind: "video", Length: 8 * s, Resolution: "4k"}, ""},
		"a model that is only called like one with a price":       {"google", "veo-3.1-generate", usage.Work{Kind: "video", Length: 8 * s}, ""},
		"a model of another provider":                             {"fal", "veo-3.1-generate-preview", usage.Work{Kind: "video", Length: 8 * s}, ""},
		"a provider without prices":                               {"elevenlabs", "music_v2", usage.Work{Kind: "music", Length: 60 * s}, ""},
		"nobody":                                                  {"", "", usage.Work{}, ""},
		"the same price for every resolution":                     {"fal", "fal-ai/veo3/fast", usage.Work{Kind: "video", Length: 6 * s, Resolution: "1080p"}, "0.9"},
		"a resolution that nobody asked for, and nobody tells":    {"fal", "kling/v4/text-to-video", usage.Work{Kind: "video", Length: 5 * s}, ""},
		"a part of a second":                                      {"fal", "kling/v4/text-to-video", usage.Work{Kind: "video", Length: 1500 * time.Millisecond, Resolution: "720p"}, "0.2355"},
		"a minute that has begun costs a minute":                  {"fal", "elevenlabs/music/v2", usage.Work{Kind: "music", Length: 61 * s}, "1.2"},
		"a minute costs a minute":                                 {"fal", "elevenlabs/music/v2", usage.Work{Kind: "music", Length: 60 * s}, "0.6"},
		"a length that nobody asked for, and the model chooses":   {"fal", "elevenlabs/music/v2", usage.Work{Kind: "music"}, ""},
		"the simulated provider has a price for every video":      {"sim", "sim-video-expired", usage.Work{Kind: "video", Length: 10 * s, Resolution: "1080p"}, "2"},
		"the simulated provider has a price for every song":       {"sim", "sim-music", usage.Work{Kind: "music"}, "0.5"},
		"the simulated provider has none for what is no work":     {"sim", "sim-ok", usage.Work{Kind: "chat", Length: s}, ""},
		"no other provider has a price for every model of a kind": {"google", "veo-9", usage.Work{Kind: "video", Length: 8 * s}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := usage.EmbeddedWorks().Charge(c.provider, c.model, c.work)
			if c.want == "" {
				assert.Equal(t, usage.Charge{Basis: usage.BasisUnknown}, got)
				return
			}
			require.True(t, got.Known())
			assert.Equal(t, usage.BasisListed, got.Basis)
			assert.Equal(t, c.want, got.Cost.String())
		})
	}
	t.Run("a table that is empty knows no price", func(t *testing.T) {
		assert.False(t, usage.Works{}.Charge("google", "veo-3.1-generate-preview", usage.Work{Length: s}).Known())
		assert.False(t, usage.Works{}.Blocked("google").Known())
	})
	t.Run("what moderation refuses is free where the provider says so, and unknown elsewhere", func(t *testing.T) {
		for provider, free := range map[string]bool{"google": true, "gemini": true, "sim": true, "fal": false, "elevenlabs": false, "": false} {
			got := usage.EmbeddedWorks().Blocked(provider)
			assert.Equal(t, free, got.Known(), provider)
			assert.Zero(t, got.Cost)
		}
	})
}

func TestWorksRefuses(t *testing.T) {
	const good = "# version: v\na/m\twork 0.08\t2026-11-30\thttps://a.test\n"
	table, err := usage.WorksOf(good)
	require.NoError(t, err)
	assert.Equal(t, "0.08", table.Charge("a", "m", usage.Work{}).Cost.String(), "each costs the same, however long")
	for name, c := range map[string]struct{ line, want string }{
		"a line without a source":                     {"b/m\twork 1\t2026-11-30", "it is not a key"},
		"a source that is none":                       {"b/m\twork 1\t2026-11-30\theard of it", "its source is no address"},
		"a day that is none":                          {"b/m\twork 1\tsoon\thttps://b.test", "reading its day"},
		"a unit that nobody charges by":               {"b/m\tpixel 1\t2026-11-30\thttps://b.test", "by the second"},
		"a unit without a price":                      {"b/m\tsecond\t2026-11-30\thttps://b.test", "by the second"},
		"a resolution without a price":                {"b/m\tsecond 720p 1 4k\t2026-11-30\thttps://b.test", `"4k" has no price`},
		"a price that is none":                        {"b/m\tsecond 720p cheap\t2026-11-30\thttps://b.test", `"cheap" is not an amount`},
		"a resolution twice":                          {"b/m\tsecond 720p 1 720p 2\t2026-11-30\thttps://b.test", "stands twice"},
		"what is unasked has no price":                {"b/m\tsecond 720p 1; unasked 8 4k\t2026-11-30\thttps://b.test", "unasked is followed by"},
		"what is unasked is nothing":                  {"b/m\tsecond 720p 1; unasked \t2026-11-30\thttps://b.test", "unasked is followed by"},
		"a price for every model of a real provider":  {"b/*video\tsecond 1\t2026-11-30\thttps://b.test", "only what is simulated"},
		"a line that is not in its place":             {"a/a\twork 1\t2026-11-30\thttps://b.test", "not in its place"},
		"what holds of all models must be one of two": {"b/\tcheap\t2026-11-30\thttps://b.test", "by the second"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := usage.WorksOf(good + c.line + "\n")
			require.ErrorContains(t, err, c.want)
		})
	}
}

// FuzzWorks: no line makes a lookup fail otherwise than by not knowing, and no cost is negative.
func FuzzWorks(f *testing.F) {
	for line := range strings.Lines(usage.WorksText()) {
		_, rest, _ := strings.Cut(line, "\t")
		list, _, _ := strings.Cut(rest, "\t")
		f.Add(list, int64(8*time.Second), "720p")
	}
	f.Add("second 999999999.999999", int64(1<<62), "")
	f.Add("minute 1", int64(-1), "")
	f.Fuzz(func(t *testing.T, list string, length int64, resolution string) {
		table, _ := usage.WorksOf("# version: v\na/m\t" + list + "\t2026-11-30\thttps://a.test\n")
		if got := table.Charge("a", "m", usage.Work{Length: time.Duration(length), Resolution: resolution}); got.Cost < 0 || !got.Known() && got.Cost != 0 {
			t.Fatalf("%q for %d costs %d", list, length, got.Cost)
		}
	})
}
