package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// sent is a request as it reached the upstream.
type sent struct {
	method, path, query string
	header              http.Header
	body                []byte
}

// upstream is a provider that gives every call the same answer, keeps what it was sent, and does not bear a call more than
// the test expects.
type upstream struct {
	t      *testing.T
	url    string
	mu     sync.Mutex
	answer func(stream bool) (mediaType, body string)
	stream bool
	left   int
	sent   []sent
}

// listen starts an upstream that lives as long as the test.
func listen(t *testing.T) *upstream {
	u := &upstream{t: t}
	server := httptest.NewServer(u)
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// expect makes it ready for so many calls, and no more.
func (u *upstream) expect(calls int, stream bool, answer func(stream bool) (mediaType, body string)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left, u.stream, u.answer, u.sent = calls, stream, answer, nil
}

// got are the calls since expect.
func (u *upstream) got() []sent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sent
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent = append(u.sent, sent{r.Method, r.URL.Path, r.URL.RawQuery, r.Header, body})
	if u.left--; u.left < 0 || err != nil {
		u.t.Errorf("a call too many, or one that broke off (%v): %s %s", err, r.URL, body)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	media, answer := u.answer(u.stream)
	w.Header().Set("Content-Type", media)
	_, _ = io.WriteString(w, answer)
}

// differences lists what one JSON text has and another has not, or has otherwise: a path, and both values.
func differences(t *testing.T, a, b []byte) (all []string) {
	t.Helper()
	var one, other any
	for text, into := range map[*[]byte]*any{&a: &one, &b: &other} {
		if err := json.Unmarshal(*text, into); err != nil {
			t.Fatalf("%v: %s", err, *text)
		}
	}
	compare("", one, other, func(at string, one, other any) {
		left, _ := json.Marshal(one) // they were JSON
		right, _ := json.Marshal(other)
		all = append(all, at+": "+string(left)+" became "+string(right))
	})
	return all
}

// compare calls back for each place that differs. What is not there is null.
func compare(at string, one, other any, differs func(at string, one, other any)) {
	switch a := one.(type) {
	case map[string]any:
		b, ok := other.(map[string]any)
		if !ok {
			differs(at, one, other)
			return
		}
		for name := range a {
			compare(at+"/"+name, a[name], b[name], differs)
		}
		for name := range b {
			if _, known := a[name]; !known {
				differs(at+"/"+name, nil, b[name])
			}
		}
	default:
		if !reflect.DeepEqual(one, other) {
			differs(at, one, other)
		}
	}
}

// settle makes decoded parameters wholly the SDK's: where it has only one word, such as for the type of a block, its decoder takes
// any, and the SDK's own is put there. What the decoder kept as it was, for want of a type, is an error.
func settle(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return settle(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := settle(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if kept, ok := v.Interface().(interface{ Overrides() (any, bool) }); ok {
			if raw, unknown := kept.Overrides(); unknown {
				return fmt.Errorf("%s knows no %s", v.Type(), raw)
			}
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				if err := settle(f); err != nil {
					return err
				}
			}
		}
	case reflect.String:
		if strings.HasSuffix(v.Type().PkgPath(), "/constant") {
			v.SetZero()
		}
	}
	return nil
}
