package responses_test

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"go/ast"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// wireCodes is the contract with clients, written down a second time so that a
// change of the table is a decision. Codes and types are the words that clients
// act on.
var wireCodes = map[responses.Code]struct {
	status int
	typ    string
}{
	"invalid_json":                {400, "invalid_request_error"},
	"invalid_type":                {400, "invalid_request_error"},
	"invalid_value":               {400, "invalid_request_error"},
	"missing_required_parameter":  {400, "invalid_request_error"},
	"unsupported_parameter":       {400, "invalid_request_error"},
	"invalid_request":             {400, "invalid_request_error"},
	"invalid_prompt":              {400, "invalid_request_error"},
	"context_length_exceeded":     {400, "invalid_request_error"},
	"previous_response_not_found": {400, "invalid_request_error"},
	"invalid_api_key":             {401, "authentication_error"},
	"permission_denied":           {403, "permission_error"},
	"not_found":                   {404, "not_found_error"},
	"model_not_found":             {404, "invalid_request_error"},
	"method_not_allowed":          {405, "invalid_request_error"},
	"request_too_large":           {413, "invalid_request_error"},
	"unsupported_media_type":      {415, "invalid_request_error"},
	"upgrade_required":            {426, "invalid_request_error"},
	"rate_limit_exceeded":         {429, "rate_limit_error"},
	"insufficient_quota":          {429, "insufficient_quota"},
	"client_closed_request":       {499, "client_error"},
	"server_error":                {500, "server_error"},
	"upstream_error":              {502, "server_error"},
	"server_is_overloaded":        {503, "service_unavailable_error"},
	"upstream_timeout":            {504, "server_error"},
}

// TestEveryCodeIsInTheTable walks the constants in the source, so that a new one
// cannot be forgotten here or in the table (R8).
func TestEveryCodeIsInTheTable(t *testing.T) {
	t.Parallel()
	declared := codeConstants(t)
	if len(declared) != len(wireCodes) {
		t.Errorf("the source declares %d codes, this test knows %d", len(declared), len(wireCodes))
	}
	for _, c := range declared {
		want, ok := wireCodes[c]
		if !ok {
			t.Errorf("%s: this test does not know it", c)
			continue
		}
		if !c.Known() || c.Status() != want.status || c.WireType() != want.typ {
			t.Errorf("%s: known %t, %d %s; want true, %d %s", c, c.Known(), c.Status(), c.WireType(), want.status, want.typ)
		}
	}
	if c := responses.Code("acme"); c.Known() || c.Status() != http.StatusInternalServerError || c.WireType() != "server_error" {
		t.Errorf("an unknown code: known %t, %d %s; want false, 500 server_error", c.Known(), c.Status(), c.WireType())
	}
}

// codeConstants returns the values of all constants of type Code.
func codeConstants(t *testing.T) []responses.Code {
	t.Helper()
	var codes []responses.Code
	eachFile(t, ".", func(_ string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Code" {
				return true
			}
			for _, v := range spec.Values {
				s, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, responses.Code(s))
			}
			return true
		})
	})
	if len(codes) == 0 {
		t.Fatal("no constant of type Code in the source")
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// TestBodyHidesTheCause: what is for logs never reaches a client.
func TestBodyHidesTheCause(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.0.0.7:5432: password sk-secret")
	tests := []struct {
		name string
		err  *responses.Error
	}{
		{"with a cause", responses.Errorf(responses.CodeServer, "It broke.").WithCause(secret)},
		{"of the upstream", responses.UpstreamErrorf(responses.CodeUpstream, "It broke.").WithCause(secret)},
		{"of the client", responses.InvalidParam(responses.CodeInvalidValue, "model", "It broke.").WithCause(secret)},
		{"foreign", responses.AsError(secret)},
		{"foreign and wrapped", responses.AsError(fmt.Errorf("load: %w", secret))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(tt.err.Body())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(body), "secret") || strings.Contains(string(body), "10.0.0.7") {
				t.Errorf("the body shows the cause: %s", body)
			}
			if !strings.Contains(tt.err.Error(), "sk-secret") {
				t.Errorf("the log text %q does not have the cause", tt.err)
			}
			if !errors.Is(tt.err, secret) {
				t.Error("errors.Is does not see the cause")
			}
		})
	}
}

func TestErrorBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  *responses.Error
		want string
	}{
		{"with a param", responses.InvalidParam(responses.CodeMissing, "input[0].role", "A %s.", "word"),
			`{"type":"invalid_request_error","code":"missing_required_parameter","message":"A word.","param":"input[0].role"}`},
		{"without a param", responses.Errorf(responses.CodeRateLimit, "Wait."),
			`{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"Wait.","param":null}`},
		{"R31: unsupported", responses.Unsupported("tools[0]", "No."),
			`{"type":"invalid_request_error","code":"unsupported_parameter","message":"No.","param":"tools[0]"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sameJSON(t, encode(t, tt.err.Body()), []byte(tt.want))
		})
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	tests := []struct {
		name string
		err  *responses.Error
		want string
	}{
		{"plain", responses.Errorf(responses.CodeServer, "It broke."), "server_error: It broke."},
		{"param", responses.InvalidParam(responses.CodeMissing, "model", "Missing."), "missing_required_parameter: model: Missing."},
		{"cause", responses.Errorf(responses.CodeServer, "It broke.").WithCause(cause), "server_error: It broke. (cause)"},
		{"wrapped", responses.Errorf(responses.CodeServer, "It broke: %w", cause), "server_error: It broke: cause (cause)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAsError(t *testing.T) {
	t.Parallel()
	if got := responses.AsError(nil); got != nil {
		t.Errorf("AsError(nil) = %v, want nil", got)
	}
	ours := responses.Errorf(responses.CodeQuota, "Pay.")
	for _, err := range []error{ours, fmt.Errorf("run: %w", ours), errors.Join(context.Canceled, ours)} {
		if got := responses.AsError(err); got != ours {
			t.Errorf("AsError(%v) = %v, want the error inside", err, got)
		}
	}
	got := responses.AsError(context.Canceled)
	if got.Code != responses.CodeServer || !errors.Is(got, context.Canceled) || got.Message == "" {
		t.Errorf("AsError(context.Canceled) = %+v, want a server_error that wraps it", got)
	}
}

// TestWithCauseCopies: shared errors may be package variables.
func TestWithCauseCopies(t *testing.T) {
	t.Parallel()
	base := &responses.Error{Code: responses.CodeTimeout, Message: "Late.", RetryAfter: time.Second, Origin: responses.OriginUpstream}
	with := base.WithCause(context.DeadlineExceeded)
	if base.Unwrap() != nil {
		t.Error("WithCause changed its receiver")
	}
	if with.RetryAfter != time.Second || with.Origin != responses.OriginUpstream {
		t.Errorf("WithCause lost members: %+v", with)
	}
}

// TestErrorsQuoteLittle: a client's value in a message must not make the error as
// large as the request was.
func TestErrorsQuoteLittle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100_000)
	for name, body := range map[string]string{
		"value":           `{"truncation":"` + long + `"}`,
		"role":            `{"input":[{"role":"` + long + `"}]}`,
		"duplicate":       `{"` + long + `":1,"` + long + `":2}`,
		"syntax below it": `{"` + long + `":[}`,
		"depth below it":  `{"` + long + `":` + strings.Repeat("[", 300),
		"metadata":        `{"metadata":{"` + long + `":5}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := responses.DecodeRequest([]byte(body), nil)
			e := responses.AsError(err)
			if e == nil || e.Code == responses.CodeServer {
				t.Fatalf("got %v, want a refusal", err)
			}
			if len(e.Message) > 1200 || len(e.Param) > 300 {
				t.Errorf("message of %d bytes, param of %d", len(e.Message), len(e.Param))
			}
			if !utf8.ValidString(e.Message) || !utf8.ValidString(e.Param) {
				t.Error("cut in the middle of a character")
			}
		})
	}
}

func TestLossEncodes(t *testing.T) {
	t.Parallel()
	got := encode(t, []responses.Loss{{Param: "top_logprobs", Reason: "not offered"}})
	if diff := cmp.Diff(`[{"param":"top_logprobs","reason":"not offered"}]`, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
