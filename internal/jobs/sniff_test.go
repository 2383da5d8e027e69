package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"spillway/internal/media"
)

// TestAWorkIsWhatItsFirstBytesSay, whatever its provider calls it: what is none of its kind is not given out as one.
func TestAWorkIsWhatItsFirstBytesSay(t *testing.T) {
	for name, c := range map[string]struct {
		kind  media.Kind
		begin string
		want  string // empty: it is none
	}{
		"MP4":                       {media.Video, mp4, "video/mp4"},
		"QuickTime":                 {media.Video, "\x00\x00\x00\x14ftypqt  ", "video/quicktime"},
		"WebM":                      {media.Video, "\x1a\x45\xdf\xa3", "video/webm"},
		"MP3 with a tag":            {media.Music, mp3, "audio/mpeg"},
		"MP3 without one":           {media.Music, "\xff\xfb\x90\x64", "audio/mpeg"},
		"AAC":                       {media.Music, "\xff\xf1\x50\x80", "audio/aac"},
		"AAC of MPEG-2":             {media.Music, "\xff\xf9\x50\x80", "audio/aac"},
		"WAV":                       {media.Music, "RIFF\x24\x00\x00\x00WAVEfmt ", "audio/wav"},
		"Ogg":                       {media.Music, "OggS\x00", "audio/ogg"},
		"FLAC":                      {media.Music, "fLaC\x00", "audio/flac"},
		"M4A":                       {media.Music, "\x00\x00\x00\x1cftypM4A ", "audio/mp4"},
		"a page":                    {media.Video, "<!doctype html><script>", ""},
		"a page that calls itself":  {media.Music, "ID2<script>", ""},
		"a song in place of one":    {media.Video, mp3, ""},
		"a film in place of a song": {media.Music, mp4, ""},
		"bare samples":              {media.Music, "\x00\x00\x01\x00\x02\x00\x01\x00", ""},
	} {
		w := newWorld()
		w.studio.submit = []submitted{{work: c.begin}}
		o := order()
		o.Kind = c.kind
		if c.kind == media.Music {
			o = music("jingle")
		}
		j := w.post(t, o)
		if c.want == "" {
			assert.Equal(t, media.Failed, j.State, name)
			assert.Empty(t, w.objects, name)
			continue
		}
		if assert.Equal(t, media.Succeeded, j.State, name) {
			assert.Equal(t, c.want, j.Result.ContentType, name)
		}
	}
}
