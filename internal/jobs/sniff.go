package jobs

import (
	"bytes"

	"spillway/internal/media"
)

// sniffed is how many first bytes tell what a work is.
const sniffed = 512

// prefixes begin the media types of a kind of job.
var prefixes = map[media.Kind]string{media.Video: "video/", media.Music: "audio/"}

// sniff is the media type that a work's first bytes tell; empty: none that we know. From the formats' own specifications:
// ISO 14496-12 §4.3 (ftyp), RFC 8794 (EBML), ID3v2.4 §3.1, ISO 11172-3 §2.4.1.3 (the frame's sync word), ISO 13818-7 §6.2 (ADTS), RFC 3533 (OggS), RFC 9639 (fLaC), and
// Microsoft's RIFF; 2026-11-30.
func sniff(b []byte) string {
	is := func(at int, magic string) bool { return len(b) >= at && bytes.HasPrefix(b[at:], []byte(magic)) }
	switch {
	case is(4, "ftypM4A"):
		return "audio/mp4"
	case is(4, "ftypqt  "):
		return "video/quicktime"
	case is(4, "ftyp"):
		return "video/mp4"
	case is(0, "\x1a\x45\xdf\xa3"):
		return "video/webm"
	case is(0, "RIFF") && is(8, "WAVE"):
		return "audio/wav"
	case is(0, "RIFF") && is(8, "AVI "):
		return "video/x-msvideo"
	case is(0, "OggS"):
		return "audio/ogg"
	case is(0, "fLaC"):
		return "audio/flac"
	case is(0, "ID3"), len(b) > 2 && b[0] == 0xff && b[1]&0xe6 == 0xe2: // layer III
		return "audio/mpeg"
	case len(b) > 2 && b[0] == 0xff && b[1]&0xf6 == 0xf0: // ADTS
		return "audio/aac"
	default:
		return ""
	}
}
