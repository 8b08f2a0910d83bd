package chat

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

func mustDecode(t testing.TB, body string) *responses.Request {
	t.Helper()
	r, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOptions checks what each option changes in the request; what the zero
// options do is in the goldens.
func TestOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, request string
		opts          Options
		want          map[string]any // members of the wire request; nil means absent
		losses        []string       // their params
	}{
		{
			name:    "developer role",
			request: `{"model":"m","instructions":"A.","input":[{"role":"developer","content":"B."},{"role":"system","content":"C."}]}`,
			opts:    Options{DeveloperRole: true},
			want: map[string]any{"messages": []any{
				map[string]any{"role": "system", "content": "A."},
				map[string]any{"role": "developer", "content": "B."},
				map[string]any{"role": "system", "content": "C."},
			}},
		},
		{
			name:    "max_completion_tokens",
			request: `{"model":"m","input":"Hi.","max_output_tokens":64}`,
			opts:    Options{MaxCompletionTokens: true},
			want:    map[string]any{"max_completion_tokens": 64.0, "max_tokens": nil},
		},
		{
			name: "reasoning omitted",
			request: `{"model":"m","input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]},
				{"role":"assistant","content":"A."},{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]},{"role":"assistant","content":"B."}]}`,
			opts:   Options{OmitReasoning: true},
			want:   map[string]any{"messages": []any{map[string]any{"role": "assistant", "content": "A.\nB."}}},
			losses: []string{"input[0].summary"},
		},
		{
			name:    "no stream",
			request: `{"model":"m","input":"Hi.","stream":true}`,
			opts:    Options{NoStream: true},
			want:    map[string]any{"stream": false, "stream_options": nil},
		},
		{
			name:    "extensions",
			request: `{"model":"m","input":"Hi.","top_k":40,"min_p":0.1,"chat_template_kwargs":{"enable_thinking":false}}`,
			opts:    Options{Extensions: []string{"top_k", "chat_template_kwargs"}},
			want: map[string]any{
				"top_k": 40.0, "min_p": nil, "chat_template_kwargs": map[string]any{"enable_thinking": false},
			},
			losses: []string{"min_p"},
		},
		{
			name:    "extension of the driver's own",
			request: `{"model":"m","input":"Hi.","max_output_tokens":64,"max_tokens":1}`,
			opts:    Options{Extensions: []string{"max_tokens"}},
			want:    map[string]any{"max_tokens": 64.0},
			losses:  []string{"max_tokens"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			enc, err := encode(&upstream.Turn{Request: mustDecode(t, tt.request)}, &tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			var wire map[string]any
			if err := json.Unmarshal(enc.body, &wire); err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if diff := cmp.Diff(want, wire[name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if diff := cmp.Diff(tt.losses, lossParams(enc.losses)); diff != "" {
				t.Errorf("losses (-want +got):\n%s", diff)
			}
		})
	}
}

func lossParams(losses []responses.Loss) []string {
	var params []string
	for _, l := range losses {
		params = append(params, l.Param)
	}
	return params
}

// TestLossesAreBounded: a client cannot make the report endless.
func TestLossesAreBounded(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString(`{"model":"m","input":"Hi."`)
	for i := range 10 * upstream.MaxLosses {
		fmt.Fprintf(&body, `,"x%d":0`, i)
	}
	body.WriteString("}")
	enc, err := encode(&upstream.Turn{Request: mustDecode(t, body.String())}, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(enc.losses) != upstream.MaxLosses {
		t.Fatalf("%d losses, want %d", len(enc.losses), upstream.MaxLosses)
	}
	if last := enc.losses[upstream.MaxLosses-1]; last.Param != "" || last.Reason == "" {
		t.Errorf("the last loss is %+v, want one that says there are more", last)
	}
}

// FuzzEncode: what the gateway accepts is encoded to JSON or refused by name.
func FuzzEncode(f *testing.F) {
	goldens, err := upstreamtest.Load("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range goldens {
		f.Add(g.Request)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := responses.DecodeRequest(body, nil)
		if err != nil {
			return
		}
		enc, err := encode(&upstream.Turn{Request: r}, &Options{Extensions: []string{"top_k", "max_tokens"}})
		if err != nil {
			if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param == "" {
				t.Fatalf("refused without naming a field: %v", err)
			}
			return
		}
		var wire struct {
			Model    string `json:"model"`
			Messages []any  `json:"messages"`
		}
		if err := json.Unmarshal(enc.body, &wire); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, enc.body)
		}
		if wire.Model != r.Model || len(enc.losses) > upstream.MaxLosses {
			t.Errorf("model %q, %d losses", wire.Model, len(enc.losses))
		}
	})
}
