package runtimeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// Lambda counts how often a function was invoked because of one cause, and stops the next invocation after 16. The count
// goes along in the Lineage of the trace header: the function's environment has it, the AWS SDK sends it as X-Amzn-Trace-Id,
// SQS keeps it as the attribute AWSTraceHeader of the message, and the next invocation starts from there. Only a loop through
// one queue is counted here.
// https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html (2026-11). How Lambda counts a batch is not
// documented: here the message with the most counts.
const (
	maxInvocations = 16
	traceHeader    = "X-Amzn-Trace-Id"
	traceAttribute = "AWSTraceHeader"
)

// loopID names the loop of a queue and the function that it invokes.
func loopID(queueARN string) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, queueARN) // a hash takes everything
	return fmt.Sprintf("%08x", h.Sum32())
}

// invocations is how often the function has been invoked on the way to a message with that trace header.
func invocations(queueARN, trace string) int {
	for part := range strings.SplitSeq(trace, ";") {
		counts, ok := strings.CutPrefix(strings.TrimSpace(part), "Lineage=")
		if !ok {
			continue
		}
		for count := range strings.FieldsFuncSeq(counts, func(r rune) bool { return r == '|' || r == ',' }) {
			if id, n, _ := strings.Cut(count, ":"); id == loopID(queueARN) {
				times, err := strconv.Atoi(n)
				if err != nil {
					return 0 // not ours
				}
				return times
			}
		}
	}
	return 0
}

// nextTrace is the trace header of the invocation with that batch.
func nextTrace(queueARN string, batch []Message) string {
	most := 0
	for _, m := range batch {
		most = max(most, invocations(queueARN, m.Attributes[traceAttribute]))
	}
	return fmt.Sprintf("%s;Lineage=%s:%d", newTraceID(), loopID(queueARN), most+1)
}

// withoutLoops leaves out the messages whose chain has been going on for too long. Lambda sends them to the dead-letter
// queue, if there is one, and drops them else; here they stay in the queue until its RedrivePolicy does that.
func (s EventSource) withoutLoops(batch []Message, log *lines) []Message {
	if s.AllowLoop {
		return batch
	}
	var kept []Message
	for _, m := range batch {
		if invocations(s.QueueARN, m.Attributes[traceAttribute]) < maxInvocations {
			kept = append(kept, m)
			continue
		}
		log.printf("message %s of %s is stopped: a recursive loop of %d invocations (RecursiveLoop: Allow lets it go on)", m.ID, s.QueueARN, maxInvocations)
	}
	return kept
}

// adopt makes of the attribute that KeepTraces added what SQS would have made.
func adopt(batch []Message) {
	for i, m := range batch {
		trace, ok := m.Named[traceAttribute]
		if !ok {
			continue
		}
		batch[i].Attributes, batch[i].Named = maps.Clone(m.Attributes), maps.Clone(m.Named)
		if batch[i].Attributes == nil {
			batch[i].Attributes = map[string]string{}
		}
		batch[i].Attributes[traceAttribute] = trace.Text
		delete(batch[i].Named, traceAttribute)
	}
}

// KeepTraces is what SQS does with the trace header of a SendMessage, before an emulator that does not: it puts it on the
// message, as a message attribute, since that is what emulators keep, and an EventSource takes it from there.
func KeepTraces(sqs http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trace := r.Header.Get(traceHeader)
		if trace == "" || r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage" {
			sqs.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
		if err != nil {
			http.Error(w, "the call is too long", http.StatusRequestEntityTooLarge)
			return
		}
		r = r.Clone(r.Context())
		body = withTrace(body, trace)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		sqs.ServeHTTP(w, r)
	})
}

// withTrace adds the attribute to a call. What is not a call stays as it is, for the emulator to refuse.
func withTrace(call []byte, trace string) []byte {
	var in map[string]any
	if json.Unmarshal(call, &in) != nil || in == nil {
		return call
	}
	named, _ := in["MessageAttributes"].(map[string]any)
	if named == nil {
		named = map[string]any{}
	}
	named[traceAttribute] = map[string]string{"DataType": "String", "StringValue": trace}
	in["MessageAttributes"] = named
	out, err := json.Marshal(in)
	if err != nil {
		return call
	}
	return out
}
