package usage

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// WorksText is the text of the embedded table of works, and WorksOf a table of any.
func WorksText() string { return works }

// WorksOf makes a table of a text, if every line of it can be read.
func WorksOf(text string) (Works, error) {
	t := Works{Table{text}}
	return t, t.check()
}

// Lines are the lines behind the header.
func (t Works) Lines() string { return t.table.body() }

// check reports what is wrong with the table: every line must be in its place, be readable, and have a day and a source.
func (t Works) check() error {
	if t.Version() == "" {
		return errors.New("the header names no version")
	}
	last := ""
	for line := range strings.Lines(t.table.body()) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if err := t.checkLine(fields); err != nil {
			return fmt.Errorf("the line of %q: %w", fields[0], err)
		}
		if fields[0] <= last {
			return fmt.Errorf("the line of %q: it is not in its place", fields[0])
		}
		last = fields[0]
	}
	return nil
}

func (t Works) checkLine(fields []string) error {
	if len(fields) != 4 {
		return errors.New("it is not a key, what is charged, a day and a source")
	}
	provider, model, _ := strings.Cut(fields[0], "/")
	list := fields[1]
	if _, err := time.Parse(time.DateOnly, fields[2]); err != nil {
		return fmt.Errorf("reading its day: %w", err)
	}
	switch {
	case provider == "":
		return errors.New("the key is not provider/model")
	case !strings.HasPrefix(fields[3], "https://") && provider != "sim":
		return errors.New("its source is no address")
	case strings.HasPrefix(model, "*") && provider != "sim":
		return errors.New("only what is simulated has a price for every model")
	case model == "" && (list == blockedFree || strings.HasPrefix(list, "=")):
		return nil
	}
	_, err := parseTariff(list)
	return err
}
