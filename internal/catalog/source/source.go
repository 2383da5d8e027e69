// Package source reads a configuration as people write it, in YAML, and makes of it the JSON that functions load: YAML
// costs 2 ms of every cold start. It belongs to the build and to a developer's machine and is never linked into a
// function.
//
// Everything that is wrong is reported at once, each with its line. A configuration that it accepts is one that
// catalog.Load accepts where every variable that it refers to is set: no secret is needed to build.
package source

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spillway/internal/catalog"
)

// Problem is one thing that is wrong with a configuration, and where it stands in the file.
type Problem struct {
	File string
	// Line and Column count from 1; 0: not known.
	Line, Column int
	catalog.Problem
}

// String is "file:line: path: message", as compilers have it.
func (p Problem) String() string {
	where := p.File
	for _, n := range []int{p.Line, p.Column} {
		if n > 0 {
			where += fmt.Sprintf(":%d", n)
		}
	}
	return where + ": " + p.Problem.String()
}

// Problems are all that is wrong with a configuration, sorted by line, as an error of one line each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Read reads a file and returns the JSON of the configuration in it. A name that ends in .json is taken for JSON, is
// checked, and is returned as it is; problems then have no line. What is wrong with the configuration is Problems.
func Read(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if filepath.Ext(file) != ".json" {
		return Compile(file, text)
	}
	if found := check(text); found != nil {
		return nil, newProblems(file, found, func(catalog.Path) int { return 0 })
	}
	return text, nil
}

// Compile makes JSON of a configuration in YAML. file is what problems call it. What is wrong with the configuration is
// Problems; there is no other error.
func Compile(file string, text []byte) ([]byte, error) {
	r := read(file, text)
	var found catalog.Problems
	if r.json != nil {
		found = check(r.json)
	}
	found = slices.DeleteFunc(found, func(p catalog.Problem) bool { return r.covers(p.Path) })
	problems := append(r.problems, newProblems(file, found, r.line)...)
	if len(problems) == 0 {
		return r.json, nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return nil, problems
}

// check loads a document as if every variable were set: to an address, which is right for a base_url, for a secret and
// for a condition.
func check(document []byte) catalog.Problems {
	_, err := catalog.Load(document, func(string) string { return "https://set-where-it-runs.invalid" })
	if err == nil {
		return nil
	}
	if found, ok := errors.AsType[catalog.Problems](err); ok {
		return found
	}
	return catalog.Problems{{Message: err.Error()}}
}

func newProblems(file string, found catalog.Problems, line func(catalog.Path) int) Problems {
	problems := make(Problems, len(found))
	for i, p := range found {
		problems[i] = Problem{File: file, Line: line(p.Path), Problem: p}
	}
	return problems
}
