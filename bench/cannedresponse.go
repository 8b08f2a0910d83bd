package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A cannedResponse is an answer of a Responses upstream that is rendered in
// advance. It is safe for concurrent use.
type cannedResponse struct {
	contentType string
	body        []byte
	pieces      [][]byte // body, in the pieces in which it is to be written
	units       int      // events of a stream; 1 for a whole answer
}

// renderResponse returns the answer of a script: a JSON object of about n bytes
// if it is [playWhole], else a stream of n text deltas. Both are spaced as no
// encoder spaces them and have members that nobody knows, so that an answer that
// was decoded and encoded on its way cannot be taken for one that was relayed.
func renderResponse(s script) *cannedResponse {
	if s.kind == playWhole {
		frame := len(responseObject("completed", ""))
		body := []byte(responseObject("completed", cannedText(max(s.n-frame, 0)/len(cannedToken))))
		return &cannedResponse{contentType: "application/json", body: body, pieces: [][]byte{body}, units: 1}
	}
	events := responseEvents(s.n)
	answer := &cannedResponse{contentType: "text/event-stream", body: []byte(strings.Join(events, "")), units: len(events)}
	atOnce := 1
	if s.kind == playBurst {
		atOnce = burstBytes
	}
	rest := answer.body
	for len(rest) > 0 {
		end := pieceEnd(rest, atOnce)
		answer.pieces = append(answer.pieces, rest[:end])
		rest = rest[end:]
	}
	return answer
}

// pieceEnd is where a piece of stream ends that has whole events only, at least
// one of them, and as many as fit into size bytes.
func pieceEnd(stream []byte, size int) int {
	blank := []byte("\n\n")
	if fits := bytes.LastIndex(stream[:min(size, len(stream))], blank); fits >= 0 {
		return fits + len(blank)
	}
	return bytes.Index(stream, blank) + len(blank)
}

// responseEvents are the events of an answer of n text deltas, in their order.
func responseEvents(n int) []string {
	const item = `{"id":"msg_bench","type":"message","role":"assistant","status":"%s","content":[%s]}`
	const part = `{"type":"output_text","annotations":[],"logprobs":[],"text":"%s"}`
	const place = `"item_id":"msg_bench","output_index":0,"content_index":0,`
	text := cannedText(n)
	var events []string
	add := func(kind, members string) {
		events = append(events, fmt.Sprintf("event: %s\ndata: {\"type\":%q, \"sequence_number\":%d, %s}\n\n", kind, kind, len(events), members))
	}
	add("response.created", `"response":`+responseObject("in_progress", ""))
	add("response.in_progress", `"response":`+responseObject("in_progress", ""))
	add("response.output_item.added", `"output_index":0,"item":`+fmt.Sprintf(item, "in_progress", ""))
	add("response.content_part.added", place+`"part":`+fmt.Sprintf(part, ""))
	for range n {
		add("response.output_text.delta", place+`"delta":"`+cannedToken+`","logprobs":[],"obfuscation":"benchbench"`)
	}
	add("response.output_text.done", place+`"logprobs":[],"text":"`+text+`"`)
	add("response.content_part.done", place+`"part":`+fmt.Sprintf(part, text))
	add("response.output_item.done", `"output_index":0,"item":`+fmt.Sprintf(item, "completed", fmt.Sprintf(part, text)))
	add("response.completed", `"response":`+responseObject("completed", text))
	return events
}

func cannedText(tokens int) string { return strings.Repeat(cannedToken, tokens) }

// responseObject has the members that servers usually send.
func responseObject(status, text string) string {
	output, usage := "", "null"
	if status == "completed" {
		output = `{"id":"msg_bench","type":"message","role":"assistant","status":"completed","content":[` +
			`{"type":"output_text","annotations":[],"logprobs":[],"text":"` + text + `"}]}`
		usage = `{"input_tokens":1,"input_tokens_details":{"cached_tokens":0},"output_tokens":300,` +
			`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":301}`
	}
	return `{"id":"resp_bench" , "object":"response","created_at":1750000000,"status":"` + status + `","background":false,` +
		`"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"bench",` +
		`"output":[` + output + `],"parallel_tool_calls":true,"previous_response_id":null,` +
		`"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1.0,"text":{"format":{"type":"text"}},` +
		`"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":` + usage + `,"user":null,"metadata":{},"x_bench":[1.0 ]}`
}

// responseRequest is a request of about size bytes for the script. The model
// comes first, so that replay need not parse the rest.
func responseRequest(s script, size int) []byte {
	before := fmt.Sprintf(`{"model":%q, "store":false,"stream":%t,"input":"`, s, s.kind != playWhole)
	const after = `"}`
	return []byte(before + cannedText(max(size-len(before)-len(after), len(cannedToken))/len(cannedToken)) + after)
}
