package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// responsesAnswer is one answer in Responses, before it is given.
type responsesAnswer struct {
	model   *Model
	request *responsesRequest
	prompt  *prompt
}

// whole gives the answer as one response object.
func (a *responsesAnswer) whole() Reply {
	v := a.newVoice(nil)
	// A voice that does not stream has nothing to fail at.
	t, _ := speak(v, a.prompt.answer(), a.prompt.limit)
	a.conclude(v.response, t)
	reply := jsonReply(http.StatusOK, v.response)
	reply.Delay = time.Duration(max(t.output-1, 0)) * a.model.pace(&a.prompt.faults)
	return reply
}

// stream gives the answer as events, from response.created to one terminal
// event. There is no [DONE]: the first-party API sends none.
func (a *responsesAnswer) stream(w *Writer) error {
	v := a.newVoice(w)
	for _, event := range []string{"response.created", "response.in_progress"} {
		if err := v.emit(event, member{"response", v.response}); err != nil {
			return err
		}
	}
	t, err := speak(v, a.prompt.answer(), a.prompt.limit)
	if errors.Is(err, errScripted) {
		return v.fail()
	}
	if err != nil {
		return err
	}
	a.conclude(v.response, t)
	return v.emit("response."+v.response.Status, member{"response", v.response})
}

// conclude writes down how the response ended.
func (a *responsesAnswer) conclude(o *responseObject, t tally) {
	o.ServiceTier = serviceTier
	o.Status = "completed"
	if t.truncated {
		o.Status, o.IncompleteDetails = "incomplete", &incompleteDetails{Reason: "max_output_tokens"}
	} else {
		now := a.model.now().Unix()
		o.CompletedAt = &now
	}
	if a.prompt.faults.noUsage {
		return
	}
	o.Usage = &responseUsage{
		InputTokens:  a.prompt.words,
		OutputTokens: t.output,
		TotalTokens:  a.prompt.words + t.output,
	}
	o.Usage.OutputTokensDetails.ReasoningTokens = t.reasoning
}

func (a *responsesAnswer) newVoice(w *Writer) *responsesVoice {
	return &responsesVoice{
		pacer:    pacer{w: w, faults: &a.prompt.faults, delay: a.model.pace(&a.prompt.faults)},
		newID:    a.model.id,
		sealed:   slices.Contains(a.request.Include, "reasoning.encrypted_content"),
		response: newResponse(a.request, "resp_"+a.model.id(), a.model.now().Unix()),
	}
}

// responsesVoice builds the response and, if it has a writer, streams the
// events. Each part of the answer becomes one output item.
type responsesVoice struct {
	pacer
	newID    func() string
	sealed   bool // reasoning comes with encrypted content
	response *responseObject
	sequence int // number of the next event
	buf      []byte

	// Of the part that is open:
	part       *part
	itemID     string
	callID     string
	text       []byte
	whole      bool   // the item has no events but its first and last
	head, tail string // of a token's event, before and after its number and text
	middle     string // between the two
}

// member is a member of an event.
type member struct {
	name  string
	value any
}

func (v *responsesVoice) open(p *part) error {
	wire := wireOf(p)
	v.part, v.text = p, v.text[:0]
	v.itemID = wire.idPrefix + v.newID()
	if p.kind == callPart {
		v.callID = "call_" + v.newID()
	}
	v.whole = wire.event == ""
	v.prepareTokens(wire)
	if err := v.emit("response.output_item.added", v.at(), member{"item", v.item("in_progress", false)}); err != nil {
		return err
	}
	if wire.part == "" {
		return nil
	}
	return v.emit("response."+wire.part+".added", v.of(), v.at(), member{wire.index, 0}, member{"part", v.content("")})
}

func (v *responsesVoice) token(tok []byte) error {
	v.text = append(v.text, tok...)
	if v.w == nil || v.whole {
		return nil
	}
	v.buf = append(v.buf[:0], v.head...)
	v.buf = strconv.AppendInt(v.buf, int64(v.sequence), 10)
	v.buf = append(v.buf, v.middle...)
	v.buf, _ = jsontext.AppendQuote(v.buf, tok)
	v.buf = append(v.buf, v.tail...)
	v.sequence++
	return v.send(v.part.kind, v.buf)
}

func (v *responsesVoice) shut(complete bool) error {
	status := "completed"
	if !complete {
		status = "incomplete"
	}
	if !v.whole {
		if err := v.shutText(wireOf(v.part)); err != nil {
			return err
		}
	}
	item := v.item(status, true)
	if err := v.emit("response.output_item.done", v.at(), member{"item", item}); err != nil {
		return err
	}
	v.response.Output = append(v.response.Output, item)
	return nil
}

// shutText ends the text of the open item.
func (v *responsesVoice) shutText(wire partWire) error {
	text := string(v.text)
	done := []member{v.of(), v.at()}
	if wire.index != "" {
		done = append(done, member{wire.index, 0})
	}
	done = append(done, member{wire.text, text})
	if v.part.kind == textPart {
		done = append(done, member{"logprobs", []struct{}{}})
	}
	if err := v.emit(wire.event+".done", done...); err != nil || wire.part == "" {
		return err
	}
	return v.emit("response."+wire.part+".done", v.of(), v.at(), member{wire.index, 0}, member{"part", v.content(text)})
}

// fail ends the stream with an error, nested as the first-party API sends it,
// and the failed response.
func (v *responsesVoice) fail() error {
	e := v.faults.scriptedError()
	if err := v.emit("error", member{"error", e}); err != nil {
		return err
	}
	v.response.Status = "failed"
	v.response.Error = &responseError{Code: *e.Code, Message: e.Message}
	return v.emit("response.failed", member{"response", v.response})
}

// emit writes one event. Without a writer it does nothing.
func (v *responsesVoice) emit(event string, members ...member) error {
	if v.w == nil {
		return nil
	}
	v.buf = append(v.buf[:0], `event: `+event+"\ndata: "+`{"type":"`+event+`","sequence_number":`...)
	v.buf = strconv.AppendInt(v.buf, int64(v.sequence), 10)
	for _, m := range members {
		value, err := json.Marshal(m.value)
		if err != nil {
			return err
		}
		v.buf = append(v.buf, `,"`+m.name+`":`...)
		v.buf = append(v.buf, value...)
	}
	v.buf = append(v.buf, "}\n\n"...)
	v.sequence++
	_, err := v.w.Write(v.buf)
	return err
}

// prepareTokens makes the pieces of a token's event, so that tokens cost no
// allocation.
func (v *responsesVoice) prepareTokens(wire partWire) {
	event := wire.event + ".delta"
	v.head = "event: " + event + "\ndata: " + `{"type":"` + event + `","sequence_number":`
	v.middle = `,"item_id":"` + v.itemID + `","output_index":` + strconv.Itoa(len(v.response.Output))
	if wire.index != "" {
		v.middle += `,"` + wire.index + `":0`
	}
	v.middle += `,"delta":`
	v.tail = "}\n\n"
	if v.part.kind == textPart {
		v.tail = `,"logprobs":[]` + v.tail
	}
}

func (v *responsesVoice) at() member { return member{"output_index", len(v.response.Output)} }
func (v *responsesVoice) of() member { return member{"item_id", v.itemID} }
