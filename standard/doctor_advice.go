package standard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/antiphon-dev/antiphon/config"
)

// SmallWindow is the context window, in tokens, below which a coding agent such as
// Codex is not worth starting: it sends about 10,000 before the user has said a word.
const SmallWindow = 16384

// goodWindow is what is recommended to somebody who has less.
const goodWindow = 32768

// advice says what is wrong, most important first. What is as it should be, or
// cannot be changed, is not mentioned.
func (c *checkup) advice(d *Diagnosis) []string {
	if d.Reachable == No {
		return []string{c.unreachable()}
	}
	var list []string
	add := func(s string) {
		if s != "" {
			list = append(list, s)
		}
	}
	if c.model == "" {
		add("It lists no models. Name one with --model, or in a configuration file.")
	}
	add(WindowAdvice(c.upstream.Engine, c.window, c.upTo))
	add(c.toolAdvice(d.Tools))
	if d.Streaming == No {
		add("Its text comes in one piece, although a stream was asked for. Clients work, but show nothing until the end. Is there a proxy in front of it that buffers?")
	}
	if d.Structured == No {
		add("It does not keep to a JSON schema" + c.schema.because() + ". Codex asks for one only for the titles of threads; other clients may need it.")
	}
	for _, o := range []*outcome{c.text, c.tools, c.forced, c.schema, c.think} {
		if o != nil && o.late {
			add("Some calls took too long, so not everything is known. Allow more with --timeout.")
			break
		}
	}
	return list
}

// unreachable says why there is no answer and what to do.
func (c *checkup) unreachable() string {
	status, failure := c.listed, ""
	if c.upstream.Err != nil {
		failure = c.upstream.Err.Error()
	}
	if c.text != nil {
		status, failure = c.text.status, c.text.message
		if c.text.late {
			return "It did not answer in time. A large model may take minutes to load: try again, or allow more with --timeout."
		}
	}
	switch {
	case status == 0:
		return fmt.Sprintf("It cannot be reached at %s (%s). Start it, or correct the address.", c.upstream.URL, strings.TrimSuffix(failure, "."))
	case isKeyProblem(status):
		return fmt.Sprintf("It refused the key (status %d). Name the variable that holds the right one with --key-env, or set api_key in the configuration file.", status)
	case status == http.StatusNotFound:
		return "It answers, but says that there is no such model" + quote(failure) + "."
	case status == http.StatusTooManyRequests:
		return "It answers, but has no room or no money left for this account (status 429)" + quote(failure) + "."
	}
	return fmt.Sprintf("It failed (status %d)%s. Its own log tells more.", status, quote(failure))
}

// WindowAdvice says what to do about a context window that is too small for a
// coding agent, or that may be: upTo means that window is only the most that the
// server could give. It is empty if there is nothing to do, or nothing known.
func WindowAdvice(engine string, window int64, upTo bool) string {
	switch {
	case window == 0:
		return ""
	case window < SmallWindow:
		return fmt.Sprintf("Its context window of %d tokens is too small for Codex, which sends about 10000 before you have said a word. %s", window, widen(engine))
	case upTo && engine == ollama:
		return fmt.Sprintf("Ollama could give it %d tokens of context, but gives 4096 on most machines if nobody says otherwise, and drops what does not fit without a word. %s", window, widen(engine))
	}
	return ""
}

// widen says how to get a larger window.
func widen(engine string) string {
	switch engine {
	case ollama:
		return fmt.Sprintf("Start it with OLLAMA_CONTEXT_LENGTH=%d ollama serve (in the app: Settings, Context length), or set PARAMETER num_ctx %[1]d in the model's Modelfile.", goodWindow)
	case vllm:
		return fmt.Sprintf("Start vLLM with --max-model-len %d or more, as far as the model and the memory allow.", goodWindow)
	case llamacpp:
		return fmt.Sprintf("Start llama-server with --ctx-size %d or more; with --parallel N each of the N slots gets its share of it.", goodWindow)
	}
	return "Raise it in the server's settings, or use a model that has more."
}

// toolAdvice says why there were no calls. Without them an agent can only talk.
func (c *checkup) toolAdvice(tools Mark) string {
	if tools != No {
		return ""
	}
	forcedOnly := c.forced.goodCalls() > 0
	switch engine := c.upstream.Engine; {
	case engine == vllm && (c.tools.refused() || forcedOnly):
		return "It does not take tools as Codex offers them" + c.tools.because() + ". Start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME; its documentation lists the parser for each model."
	case engine == llamacpp && c.tools.refused():
		return "It does not take tools" + c.tools.because() + ". Start llama-server with --jinja."
	case engine == ollama && c.tools.refused():
		return "It does not take tools" + c.tools.because() + ". Use a model that has tools among its capabilities; ollama show MODEL lists them."
	case c.tools.refused():
		return "It does not take tools" + c.tools.because() + ". Codex can then only talk; use another model, or the server's option for tool calls."
	case forcedOnly:
		return "It calls a tool only when it is forced to, and Codex does not force it. Use another model."
	case len(c.tools.calls) > 0:
		return "It calls a tool with arguments that are not what the tool asks for. Use another model, or check the server's parser for tool calls."
	case c.upstream.Protocol == config.ProtocolChat:
		return "It answers in text where a tool call is required. Codex can then only talk. Use a model that was trained for tools, and check that the server has a parser for its calls."
	}
	return "It answers in text where a tool call is required. Codex can then only talk. Use a model that was trained for tools."
}

// because adds the upstream's own words, if it said why it refused.
func (o *outcome) because() string {
	if o == nil || !o.refused() {
		return ""
	}
	return quote(o.message)
}

// quote adds what an upstream said, as a quotation that a terminal does not obey.
func quote(message string) string {
	message = strings.TrimSuffix(message, ".")
	if message == "" {
		return ""
	}
	const most = 200
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	return fmt.Sprintf(": %q", message)
}
