package storetest

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// MemoryWorks keeps works until its process ends. As an http.Handler it serves its own links. The zero value is ready to use,
// with links that lead nowhere. Safe for concurrent use.
type MemoryWorks struct {
	// Base is the address at which it is served, without a slash at the end; empty: https://works.invalid.
	Base string

	mu    sync.Mutex
	works map[string]memoryWork
	links map[string]memoryLink
}

type memoryWork struct {
	contentType string
	body        []byte
}

type memoryLink struct {
	name, contentType, disposition string
	end                            time.Time
}

// Put implements jobs.Objects.
func (m *MemoryWorks) Put(ctx context.Context, name, contentType string, body io.Reader, size int64) error {
	b, err := io.ReadAll(body)
	switch {
	case err != nil:
		return fmt.Errorf("reading a work: %w", err)
	case size >= 0 && int64(len(b)) != size:
		return errors.New("reading a work: it has not the size that it was said to have")
	case ctx.Err() != nil:
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.works == nil {
		m.works, m.links = map[string]memoryWork{}, map[string]memoryLink{}
	}
	m.works[name] = memoryWork{contentType: contentType, body: b}
	return nil
}

// Open implements jobs.Objects.
func (m *MemoryWorks) Open(ctx context.Context, name string) (body io.ReadCloser, size int64, contentType string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.works[name]
	switch {
	case ctx.Err() != nil:
		return nil, 0, "", ctx.Err()
	case !ok:
		return nil, 0, "", fmt.Errorf("opening a work: %w", fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(w.body)), int64(len(w.body)), w.contentType, nil
}

// Link makes a link, as s3store.Works does. No two are the same.
func (m *MemoryWorks) Link(_ context.Context, name, contentType, filename string, ttl time.Duration) (string, error) {
	if ttl < time.Second || ttl > time.Hour {
		return "", errors.New("making a link: its time is not between 1 s and 1 h")
	}
	l := memoryLink{name: name, contentType: contentType, end: time.Now().Add(ttl)}
	if filename != "" {
		l.disposition = mime.FormatMediaType("attachment", map[string]string{"filename": filename})
	}
	token, base := cryptorand.Text(), m.Base
	if base == "" {
		base = "https://works.invalid"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.links == nil {
		m.works, m.links = map[string]memoryWork{}, map[string]memoryLink{}
	}
	m.links[token] = l
	return base + "/" + token, nil
}

// ServeHTTP serves the links that were made.
func (m *MemoryWorks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	l, linked := m.links[strings.TrimPrefix(r.URL.Path, "/")]
	work, ok := m.works[l.name]
	m.mu.Unlock()
	switch {
	case !linked || time.Now().After(l.end):
		w.WriteHeader(http.StatusForbidden)
		return
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if l.contentType == "" {
		l.contentType = work.contentType
	}
	w.Header().Set("Content-Type", l.contentType)
	if l.disposition != "" {
		w.Header().Set("Content-Disposition", l.disposition)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(work.body))
}

// Names are the works that are kept, in no order.
func (m *MemoryWorks) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for name := range m.works {
		all = append(all, name)
	}
	return all
}
