package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// TestPublic: clients of a sanitized upstream read our words, by class; what tells
// of an account is a 502; the log has what was said, without the credential (R33).
func TestPublic(t *testing.T) {
	t.Parallel()
	const secret = "sk-canary-0123456789"
	for name, test := range map[string]struct {
		status int
		body   string
		code   responses.Code
		param  string
	}{
		"no such key":       {401, `{"error":{"message":"Incorrect key ` + secret + ` of Acme GmbH"}}`, responses.CodeUpstream, ""},
		"pay first":         {402, `{"error":{"message":"Acme GmbH owes ` + secret + `"}}`, responses.CodeUpstream, ""},
		"not you":           {403, `{"detail":"Acme GmbH may not, ` + secret + `"}`, responses.CodeUpstream, ""},
		"quota":             {429, `{"error":{"type":"insufficient_quota","message":"Acme GmbH, see billing"}}`, responses.CodeUpstream, ""},
		"billing":           {429, `{"error":{"code":"billing_not_active","message":"Acme GmbH, see billing"}}`, responses.CodeUpstream, ""},
		"rate":              {429, `{"error":{"message":"Limit 500 for org Acme GmbH"}}`, responses.CodeRateLimit, ""},
		"its own trouble":   {500, `{"error":{"message":"Acme GmbH node 7 ` + secret + `"}}`, responses.CodeUpstream, ""},
		"overload":          {503, `Acme GmbH`, responses.CodeOverloaded, ""},
		"a bad request":     {400, `{"error":{"message":"Acme GmbH: no","param":"tools[0].name"}}`, responses.CodeInvalidRequest, "tools[0].name"},
		"of its own wire":   {400, `{"error":{"message":"Acme GmbH: no","param":"messages[0]"}}`, responses.CodeInvalidRequest, ""},
		"too long":          {400, `{"error":{"code":"context_length_exceeded","message":"Acme GmbH: 8192"}}`, responses.CodeContextLength, ""},
		"an unknown model":  {404, `{"error":{"message":"deployment acme-gmbh-7"}}`, responses.CodeModelNotFound, ""},
		"something strange": {418, `{"error":{"message":"Acme GmbH teapot"}}`, responses.CodeUpstream, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, err := http.NewRequest(http.MethodPost, "http://acme.test", nil)
			if err != nil {
				t.Fatal(err)
			}
			sent.Header.Set("Authorization", "Bearer "+secret)
			resp := &http.Response{
				StatusCode: test.status, Header: http.Header{"Retry-After": {"3"}}, Request: sent,
				Body: io.NopCloser(strings.NewReader(test.body)),
			}
			said := upstream.AnswerError(resp, nil)
			e := responses.AsError(upstream.Public(said))
			if e.Code != test.code || e.Param != test.param || e.Origin != responses.OriginUpstream || e.RetryAfter != 3*time.Second {
				t.Errorf("got %+v", e)
			}
			if strings.Contains(strings.ToLower(e.Message), "acme") {
				t.Errorf("the client reads %q", e.Message)
			}
			if strings.Contains(e.Error(), secret) || strings.Contains(said.Error(), secret) {
				t.Errorf("the log reads %q", e.Error())
			}
			if strings.Contains(test.body, "message") && !strings.Contains(strings.ToLower(e.Error()), "acme") {
				t.Errorf("the log does not say what was said: %q", e.Error())
			}
			if !errors.Is(e, said) || upstream.SafeToRetry(e) != upstream.SafeToRetry(said) {
				t.Error("the failure is no longer what it was")
			}
		})
	}
	own := responses.InvalidParam(responses.CodeUnsupported, "tools", "Not here.")
	if got := upstream.Public(own); got != error(own) {
		t.Errorf("what is not the upstream's became %v", got)
	}
}

// TestPublicKeepsTheClientsOwn: a credential that the client sent itself is refused
// to the client, whoever the upstream is.
func TestPublicKeepsTheClientsOwn(t *testing.T) {
	t.Parallel()
	sent, err := http.NewRequest(http.MethodPost, "http://acme.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Header{"Authorization": {"Bearer mine"}}
	sent.Header = client
	resp := &http.Response{StatusCode: 401, Request: sent, Body: io.NopCloser(strings.NewReader(`{"error":{"message":"Acme GmbH: no"}}`))}
	e := responses.AsError(upstream.Public(upstream.AnswerError(resp, client)))
	if e.Code != responses.CodeInvalidKey || strings.Contains(e.Message, "Acme") {
		t.Errorf("got %v", e)
	}
}
