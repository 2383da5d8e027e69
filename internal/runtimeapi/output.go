package runtimeapi

import (
	"io"
	"strings"
	"sync"
)

// output serialises the writes of many processes. It never fails: a broken log must not stop a function.
type output struct {
	mu *sync.Mutex // shared by both streams of a function, which may be one writer
	w  io.Writer
}

func newOutputs(stdout, stderr io.Writer) (output, output) {
	mu := new(sync.Mutex)
	return output{mu, stdout}, output{mu, stderr}
}

func (o output) Write(p []byte) (int, error) {
	if o.w == nil {
		return len(p), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.w.Write(p)
	return len(p), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if extra := len(t.last) - tailSize; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}
