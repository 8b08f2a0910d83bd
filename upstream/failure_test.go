package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

const secretProse = "Incorrect API key provided: sk-secret. Your account acc-7 is not active."

// TestStatusError: what each answer of an upstream becomes. The account of the
// gateway is no business of its clients.
func TestStatusError(t *testing.T) {
	t.Parallel()
	const busy = "Too busy, sorry."
	nested := func(typ, code, message string) string {
		return fmt.Sprintf(`{"error":{"type":%q,"code":%q,"message":%q,"param":"input[3]"}}`, typ, code, message)
	}
	tests := []struct {
		name    string
		status  int
		body    string
		code    responses.Code
		param   string
		message string // what it must say; "" for a text of our own
	}{
		{"400", 400, nested("invalid_request_error", "bad", "Wrong."), responses.CodeInvalidRequest, "input[3]", "Wrong."},
		{"422", 422, nested("invalid_request_error", "bad", "Wrong."), responses.CodeInvalidRequest, "input[3]", "Wrong."},
		{"400 with a number for a code", 400, `{"error":{"message":"Wrong.","code":400,"param":null}}`, responses.CodeInvalidRequest, "", "Wrong."},
		{"400 flat", 400, `{"object":"error","message":"Wrong.","type":"BadRequestError","param":null,"code":400}`, responses.CodeInvalidRequest, "", "Wrong."},
		{"400 with a text", 400, `{"error":"Wrong."}`, responses.CodeInvalidRequest, "", "Wrong."},
		{"400 with a detail", 400, `{"detail":"Wrong."}`, responses.CodeInvalidRequest, "", "Wrong."},
		{"400 of HTML", 400, `<html><body>secret</body></html>`, responses.CodeInvalidRequest, "", "status 400"},
		{"400 of nothing", 400, ``, responses.CodeInvalidRequest, "", "status 400"},
		{"context length", 400, nested("invalid_request_error", "context_length_exceeded", "Too long."), responses.CodeContextLength, "input[3]", "Too long."},
		{"context length without a message", 400, `{"error":{"code":"context_length_exceeded"}}`, responses.CodeContextLength, "", "status 400"},
		{"invalid prompt", 400, nested("invalid_request_error", "invalid_prompt", "No."), responses.CodeInvalidPrompt, "input[3]", "No."},
		{"401", 401, nested("authentication_error", "invalid_api_key", secretProse), responses.CodeUpstream, "", "status 401"},
		{"402", 402, nested("billing_error", "", secretProse), responses.CodeUpstream, "", "status 402"},
		{"403", 403, nested("permission_error", "", secretProse), responses.CodeUpstream, "", "status 403"},
		{"401 flat", 401, `{"message":"` + secretProse + `"}`, responses.CodeUpstream, "", "status 401"},
		{"an account's trouble as a 400", 400, nested("authentication_error", "", secretProse), responses.CodeUpstream, "", "status 400"},
		{"an account's trouble as a 500", 500, nested("server_error", "invalid_api_key", secretProse), responses.CodeUpstream, "", "status 500"},
		{"404", 404, nested("invalid_request_error", "model_not_found", "No model m."), responses.CodeModelNotFound, "", "No model m."},
		{"404 of nothing", 404, ``, responses.CodeModelNotFound, "", "status 404"},
		{"405", 405, `Method Not Allowed`, responses.CodeUpstream, "", "status 405"},
		{"408", 408, nested("", "", "Slow."), responses.CodeTimeout, "", "Slow."},
		{"413", 413, nested("", "", "Too big."), responses.CodeTooLarge, "", "Too big."},
		{"429", 429, nested("requests", "rate_limit_exceeded", busy), responses.CodeRateLimit, "", busy},
		{"429 without a word", 429, nested("", "", busy), responses.CodeRateLimit, "", busy},
		{"quota by code", 429, nested("requests", "insufficient_quota", "Pay."), responses.CodeQuota, "", "Pay."},
		{"quota by type", 429, nested("insufficient_quota", "", "Pay."), responses.CodeQuota, "", "Pay."},
		{"500", 500, nested("server_error", "", "Oops."), responses.CodeUpstream, "", "Oops."},
		{"502 of HTML", 502, `<h1>Bad Gateway</h1>`, responses.CodeUpstream, "", "status 502"},
		{"503", 503, nested("", "", busy), responses.CodeOverloaded, "", busy},
		{"503 slow down", 503, nested("", "slow_down", busy), responses.CodeOverloaded, "", busy},
		{"504", 504, ``, responses.CodeTimeout, "", "status 504"},
		{"529", 529, nested("overloaded_error", "", busy), responses.CodeOverloaded, "", busy},
		{"302", 302, ``, responses.CodeUpstream, "", "status 302"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := upstream.StatusError(&http.Response{StatusCode: tt.status, Header: http.Header{}}, []byte(tt.body))
			e, ok := errors.AsType[*responses.Error](err)
			if !ok {
				t.Fatalf("got %v, want a *responses.Error", err)
			}
			if e.Code != tt.code || e.Param != tt.param || !strings.Contains(e.Message, tt.message) || e.Origin != responses.OriginUpstream {
				t.Errorf("got %s at %q: %q (%s); want %s at %q: %q", e.Code, e.Param, e.Message, e.Origin, tt.code, tt.param, tt.message)
			}
			if strings.Contains(e.Message, "secret") || strings.Contains(e.Message, "acc-7") {
				t.Errorf("the message shows what is not the client's: %q", e.Message)
			}
			if !upstream.SafeToRetry(err) {
				t.Error("an upstream that refused has not run the turn, so another may")
			}
		})
	}
}

// TestWireErrorInAStream: what an upstream says of its failure inside a stream
// has no status.
func TestWireErrorInAStream(t *testing.T) {
	t.Parallel()
	tests := []struct {
		typ, code, message string
		want               responses.Code
		wantMessage        string
	}{
		{"server_error", "", "Oops.", responses.CodeUpstream, "Oops."},
		{"", "", "", responses.CodeUpstream, "without saying why"},
		{"invalid_request_error", "", "Wrong.", responses.CodeInvalidRequest, "Wrong."},
		{"invalid_request_error", "context_length_exceeded", "Too long.", responses.CodeContextLength, "Too long."},
		{"overloaded_error", "", "Busy.", responses.CodeOverloaded, "Busy."},
		{"", "server_is_overloaded", "Busy.", responses.CodeOverloaded, "Busy."},
		{"rate_limit_error", "", "Wait.", responses.CodeRateLimit, "Wait."},
		{"", "insufficient_quota", "Pay.", responses.CodeQuota, "Pay."},
		{"", "model_not_found", "No model.", responses.CodeModelNotFound, "No model."},
		{"authentication_error", "", secretProse, responses.CodeUpstream, "refused the gateway's request"},
		{"permission_error", "", secretProse, responses.CodeUpstream, "refused the gateway's request"},
		{"billing_error", "", secretProse, responses.CodeUpstream, "refused the gateway's request"},
		{"invalid_request_error", "invalid_api_key", secretProse, responses.CodeUpstream, "refused the gateway's request"},
		{"", "server_error", "Oops.", responses.CodeUpstream, "Oops."},
		{"", "acme", "Oops.", responses.CodeUpstream, "Oops."},
	}
	for _, tt := range tests {
		t.Run(tt.typ+"/"+tt.code, func(t *testing.T) {
			t.Parallel()
			e := upstream.WireError(0, tt.typ, tt.code, tt.message)
			if e.Code != tt.want || !strings.Contains(e.Message, tt.wantMessage) || strings.Contains(e.Message, "secret") {
				t.Errorf("got %s: %q, want %s: %q", e.Code, e.Message, tt.want, tt.wantMessage)
			}
			if upstream.SafeToRetry(e) {
				t.Error("a turn that failed in its stream has been run")
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		tests := []struct {
			name, header string
			want         time.Duration
		}{
			{"none", "", 0},
			{"seconds", "7", 7 * time.Second},
			{"a fraction", "0.5", 500 * time.Millisecond},
			{"a date", date(90 * time.Second), 90 * time.Second},
			{"a date that has passed", date(-time.Hour), 0},
			{"zero", "0", 0},
			{"negative", "-5", 0},
			{"a word", "soon", 0},
			{"a unit", "5m", 0},
			{"too many", "99999999999999999999", 0},
		}
		for _, tt := range tests {
			resp := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {tt.header}}}
			if got := responses.AsError(upstream.StatusError(resp, nil)).RetryAfter; got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		}
	})
}

func TestReadFailure(t *testing.T) {
	t.Parallel()
	err := upstream.ReadFailure(t.Context(), errRead)
	if e := responses.AsError(err); e.Code != responses.CodeUpstream || !errors.Is(err, errRead) || strings.Contains(e.Message, "tcp") {
		t.Errorf("got %v, want an upstream_error with a private cause", err)
	}
	if upstream.SafeToRetry(err) {
		t.Error("an answer that had begun must not be asked for twice")
	}
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := upstream.ReadFailure(ctx, errRead); err != gone {
		t.Errorf("got %v, want %v", err, gone)
	}
}

// TestMalformed: the failure names the frame, and not all of it (R15).
func TestMalformed(t *testing.T) {
	t.Parallel()
	cause := errors.New("not JSON")
	err := upstream.Malformed([]byte("oops\x00"), cause)
	if e := responses.AsError(err); e.Code != responses.CodeUpstream || !strings.Contains(e.Message, `"oops\x00"`) || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	long := responses.AsError(upstream.Malformed([]byte(strings.Repeat("x", 1<<20)), cause))
	if len(long.Message) > 300 || !strings.Contains(long.Message, "1048576 bytes") {
		t.Errorf("a long frame gives a message of %d bytes: %.200s", len(long.Message), long.Message)
	}
}
