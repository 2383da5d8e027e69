// A streaming function on aws-lambda-go. The path of the request says how it behaves, and gates (files that the test
// creates) say when it goes on, so that the tests need no clock.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	var options []lambda.Option
	if file := os.Getenv("TERM_FILE"); file != "" {
		options = append(options, lambda.WithEnableSIGTERM(func() { touch(file) }))
	}
	lambda.StartWithOptions(handle, options...)
}

func handle(_ context.Context, event json.RawMessage) (*events.LambdaFunctionURLStreamingResponse, error) {
	var request events.LambdaFunctionURLRequest
	if err := json.Unmarshal(event, &request); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(request.RawQueryString)
	if err != nil {
		return nil, err
	}
	dir := query.Get("dir")
	switch request.RawPath {
	case "/head":
		return &events.LambdaFunctionURLStreamingResponse{
			StatusCode: 418,
			Headers:    map[string]string{"Content-Type": "text/x-tea", "X-Pot": "short", "Content-Length": "3"},
			Cookies:    []string{"a=1; Path=/", "b=2"},
			Body:       strings.NewReader("short and stout"),
		}, nil
	case "/pid":
		return text(fmt.Sprint(os.Getpid())), nil
	case "/bytes":
		size, err := strconv.Atoi(query.Get("size"))
		return text(strings.Repeat("x", size)), err
	case "/environ":
		return text(strings.Join(os.Environ(), "\n")), nil
	case "/refused":
		return nil, errors.New("refused")
	case "/dead":
		fmt.Fprintln(os.Stderr, "dying before the prelude")
		os.Exit(3)
	case "/stall":
		time.Sleep(time.Hour)
	case "/gated": // one tick at once, and one more for each gate
		return stream(func(w *io.PipeWriter) {
			for i := range 3 {
				fmt.Fprintf(w, "tick %d\n", i)
				waitFor(filepath.Join(dir, fmt.Sprint(i)))
			}
			w.Close()
		}), nil
	case "/broken": // an error after the first bytes
		return stream(func(w *io.PipeWriter) {
			fmt.Fprintln(w, "partial")
			w.CloseWithError(errors.New("upstream died"))
		}), nil
	case "/panic": // a panic in a goroutine after the first bytes
		return stream(func(w *io.PipeWriter) {
			fmt.Fprintln(w, "partial")
			waitFor(filepath.Join(dir, "panic"))
			panic("nobody recovers this")
		}), nil
	case "/hang":
		return stream(func(w *io.PipeWriter) {
			fmt.Fprintln(w, "begun")
			time.Sleep(time.Hour)
		}), nil
	case "/flood": // more than any socket buffer takes
		return stream(func(w *io.PipeWriter) {
			fmt.Fprintln(w, "begun")
			waitFor(filepath.Join(dir, "flood"))
			block := make([]byte, 64<<10)
			for range 512 {
				if _, err := w.Write(block); err != nil {
					panic(err)
				}
			}
			touch(filepath.Join(dir, "written"))
			w.Close()
		}), nil
	case "/leave": // leaves a goroutine behind that counts in a file
		go count(filepath.Join(dir, "count"))
		return text("left"), nil
	}
	return &events.LambdaFunctionURLStreamingResponse{
		Headers: map[string]string{"Content-Type": "application/json"},
		Body:    strings.NewReader(string(event)),
	}, nil
}

func text(body string) *events.LambdaFunctionURLStreamingResponse {
	return &events.LambdaFunctionURLStreamingResponse{Body: strings.NewReader(body)}
}

func stream(write func(*io.PipeWriter)) *events.LambdaFunctionURLStreamingResponse {
	r, w := io.Pipe()
	go write(w)
	return &events.LambdaFunctionURLStreamingResponse{
		Headers: map[string]string{"Content-Type": "text/event-stream"},
		Body:    r,
	}
}

func count(file string) {
	f, err := os.Create(file)
	if err != nil {
		panic(err)
	}
	for {
		if _, err := f.WriteString("."); err != nil {
			panic(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func waitFor(file string) {
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func touch(file string) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		panic(err)
	}
}
