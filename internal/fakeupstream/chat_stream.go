package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"strconv"
)

// stream writes the answer as chunks: the role, the tokens, the reason of the
// end, the usage if the request wants it, [DONE].
func (c *completion) stream(w *Writer) error {
	v := c.newStream(w)
	parts := c.prompt.answer()
	role := `{"role":"assistant","content":"","refusal":null}`
	if parts[0].kind == callPart {
		role = `{"role":"assistant","content":null}`
	}
	if err := v.write(role, "null"); err != nil {
		return err
	}
	t, err := speak(v, parts, c.prompt.limit)
	if errors.Is(err, errScripted) {
		return v.fail()
	}
	if err != nil {
		return err
	}
	if err := v.write("{}", strconv.Quote(finishReason(t, v.calls))); err != nil {
		return err
	}
	if v.wantsUsage && !c.prompt.faults.noUsage {
		if err := v.writeUsage(c.usage(t)); err != nil {
			return err
		}
	}
	_, err = w.Write([]byte("data: [DONE]\n\n"))
	return err
}

// chatStream says an answer in chunks. A chunk is put together from pieces
// made before the first token, so that tokens cost no allocation.
type chatStream struct {
	pacer
	newID      func() string
	wantsUsage bool
	prefix     string // of every chunk, up to the choices
	suffix     string // after them
	part       *part
	calls      int
	head, tail string // around a token of the part, as a delta
	buf        []byte
}

func (c *completion) newStream(w *Writer) *chatStream {
	prefix := []byte(`data: {"id":`)
	prefix, _ = jsontext.AppendQuote(prefix, c.id)
	prefix = append(prefix, `,"object":"chat.completion.chunk","created":`...)
	prefix = strconv.AppendInt(prefix, c.created, 10)
	prefix = append(prefix, `,"model":`...)
	prefix, _ = jsontext.AppendQuote(prefix, c.request.Model)
	prefix = append(prefix, `,"service_tier":"`+serviceTier+`","system_fingerprint":"`+systemFingerprint+`","choices":[`...)
	v := &chatStream{
		pacer:      pacer{w: w, faults: &c.prompt.faults, delay: c.delay},
		newID:      c.newID,
		wantsUsage: c.request.StreamOptions.IncludeUsage,
		prefix:     string(prefix),
		suffix:     "]}\n\n",
	}
	if v.wantsUsage {
		// Every chunk but the last then says that the usage is still to come.
		v.suffix = `],"usage":null}` + "\n\n"
	}
	return v
}

func (v *chatStream) open(p *part) error {
	v.part = p
	switch p.kind {
	case textPart:
		v.head, v.tail = `{"content":`, `}`
	case reasoningPart:
		v.head, v.tail = `{"reasoning_content":`, `}`
		if v.faults.short {
			v.head = `{"reasoning":`
		}
	case refusalPart:
		v.head, v.tail = `{"refusal":`, `}`
	case callPart:
		index := strconv.Itoa(v.calls)
		v.calls++
		v.head, v.tail = `{"tool_calls":[{"index":`+index+`,"function":{"arguments":`, `}}]}`
		name, _ := jsontext.AppendQuote(nil, p.tool.name)
		return v.write(`{"tool_calls":[{"index":`+index+`,"id":"call_`+v.newID()+
			`","type":"function","function":{"name":`+string(name)+`,"arguments":""}}]}`, "null")
	}
	return nil
}

func (v *chatStream) token(tok []byte) error {
	v.begin()
	v.buf = append(v.buf, v.head...)
	v.buf, _ = jsontext.AppendQuote(v.buf, tok)
	v.buf = append(v.buf, v.tail...)
	v.finish("null")
	return v.send(v.part.kind, v.buf)
}

func (v *chatStream) shut(bool) error { return nil }

// write sends a chunk with a delta and a finish_reason, both as JSON.
func (v *chatStream) write(delta, reason string) error {
	v.begin()
	v.buf = append(v.buf, delta...)
	v.finish(reason)
	_, err := v.w.Write(v.buf)
	return err
}

func (v *chatStream) begin() {
	v.buf = append(v.buf[:0], v.prefix...)
	v.buf = append(v.buf, `{"index":0,"delta":`...)
}

func (v *chatStream) finish(reason string) {
	v.buf = append(v.buf, `,"logprobs":null,"finish_reason":`...)
	v.buf = append(v.buf, reason...)
	v.buf = append(v.buf, '}')
	v.buf = append(v.buf, v.suffix...)
}

// writeUsage sends the chunk without choices.
func (v *chatStream) writeUsage(u *chatUsage) error {
	usage, err := json.Marshal(u)
	if err != nil {
		return err
	}
	v.buf = append(v.buf[:0], v.prefix...)
	v.buf = append(v.buf, `],"usage":`...)
	v.buf = append(v.buf, usage...)
	v.buf = append(v.buf, "}\n\n"...)
	_, err = v.w.Write(v.buf)
	return err
}

// fail sends an error inside the stream, then [DONE] as if all were well: some
// engines do so, and a client must not take it for a success.
func (v *chatStream) fail() error {
	body, err := json.Marshal(errorEnvelope{v.faults.scriptedError()})
	if err != nil {
		return err
	}
	v.buf = append(v.buf[:0], "data: "...)
	v.buf = append(v.buf, body...)
	v.buf = append(v.buf, "\n\ndata: [DONE]\n\n"...)
	_, err = v.w.Write(v.buf)
	return err
}
