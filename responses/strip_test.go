package responses_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// TestStripRequest: what nobody has published goes, wherever it stands, and is
// named; what is published stays, whether or not there is a struct for it (R6, R30).
func TestStripRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body, want string // want "": as it came
		losses     []responses.Loss
	}{
		"nothing": {body: `{"model":"m", "input":"x","prompt":{"id":"p"},"tools":[{"type":"web_search","filters":{"any":1}},{"type":"function","name":"f","defer_loading":true}]}`},
		"members": {
			body:   `{"model":"m","input":"x","top_k":4,"user_id":"u","reasoning":{"effort":"low","budget":3},"text":{"format":{"type":"text","x":1}}}`,
			want:   `{"model":"m","input":[{"type":"message","role":"user","content":"x"}],"text":{"format":{"type":"text"}},"reasoning":{"effort":"low","summary":null}}`,
			losses: members("top_k", "user_id", "text.format.x", "reasoning.budget"),
		},
		"items and parts": {
			body: `{"model":"m","input":[{"role":"user","mood":1,"content":[{"type":"input_text","text":"a","y":2},{"type":"hologram"},{"type":"input_audio","input_audio":{"data":""},"z":0}]},{"type":"acme:thought"},{"type":"web_search_call","id":"ws_1","status":"completed","secret":1}]}`,
			want: `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_audio","input_audio":{"data":""}}]},{"type":"web_search_call","id":"ws_1","status":"completed"}]}`,
			losses: []responses.Loss{
				{Param: "input[0].mood", Reason: "unknown member"}, {Param: "input[0].content[0].y", Reason: "unknown member"},
				{Param: "input[0].content[1]", Reason: "unknown part type hologram"}, {Param: "input[0].content[2].z", Reason: "unknown member"},
				{Param: "input[1]", Reason: "unknown item type acme:thought"}, {Param: "input[2].secret", Reason: "unknown member"},
			},
		},
		"tools": {
			body:   `{"model":"m","tools":[{"type":"telepathy"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","cost":1},{"type":"x"}]},{"type":"mcp","server_label":"l","acme":1}]}`,
			want:   `{"model":"m","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}]},{"type":"mcp","server_label":"l"}]}`,
			losses: []responses.Loss{{Param: "tools[0]", Reason: "unknown tool type telepathy"}, {Param: "tools[1].tools[0].cost", Reason: "unknown member"}, {Param: "tools[1].tools[1]", Reason: "unknown tool type x"}, {Param: "tools[2].acme", Reason: "unknown member"}},
		},
		"a choice of what is gone": {
			body:   `{"model":"m","tools":[{"type":"telepathy"}],"tool_choice":{"type":"telepathy"}}`,
			want:   `{"model":"m"}`,
			losses: []responses.Loss{{Param: "tools[0]", Reason: "unknown tool type telepathy"}, {Param: "tool_choice", Reason: "unknown tool type telepathy"}},
		},
		"a required tool that is gone": {
			body:   `{"model":"m","tools":[{"type":"telepathy"}],"tool_choice":"required"}`,
			want:   `{"model":"m"}`,
			losses: []responses.Loss{{Param: "tools[0]", Reason: "unknown tool type telepathy"}, {Param: "tool_choice", Reason: "no tool is left"}},
		},
		"a limit to what is gone": { // (R45): it stays a limit
			body:   `{"model":"m","tools":[{"type":"function","name":"f"},{"type":"x"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"x"}]}}`,
			want:   `{"model":"m","tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}],"tool_choice":"none"}`,
			losses: []responses.Loss{{Param: "tools[1]", Reason: "unknown tool type x"}, {Param: "tool_choice.tools[0]", Reason: "unknown tool type x"}},
		},
		"a limit to what is left": {
			body:   `{"model":"m","tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"l"}],"tool_choice":{"type":"allowed_tools","mode":"auto","why":1,"tools":[{"type":"x"},{"type":"function","name":"f"},{"type":"mcp","server_label":"l"}]}}`,
			want:   `{"model":"m","tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null},{"type":"mcp","server_label":"l"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"l"}]}}`,
			losses: []responses.Loss{{Param: "tool_choice.why", Reason: "unknown member"}, {Param: "tool_choice.tools[0]", Reason: "unknown tool type x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean, losses, err := decode(t, test.body).Strip()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.losses, losses); diff != "" {
				t.Errorf("losses (-want +got):\n%s", diff)
			}
			if test.want == "" {
				if string(clean.Raw) != test.body {
					t.Errorf("nothing was to change, and it became %s", clean.Raw)
				}
				return
			}
			sameJSON(t, []byte(test.want), clean.Raw)
			if _, again, err := clean.Strip(); err != nil || len(again) > 0 {
				t.Errorf("stripping again finds %v, %v", again, err)
			}
		})
	}
}

func members(names ...string) []responses.Loss {
	var list []responses.Loss
	for _, n := range names {
		list = append(list, responses.Loss{Param: n, Reason: "unknown member"})
	}
	return list
}

// TestStripConversation: what is put into a conversation is stripped like input.
func TestStripConversation(t *testing.T) {
	t.Parallel()
	r, err := responses.DecodeConversationRequest([]byte(`{"acme":1,"items":[{"type":"acme:x"},{"role":"user","content":"x","acme_y":1}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	losses := r.Strip()
	if len(losses) != 3 || len(r.Items) != 1 || r.Items[0].(*responses.Message).Extra != nil {
		t.Errorf("left %+v, losses %v", r, losses)
	}
}

// TestStripIsBounded: a client cannot make the report longer than it may be.
func TestStripIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `,"%d%s":1`, i, strings.Repeat("x", 1000))
	}
	_, losses, err := decode(t, `{"model":"m"`+b.String()+`}`).Strip()
	if err != nil {
		t.Fatal(err)
	}
	if len(losses) != 65 || losses[64] != (responses.Loss{Param: "…", Reason: "and 936 more"}) || len(losses[0].Param) > 140 {
		t.Errorf("got %d losses, the last %v", len(losses), losses[len(losses)-1])
	}
}

// TestStripIsLinear: a body of nothing but unknown members costs no more than
// reading it does.
func TestStripIsLinear(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&b, `,"x%d":1`, i)
	}
	r := decode(t, `{"model":"m"`+b.String()+`}`)
	begin := time.Now()
	clean, losses, err := r.Strip()
	if took := time.Since(begin); err != nil || string(clean.Raw) != `{"model":"m"}` || len(losses) != 65 || took > 20*time.Second {
		t.Errorf("%d losses, %v after %v", len(losses), err, took)
	}
}

// TestStripReachesEveryKind: whatever kind of item, part or tool it stands in, an
// unknown member goes.
func TestStripReachesEveryKind(t *testing.T) {
	t.Parallel()
	for _, v := range implementations {
		kind := reflect.New(reflect.TypeOf(v)).Interface().(interface{ Type() string })
		if kind.Type() == "" {
			continue // the unknown kinds
		}
		object := fmt.Sprintf(`{"type":%q,"id":"i","call_id":"c","name":"n","role":"user","encrypted_content":"e","server_label":"s","approval_request_id":"a","acme_secret":1}`, kind.Type())
		body := `{"model":"m","input":[` + object + `]}`
		switch name := reflect.TypeOf(v).Name(); {
		case strings.HasSuffix(name, "Tool") || name == "ToolSearch":
			body = `{"model":"m","tools":[` + object + `]}`
		case strings.HasSuffix(name, "Text") || name == "Refusal" || name == "InputImage" || name == "InputFile":
			body = `{"model":"m","input":[{"role":"assistant","content":[` + object + `]}]}`
		}
		clean, losses, err := decode(t, body).Strip()
		if err != nil {
			t.Fatal(err)
		}
		named := slices.ContainsFunc(losses, func(l responses.Loss) bool { return strings.HasSuffix(l.Param, "].acme_secret") })
		if !named || bytes.Contains(clean.Raw, []byte("acme_secret")) {
			t.Errorf("%s: losses %v, left %s", kind.Type(), losses, clean.Raw)
		}
	}
}

// TestStripAnswer: an answer keeps what is published, its indexes close up over what
// is gone, the log can say what that was, and what the driver still holds is not
// touched (R33).
func TestStripAnswer(t *testing.T) {
	t.Parallel()
	in := []string{
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"acme:thought","id":"t_1"}}`,
		`{"type":"acme.tick","output_index":0}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"acme:thought","id":"t_1"}}`,
		`{"type":"response.output_item.added","output_index":1,"region":"eu","item":{"type":"message","id":"msg_1","role":"assistant","content":[],"gpu":7}}`,
		`{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"hologram"}}`,
		`{"type":"response.content_part.done","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"hologram"}}`,
		`{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":1,"part":{"type":"output_text","text":"","annotations":[],"shard":3}}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":1,"delta":"hi","obfuscation":"xx","logprobs":[{"token":"hi","logprob":0,"bytes":[],"rank":1}]}`,
		`{"type":"response.output_text.annotation.added","item_id":"msg_1","output_index":1,"content_index":1,"annotation_index":0,"annotation":{"type":"url_citation","url":"u","score":9}}`,
		`{"type":"response.output_text.annotation.added","item_id":"msg_1","output_index":1,"content_index":1,"annotation_index":1,"annotation":{"type":"vibe"}}`,
		`{"type":"response.web_search_call.searching","item_id":"msg_1","output_index":1,"engine":"x"}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"hologram"},{"type":"output_text","text":"hi","annotations":[{"type":"vibe"},{"type":"url_citation","url":"u","score":9}]}],"gpu":7}}`,
	}
	want := []string{
		`{"type":"response.output_item.added","output_index":0,"sequence_number":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`,
		`{"type":"response.content_part.added","item_id":"msg_1","output_index":0,"sequence_number":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"sequence_number":0,"content_index":0,"delta":"hi","obfuscation":"xx","logprobs":[{"token":"hi","logprob":0,"bytes":[]}]}`,
		`{"type":"response.output_text.annotation.added","item_id":"msg_1","output_index":0,"sequence_number":0,"content_index":0,"annotation_index":0,"annotation":{"type":"url_citation","url":"u"}}`,
		`{"type":"response.web_search_call.searching","item_id":"msg_1","output_index":0,"sequence_number":0}`,
		`{"type":"response.output_item.done","output_index":0,"sequence_number":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[{"type":"url_citation","url":"u"}],"logprobs":[]}]}}`,
	}
	var s responses.AnswerStripper
	var got []string
	for _, text := range in {
		ev, err := responses.DecodeEvent([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		before := ev
		if s.Strip(&ev) {
			line, err := responses.AppendEvent(nil, &ev)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		if again, err := responses.DecodeEvent([]byte(text)); err != nil || !reflect.DeepEqual(again, before) {
			t.Errorf("what came was changed: %+v, %v", before, err)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("got %s", strings.Join(got, "\n"))
	}
	for i := range want {
		sameJSON(t, []byte(want[i]), []byte(got[i]))
	}
	end := &responses.TurnEnd{
		Status: responses.StatusCompleted, Usage: &responses.Usage{InputTokens: 1, Extra: []byte(`{"cost":0.1}`)},
		Upstream: &responses.Response{ServiceTier: "flex", Extra: []byte(`{"provider":"acme","prompt":{"id":"p"}}`)},
	}
	ev := responses.Event{Type: responses.EventTurnEnd, End: end}
	if !s.Strip(&ev) || ev.End == end || ev.End.Usage.Extra != nil || string(ev.End.Upstream.Extra) != `{"prompt":{"id":"p"}}` || end.Usage.Extra == nil {
		t.Errorf("the end became %+v", ev.End)
	}
	var names []string
	for _, l := range ev.End.Stripped {
		names = append(names, l.Param)
	}
	const all = "output[0] acme.tick response.output_item.added.region output[0].gpu output[1].content[0] part.shard logprobs[0].rank " +
		"response.output_text.annotation.added.annotations[0].score response.output_text.annotation.added.annotations[0] " +
		"response.web_search_call.searching.engine output[0].content[0] output[0].content[1].annotations[1].score output[0].content[1].annotations[0] usage.cost response.provider"
	if got := strings.Join(names, " "); !sameWords(got, all) {
		t.Errorf("named are %s", got)
	}
}

func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// FuzzStrip: what could be decoded can be stripped, and then has nothing left to
// strip.
func FuzzStrip(f *testing.F) {
	seedRequests(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := responses.DecodeRequest(body, nil)
		if err != nil {
			return
		}
		clean, _, err := r.Strip()
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if _, again, err := clean.Strip(); err != nil || len(again) > 0 {
			t.Fatalf("%s: again %v, %v", clean.Raw, again, err)
		}
	})
}
