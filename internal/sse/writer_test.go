package sse_test

import (
	"strings"
	"testing"

	"spillway/internal/sse"
)

func TestWriting(t *testing.T) {
	tests := map[string]struct{ got, want string }{
		"data":                           {string(sse.AppendData(nil, []byte(`{"a":1}`))), "data: {\"a\":1}\n\n"},
		"data goes behind what is there": {string(sse.AppendData([]byte("x"), []byte("y"))), "xdata: y\n\n"},
		"no data":                        {string(sse.AppendData(nil, nil)), "data: \n\n"},
		"data of several lines":          {string(sse.AppendData(nil, []byte("a\nb\r\nc\rd\r\re"))), "data: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: e\n\n"},
		"data that ends in a line end":   {string(sse.AppendData(nil, []byte("a\n"))), "data: a\ndata: \n\n"},
		"a named event":                  {string(sse.AppendEvent(nil, "error", []byte("{}"))), "event: error\ndata: {}\n\n"},
		"a name cannot add a field":      {string(sse.AppendEvent(nil, "a\ndata: b\r\n\r\nc", []byte("{}"))), "event: adata: bc\ndata: {}\n\n"},
		"a comment":                      {string(sse.AppendComment(nil, "ka")), ": ka\n"},
		"a comment of several lines":     {string(sse.AppendComment(nil, "a\ndata: b\r\n\r\nc")), ": a\n: data: b\n: \n: c\n"},
		"done":                           {sse.Done, string(sse.AppendData(nil, []byte("[DONE]")))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { wantEqual(t, tc.want, tc.got, "written") })
	}
}

// What is written is read back, whatever the bytes; only line ends become LF.
func FuzzWriter(f *testing.F) {
	f.Add("", []byte(`{"a":1}`), "ka")
	f.Add("error", []byte("a\nb\r\nc\rd\n"), "a\ndata: b")
	f.Add("a\r\nb", []byte("\xEF\xBB\xBF\x00"), "\r")
	f.Add("x", []byte(" {\n["), "")
	f.Fuzz(func(t *testing.T, name string, data []byte, comment string) {
		stream := sse.AppendComment(nil, comment)
		stream = sse.AppendEvent(stream, name, data)
		stream = sse.AppendComment(stream, comment)
		stream = sse.AppendData(stream, data)
		got, err := readAll(sse.NewReader(strings.NewReader(string(stream)), 0))
		wantError(t, nil, err, "reading")
		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		name = strings.NewReplacer("\r", "", "\n", "").Replace(name)
		wantEqual(t, []event{{Name: name, Data: lines}, {Data: lines}}, got, "read back")
	})
}

func BenchmarkAppendData(b *testing.B) {
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = sse.AppendData(dst[:0], []byte(chunkLine))
	}
}
