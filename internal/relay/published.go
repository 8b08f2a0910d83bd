package relay

// names are the members that an object may have, and what is known of their values;
// nil lets a value pass as it is. A list is as its elements are.
type names map[string]names

// An API is what is published of one that the gateway only passes on: the names of
// its members. They are all that is known of it here; nothing is translated.
type API struct {
	request  names
	required map[string]byte // members that a request must have, and the kind of JSON; 0 is any
	answer   names           // also of each frame of a stream
}

// The APIs that can be cleaned. What a request holds below its first level passes
// as it is.
var (
	ChatCompletions = &API{
		request: all("model", "messages", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
			"max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls", "prediction",
			"presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
			"response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
			"temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options"),
		required: map[string]byte{"messages": '['},
		answer: names{
			"id": nil, "object": nil, "created": nil, "model": nil, "service_tier": nil, "system_fingerprint": nil,
			"choices": {"index": nil, "message": message, "delta": message, "logprobs": nil, "finish_reason": nil},
			"usage":   all("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"),
		},
	}
	Embeddings = &API{
		request:  all("model", "input", "dimensions", "encoding_format", "user"),
		required: map[string]byte{"input": 0},
		answer: names{
			"object": nil, "model": nil, "data": all("object", "index", "embedding"), "usage": all("prompt_tokens", "total_tokens"),
		},
	}
)

// message has two members that most servers have and nobody published: what a model
// thought is no secret of its server, and must come back to it.
var message = names{
	"role": nil, "content": nil, "refusal": nil, "annotations": nil, "audio": nil, "function_call": nil,
	"tool_calls": all("index", "id", "type", "function", "custom"), "reasoning_content": nil, "reasoning": nil,
}

func all(list ...string) names {
	n := names{}
	for _, name := range list {
		n[name] = nil
	}
	return n
}
