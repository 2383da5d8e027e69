package usage

import "strings"

// EmbeddedText is the text of the embedded table.
func EmbeddedText() string { return embedded }

// Priced lists provider and model of every line of a table that has a model.
func (t Table) Priced() [][2]string {
	var out [][2]string
	for line := range strings.Lines(t.body()) {
		key, _, _ := strings.Cut(line, "\t")
		provider, model, _ := strings.Cut(key, "/")
		if model != "" {
			out = append(out, [2]string{provider, model})
		}
	}
	return out
}

// PriceOf makes a price of a list, if the list can be read.
func PriceOf(list string) (Price, error) {
	p := Price{list}
	return p, p.check()
}
