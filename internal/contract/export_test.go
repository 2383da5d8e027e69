package contract

// Checks compiles a schema and holds texts to it, one after another.
func Checks(text []byte) (func(string) *Violation, error) {
	s, err := compile(text)
	if err != nil {
		return nil, err
	}
	return s.check, nil
}
