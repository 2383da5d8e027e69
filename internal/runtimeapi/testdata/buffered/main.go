// A buffered function on aws-lambda-go: it answers an event's "answer" member as it is, or fails as told.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"
)

type event struct {
	Body string `json:"body"` // of a function URL event; JSON of this same shape

	Answer json.RawMessage `json:"answer"`
	Fail   string          `json:"fail"`
	Size   int             `json:"size"` // answers a string of that many bytes
}

func main() {
	lambda.Start(func(_ context.Context, e event) (json.RawMessage, error) {
		if e.Body != "" {
			if err := json.Unmarshal([]byte(e.Body), &e); err != nil {
				return nil, err
			}
		}
		switch {
		case e.Fail != "":
			return nil, fmt.Errorf("told to fail: %s", e.Fail)
		case e.Size > 0:
			return json.RawMessage(`"` + strings.Repeat("x", e.Size-2) + `"`), nil
		}
		return e.Answer, nil
	})
}
