package sse_test

import (
	"errors"
	"reflect"
	"testing"
)

func wantEqual(t *testing.T, want, got any, what string) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s: got\n%#v, want\n%#v", what, got, want)
	}
}

// wantError asserts that err is want or wraps it; a nil want, that there is none.
func wantError(t *testing.T, want, err error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", what, err, want)
	}
}
