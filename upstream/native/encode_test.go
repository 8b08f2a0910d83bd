package native

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

func noIDs(string, string) string { return "" }

// TestEncodeKeepsBytes: what the gateway does not decide reaches the upstream as
// the client wrote it, also where JSON has several spellings.
func TestEncodeKeepsBytes(t *testing.T) {
	t.Parallel()
	const nested = `[{"role":"user","content":"é\u00e9","n":1.0e0}]`
	tests := []struct {
		name, body string
		enc        encoding
		want       string
	}{
		{
			"stateless",
			`{"model":"alias","input":` + nested + `,"x":{"b":1,"a":2.50},"store":true,"stream":false,"background":true,"conversation":{"id":"c"}}`,
			encoding{},
			`{"model":"m","input":` + nested + `,"x":{"b":1,"a":2.50},"store":false,"stream":true,"include":["reasoning.encrypted_content"]}`,
		},
		{
			"asked for encrypted reasoning",
			`{"input":"hi","include":["reasoning.encrypted_content"]}`,
			encoding{},
			`{"input":"hi","include":["reasoning.encrypted_content"],"model":"m","stream":true,"store":false}`,
		},
		{
			"model without encrypted reasoning",
			`{"input":"hi","include":["file_search_call.results"]}`,
			encoding{plain: true},
			`{"input":"hi","include":["file_search_call.results"],"model":"m","stream":true,"store":false}`,
		},
		{
			"stateful",
			`{"input":"hi","store":true}`,
			encoding{stateful: true},
			`{"input":"hi","store":true,"model":"m","stream":true}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := responses.DecodeRequest([]byte(tt.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Model = "m"
			tt.enc.upstreamID = noIDs
			got, _, err := tt.enc.encode(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if string(r.Raw) != tt.body {
				t.Error("the client's body was changed")
			}
		})
	}
}

// TestEncodeBuilt encodes a request that never was a client's bytes.
func TestEncodeBuilt(t *testing.T) {
	t.Parallel()
	r := &responses.Request{
		Model:              "m",
		Input:              responses.Input{Items: []responses.Item{responses.UserMessage("hi")}},
		PreviousResponseID: "resp_1",
		Tools:              []responses.Tool{&responses.FunctionTool{Name: "f"}},
	}
	e := encoding{upstreamID: noIDs}
	got, added, err := e.encode(r)
	if err != nil || !added {
		t.Fatalf("encode: asks for more than the client: %t, error %v", added, err)
	}
	want := `{"model":"m","input":[{"type":"message","role":"user","content":"hi"}],` +
		`"tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}],` +
		`"stream":true,"store":false,"include":["reasoning.encrypted_content"]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// TestEncodeRestoresIDs: only an item that comes back with the content that its
// id stood beside gets the upstream's id, and the request itself is not changed.
func TestEncodeRestoresIDs(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","input":[` +
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"sealed","x":1.0},` +
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"other"},` +
		`{"type":"acme:memory","id":"rs_1","encrypted_content":"sealed"}]}`
	r, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := encoding{plain: true, upstreamID: func(id, encrypted string) string {
		if id == "rs_1" && encrypted == "sealed" {
			return "up/1"
		}
		return ""
	}}
	got, _, err := e.encode(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","input":[` +
		`{"type":"reasoning","id":"up/1","summary":[],"encrypted_content":"sealed","x":1.0},` +
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"other"},` +
		`{"type":"acme:memory","id":"up/1","encrypted_content":"sealed"}],"stream":true,"store":false}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if id := r.Input.Items[0].ItemID(); id != "rs_1" {
		t.Errorf("the request's own item is now %q", id)
	}
}
