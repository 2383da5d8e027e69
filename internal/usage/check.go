package usage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Parse reads a table and checks all of it: the digest that its header states, the order of its lines, every price, and
// that whatever a line refers to exists. The embedded table needs no Parse: a test has done it.
func Parse(text string) (Table, error) {
	t := Table{text}
	if err := t.check(); err != nil {
		return Table{}, fmt.Errorf("reading a price table: %w", err)
	}
	return t, nil
}

func (t Table) check() error {
	if t.Version() == "" {
		return errors.New("the header names no version")
	}
	body := t.body()
	if sum := sha256.Sum256([]byte(body)); hex.EncodeToString(sum[:]) != t.header("body-sha256") {
		return errors.New("the lines are not those that the header's body-sha256 stands for")
	}
	if body != "" && !strings.HasSuffix(body, "\n") {
		return errors.New("the last line is cut")
	}
	c := checker{table: t, models: map[string]bool{}, asks: map[string]string{}}
	for line := range strings.Lines(body) {
		key, list, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if err := c.line(key, list); err != nil {
			return fmt.Errorf("the line of %q: %w", key, err)
		}
	}
	return c.asked()
}

// checker goes through the lines of a table.
type checker struct {
	table Table
	last  string
	// models says which providers have models, asks which others a provider asks.
	models map[string]bool
	asks   map[string]string
}

func (c *checker) line(key, list string) error {
	if key <= c.last {
		return errors.New("it is not in its place")
	}
	c.last = key
	provider, model, ok := strings.Cut(key, "/")
	if !ok || provider == "" || provider[0] <= '#' {
		return errors.New("the key is not provider/model")
	}
	c.models[provider] = c.models[provider] || model != ""
	other, elsewhere := strings.CutPrefix(list, "=")
	switch {
	case !elsewhere:
		return Price{list}.check()
	case model == "":
		c.asks[provider] = other
		return nil
	}
	if list, ok := c.table.line(provider + "/" + other); !ok || other == "" || strings.HasPrefix(list, "=") {
		return fmt.Errorf("%q has no price of its own", other)
	}
	return nil
}

func (c *checker) asked() error {
	for provider, others := range c.asks {
		for other := range strings.FieldsSeq(others) {
			if !c.models[other] {
				return fmt.Errorf("the line of %q: the provider %q has no models", provider+"/", other)
			}
		}
	}
	return nil
}
