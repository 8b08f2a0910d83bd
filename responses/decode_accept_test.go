package responses_test

import (
	"encoding/json/v2"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// decode decodes a request that must be accepted.
func decode(t testing.TB, body string) *responses.Request {
	t.Helper()
	r, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// encode returns the wire form of v.
func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// jsonValue parses a document for comparison as a value.
func jsonValue(t testing.TB, doc []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return v
}

// sameJSON fails t unless got and want are the same JSON value.
func sameJSON(t testing.TB, got, want []byte) {
	t.Helper()
	w, g := jsonValue(t, want), jsonValue(t, got)
	// The time that a diff takes is exponential in the depth, so it comes second.
	if !reflect.DeepEqual(w, g) {
		t.Errorf("the JSON differs (-want +got):\n%s", cmp.Diff(w, g))
	}
}

// TestNullIsAbsent: clients send null for what they leave out (R5).
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	for name := range requestKinds {
		r := decode(t, `{"`+name+`":null}`)
		if got := encode(t, r); string(got) != `{}` {
			t.Errorf("%s: null encodes as %s, want {}", name, got)
		}
	}
	// R2 refuses messages, but not a client that says it has none.
	decode(t, `{"input":"hi","messages":null}`)
	for _, n := range nestedKinds {
		if strings.HasSuffix(n.param, "]") {
			continue // an element of a list cannot be absent
		}
		body := fmt.Sprintf(n.body, "null")
		_, err := responses.DecodeRequest([]byte(body), nil)
		if e := responses.AsError(err); e != nil && e.Code == responses.CodeInvalidType {
			t.Errorf("%s: got %v, want null accepted", body, err)
		}
	}
}

// TestAccepts decodes a body and compares what it encodes to. Where want is
// empty, it is the body itself.
func TestAccepts(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, want string }{
		{"nothing", `{}`, ``},
		{"R3: string input", `{"input":"hi"}`, `{"input":[{"type":"message","role":"user","content":"hi"}]}`},
		{"R3: empty string input", `{"input":""}`, `{"input":[{"type":"message","role":"user","content":""}]}`},
		{"R3: message without a type", `{"input":[{"role":"developer","content":"hi"}]}`, `{"input":[{"type":"message","role":"developer","content":"hi"}]}`},
		{"R3: message with type null", `{"input":[{"type":null,"role":"user","content":"hi"}]}`, `{"input":[{"type":"message","role":"user","content":"hi"}]}`},
		{"R3: all roles in order",
			`{"input":[{"role":"system","content":"a"},{"role":"developer","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}`,
			`{"input":[{"type":"message","role":"system","content":"a"},{"type":"message","role":"developer","content":"b"},{"type":"message","role":"user","content":"c"},{"type":"message","role":"assistant","content":"d"}]}`},
		{"R3: bare parts are one message",
			`{"input":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"},{"type":"input_file","file_id":"f"}]}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"},{"type":"input_file","file_id":"f"}]}]}`},
		{"R3: bare parts between items keep their places",
			`{"input":[{"type":"input_text","text":"a"},{"type":"item_reference","id":"msg_1"},{"type":"input_text","text":"b"}]}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"item_reference","id":"msg_1"},{"type":"message","role":"user","content":[{"type":"input_text","text":"b"}]}]}`},
		{"R3: image URL as an object",
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":{"url":"u","detail":"low"}}]}]}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"u","detail":"low"}]}]}`},
		{"R3: the part's own detail wins",
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_image","detail":"high","image_url":{"url":"u","detail":"low"}}]}]}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"u","detail":"high"}]}]}`},
		{"R3: tool output as text", `{"input":[{"type":"function_call_output","call_id":"c","output":"42"}]}`, ``},
		{"R3: tool output as parts", `{"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"42"},{"type":"input_image","image_url":"u"}]}]}`, ``},
		{"R3: audio and video pass", `{"input":[{"type":"message","role":"user","content":[{"type":"input_audio","input_audio":{"data":"eA==","format":"wav"}},{"type":"input_video","video_url":"u"}]}]}`, ``},
		{"reasoning goes back whole", `{"input":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"r"}],"encrypted_content":"e","status":"completed"}]}`, ``},
		{"reasoning with content null", `{"input":[{"type":"reasoning","id":"rs_1","summary":[],"content":null,"encrypted_content":null}]}`, `{"input":[{"type":"reasoning","id":"rs_1","summary":[]}]}`},
		{"compaction and its trigger", `{"input":[{"type":"compaction","encrypted_content":"e"},{"type":"compaction_trigger"}]}`, ``},
		{"phases", `{"input":[{"type":"message","role":"assistant","phase":"commentary","content":"a"},{"type":"message","role":"assistant","phase":"final_answer","content":"b"}]}`, ``},

		{"R6: unknown members of the request", `{"model":"m","acme":{"a":[1,2.50,null]},"client_metadata":{"k":"v"}}`, ``},
		{"R6: unknown items", `{"input":[{"type":"acme:note","id":"n_1","body":{"deep":[{}]}},{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search"}}]}`, ``},
		{"R6: unknown parts", `{"input":[{"type":"message","role":"user","content":[{"type":"acme:chart","rows":[1]}]}]}`, ``},
		{"R6: unknown and grouped tools", `{"tools":[{"type":"web_search","filters":{"allowed_domains":["a.example"]}},{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}]}]}`, ``},
		{"R6: unknown members of items, parts and tools",
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}],"acme":1}],"tools":[{"type":"custom","name":"c","format":{"type":"grammar","syntax":"lark","definition":"start: x"},"async":true}]}`, ``},
		{"R6: unknown members of settings", `{"text":{"format":{"type":"acme","grammar":"g"},"verbosity":"low","acme":1},"reasoning":{"effort":"high","summary":"auto","context":"all_turns"},"stream_options":{"include_obfuscation":false,"acme":1}}`, ``},
		{"R6: words of tomorrow", `{"reasoning":{"effort":"maximal","summary":"terse"},"include":["acme.results"],"service_tier":"warp"}`, ``},

		{"choices in words", `{"tools":[{"type":"web_search"}],"tool_choice":"required"}`, ``},
		{"a hosted choice", `{"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}`, ``},
		{"R45: allowed tools get a mode",
			`{"tools":[{"type":"custom","name":"c"}],"tool_choice":{"type":"allowed_tools","tools":[{"type":"custom","name":"c","acme":1}],"acme":2}}`,
			`{"tools":[{"type":"custom","name":"c"}],"tool_choice":{"type":"allowed_tools","tools":[{"type":"custom","name":"c","acme":1}],"acme":2,"mode":"auto"}}`},
		{"a choice among tools that come as an item", `{"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}]}],"tool_choice":{"type":"function","name":"f"}}`, ``},
		{"a choice inside a namespace", `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}]}],"tool_choice":{"type":"function","name":"f"}}`, ``},

		{"the ends of the ranges", `{"max_tool_calls":1,"max_output_tokens":16,"temperature":2,"top_p":0,"presence_penalty":-2,"frequency_penalty":2,"top_logprobs":20}`, ``},
		{"metadata at its limits", `{"metadata":{"` + strings.Repeat("é", 64) + `":"` + strings.Repeat("é", 512) + `"}}`, ``},
		{"as deep as allowed", `{"acme":` + strings.Repeat(`[`, 255) + strings.Repeat(`]`, 255) + `}`, ``},
		{"conversation by id", `{"conversation":"conv_1"}`, ``},
		{"conversation as an object", `{"conversation":{"id":"conv_1"}}`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			if want == "" {
				want = tt.body
			}
			r := decode(t, tt.body)
			if string(r.Raw) != tt.body {
				t.Errorf("Raw is %s, want the body as it came", r.Raw)
			}
			sameJSON(t, encode(t, r), []byte(want))
		})
	}
}

// TestNormalized: a driver may send the client's own bytes unless they say what
// not every server takes.
func TestNormalized(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, input string
		want        bool
	}{
		{"string", `"hi"`, false},
		{"items", `[{"role":"user","content":[{"type":"input_image","image_url":"u"}]}]`, false},
		{"bare part", `[{"role":"user","content":"x"},{"type":"input_text","text":"a"}]`, true},
		{"image object in a message", `[{"role":"user","content":[{"type":"input_image","image_url":{"url":"u"}}]}]`, true},
		{"image object in an output", `[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":{"url":"u"}}]}]`, true},
		{"image object in a custom output", `[{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_image","image_url":{"url":"u"}}]}]`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := decode(t, `{"input":`+tt.input+`}`).Input.Normalized; got != tt.want {
				t.Errorf("Normalized = %t, want %t", got, tt.want)
			}
		})
	}
}

// TestOrderIsPreserved: items, parts and tools keep their places (R3).
func TestOrderIsPreserved(t *testing.T) {
	t.Parallel()
	const n = 300
	var items []string
	for i := range n {
		switch i % 3 {
		case 0:
			items = append(items, fmt.Sprintf(`{"type":"message","role":"user","id":"i%d","content":"x"}`, i))
		case 1:
			items = append(items, fmt.Sprintf(`{"type":"acme:x","id":"i%d"}`, i))
		default:
			items = append(items, fmt.Sprintf(`{"type":"function_call","id":"i%d","call_id":"c","name":"f"}`, i))
		}
	}
	r := decode(t, `{"input":[`+strings.Join(items, ",")+`]}`)
	if len(r.Input.Items) != n {
		t.Fatalf("got %d items, want %d", len(r.Input.Items), n)
	}
	for i, it := range r.Input.Items {
		if want := fmt.Sprintf("i%d", i); it.ItemID() != want {
			t.Fatalf("item %d is %s, want %s", i, it.ItemID(), want)
		}
	}
}

// TestClientBodies decodes bodies in the manner of real clients. Their encoding
// must say the same, but for nulls, which mean absent.
func TestClientBodies(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "requests", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no bodies in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := responses.DecodeRequest(body, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, want := withoutNulls(jsonValue(t, encode(t, r))), withoutNulls(jsonValue(t, body))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the JSON differs (-want +got):\n%s", diff)
			}
		})
	}
}

// withoutNulls removes the members that are null, at any depth.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			v[i] = withoutNulls(e)
		}
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, e any) bool { return e == nil })
		for name, e := range v {
			v[name] = withoutNulls(e)
		}
	}
	return v
}
