package responses_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/antiphon-dev/antiphon/responses"
)

// canonical encodes v so that equal values have equal bytes.
func canonical(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

// exactValue is like jsonValue, but compares numbers by their spelling: a fuzzer
// finds those that no Go type holds.
func exactValue(t *testing.T, doc []byte) (v any) {
	t.Helper()
	asSpelled := json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
		if dec.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		raw, err := dec.ReadValue()
		*v = struct{ number string }{string(raw)}
		return err
	})
	if err := json.Unmarshal(doc, &v, json.WithUnmarshalers(asSpelled)); err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return v
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*responses.Error](err)
	if !ok || !e.Code.Known() || e.Message == "" {
		t.Fatalf("got %#v, want a *responses.Error with a known code and a message", err)
	}
}

// seedRequests are bodies to begin with.
func seedRequests(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "requests", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, n := range nestedKinds {
		f.Add([]byte(n.body))
	}
	for _, seed := range []string{
		``, `{`, `[]`, `{"input":"x"}`, `{"model":"a","MODEL":"b"}`, `{"input":[{"type":"input_text","text":"x"}]}`,
		`{"input":[{"type":"acme:x","id":"1"}],"tools":[{"type":"acme:y"}],"tool_choice":{"type":"acme:y","Raw":1}}`,
		`{"tool_choice":{"type":"allowed_tools","tools":[{"type":"web_search"}]}}`,
	} {
		f.Add([]byte(seed))
	}
}

// FuzzDecodeRequest: no body panics; a refusal is an *Error with a known code;
// what is accepted encodes to something that decodes to the same.
func FuzzDecodeRequest(f *testing.F) {
	seedRequests(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		limits := &responses.Limits{Bytes: 1 << 20}
		r, err := responses.DecodeRequest(body, limits)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		once := canonical(t, r)
		// Bare parts that were gathered lie two levels deeper.
		again, err := responses.DecodeRequest(once, &responses.Limits{Depth: 1000})
		if err != nil {
			t.Fatalf("%v\nin   %s\nonce %s", err, body, once)
		}
		if twice := canonical(t, again); string(once) != string(twice) {
			t.Fatalf("not stable\nin    %s\nonce  %s\ntwice %s", body, once, twice)
		}
	})
}

// FuzzDecodeEvent: no event panics, and one that is accepted says the same after
// it was written with its own numbers.
func FuzzDecodeEvent(f *testing.F) {
	for _, s := range legalStreams(f) {
		for i := range s.events {
			f.Add(wire(f, &s.events[i]))
		}
	}
	for _, seed := range []string{
		`{"type":"error","error":{"code":400,"message":"m"}}`, `{"type":"error","code":null,"error":"m"}`,
		`{"type":"response.output_item.done","item":{"type":"acme:x","id":"1"}}`, `{"type":"acme:x","delta":{}}`,
		`{"type":"response.output_text.delta","delta":"x","logprobs":[{"token":"x","top_logprobs":[{}]}]}`, `{}`, `[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := responses.DecodeEvent(data)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		doc, err := responses.AppendEvent(nil, &ev)
		if err != nil {
			t.Fatalf("%v\nin %s", err, data)
		}
		again, err := responses.DecodeEvent(doc)
		if err != nil {
			t.Fatalf("%v\nin  %s\nout %s", err, data, doc)
		}
		ev.Raw, again.Raw = nil, nil // these differ in spelling
		if !reflect.DeepEqual(asJSON(t, ev), asJSON(t, again)) {
			t.Fatalf("not the same\nin  %s\nout %s", data, doc)
		}
	})
}

// asJSON replaces the payloads of an event, which may hold raw JSON in two
// spellings, by their values.
func asJSON(t *testing.T, ev responses.Event) map[string]any {
	t.Helper()
	return map[string]any{
		"type": ev.Type, "seq": ev.Seq, "index": [2]int{ev.OutputIndex, ev.Index}, "id": ev.ItemID, "text": ev.Text,
		"item": exactValue(t, canonical(t, ev.Item)), "part": exactValue(t, canonical(t, ev.Part)),
		"response": exactValue(t, canonical(t, ev.Response)), "error": exactValue(t, canonical(t, ev.Err)),
		"logprobs": exactValue(t, canonical(t, ev.Logprobs)),
	}
}

// FuzzSetMembers: what comes out of an object is an object with the members set,
// removed and left alone as asked.
func FuzzSetMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[1.50,{"a":2}]}`), "a", []byte(`{"x":null}`), false)
	f.Add([]byte(` { } `), "\"\\", []byte(`1`), true)
	f.Add([]byte(`{"\u0061":1}`), "a", []byte(``), false)
	f.Add([]byte(`{"a":1,"a":2}`), "a", []byte(`3`), false)
	f.Fuzz(func(t *testing.T, obj []byte, name string, value []byte, optional bool) {
		m := responses.Member{Name: name, Value: value, Optional: optional}
		if len(value) == 0 {
			m.Value = nil
		}
		if m.Value != nil && !m.Value.IsValid() || !utf8.ValidString(name) {
			return // callers pass JSON, and names of their own
		}
		want := map[string]any{}
		valid := jsontext.Value(obj).IsValid() && jsontext.Value(obj).Kind() == '{'
		if valid {
			want = exactValue(t, obj).(map[string]any)
		}
		out, err := responses.SetMembers(obj, m)
		if err != nil {
			if valid {
				t.Fatalf("%v\nin %s", err, obj)
			}
			return
		}
		if !valid {
			return // SetMembers is for what a decoder has accepted
		}
		_, there := want[name]
		switch {
		case m.Value == nil:
			delete(want, name)
		case there || !optional:
			want[name] = exactValue(t, m.Value)
		}
		if got := exactValue(t, out); !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("in  %s\nset %q to %s (optional %t)\nout %s", obj, name, value, optional, out)
		}
	})
}
