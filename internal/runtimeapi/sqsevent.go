package runtimeapi

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// sqsRecord is a message as Lambda hands it to a function.
// https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html (2026-11)
type sqsRecord struct {
	MessageID         string                  `json:"messageId"`
	ReceiptHandle     string                  `json:"receiptHandle"`
	Body              string                  `json:"body"`
	Attributes        map[string]string       `json:"attributes"`
	MessageAttributes map[string]sqsAttribute `json:"messageAttributes"`
	MD5OfBody         string                  `json:"md5OfBody"`
	EventSource       string                  `json:"eventSource"`
	EventSourceARN    string                  `json:"eventSourceARN"`
	AWSRegion         string                  `json:"awsRegion"`
}

type sqsAttribute struct {
	StringValue      *string    `json:"stringValue,omitempty"`
	BinaryValue      []byte     `json:"binaryValue,omitempty"`
	StringListValues []struct{} `json:"stringListValues"` // both are never filled
	BinaryListValues []struct{} `json:"binaryListValues"`
	DataType         string     `json:"dataType"`
}

// sqsEvent is the event of a batch.
func sqsEvent(queueARN string, batch []Message) ([]byte, error) {
	var event struct{ Records []sqsRecord }
	for _, m := range batch {
		sum := md5.Sum([]byte(m.Body))
		r := sqsRecord{MessageID: m.ID, ReceiptHandle: m.ReceiptHandle, Body: m.Body, Attributes: m.Attributes, MessageAttributes: map[string]sqsAttribute{},
			MD5OfBody: hex.EncodeToString(sum[:]), EventSource: "aws:sqs", EventSourceARN: queueARN, AWSRegion: strings.Split(queueARN, ":")[3]}
		if r.Attributes == nil {
			r.Attributes = map[string]string{}
		}
		for name, a := range m.Named {
			r.MessageAttributes[name] = a.record()
		}
		event.Records = append(event.Records, r)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(event); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func (a MessageAttribute) record() sqsAttribute {
	made := sqsAttribute{StringListValues: []struct{}{}, BinaryListValues: []struct{}{}, DataType: a.Type}
	if strings.HasPrefix(a.Type, "Binary") {
		made.BinaryValue = a.Binary
	} else {
		made.StringValue = &a.Text
	}
	return made
}

// itemFailures reads which messages of the batch the function reports as failed. No report, an empty and a null one mean
// that none has. An answer that is not JSON, an identifier that is missing, null, empty, not text or not of the batch is
// an error: the whole batch has failed.
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html (2026-11); what it says of an identifier
// that is not of the batch could not be found, so the stricter reading is taken.
func itemFailures(answer []byte, batch []Message) (map[string]bool, error) {
	failed := map[string]bool{}
	if len(bytes.TrimSpace(answer)) == 0 {
		return failed, nil
	}
	// Maps, because the members of a struct would match whatever their case.
	var report map[string]json.RawMessage
	if err := decodeWhole(answer, &report); err != nil {
		return nil, fmt.Errorf("reading the report of item failures: %w", err)
	}
	var items []map[string]json.RawMessage
	if list, ok := report["batchItemFailures"]; ok {
		if err := json.Unmarshal(list, &items); err != nil {
			return nil, fmt.Errorf("reading the report of item failures: %w", err)
		}
	}
	inBatch := map[string]bool{}
	for _, m := range batch {
		inBatch[m.ID] = true
	}
	for _, f := range items {
		var id string
		if err := json.Unmarshal(f["itemIdentifier"], &id); err != nil {
			return nil, errors.New("reading the report of item failures: an item without an itemIdentifier that is text")
		}
		if !inBatch[id] {
			return nil, fmt.Errorf("reading the report of item failures: %q is no message of the batch", id)
		}
		failed[id] = true
	}
	return failed, nil
}

func decodeWhole(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}
