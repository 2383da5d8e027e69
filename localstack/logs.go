package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A functionLog keeps everything that a function writes in a file and shows on the terminal what a person should see:
// its warnings and errors in one line each, and whatever is not a JSON record, such as a panic. The caller serialises
// writes.
type functionLog struct {
	name           string
	file, terminal io.Writer
	pending        []byte // a line that has not ended yet
}

func (l *functionLog) Write(p []byte) (int, error) {
	if _, err := l.file.Write(p); err != nil {
		return 0, fmt.Errorf("writing the log of %s: %w", l.name, err)
	}
	l.pending = append(l.pending, p...)
	for {
		line, rest, ended := bytes.Cut(l.pending, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		if text := forTerminal(line); text != "" {
			fmt.Fprintf(l.terminal, "%s: %s\n", l.name, text)
		}
		l.pending = rest
	}
}

// forTerminal is a line of a log as it is shown to a person, or "" if it is not.
func forTerminal(line []byte) string {
	var record struct{ Level, Msg string }
	if err := json.Unmarshal(line, &record); err != nil {
		return string(line)
	}
	if record.Level != "WARN" && record.Level != "ERROR" {
		return ""
	}
	return record.Level + " " + record.Msg + attributes(line)
}

// fileOnly are members that a person looks up in the file, if at all.
var fileOnly = map[string]bool{"time": true, "level": true, "msg": true, "policy_version": true, "provider_request_id": true,
	"credential": true, "channel": true, "route": true, "max_attempts": true, "type": true, "evidence": true}

// attributes are the members of a record in their order, without those that say nothing.
func attributes(record []byte) string {
	var out strings.Builder
	decoder := json.NewDecoder(bytes.NewReader(record))
	_, _ = decoder.Token() // the record is an object: it was decoded before
	for decoder.More() {
		token, _ := decoder.Token()
		name := fmt.Sprint(token)
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			break
		}
		switch text := string(value); {
		case fileOnly[name]:
		case text == `""` || text == "0" || text == "false" || text == "null":
		case strings.HasPrefix(text, `"`) && !strings.ContainsAny(text, `\ =`):
			fmt.Fprintf(&out, " %s=%s", name, strings.Trim(text, `"`))
		default:
			fmt.Fprintf(&out, " %s=%s", name, text)
		}
	}
	return out.String()
}
