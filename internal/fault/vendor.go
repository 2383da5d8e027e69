package fault

import (
	"path"
	"slices"
	"strings"
)

// Generic is the vendor whose name we do not know: a server that copies OpenAI's API.
const Generic = "generic"

// vendor is whose answers they are. One adapter speaks to many of them: they share the shape of a request and differ in
// what their errors mean.
type vendor struct {
	name string
	// hosts are its addresses; * stands for any part of one.
	hosts []string
	// ids are the headers that hold its own id of a call, by their canonical names, before those that anybody sends.
	ids []string
	// idInBody says that the id of an answer is its own id of the call.
	idInBody bool
}

// vendors are those that have rows in the policy table. Hosts and headers: reference/providers.md §1 and §2.3, 2026-11-30.
var vendors = []vendor{
	{name: "anthropic", hosts: []string{"api.anthropic.com"}, ids: []string{"Request-Id"}},
	{name: "azure", hosts: []string{"*.openai.azure.com", "*.cognitiveservices.azure.com", "*.services.ai.azure.com"},
		ids: []string{"Apim-Request-Id", "X-Ms-Request-Id"}},
	{name: "bedrock", hosts: []string{"bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"}, ids: []string{"X-Amzn-Requestid"}},
	{name: "deepseek", hosts: []string{"api.deepseek.com"}, ids: []string{"X-Ds-Trace-Id"}, idInBody: true},
	{name: "elevenlabs", hosts: []string{"api.elevenlabs.io", "api.*.elevenlabs.io", "api.*.residency.elevenlabs.io"}, ids: []string{"Request-Id"}},
	{name: "fal", hosts: []string{"queue.fal.run", "fal.run"}, ids: []string{"X-Fal-Request-Id"}},
	{name: "gemini", hosts: []string{"generativelanguage.googleapis.com", "aiplatform.googleapis.com", "*-aiplatform.googleapis.com"}},
	{name: Generic},
	{name: "groq", hosts: []string{"api.groq.com"}},
	{name: "mistral", hosts: []string{"api.mistral.ai", "codestral.mistral.ai"}, ids: []string{"Mistral-Correlation-Id", "X-Kong-Request-Id"}},
	{name: "openai", hosts: []string{"api.openai.com", "*.api.openai.com"}},
	{name: "openrouter", hosts: []string{"openrouter.ai"}, ids: []string{"X-Generation-Id"}, idInBody: true},
	{name: "together", hosts: []string{"api.together.xyz", "api.together.ai"}},
	{name: "xai", hosts: []string{"api.x.ai", "*.api.x.ai"}},
}

// anyIDs are looked up after the vendor's own, in this order (reference/providers.md §2.3, 2026-11-30).
var anyIDs = []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "Apim-Request-Id", "X-Ms-Request-Id",
	"Mistral-Correlation-Id", "X-Generation-Id", "X-Fal-Request-Id", "Cf-Ray", "X-Amz-Cf-Id"}

// maxID bounds the id of a call, in bytes: it goes into headers and records.
const maxID = 200

// Vendors are the names that a configuration may give as a provider's vendor, sorted.
func Vendors() []string {
	names := make([]string, len(vendors))
	for i, v := range vendors {
		names[i] = v.name
	}
	slices.Sort(names)
	return names
}

// VendorOf is the vendor at a host, with or without its port; Generic where it is none that we know.
func VendorOf(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	for _, v := range vendors {
		for _, h := range v.hosts {
			if ok, _ := path.Match(h, host); ok {
				return v.name
			}
		}
	}
	return Generic
}

// RequestID is the provider's own id of a call: the vendor's own headers first, then those that anybody sends. get
// returns a header's value by its canonical name. Empty: it sent none, or none that is at most 200 bytes long.
func RequestID(of string, get func(name string) string) string {
	for _, name := range slices.Concat(vendorNamed(of).ids, anyIDs) {
		if id := get(name); id != "" && len(id) <= maxID {
			return id
		}
	}
	return ""
}

// IDInBody reports whether the id in a vendor's answer is its own id of the call, which its headers may not hold.
func IDInBody(of string) bool { return vendorNamed(of).idInBody }

func vendorNamed(name string) vendor {
	for _, v := range vendors {
		if v.name == name {
			return v
		}
	}
	return vendor{}
}
