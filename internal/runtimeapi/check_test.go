//go:build linux

package runtimeapi_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"spillway/internal/runtimeapi"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func check(t testing.TB, ok bool, problem string) {
	t.Helper()
	if !ok {
		t.Fatal(problem)
	}
}

func equal[T any](t testing.TB, want, got T, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("want %+v, got %+v %v", want, got, about)
	}
}

func equalJSON(t testing.TB, want, got string) {
	t.Helper()
	var a, b any
	must(t, json.Unmarshal([]byte(want), &a))
	must(t, json.Unmarshal([]byte(got), &b))
	equal(t, a, b)
}

func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Fatalf("%q is not part of %q", part, text)
	}
}

func errorIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("want the error %v, got %v", target, err)
	}
}

func functionError(t testing.TB, err error) *runtimeapi.FunctionError {
	t.Helper()
	failure, ok := errors.AsType[*runtimeapi.FunctionError](err)
	if !ok {
		t.Fatalf("want a FunctionError, got %v", err)
	}
	return failure
}
