package edge_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/edge"
	"spillway/internal/media"
)

const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

// formField is a field of a form; a file has a name.
type formField struct{ name, value, file, kind string }

// form is a form as it is sent, with its content type.
func form(t testing.TB, boundary string, fields ...formField) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.SetBoundary(boundary))
	for _, f := range fields {
		h := textproto.MIMEHeader{}
		disposition := fmt.Sprintf(`form-data; name=%q`, f.name)
		if f.file != "" {
			disposition += fmt.Sprintf(`; filename=%q`, f.file)
		}
		h.Set("Content-Disposition", disposition)
		if f.kind != "" {
			h.Set("Content-Type", f.kind)
		}
		part, err := w.CreatePart(h)
		require.NoError(t, err)
		_, _ = part.Write([]byte(f.value))
	}
	require.NoError(t, w.Close())
	return w.FormDataContentType(), b.String()
}

var plainForm = []formField{{name: "model", value: "veo"}, {name: "prompt", value: jobPrompt}, {name: "seconds", value: "8"}, {name: "size", value: "1280x720"}}

// TestAnOrderMayBeAForm: it is kept as the JSON that it stands for.
func TestAnOrderMayBeAForm(t *testing.T) {
	const data = `"data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="`
	for name, tt := range map[string]struct {
		path   string
		fields []formField
		want   string
	}{
		"texts": {"/v1/videos", plainForm, anOrder},
		"a picture": {"/v1/videos", []formField{{name: "model", value: "veo"}, {name: "prompt", value: "p"}, {"input_reference", png, "a.png", "image/png"}},
			`{"model":"veo","prompt":"p","input_reference":` + data + `}`},
		"a picture of which nothing is said": {"/v1/videos", []formField{{name: "model", value: "veo"}, {name: "prompt", value: "p"}, {"input_reference", png, "a", "application/octet-stream"}},
			`{"model":"veo","prompt":"p","input_reference":` + data + `}`},
		"a picture at an address": {"/v1/videos", []formField{{name: "model", value: "veo"}, {name: "prompt", value: "p"}, {name: "input_reference[image_url]", value: "https://x.test/a.png"}},
			`{"model":"veo","prompt":"p","input_reference":"https://x.test/a.png"}`},
		"numbers and truths, which a form writes as texts": {"/v1/music", []formField{{name: "model", value: "music"}, {name: "prompt", value: "p"}, {name: "seed", value: "7"}, {name: "instrumental", value: "true"},
			{name: "length_seconds", value: "30"}}, `{"model":"music","prompt":"p","seed":7,"instrumental":true,"length_seconds":"30"}`},
		"a prompt that looks like a number": {"/v1/videos", []formField{{name: "model", value: "veo"}, {name: "prompt", value: "1984"}}, `{"model":"veo","prompt":"1984"}`},
	} {
		for front, over := range map[string]func(testing.TB, http.Handler) func(sent) received{"http": overHTTP, "lambda": overLambda} {
			t.Run(front+", "+name, func(t *testing.T) {
				w := newWorkshop(t)
				contentType, body := form(t, "one", tt.fields...)
				send := over(t, w.handler)
				got := send(sent{path: tt.path, header: plus("Content-Type", contentType, "Idempotency-Key", "k1"), body: body, encoded: true})
				require.Equal(t, http.StatusAccepted, got.status, got.body)
				list, err := w.store.Memory.List(t.Context(), "org", media.Wanted{Limit: 2})
				require.NoError(t, err)
				require.Len(t, list.Jobs, 1)
				assert.JSONEq(t, tt.want, string(list.Jobs[0].Request))

				contentType, body = form(t, "two", tt.fields...)
				again := send(sent{path: tt.path, header: plus("Content-Type", contentType, "Idempotency-Key", "k1"), body: body, encoded: true})
				assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"), "with another boundary it is the same order")
				assert.Equal(t, got.body, again.body)
			})
		}
	}
}

func TestFormsThatAreRefused(t *testing.T) {
	many := make([]formField, 0, 65)
	for i := range 65 {
		many = append(many, formField{name: fmt.Sprint("f", i), value: "x"})
	}
	for name, tt := range map[string]struct {
		fields []formField
		param  string
	}{
		"a field that nobody knows":         {append([]formField{{name: "fps", value: "24"}}, plainForm...), "fps"},
		"several models":                    {append([]formField{{name: "models", value: "veo"}}, plainForm...), "models"},
		"a field twice":                     {append([]formField{{name: "model", value: "veo"}}, plainForm...), "model"},
		"a picture twice":                   {append([]formField{{name: "input_reference[image_url]", value: "https://x.test/a.png"}, {"input_reference", png, "a.png", "image/png"}}, plainForm...), "input_reference"},
		"a file that is no picture":         {append([]formField{{"input_reference", "%PDF-1.7", "a.pdf", "application/pdf"}}, plainForm...), "input_reference"},
		"a file of which that is only said": {append([]formField{{"input_reference", "text", "a.png", "application/octet-stream"}}, plainForm...), "input_reference"},
		"an empty file":                     {append([]formField{{"input_reference", "", "a.png", "image/png"}}, plainForm...), "input_reference"},
		"a file in another place":           {append([]formField{{"negative_prompt", "x", "a.txt", "text/plain"}}, plainForm...), "negative_prompt"},
		"a file of OpenAI's":                {append([]formField{{name: "input_reference[file_id]", value: "file_1"}}, plainForm...), "input_reference[file_id]"},
		"a seed that is none":               {append([]formField{{name: "seed", value: "x"}}, plainForm...), "seed"},
		"a field without a name":            {append([]formField{{value: "x"}}, plainForm...), "body"},
		"too many fields":                   {many, "body"},
		"no prompt":                         {plainForm[:1], "prompt"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			contentType, body := form(t, "one", tt.fields...)
			got := w.send(t, http.MethodPost, "/v1/videos", body, "Content-Type", contentType, "Idempotency-Key", "k1")
			assert.Equal(t, http.StatusBadRequest, got.status, got.body)
			assert.Equal(t, "validation_failed", got.get("error.code").Str)
			assert.Equal(t, tt.param, got.get("error.param").Str)
			assert.Zero(t, w.studio.total())
		})
	}
	t.Run("one that breaks off", func(t *testing.T) {
		w := newWorkshop(t)
		contentType, body := form(t, "one", plainForm...)
		got := w.send(t, http.MethodPost, "/v1/videos", strings.TrimSuffix(body, "--one--\r\n"), "Content-Type", contentType, "Idempotency-Key", "k1")
		assert.Equal(t, http.StatusBadRequest, got.status, got.body)
		assert.Equal(t, "size", got.get("error.param").Str, "its last field has no end")
	})
}

// FuzzOrderForm: whatever a form is, it is refused or becomes JSON that an order can be read from.
func FuzzOrderForm(f *testing.F) {
	contentType, body := form(f, "one", append(plainForm, formField{"input_reference", png, "a.png", "image/png"}, formField{name: "seed", value: "7"})...)
	f.Add(contentType, body)
	f.Add("multipart/form-data; boundary=one", "--one\r\nContent-Disposition: form-data; name=\"seed\"\r\n\r\n{\"a\":1}\r\n--one--\r\n")
	f.Add("multipart/form-data", "")
	f.Add("application/json", anOrder)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		out, refused := edge.OrderJSON(contentType, []byte(body))
		if refused != nil {
			if refused.Code != "validation_failed" || refused.Param == "" {
				t.Fatalf("%+v", refused)
			}
			return
		}
		if o, refused := media.ReadOrder(media.Video, out); refused == nil && (o.Model == "" || o.Prompt == "") {
			t.Fatalf("%q became %+v", body, o)
		}
	})
}
