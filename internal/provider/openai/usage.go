package openai

import (
	"strconv"

	"github.com/tidwall/gjson"

	"spillway/internal/chat"
)

// maxTokens bounds a count, so that sums of them are still counts.
const maxTokens = 1 << 50

// readUsage reads a usage object.
func (r *reply) readUsage(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	r.usage = usageOf(u, dialectOf(r.Call.Channel.Provider.Vendor).reasonsBeside)
	if r.event.Whole && r.usage.Raw != u.Raw {
		r.event.Rebuilt = true // the body still says otherwise; a stream's frames are passed on without their usage
	}
	r.event.Usage = &r.usage
}

// usageOf is a usage object with OpenAI's meaning of its counts: what was cached is a part of the prompt, and reasoning a
// part of the completion. xAI counts both beside them; of others it is believed where the total says so.
func usageOf(u gjson.Result, beside bool) chat.Usage {
	count := func(path string) int64 { return min(max(u.Get(path).Int(), 0), maxTokens) }
	usage := chat.Usage{Prompt: count("prompt_tokens"), Completion: count("completion_tokens"),
		Cached:     max(count("prompt_tokens_details.cached_tokens"), count("prompt_cache_hit_tokens")), // the latter is DeepSeek's
		CacheWrite: count("prompt_tokens_details.cache_write_tokens"),
		Reasoning:  count("completion_tokens_details.reasoning_tokens"),
		Raw:        u.Raw, RawDialect: chat.OpenAIChat}
	total := count("total_tokens")
	apart := total == usage.Total()+usage.Reasoning || beside && total != usage.Total()
	if usage.Reasoning > 0 && apart {
		usage.Completion += usage.Reasoning
		usage.Raw = withCount(usage.Raw, "completion_tokens", usage.Completion)
	}
	if beside && usage.Cached > usage.Prompt {
		usage.Prompt += usage.Cached
		usage.Raw = withCount(usage.Raw, "prompt_tokens", usage.Prompt)
	}
	return usage
}

// withCount is an object with another number for a member.
func withCount(object, name string, n int64) string {
	b := append(make([]byte, 0, len(object)+8), '{')
	gjson.Parse(object).ForEach(func(key, value gjson.Result) bool {
		b = appendName(b, key)
		if key.Str == name {
			b = strconv.AppendInt(b, n, 10)
		} else {
			b = append(b, value.Raw...)
		}
		return true
	})
	return string(append(b, '}'))
}
