package answer

const geminiModel = "bench-gemini"

// Gemini is Google's generateContent, in the members and the order of its own (2026-11).
var Gemini = &Format{
	Name: "Gemini's generateContent", Model: geminiModel,
	Path: func(stream bool) string {
		if stream {
			return "/v1/models/" + geminiModel + ":streamGenerateContent?alt=sse"
		}
		return "/v1/models/" + geminiModel + ":generateContent"
	},
	Ask: func(bool) string {
		return `{"systemInstruction":{"parts":[{"text":"` + system + `"}]},"contents":[{"role":"user","parts":[{"text":"` + question + `"}]}],` +
			`"generationConfig":{"maxOutputTokens":256,"temperature":0.2}}`
	},
	Plain:        []byte(candidate(sentence, `"finishReason":"STOP",`, `,"candidatesTokenCount":14,"totalTokenCount":54`)),
	Opening:      geminiFrame("", ""),
	Chunks:       chunks(func(word string) []byte { return geminiFrame(word, "") }),
	Closing:      geminiFrame("", `"finishReason":"STOP",`),
	FirstContent: `"text": "The"`,
	End:          string(geminiFrame("", `"finishReason":"STOP",`)),
}

func geminiFrame(text, finish string) []byte {
	counts := ""
	if finish != "" {
		counts = `,"candidatesTokenCount":14,"totalTokenCount":54`
	}
	return []byte("data: " + candidate(text, finish, counts) + "\r\n\r\n")
}

func candidate(text, finish, counts string) string {
	return `{"candidates": [{"content": {"parts": [{"text": "` + text + `"}],"role": "model"},` + finish + `"index": 0}],` +
		`"usageMetadata": {"promptTokenCount": 40` + counts + `},"modelVersion": "` + geminiModel + `","responseId": "benchbench"}`
}
