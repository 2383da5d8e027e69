package openai

// Members is members from the beginning, for the tests.
func Members(object string, each func(name, rawName, value string)) {
	members(object, 0, func(m member) { each(m.name, m.rawName, m.value) })
}
