package openai

// Members is members, for the tests.
var Members = members
