// Command echo is the least that a streaming function can be: it answers at once with what package answer holds, and calls
// nobody. What a request costs behind it is what the platform and aws-lambda-go cost.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"spillway/internal/simulate/bench/answer"
)

func main() { lambda.Start(handle) }

func handle(_ context.Context, event json.RawMessage) (*events.LambdaFunctionURLStreamingResponse, error) {
	if !answer.Streams(event) {
		return reply("application/json", bytes.NewReader(answer.OpenAI.Plain)), nil
	}
	body, w := io.Pipe()
	go func() {
		err := answer.OpenAI.Stream(event, func(frame []byte) error {
			_, err := w.Write(frame)
			return err
		})
		_ = w.CloseWithError(err)
	}()
	return reply("text/event-stream", body), nil
}

func reply(contentType string, body io.Reader) *events.LambdaFunctionURLStreamingResponse {
	return &events.LambdaFunctionURLStreamingResponse{StatusCode: 200, Headers: map[string]string{"Content-Type": contentType}, Body: body}
}
