package openai

// What tests see of the inside.
var (
	Dialects = dialects
	Encode   = encode
	ShortID  = shortID
)

func (d *dialect) Source() string { return d.source }
func (d *dialect) Vendor() string { return d.vendor }
