package catalog

import (
	"fmt"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a configuration. It never holds what could be a secret.
type Problem struct {
	// Path is where: channels[2].credentials[0].secret. Empty: the whole document.
	Path    Path
	Message string
}

// String is "path: message".
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return string(p.Path) + ": " + p.Message
}

// Problems are all that is wrong with a configuration, as an error of one line each. The zero value holds none and is
// not to be returned as an error.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Cover reports whether there is a problem with a path or with what it lies in: what else is wrong there may only
// follow from it.
func (ps Problems) Cover(path Path) bool {
	for _, p := range ps {
		if path.within(p.Path) {
			return true
		}
	}
	return false
}

// inside reports whether there is a problem with a path or with what lies in it.
func (ps Problems) inside(path Path) bool {
	for _, p := range ps {
		if p.Path.within(path) {
			return true
		}
	}
	return false
}

func (ps *Problems) add(at Path, format string, args ...any) {
	*ps = append(*ps, Problem{at, fmt.Sprintf(format, args...)})
}

// Path names a place in a configuration: channels[2].credentials[0].secret. The zero value is the whole document.
type Path string

// Member is the path of a member of the object at p.
func (p Path) Member(name string) Path {
	if !plain(name) {
		name = strconv.Quote(clip(name))
	}
	if p == "" {
		return Path(name)
	}
	return p + "." + Path(name)
}

// Item is the path of an item of the list at p.
func (p Path) Item(i int) Path { return p + Path("["+strconv.Itoa(i)+"]") }

func (p Path) within(outer Path) bool {
	rest, ok := strings.CutPrefix(string(p), string(outer))
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// bare is a path without the indices: channels[2].models[0] becomes channels.models.
func (p Path) bare() Path {
	for {
		before, after, found := strings.Cut(string(p), "[")
		if !found {
			return p
		}
		_, after, _ = strings.Cut(after, "]")
		p = Path(before + after)
	}
}

// plain reports whether a name can stand in a path as it is.
func plain(name string) bool {
	for _, r := range name {
		if (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_' && r != '-' {
			return false
		}
	}
	return name != ""
}

// clip keeps what is quoted of a configuration short.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
