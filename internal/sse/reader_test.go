package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"spillway/internal/sse"
)

// event is an sse.Event that outlives the next call.
type event struct {
	Name, Data         string
	Bare, Unterminated bool
}

// readAll returns the events of a stream and the error that ended it, nil for io.EOF.
func readAll(r *sse.Reader) ([]event, error) {
	var events []event
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event{ev.Name, string(ev.Data), ev.Bare, ev.Unterminated})
	}
}

// chunks is a source that returns one chunk per read.
type chunks [][]byte

func (c *chunks) Read(p []byte) (int, error) {
	for len(*c) > 0 && len((*c)[0]) == 0 {
		*c = (*c)[1:]
	}
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	(*c)[0] = (*c)[0][n:]
	return n, nil
}

const ab = "data: {\"a\":1}\n\ndata: {\"b\":2}\n\n"

var abEvents = []event{{Data: `{"a":1}`}, {Data: `{"b":2}`}}

func TestFramingDoesNotFollowReads(t *testing.T) {
	tests := map[string]struct {
		stream string
		want   []event
	}{
		"B23a: LF line ends":                              {ab, abEvents},
		"B23b: CRLF line ends":                            {strings.ReplaceAll(ab, "\n", "\r\n"), abEvents},
		"B23c: lone CR line ends":                         {strings.ReplaceAll(ab, "\n", "\r"), abEvents},
		"B23d: LF and CRLF mixed in one separator":        {"data: {\"a\":1}\n\r\n", []event{{Data: `{"a":1}`}}},
		"B23e: no space after the colon":                  {"data:{\"a\":1}\n\ndata:[DONE]\n\n", []event{{Data: `{"a":1}`}, {Data: "[DONE]"}}},
		"B23f: a leading byte order mark is dropped":      {"\xEF\xBB\xBF" + ab, abEvents},
		"B23g: data lines are joined by LF":               {"data: {\"a\":\ndata: 1}\n\n", []event{{Data: "{\"a\":\n1}"}}},
		"B23h: multi-byte characters":                     {"data: {\"t\":\"🌍é漢\"}\n\n", []event{{Data: `{"t":"🌍é漢"}`}}},
		"B23i: a named event":                             {"event: error\ndata: {\"type\":\"error\"}\n\n", []event{{Name: "error", Data: `{"type":"error"}`}}},
		"B23j: id and retry are ignored":                  {"id: 7\nretry: 100\ndata: {\"a\":1}\n\n", []event{{Data: `{"a":1}`}}},
		"B23k: the last event lacks its blank line":       {`data: {"a":1}`, []event{{Data: `{"a":1}`, Unterminated: true}}},
		"B23k: and even with its line end":                {"data: {\"a\":1}\r\n", []event{{Data: `{"a":1}`, Unterminated: true}}},
		"B23l: U+2028 is not a line end":                  {"data: a\u2028b\n\n", []event{{Data: "a\u2028b"}}},
		"U+0085, VT and FF are not line ends":             {"data: a\u0085b\vc\fd\n\n", []event{{Data: "a\u0085b\vc\fd"}}},
		"only the first byte order mark is dropped":       {"\xEF\xBB\xBF\xEF\xBB\xBFdata: x\n\ndata: \xEF\xBB\xBFy\n\n", []event{{Data: "\xEF\xBB\xBFy"}}},
		"a byte order mark alone is a blank line":         {"\xEF\xBB\xBF\ndata: x\n\n", []event{{Data: "x"}}},
		"only one space after the colon is dropped":       {"data:  x \n\n", []event{{Data: " x "}}},
		"a field name is matched whole and in its case":   {"datax: 1\nDATA: 2\n data: 3\ndata : 4\ndata: 5\n\n", []event{{Data: "5"}}},
		"comments are skipped wherever they stand":        {": ka\n\n:\ndata: a\n: OPENROUTER PROCESSING\ndata: b\n: ka\n\n: ka\n", []event{{Data: "a\nb"}}},
		"empty data is an event, with or without a colon": {"data:\n\ndata\n\ndata: \n\ndata\ndata\n\n", []event{{}, {}, {}, {Data: "\n"}}},
		"an event without data is none":                   {"event: ping\n\nid: 1\n\n\n\nevent: last", nil},
		"a name does not outlive its event":               {"event: ping\n\nevent: x\ndata: 1\n\ndata: 2\n\n", []event{{Name: "x", Data: "1"}, {Data: "2"}}},
		"the last name wins":                              {"event: a\ndata: 1\nevent: b\n\nevent: c\nevent\ndata: 2\n\n", []event{{Name: "b", Data: "1"}, {Data: "2"}}},
		"nothing":                                         {"", nil},
		"blank lines only":                                {"\n\r\n\r\r\n", nil},
		"a bare object mid-stream": {
			"data: {\"a\":1}\r\n\r\n{\r\n  \"error\": {\r\n    \"code\": 503\r\n  }\r\n}\r\n",
			[]event{{Data: `{"a":1}`}, {Data: "{\n  \"error\": {\n    \"code\": 503\n  }\n}", Bare: true, Unterminated: true}},
		},
		"a bare array, ended by a blank line": {"[{\"error\":1}\n,2]\n\n" + ab, append([]event{{Data: "[{\"error\":1}\n,2]", Bare: true}}, abEvents...)},
		"a bare object between events without blank lines": {
			"data: 1\n{\n\"e\":2}\ndata: 3\n\n",
			[]event{{Data: "1"}, {Data: "{\n\"e\":2}", Bare: true}, {Data: "3"}},
		},
		"a bare object may be named, cut, and hold lines that begin alike": {
			"event: error\n{\n[\n{",
			[]event{{Name: "error", Data: "{\n[\n{", Bare: true, Unterminated: true}},
		},
		"a page of HTML is no event": {"<html>\n<body>{\"a\":1}</body>\n</html>\n\n", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			sources := map[string]io.Reader{
				"whole":               strings.NewReader(tc.stream),
				"one byte per read":   iotest.OneByteReader(strings.NewReader(tc.stream)),
				"half of each read":   iotest.HalfReader(strings.NewReader(tc.stream)),
				"end with the data":   iotest.DataErrReader(strings.NewReader(tc.stream)),
				"empty reads between": &stutter{r: iotest.OneByteReader(strings.NewReader(tc.stream))},
			}
			for i := range len(tc.stream) {
				sources[fmt.Sprintf("split at %d", i)] = &chunks{[]byte(tc.stream[:i]), []byte(tc.stream[i:])}
			}
			for how, source := range sources {
				got, err := readAll(sse.NewReader(source, 0))
				wantError(t, nil, err, how)
				wantEqual(t, tc.want, got, how)
			}
		})
	}
}

// stutter returns nothing on every other read.
type stutter struct {
	r   io.Reader
	odd bool
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.odd = !s.odd; s.odd {
		return 0, nil
	}
	return s.r.Read(p)
}

// An event must not wait for bytes that a slow source has not sent yet.
func TestAnEventIsReturnedWithoutReadingOn(t *testing.T) {
	tests := map[string]string{
		"LF":                       "data: x\n\n",
		"CRLF":                     "data: x\r\n\r\n",
		"CRLF cut before its LF":   "data: x\r\n\r",
		"lone CR":                  "data: x\r\r",
		"LF after a lone CR":       "data: x\r\n\n",
		"a field after a bare one": "{\"x\":1}\ndata: y\n",
	}
	for name, stream := range tests {
		t.Run(name, func(t *testing.T) {
			source := io.MultiReader(strings.NewReader(stream), iotest.ErrReader(errors.New("read on")))
			ev, err := sse.NewReader(source, 0).Next()
			wantError(t, nil, err, "reading")
			wantEqual(t, false, ev.Unterminated, "unterminated")
		})
	}
}

func TestTheLFOfASplitCRLFIsSwallowedLater(t *testing.T) {
	r := sse.NewReader(&chunks{[]byte("data: 1\r\n\r"), []byte("\n"), []byte("data: 2\r"), []byte("\n\r"), []byte("\ndata: 3\r\r\r\n")}, 0)
	got, err := readAll(r)
	wantError(t, nil, err, "reading")
	wantEqual(t, []event{{Data: "1"}, {Data: "2"}, {Data: "3"}}, got, "events")
}

func TestAnErrorOfTheSourceIsReturnedAsItIs(t *testing.T) {
	broken := fmt.Errorf("reading upstream: %w", io.ErrUnexpectedEOF)
	tests := map[string]struct {
		stream string
		want   []event
	}{
		"before anything":         {"", nil},
		"between events":          {ab, abEvents},
		"inside a line":           {ab + "data: {\"c", abEvents},
		"before the blank line":   {ab + "data: {}\n", abEvents},
		"inside a bare object":    {ab + "{\n", abEvents},
		"inside the line end":     {ab + "data: 3\n\r", append(abEvents[:2:2], event{Data: "3"})},
		"after a name":            {ab + "event: x\n", abEvents},
		"with a comment at hand":  {ab + ": ka\n", abEvents},
		"with a half line before": {"dat", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			source := io.MultiReader(strings.NewReader(tc.stream), iotest.ErrReader(broken))
			for how, source := range map[string]io.Reader{"after the data": source, "with the data": iotest.DataErrReader(io.MultiReader(strings.NewReader(tc.stream), iotest.ErrReader(broken)))} {
				r := sse.NewReader(source, 0)
				got, err := readAll(r)
				wantError(t, io.ErrUnexpectedEOF, err, how)
				wantEqual(t, broken, err, how)
				wantEqual(t, tc.want, got, how)
				_, again := r.Next()
				wantEqual(t, err, again, "errors are final")
			}
		})
	}
}

func TestASourceThatNeverReadsAnythingIsGivenUp(t *testing.T) {
	_, err := sse.NewReader(readerFunc(func([]byte) (int, error) { return 0, nil }), 0).Next()
	wantError(t, io.ErrNoProgress, err, "reading")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// B22 a-c: a line may be of any length below the limit.
func TestLongLines(t *testing.T) {
	for _, length := range []int{65_535, 65_536, 1<<20 + 1, 5 << 20} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			before, after := `{"choices":[{"index":0,"delta":{"content":"`, `"}}]}`
			want := before + strings.Repeat("a", length-len("data: ")-len(before)-len(after)) + after
			stream := "data: " + want + "\n\ndata: [DONE]\n\n"
			for how, source := range map[string]io.Reader{
				"whole":             strings.NewReader(stream),
				"in TLS records":    &chunks{[]byte(stream[:16<<10]), []byte(stream[16<<10 : 60<<10]), []byte(stream[60<<10:])},
				"half of each read": iotest.HalfReader(strings.NewReader(stream)),
			} {
				got, err := readAll(sse.NewReader(source, 0))
				wantError(t, nil, err, how)
				wantEqual(t, 2, len(got), how)
				if got[0].Data != want {
					t.Fatalf("%s: %d bytes came back as %d, or altered", how, len(want), len(got[0].Data))
				}
				wantEqual(t, "[DONE]", got[1].Data, how)
			}
		})
	}
}

// B22 d, e: past the limit the stream fails; it does not end.
func TestTheLimit(t *testing.T) {
	const limit = 100
	x := func(n int) string { return strings.Repeat("x", n) }
	tests := map[string]struct {
		stream string
		want   []event
		fails  bool
	}{
		"a line of the limit":                          {"data: " + x(94) + "\r\n\r\n", []event{{Data: x(94)}}, false},
		"a line of the limit at the end":               {"data: " + x(94), []event{{Data: x(94), Unterminated: true}}, false},
		"a line over the limit":                        {"data: " + x(95) + "\n\n", nil, true},
		"a line over the limit after events":           {ab + "data: " + x(95) + "\n\n" + ab, abEvents, true},
		"a line over the limit at the end":             {"data: " + x(95), nil, true},
		"a comment over the limit":                     {":" + x(100) + "\n", nil, true},
		"an event of short lines over the limit":       {strings.Repeat("data: 123456789\n", 11) + "\n", nil, true},
		"an event of short lines below it":             {strings.Repeat("data: 123456789\n", 9) + "\n", []event{{Data: strings.Repeat("123456789\n", 8) + "123456789"}}, false},
		"a bare block over the limit":                  {"{\n" + strings.Repeat("\"abcdefg\",\n", 11), nil, true},
		"comments do not add up":                       {"data: " + x(50) + "\n" + strings.Repeat(": ka\n", 1000) + "\n", []event{{Data: x(50)}}, false},
		"ignored fields do not add up":                 {strings.Repeat("id: 1\n", 1000) + "data: 1\n\n", []event{{Data: "1"}}, false},
		"a comment counts with the data it interrupts": {"data: " + x(94) + "\n: kakaka\n\n", nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for how, source := range map[string]io.Reader{
				"whole":             strings.NewReader(tc.stream),
				"one byte per read": iotest.OneByteReader(strings.NewReader(tc.stream)),
			} {
				r := sse.NewReader(source, limit)
				got, err := readAll(r)
				wantEqual(t, tc.want, got, how)
				if !tc.fails {
					wantError(t, nil, err, how)
					continue
				}
				wantError(t, sse.ErrTooLong, err, how)
				_, err = r.Next()
				wantError(t, sse.ErrTooLong, err, "errors are final")
			}
		})
	}
}

func TestAnEndlessLineCostsNoMoreThanTheLimit(t *testing.T) {
	const limit = 1 << 20
	for name, unit := range map[string]string{"one line": "data: x", "one event of many lines": "data: x\n", "a bare block": "{\n"} {
		t.Run(name, func(t *testing.T) {
			read := 0
			source := readerFunc(func(p []byte) (int, error) {
				n := 0
				for n < len(p) {
					n += copy(p[n:], unit[(read+n)%len(unit):])
				}
				read += n
				return n, nil
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sse.NewReader(source, limit).Next()
			runtime.ReadMemStats(&after)
			wantError(t, sse.ErrTooLong, err, "reading")
			if read > 8*limit {
				t.Errorf("%d bytes taken from the source", read)
			}
			// The buffer doubles up to the limit and ends a little above it: all buffers
			// together are three times the limit.
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 3*limit+limit/4 {
				t.Errorf("%d bytes allocated", bytes)
			}
		})
	}
}

func TestDataIsValidUntilTheNextCallAndCannotReachBeyondItself(t *testing.T) {
	r := sse.NewReader(strings.NewReader(ab), 0)
	first, err := r.Next()
	wantError(t, nil, err, "reading")
	_ = append(first.Data, "\n\ndata: overwritten"...)
	second, err := r.Next()
	wantError(t, nil, err, "reading")
	wantEqual(t, `{"b":2}`, string(second.Data), "second event")
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		ab, strings.ReplaceAll(ab, "\n", "\r\n"), strings.ReplaceAll(ab, "\n", "\r"),
		"\xEF\xBB\xBFdata: {\"t\":\"🌍é漢\"}\n\r\n", "data: {\"a\":\ndata: 1}\n\n", "event: error\ndata: {\"type\":\"error\"}\n\n",
		"id: 7\nretry: 100\ndata: 1", ": ka\ndata:\n\ndata\n\nevent\n\n", "data: 1\n{\n\"e\":2}\ndata: 3\n\n", "[1,\r2]\r\rx\r\n", "{\n\n{\nid\n{",
		"data: " + strings.Repeat("x", 70) + "\n\n", strings.Repeat("data: 1234567\n", 9) + "\n",
	} {
		for _, pattern := range [][]byte{{}, {1}, {3, 0, 7}} {
			f.Add([]byte(seed), pattern, uint16(0))
			f.Add([]byte(seed), pattern, uint16(64))
		}
	}
	f.Fuzz(func(t *testing.T, stream, pattern []byte, limit uint16) {
		whole, wholeErr := readAll(sse.NewReader(bytes.NewReader(stream), int(limit)))
		cut, cutErr := readAll(sse.NewReader(cutUp(stream, pattern), int(limit)))
		wantEqual(t, whole, cut, "the same bytes in other chunks")
		wantEqual(t, wholeErr, cutErr, "the error in other chunks")

		plain := plainEvents(string(stream))
		if wholeErr != nil {
			wantError(t, sse.ErrTooLong, wholeErr, "reading")
			plain = plain[:min(len(whole), len(plain))]
		}
		if len(plain)+len(whole) > 0 {
			wantEqual(t, plain, whole, "against the plain reader")
		}
	})
}

// cutUp returns stream in chunks of the sizes given by pattern, over and over; an
// empty pattern means one byte each.
func cutUp(stream, pattern []byte) io.Reader {
	var c chunks
	for i := 0; len(stream) > 0; i++ {
		n := 1
		if len(pattern) > 0 {
			n = min(int(pattern[i%len(pattern)])+1, len(stream))
		}
		c = append(c, bytes.Clone(stream[:n]))
		stream = stream[n:]
	}
	return &c
}

// plainEvents reads a whole stream without any regard to cost: the oracle.
func plainEvents(stream string) []event {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	var events []event
	var name string
	var data []string
	bare := false
	end := func(unterminated bool) {
		if len(data) > 0 {
			events = append(events, event{name, strings.Join(data, "\n"), bare, unterminated})
		}
		name, data, bare = "", nil, false
	}
	for _, line := range lines[:len(lines)-1] {
		name, data, bare = plainLine(line, name, data, bare, end)
	}
	if last := lines[len(lines)-1]; last != "" {
		name, data, bare = plainLine(last, name, data, bare, end)
	}
	end(true)
	return events
}

func plainLine(line, name string, data []string, bare bool, end func(bool)) (string, []string, bool) {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	known := field == "data" || field == "event" || field == "id" || field == "retry"
	starts := strings.HasPrefix(line, "{") || strings.HasPrefix(line, "[")
	if line == "" || bare && known || len(data) > 0 && !bare && starts {
		end(false)
		name, data, bare = "", nil, false
	}
	switch {
	case strings.HasPrefix(line, ":") || line == "":
	case field == "data":
		data = append(data, value)
	case field == "event":
		name = value
	case starts || bare && !known:
		bare = true
		data = append(data, line)
	}
	return name, data, bare
}

const chunkLine = `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}],"usage":null}`

// An event costs no allocation, however many there are: old and new are to be
// compared by allocs/op, which counts a whole stream of 1000 events.
func BenchmarkReader(b *testing.B) {
	for name, one := range map[string]string{
		"data":  "data: " + chunkLine + "\n\n",
		"named": "event: content_block_delta\ndata: " + chunkLine + "\n\n",
		"crlf":  "data: " + chunkLine + "\r\n\r\n",
	} {
		stream := strings.Repeat(one, 1000)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(stream)))
			var source strings.Reader
			for b.Loop() {
				source.Reset(stream)
				r := sse.NewReader(&source, 0)
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}

func TestAnEventIsNotAllocated(t *testing.T) {
	r := sse.NewReader(strings.NewReader(strings.Repeat("event: content_block_delta\ndata: "+chunkLine+"\n\n", 2000)), 0)
	_, err := r.Next() // buys the buffer and the name
	wantError(t, nil, err, "reading")
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	})
	wantEqual(t, 0.0, allocs, "allocations")
}
