// Package state is the state that environments share, on this machine: the gateway's tables and its bucket in an emulator in
// this process, and in front of it a wire on which every call can be seen, held back, cut off before it is done or after,
// and answered by nobody.
//
// A process is killed at an exact step of its journey from outside, with nothing of the kind in the product: a Watch ends it
// in the moment in which its call passes.
package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sivchari/kumo"
)

// Names are the tables and the bucket, and with OpenJobs the table of jobs and the queues of their polls, of those that wait to be
// submitted and of the callbacks to be told.
type Names struct {
	Idempotency, Health, Requests, Results string
	Jobs, Polls, Generate, Webhooks        string
}

// emulator is the one of this process, which it lives as long as: all that are made in one process share what they hold, and
// must not be made at the same time.
var emulator = sync.OnceValue(kumo.NewServer)

// opened counts the states of this process. Each has names of its own.
var opened atomic.Int64

func (n Names) tables() []string {
	all := []string{n.Idempotency, n.Health, n.Requests}
	if n.Jobs != "" {
		all = append(all, n.Jobs)
	}
	return all
}

// Queues are the queues without their dead-letter queues; none without jobs.
func (n Names) Queues() []string {
	if n.Jobs == "" {
		return nil
	}
	return []string{n.Polls, n.Generate, n.Webhooks}
}

func newNames() Names {
	n := "-" + strconv.FormatInt(opened.Add(1), 10)
	return Names{Idempotency: "idempotency" + n, Health: "health" + n, Requests: "requests" + n, Results: "results" + n}
}

func (n Names) withJobs() Names {
	_, number, _ := strings.Cut(n.Idempotency, "-")
	n.Jobs, n.Polls, n.Generate, n.Webhooks = "jobs-"+number, "polls-"+number, "generate-"+number, "webhooks-"+number
	return n
}

// Call is one call of a store as it came in.
type Call struct {
	// Operation is what DynamoDB, SQS or S3 calls it: PutItem, SendMessage, PutObject.
	Operation string
	// Table is the table, the queue or the bucket.
	Table string
	// Body is what came with it. Of an object it is only to be had while the call is watched.
	Body []byte
	At   time.Time
	// Status is what it was answered with, once it is applied; 0 before.
	Status int
	object bool // it is of the bucket
}

// remembered is the call without what would fill the memory.
func (c Call) remembered() Call {
	if c.object {
		c.Body = nil
	}
	return c
}

// Moment is where a call is.
type Moment string

const (
	// Arrived: nothing of it is done yet.
	Arrived Moment = "arrived"
	// Applied: it is done, and its caller does not know.
	Applied Moment = "applied"
)

// Watch sees each call in each moment, and may hold it there as long as it likes: a call that is held when it arrives is done
// afterwards, even if its caller has left. false cuts the caller off: without its call done when that arrives, without an
// answer when it is applied. Calls are watched at the same time.
type Watch func(Call, Moment) bool

// State is the tables, the bucket and the wire. It is safe for concurrent use. Close must be called.
type State struct {
	Names Names

	wire  *http.Server
	proxy *httputil.ReverseProxy
	url   string
	over  chan struct{} // closed when the wire is

	mu    sync.Mutex
	watch Watch         // nil: nobody
	delay time.Duration // of each answer
	calls []Call
}

// Open makes the tables and the bucket, empty, with the keys that the template gives them.
func Open() (*State, error) {
	s := &State{Names: newNames(), over: make(chan struct{})}
	if err := s.create(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for calls of the store: %w", err)
	}
	target, err := url.Parse(emulator().URL)
	if err != nil {
		panic("state: the emulator's address: " + err.Error()) // it has just made it
	}
	s.proxy = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		ModifyResponse: s.applied,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s.url = "http://" + listener.Addr().String()
	s.wire = &http.Server{Handler: http.HandlerFunc(s.pass), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(s.over)
		_ = s.wire.Serve(listener) // ends with the wire
	}()
	return s, nil
}

// Close ends the wire and drops the tables. Watches that hold a call must let go of it.
func (s *State) Close() {
	_ = s.wire.Close()
	<-s.over
	for _, table := range s.Names.tables() {
		_ = s.dynamo("DeleteTable", map[string]any{"TableName": table}, nil) // what is left goes with the process
	}
	s.closeJobs()
}

// Env is what a function's environment says of the state, as "NAME=value".
func (s *State) Env() []string {
	return append([]string{
		"SPILLWAY_IDEMPOTENCY_TABLE=" + s.Names.Idempotency, "SPILLWAY_HEALTH_TABLE=" + s.Names.Health, "SPILLWAY_REQUESTS_TABLE=" + s.Names.Requests,
		"SPILLWAY_RESULTS_BUCKET=" + s.Names.Results, "AWS_ENDPOINT_URL=" + s.url,
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local",
	}, s.jobsEnv()...)
}

// Watch sets who watches from now on; nil: nobody.
func (s *State) Watch(w Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = w
}

// Delay has each call arrive so much later from now on; one whose caller leaves before that is lost.
func (s *State) Delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Refuse cuts off every call before it is done, as a store does that is down.
func Refuse(Call, Moment) bool { return false }

// Calls are those that came in since the beginning, in the order of their arrival.
func (s *State) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// callOf is the key of a request's call in its context.
type callOf struct{}

// pass lets one call through.
func (s *State) pass(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // its caller has died over it
	}
	call := newCall(r, body)
	s.mu.Lock()
	s.calls = append(s.calls, call.remembered())
	watch, delay := s.watch, s.delay
	s.mu.Unlock()
	if !pause(r.Context(), delay) {
		panic(http.ErrAbortHandler)
	}
	if watch != nil && !watch(call, Arrived) {
		panic(http.ErrAbortHandler)
	}
	// What has arrived is done, whether or not its caller is still there. A context that cannot be cancelled would have the
	// proxy look after the caller by itself.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	r = r.WithContext(context.WithValue(ctx, callOf{}, call))
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.proxy.ServeHTTP(w, r)
}

// pause waits for d and reports whether ctx lasted as long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errCut = errors.New("the caller was cut off")

func (s *State) applied(resp *http.Response) error {
	s.mu.Lock()
	watch := s.watch
	s.mu.Unlock()
	call, _ := resp.Request.Context().Value(callOf{}).(Call)
	if resp.StatusCode == http.StatusBadRequest && bytes.Contains(call.Body, []byte(`"ALL_OLD"`)) {
		if err := s.addItem(resp, call); err != nil {
			return err
		}
	}
	call.Status = resp.StatusCode
	if watch != nil && !watch(call, Applied) {
		return errCut
	}
	return nil
}

// addItem adds to a refused condition the item that stands there, which DynamoDB returns when asked to and the emulator does
// not. https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_PutItem.html (2026-11)
func (s *State) addItem(resp *http.Response, call Call) error {
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return fmt.Errorf("reading a refusal: %w", err)
	}
	var in struct{ Key, Item map[string]json.RawMessage }
	var refusal map[string]json.RawMessage
	if bytes.Contains(body, []byte("ConditionalCheckFailedException")) && json.Unmarshal(call.Body, &in) == nil && json.Unmarshal(body, &refusal) == nil {
		id := in.Key["id"]
		if id == nil {
			id = in.Item["id"]
		}
		var out struct{ Item json.RawMessage }
		get := map[string]any{"TableName": call.Table, "ConsistentRead": true, "Key": map[string]json.RawMessage{"id": id}}
		if err := s.dynamo("GetItem", get, &out); err != nil {
			return fmt.Errorf("reading what was there: %w", err)
		}
		if out.Item != nil {
			refusal["Item"] = out.Item
			if body, err = json.Marshal(refusal); err != nil {
				return fmt.Errorf("writing a refusal: %w", err)
			}
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	resp.Header.Del("X-Amz-Crc32") // of what it was
	return nil
}

func newCall(r *http.Request, body []byte) Call {
	c := Call{Body: body, At: time.Now()}
	if _, operation, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		var in struct{ TableName, QueueURL string }
		_ = json.Unmarshal(body, &in) // what is no JSON has no table
		c.Operation, c.Table = operation, cmp.Or(in.TableName, queueName(in.QueueURL))
		return c
	}
	c.object = true
	c.Table, _, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c.Operation = cmp.Or(map[string]string{http.MethodPut: "PutObject", http.MethodGet: "GetObject"}[r.Method], r.Method)
	return c
}

func (s *State) create() error {
	for _, table := range s.Names.tables() {
		err := s.dynamo("CreateTable", map[string]any{"TableName": table, "BillingMode": "PAY_PER_REQUEST",
			"AttributeDefinitions": []any{map[string]string{"AttributeName": "id", "AttributeType": "S"}},
			"KeySchema":            []any{map[string]string{"AttributeName": "id", "KeyType": "HASH"}}}, nil)
		if err != nil {
			return fmt.Errorf("making the table %s: %w", table, err)
		}
	}
	if _, err := s.ask(http.MethodPut, "/"+s.Names.Results, "", nil); err != nil {
		return fmt.Errorf("making the bucket: %w", err)
	}
	return nil
}

// Item is an item of a table: a string is there as it is, a number as its digits, other values are left out.
type Item map[string]string

// Items reads a table, past the wire.
func (s *State) Items(table string) ([]Item, error) {
	var out struct {
		Items []map[string]struct{ S, N *string }
	}
	if err := s.dynamo("Scan", map[string]any{"TableName": table, "ConsistentRead": true}, &out); err != nil {
		return nil, fmt.Errorf("reading the table %s: %w", table, err)
	}
	var all []Item
	for _, attributes := range out.Items {
		item := Item{}
		for name, value := range attributes {
			if text := cmp.Or(value.S, value.N); text != nil {
				item[name] = *text
			}
		}
		all = append(all, item)
	}
	return all, nil
}

// dynamo makes one call of the emulator's DynamoDB.
func (s *State) dynamo(operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding a call: %w", err)
	}
	answer, err := s.ask(http.MethodPost, "/", "DynamoDB_20120810."+operation, body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("decoding an answer: %w", err)
	}
	return nil
}

// ask makes one request of the emulator.
func (s *State) ask(method, path, target string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, emulator().URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if target != "" {
		req.Header.Set("X-Amz-Target", target)
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return answer, err
}
