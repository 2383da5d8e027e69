package simulate

import (
	"encoding/json"
	"testing"
)

// FuzzParse feeds every format's reader. What it takes can be answered: each event is
// JSON, so is the body, and a refusal has a status.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"weather"}],"tools":[{"type":"function","function":{"name":"f"}}],"n":2}`,
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"weather"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"a","name":"f","arguments":""},{"type":"function_call_output","call_id":"a","output":"y"}]}`,
		`{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"responseMimeType":"application/json","maxOutputTokens":2}}`,
		`{"model":"m","max_tokens":-1,"messages":[null],"tools":[null],"tool_choice":null}`, `{`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, w := range []wire{openAIChat{}, openAIResponses{}, anthropic{}, gemini{model: "m"}, gemini{model: "m", stream: true, events: true}} {
			w.peek(body)
			r, bad := w.parse(body)
			if bad != nil {
				if status := w.refuse(*bad, 1).Status; status < 400 {
					t.Fatalf("%T refuses with %d", w, status)
				}
				continue
			}
			r.choices = min(r.choices, 3) // what many choices cost is not the question
			checkDraft(t, w.answer(r.answer(1, 0)))
			checkDraft(t, w.empty(r.answer(1, 0)))
			checkDraft(t, w.failed(r.answer(1, 0), overloaded.failure()))
		}
	})
}

// FuzzOrder feeds every studio's reader. What it takes has a prompt, and can be answered for every conduct; a refusal has a
// status, and both are JSON.
func FuzzOrder(f *testing.F) {
	for _, seed := range []string{
		`{"instances":[{"prompt":"p","image":{"bytesBase64Encoded":"aGk=","mimeType":"image/png"}}],"parameters":{"durationSeconds":8,"sampleCount":1}}`,
		`{"instances":[null]}`, `{"prompt":"p","duration":"8s","image_url":"https://x.test/a","seed":1}`,
		`{"prompt":"p","model_id":"sim-music","music_length_ms":30000.5,"force_instrumental":true}`, `{"prompt":"p","x":1}`, `{`, `null`, ``,
	} {
		f.Add([]byte(seed), "/models/m:predictLongRunning")
		f.Add([]byte(seed), "/m/requests/x/status")
		f.Add([]byte(seed), "/music")
	}
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		for _, s := range studios {
			if e := s.read(path, body); e.deed != "" && verbs[e.deed] == "" {
				t.Fatalf("%T wants to %q", s, e.deed)
			}
			prompt, bad := s.judge(body, nil)
			if bad != nil {
				if r := s.refuse(*bad); r.Status < 400 || !json.Valid([]byte(r.Body)) {
					t.Fatalf("%T refuses with %d: %s", s, r.Status, r.Body)
				}
				continue
			}
			if prompt == "" {
				t.Fatalf("%T takes an order without a prompt", s)
			}
			for _, row := range jobConducts {
				var b books
				j := b.begin(Job{API: s.name(), Model: "m", Prompt: prompt}, row.conduct, 0)
				if r := s.accepted(errand{}, j); r.work == nil && r.End == Complete && !json.Valid([]byte(r.Body)) {
					t.Fatalf("%T answers %s", s, r.Body)
				}
				for _, d := range []deed{polls, collects, cancels} {
					if r := s.tell(errand{deed: d}, j); !json.Valid([]byte(r.Body)) {
						t.Fatalf("%T answers %s", s, r.Body)
					}
				}
			}
		}
	})
}

func checkDraft(t *testing.T, d draft) {
	t.Helper()
	if !json.Valid([]byte(d.plain)) {
		t.Fatalf("a body that is no JSON: %s", d.plain)
	}
	for _, part := range [][]frame{d.open, d.content, d.finish, d.done} {
		for _, f := range part {
			if f.data != "[DONE]" && !json.Valid([]byte(f.data)) {
				t.Fatalf("an event that is no JSON: %s", f.data)
			}
		}
	}
}
