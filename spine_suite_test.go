package antiphon_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/openapitest"
	"github.com/antiphon-dev/antiphon/responses"
)

// TestSpineOfficialCases are the HTTP cases of the official Open Responses suite
// that need neither compaction nor WebSocket, in our own words: what they send
// and what they ask of the answer (R60).
func TestSpineOfficialCases(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 32, 32))); err != nil {
		t.Fatal(err)
	}
	dataURL := "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture.Bytes())
	cases := []struct {
		name, body string
		item       string // an item of this type must be in the output
		anyStatus  bool
	}{
		{name: "basic-response", body: `{"model":"tiny","input":[{"type":"message","role":"user","content":"Greet me with three words."}]}`},
		{name: "assistant-phase", body: `{"model":"tiny","input":[
			{"type":"message","role":"assistant","content":"Looking it up.","phase":"commentary"},
			{"type":"message","role":"assistant","content":"It is four.","phase":"final_answer"},
			{"type":"message","role":"user","content":"And twice that?"}]}`},
		{name: "streaming-response", body: `{"model":"tiny","stream":true,"input":[{"type":"message","role":"user","content":"count to 5"}]}`},
		{name: "system-prompt", body: `{"model":"tiny","input":[
			{"type":"message","role":"system","content":"You talk like a sailor."},
			{"type":"message","role":"user","content":"Hello there."}]}`},
		{name: "tool-calling", item: responses.TypeFunctionCall, anyStatus: true, body: `{"model":"tiny","input":[
			{"type":"message","role":"user","content":"How is the weather in Oslo?"}],
			"tools":[{"type":"function","name":"get_weather","description":"The weather of a place",
			"parameters":{"type":"object","properties":{"location":{"type":"string"}},"required":["location"]}}]}`},
		{name: "image-input", body: `{"model":"tiny","input":[{"type":"message","role":"user","content":[
			{"type":"input_text","text":"What is this?"},{"type":"input_image","image_url":"` + dataURL + `"}]}]}`},
		{name: "multi-turn", body: `{"model":"tiny","input":[
			{"type":"message","role":"user","content":"I am Ada."},
			{"type":"message","role":"assistant","content":"Hello Ada."},
			{"type":"message","role":"user","content":"Who am I?"}]}`},
	}
	for _, p := range protocols {
		_, base := startModel(t, p.speaks)
		g := startGateway(t, p.driver, base, nil)
		for _, test := range cases {
			t.Run(p.name+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				body := []byte(answerOf(t, checker, g, test.body))
				if err := checker.CheckResponse(body); err != nil {
					t.Errorf("%s\n%v", body, err)
				}
				resp, err := responses.DecodeResponse(body)
				if err != nil {
					t.Fatal(err)
				}
				if len(resp.Output) == 0 || !test.anyStatus && resp.Status != responses.StatusCompleted {
					t.Errorf("status %s with %d items", resp.Status, len(resp.Output))
				}
				if test.item != "" && !hasItem(resp, test.item) {
					t.Errorf("no %s in %s", test.item, body)
				}
			})
		}
	}
}

// TestSpinePhase is the official case that sends nothing: an answer whose message
// has a phase is one that the document allows, and the gateway passes it on.
func TestSpinePhase(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	const stream = `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed",` +
		`"phase":"final_answer","content":[{"type":"output_text","text":"Four.","annotations":[]}]}}` + "\n\n" +
		`data: {"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","output":[]}}` + "\n\n"
	fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.SSE(stream) })
	g := startGateway(t, protocols[1].driver, serve(t, fake), nil)
	_, body := g.postJSON(t, `{"model":"tiny","input":"two and two?"}`)
	if err := checker.CheckResponse(body); err != nil {
		t.Errorf("%s\n%v", body, err)
	}
	if !bytes.Contains(body, []byte(`"phase":"final_answer"`)) {
		t.Errorf("the phase is lost: %s", body)
	}
}

// TestSpineFailureTellsItsCost: the usage of a failed answer reaches the client
// (R16).
func TestSpineFailureTellsItsCost(t *testing.T) {
	t.Parallel()
	const stream = `data: {"type":"response.failed","response":{"id":"resp_1","status":"failed","output":[],"error":{"code":"server_error","message":"no"},` +
		`"usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}}` + "\n\n"
	fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.SSE(stream) })
	g := startGateway(t, protocols[1].driver, serve(t, fake), nil)
	resp := g.post(t.Context(), t, `{"model":"tiny","input":"x","stream":true}`)
	defer resp.Body.Close()
	events, _ := readStream(t, resp.Body)
	if last := events[len(events)-1]; last.Type != responses.EventFailed || last.Response.Usage == nil || last.Response.Usage.TotalTokens != 7 {
		t.Errorf("it ended with %s and the usage %+v", last.Type, last.Response.Usage)
	}
}

// answerOf returns the response object of an answer, streamed or not.
func answerOf(t *testing.T, checker *openapitest.Checker, g *testGateway, body string) string {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !req.WantsStream() {
		_, whole := g.postJSON(t, body)
		return string(whole)
	}
	resp := g.post(t.Context(), t, body)
	defer resp.Body.Close()
	_, raw := readStream(t, resp.Body)
	for _, data := range raw {
		if err := checker.CheckEvent(data); err != nil {
			t.Errorf("%s\n%v", data, err)
		}
	}
	last, err := responses.EventResponse(raw[len(raw)-1])
	if err != nil {
		t.Fatal(err)
	}
	return string(last)
}

func hasItem(r *responses.Response, typ string) bool {
	for _, it := range r.Output {
		if it.Type() == typ {
			return true
		}
	}
	return false
}
