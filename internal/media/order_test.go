package media_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/media"
)

func TestReadOrder(t *testing.T) {
	for name, c := range map[string]struct {
		kind media.Kind
		body string
		want func(t *testing.T, o media.Order)
	}{
		"a video as OpenAI's clients ask for it": {media.Video, `{"model":"v","prompt":"a cat","seconds":"8","size":"1280x720","input_reference":"data:image/png;base64,AAAA"}`,
			func(t *testing.T, o media.Order) {
				assert.Equal(t, "v", o.Model)
				assert.Equal(t, "a cat", o.Prompt)
				assert.InDelta(t, 8, o.Seconds, 0)
				assert.Equal(t, "16:9", o.Aspect())
				assert.Equal(t, "720p", o.Resolution())
				mediaType, data, ok := o.Picture()
				assert.Equal(t, []any{"image/png", "AAAA", true}, []any{mediaType, data, ok})
				assert.Equal(t, []string{"input_reference", "seconds", "size"}, o.Asked())
			}},
		"seconds as a number, and a picture at an address": {media.Video, `{"model":"v","prompt":"p","seconds":4,"size":"1080x1920","input_reference":"https://x.test/a.png","seed":0,"negative_prompt":"dogs"}`,
			func(t *testing.T, o media.Order) {
				assert.InDelta(t, 4, o.Seconds, 0)
				assert.Equal(t, "9:16", o.Aspect())
				assert.Equal(t, "1080p", o.Resolution())
				_, _, ok := o.Picture()
				assert.False(t, ok)
				require.NotNil(t, o.Seed)
				assert.Zero(t, *o.Seed)
				assert.Equal(t, []string{"input_reference", "negative_prompt", "seconds", "seed", "size"}, o.Asked())
			}},
		"music by the millisecond": {media.Music, `{"model":"m","prompt":"p","music_length_ms":30500,"force_instrumental":true,"output_format":"mp3_44100_128"}`,
			func(t *testing.T, o media.Order) {
				assert.InDelta(t, 30.5, o.Seconds, 0)
				assert.Equal(t, []string{"force_instrumental", "music_length_ms", "output_format"}, o.Asked())
			}},
		"music by the second, with voices": {media.Music, `{"model":"m","prompt":"p","length_seconds":30,"instrumental":false}`,
			func(t *testing.T, o media.Order) {
				assert.InDelta(t, 30, o.Seconds, 0)
				assert.Equal(t, []string{"length_seconds"}, o.Asked())
			}},
		"what is for the gateway alone": {media.Video, `{"model":"m","prompt":"p","prefer":"a","callback_url":"https://x.test","seconds":null}`,
			func(t *testing.T, o media.Order) {
				assert.Equal(t, []string{"a", "https://x.test"}, []string{o.Prefer, o.Callback})
				assert.Empty(t, o.Asked())
				assert.Empty(t, o.Aspect())
				assert.Empty(t, o.Resolution())
			}},
	} {
		t.Run(name, func(t *testing.T) {
			o, refused := media.ReadOrder(c.kind, []byte(c.body))
			require.Nil(t, refused)
			assert.Equal(t, c.kind, o.Kind)
			c.want(t, o)
		})
	}
}

func TestReadOrderNamesTheMemberThatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		kind        media.Kind
		body, param string
	}{
		"no JSON":                           {media.Video, `{`, "body"},
		"a list":                            {media.Video, `[]`, "body"},
		"a name twice":                      {media.Video, `{"model":"v","prompt":"p","prompt":"q"}`, "body"},
		"no model":                          {media.Video, `{"prompt":"p"}`, "model"},
		"a blank prompt":                    {media.Video, `{"model":"v","prompt":" "}`, "prompt"},
		"a prompt that is a number":         {media.Video, `{"model":"v","prompt":1}`, "prompt"},
		"a prompt without end":              {media.Music, `{"model":"v","prompt":"` + strings.Repeat("a", 32_001) + `"}`, "prompt"},
		"a member that nobody knows":        {media.Video, `{"model":"v","prompt":"p","quality":"high"}`, "quality"},
		"other models":                      {media.Video, `{"model":"v","prompt":"p","models":["a"]}`, "models"},
		"a member of the other kind":        {media.Music, `{"model":"v","prompt":"p","seconds":4}`, "seconds"},
		"no time":                           {media.Video, `{"model":"v","prompt":"p","seconds":0}`, "seconds"},
		"a time that is no number":          {media.Video, `{"model":"v","prompt":"p","seconds":"NaN"}`, "seconds"},
		"a time that is true":               {media.Video, `{"model":"v","prompt":"p","seconds":true}`, "seconds"},
		"a time without end":                {media.Music, `{"model":"v","prompt":"p","music_length_ms":600001}`, "music_length_ms"},
		"two times":                         {media.Music, `{"model":"v","prompt":"p","length_seconds":30,"music_length_ms":30000}`, "music_length_ms"},
		"two words for no voices":           {media.Music, `{"model":"v","prompt":"p","instrumental":true,"force_instrumental":true}`, "force_instrumental"},
		"nothing":                           {media.Video, " ", "body"},
		"a callback to nowhere":             {media.Video, `{"model":"v","prompt":"p","callback_url":""}`, "callback_url"},
		"a size of nothing":                 {media.Video, `{"model":"v","prompt":"p","size":"0x720"}`, "size"},
		"half a size":                       {media.Video, `{"model":"v","prompt":"p","size":"1280"}`, "size"},
		"a seed with a fraction":            {media.Video, `{"model":"v","prompt":"p","seed":1.5}`, "seed"},
		"a picture at an address in plain":  {media.Video, `{"model":"v","prompt":"p","input_reference":"http://x.test/a.png"}`, "input_reference"},
		"a file of OpenAI's":                {media.Video, `{"model":"v","prompt":"p","input_reference":{"file_id":"file_1"}}`, "input_reference"},
		"a picture with something beside":   {media.Video, `{"model":"v","prompt":"p","input_reference":{"image_url":"https://x.test/a.png","file_id":"file_1"}}`, "input_reference"},
		"a picture that is the name of one": {media.Video, `{"model":"v","prompt":"p","input_reference":"a.png"}`, "input_reference"},
	} {
		t.Run(name, func(t *testing.T) {
			_, refused := media.ReadOrder(c.kind, []byte(c.body))
			require.NotNil(t, refused)
			assert.Equal(t, fault.ValidationFailed, refused.Code)
			assert.Equal(t, c.param, refused.Param)
			assert.Less(t, len(refused.Message), 200)
		})
	}
}

func TestAPictureMayStandInAnObject(t *testing.T) {
	o, refused := media.ReadOrder(media.Video, []byte(`{"model":"v","prompt":"p","input_reference":{"image_url":"https://x.test/a.png"}}`))
	require.Nil(t, refused)
	assert.Equal(t, "https://x.test/a.png", o.Reference)
}

func FuzzReadOrder(f *testing.F) {
	f.Add(true, `{"model":"v","prompt":"a cat","seconds":"8","size":"1280x720","input_reference":"data:image/png;base64,AAAA"}`)
	f.Add(false, `{"model":"m","prompt":"p","music_length_ms":30500,"force_instrumental":true}`)
	f.Fuzz(func(t *testing.T, video bool, body string) {
		kind := media.Music
		if video {
			kind = media.Video
		}
		o, refused := media.ReadOrder(kind, []byte(body))
		if refused != nil {
			return
		}
		if o.Model == "" || o.Prompt == "" || o.Seconds < 0 || o.Seconds > 600 || o.Width < 0 || (o.Width == 0) != (o.Height == 0) {
			t.Fatalf("%q became %+v", body, o)
		}
	})
}

// TestAbridged: a body without its picture is the same order otherwise.
func TestAbridged(t *testing.T) {
	picture := `,"input_reference":"data:image/png;base64,` + strings.Repeat("A", 3<<20) + `"`
	for name, c := range map[string][2]string{
		"a picture":                    {`{"model":"v","prompt":"a cat"` + picture + `,"seconds":"8"}`, `{"model":"v","prompt":"a cat","seconds":"8"}`},
		"spaces, and escapes":          {` {` + strings.Repeat(" ", 9000) + `"\u006dodel" : "v", "prompt":"\u0061 <b> \ud83d\ude00\n", "seed" : 7 } `, `{"model":"v","prompt":"a <b> 😀\n","seed":7}`},
		"what is for the gateway":      {`{"model":"v","prompt":"p","prefer":"a","size":null}`, `{"model":"v","prompt":"p","prefer":"a","size":null}`},
		"a number that is long":        {`{"model":"v","seconds":8.` + strings.Repeat("0", 200_000) + `,"prompt":"p"}`, `{"model":"v","prompt":"p"}`},
		"nothing else than the little": {`{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c[1], string(media.Abridged([]byte(c[0]))))
		})
	}
}

func FuzzAbridged(f *testing.F) {
	f.Add(true, `{"model":"v","prompt":"a cat","seconds":"8","input_reference":"data:image/png;base64,AAAA","prefer":"x"}`)
	f.Add(false, `{"m\u006fdel":"m","prompt":"\ud800 <","music_length_ms":30500,"seed":-3}`)
	f.Fuzz(func(t *testing.T, video bool, body string) {
		kind := media.Music
		if video {
			kind = media.Video
		}
		o, refused := media.ReadOrder(kind, []byte(body))
		if refused != nil {
			return
		}
		short := media.Abridged([]byte(body))
		again, refused := media.ReadOrder(kind, short)
		if refused != nil || len(short) > len(body)+64_000 || len(short) > 4*128<<10 {
			t.Fatalf("%q became %q: %v", body, short, refused)
		}
		o.Reference = ""
		if !reflect.DeepEqual(o, again) && len(body) < 128<<10 {
			t.Fatalf("%+v became %+v", o, again)
		}
	})
}
