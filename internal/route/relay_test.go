package route_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// echo is an upstream that answers what is relayed to it with a body.
type echo struct {
	stub
	calls  atomic.Int64
	status int
	kind   string // of the body
	body   string
	sent   http.Header // what it says that it was asked with
	breaks error       // how the body ends, nil if well
	err    error       // in place of an answer
}

func (*echo) Relays(string) bool { return true }

func (e *echo) Relay(context.Context, *upstream.Passage) (*http.Response, error) {
	e.calls.Add(1)
	if e.err != nil {
		return nil, e.err
	}
	body := io.Reader(strings.NewReader(e.body))
	if e.breaks != nil {
		body = io.MultiReader(body, iotest.ErrReader(e.breaks))
	}
	return &http.Response{StatusCode: e.status, Header: http.Header{"Content-Type": {e.kind}}, Body: io.NopCloser(body), Request: &http.Request{Header: e.sent}}, nil
}

// streaming returns an upstream that answers with frames of these data.
func streaming(data ...string) *echo {
	return &echo{status: http.StatusOK, kind: "text/event-stream", body: "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"}
}

// echoes returns a router whose models go to first, and then to second. With a
// name the targets call the model that, otherwise what the client calls it.
func echoes(t *testing.T, first, second *echo, name string) *route.Router {
	t.Helper()
	r, err := route.New(map[string]upstream.Driver{"first": first, "second": second}, map[string]route.Model{"*": {
		Targets: []route.Target{{Upstream: "first", Model: name}, {Upstream: "second", Model: name, Priority: 2}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// relay relays one request and returns who answered, and what.
func relay(t *testing.T, r *route.Router, p *upstream.Passage) (by, body string) {
	t.Helper()
	answer, err := r.Relay(t.Context(), "m", "", p)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Upstream, string(all)
}

// TestHowRelayedStreamsBegin: a stream of any API that is relayed stays with the
// target that began it, and moves on from one that fails before that (R32).
func TestHowRelayedStreamsBegin(t *testing.T) {
	t.Parallel()
	const created, delta = `{"type":"response.created","response":{}}`, `{"type":"response.output_text.delta","delta":"x"}`
	for name, test := range map[string]struct {
		data []string
		by   string
	}{
		"a response":                     {[]string{created, delta}, "first"},
		"a response that fails":          {[]string{created, `{"type":"response.failed","response":{}}`}, "second"},
		"a response that breaks off":     {[]string{created}, "second"},
		"a chat":                         {[]string{`{"object":"chat.completion.chunk","choices":[]}`, `[DONE]`}, "first"},
		"a chat that fails":              {[]string{`{"error":{"message":"boom","code":500}}`}, "second"},
		"a chat whose error is nothing":  {[]string{`{"choices":[],"error":null}`, `[DONE]`}, "first"},
		"a message that fails":           {[]string{`{"type":"error","error":{"type":"overloaded_error"}}`}, "second"},
		"nothing at all, and an end":     {[]string{`[DONE]`}, "first"},
		"something that is no event":     {[]string{`hello`}, "first"},
		"an event of a type in its name": {[]string{`{"x":1}`}, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := streaming(test.data...), streaming(delta)
			by, body := relay(t, echoes(t, first, second, ""), &upstream.Passage{Path: "x"})
			if by != test.by {
				t.Errorf("answered by %s, want %s", by, test.by)
			}
			if want := map[string]string{"first": first.body, "second": second.body}[by]; body != want {
				t.Errorf("got %q, want %q", body, want)
			}
		})
	}
}

// TestClientsDoNotEject: what a client makes up, a model's name or a path, says
// nothing of the target's health, so it cannot take the target from others; what
// the configuration says does (R32).
func TestClientsDoNotEject(t *testing.T) {
	t.Parallel()
	const refused = `{"error":{"message":"no such thing"}}`
	for name, test := range map[string]struct {
		status  int
		model   string // as the targets call it
		p       upstream.Passage
		ejected bool
	}{
		"a name of the client's":             {http.StatusNotFound, "", upstream.Passage{Path: "responses"}, false},
		"a part of a name":                   {http.StatusNotFound, "x-*", upstream.Passage{Path: "responses", Body: []byte(`{"model":"m"}`)}, false},
		"a name of the configuration's":      {http.StatusNotFound, "x", upstream.Passage{Path: "responses", Body: []byte(`{"model":"m"}`)}, true},
		"a path of the client's":             {http.StatusNotFound, "", upstream.Passage{Path: "x", Once: true}, false},
		"a path that is not allowed":         {http.StatusForbidden, "", upstream.Passage{Path: "x", Once: true}, false},
		"a path that the server fails at":    {http.StatusInternalServerError, "", upstream.Passage{Path: "x", Once: true}, false},
		"a path of ours that it does not do": {http.StatusInternalServerError, "", upstream.Passage{Path: "responses"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := &echo{status: test.status, kind: "application/json", body: refused}
			second := &echo{status: http.StatusOK, kind: "application/json", body: `{}`}
			r := echoes(t, first, second, test.model)
			for range 30 {
				relay(t, r, &test.p)
			}
			if got := first.calls.Load() < 30; got != test.ejected {
				t.Errorf("ejected: %t, want %t (%d calls)", got, test.ejected, first.calls.Load())
			}
		})
	}
}

// TestRefusalsMoveOn: what a relayed request fails at for reasons of the target is
// done by another, as for one that is run; the client's own faults, its credential
// among them, stay its own and pass as they came (R32).
func TestRefusalsMoveOn(t *testing.T) {
	t.Parallel()
	const refused = `{"error":{"message":"no"}}`
	own := http.Header{"Authorization": {"Bearer of-the-client"}}
	for name, test := range map[string]struct {
		status int
		sent   http.Header // with what the upstream was asked
		by     string
	}{
		"it fails":                          {http.StatusInternalServerError, nil, "second"},
		"it has too much to do":             {http.StatusTooManyRequests, nil, "second"},
		"it does not know the gateway":      {http.StatusUnauthorized, nil, "second"},
		"it wants to be paid":               {http.StatusPaymentRequired, nil, "second"},
		"it does not have the model":        {http.StatusNotFound, nil, "second"},
		"it does not know the client":       {http.StatusUnauthorized, own, "first"},
		"it does not allow it the client":   {http.StatusForbidden, own, "first"},
		"the request is not valid":          {http.StatusBadRequest, nil, "first"},
		"the request is larger than it may": {http.StatusRequestEntityTooLarge, nil, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := &echo{status: test.status, kind: "application/json", body: refused, sent: test.sent}
			second := &echo{status: http.StatusOK, kind: "application/json", body: `{}`}
			r := echoes(t, first, second, "x")
			for range 30 { // the client's faults do not eject either
				by, body := relay(t, r, &upstream.Passage{Path: "responses", Header: own, Body: []byte(`{"model":"m"}`)})
				if by != test.by || by == "first" && body != refused {
					t.Fatalf("%s answered %q, want %s", by, body, test.by)
				}
			}
		})
	}
}

// TestBrokenRelaysEject: a target whose relayed answers break off after they have
// begun is ejected like one whose turns do, and not for what clients do (R32).
func TestBrokenRelaysEject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks  error
		leaves  bool // the client, in the middle
		kind    string
		ejected bool
	}{
		"whole streams":            {nil, false, "text/event-stream", false},
		"streams that break off":   {io.ErrUnexpectedEOF, false, "text/event-stream", true},
		"streams that stop":        {upstream.ErrIdle, false, "text/event-stream", true},
		"answers that break off":   {io.ErrUnexpectedEOF, false, "application/json", true},
		"clients that leave":       {io.ErrUnexpectedEOF, true, "text/event-stream", false},
		"clients that do not read": {nil, true, "text/event-stream", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := streaming(`{"type":"response.output_text.delta","delta":"x"}`)
			first.breaks, first.kind = test.breaks, test.kind
			r := echoes(t, first, streaming(`{"type":"response.output_text.delta"}`), "")
			for range 30 {
				ctx, leave := context.WithCancel(t.Context())
				answer, err := r.Relay(ctx, "m", "", &upstream.Passage{Path: "responses"})
				if err != nil {
					t.Fatal(err)
				}
				if test.leaves {
					leave()
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				leave()
			}
			if got := first.calls.Load() < 30; got != test.ejected {
				t.Errorf("ejected: %t, want %t (%d calls)", got, test.ejected, first.calls.Load())
			}
		})
	}
}

// TestUploadsDoNotEject: how long a client takes to send what is passed on while it
// comes, and whether it does so to the end, says nothing of the target; that nobody
// is there does (R32).
func TestUploadsDoNotEject(t *testing.T) {
	t.Parallel()
	cut := responses.UpstreamErrorf(responses.CodeUpstream, "The upstream could not be reached.").WithCause(upstream.ErrUnreachable)
	for name, test := range map[string]struct {
		err     error
		ejected bool
	}{
		"it takes too long":         {upstream.ErrFirstEvent, false},
		"the upstream hangs up":     {cut, false},
		"the client's body is bad":  {responses.InvalidParam(responses.CodeTooLarge, "", "too large"), false},
		"nobody is there to get it": {cut.WithCause(upstream.Unsent(upstream.ErrUnreachable)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := &echo{err: test.err}
			r := echoes(t, first, streaming(`{}`), "")
			for range 30 {
				answer, err := r.Relay(t.Context(), "m", "", &upstream.Passage{Path: "x", Once: true})
				if err == nil {
					answer.Body.Close()
				}
			}
			if got := first.calls.Load() < 30; got != test.ejected {
				t.Errorf("ejected: %t, want %t (%d calls)", got, test.ejected, first.calls.Load())
			}
		})
	}
}

// TestWholeAnswersBegin: a whole answer that breaks off before it has begun is made
// by another target; one that had begun is not, and one that is empty is an answer
// (R32).
func TestWholeAnswersBegin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body   string
		breaks error
		by     string
	}{
		"whole":                   {`{}`, nil, "first"},
		"empty":                   {"", nil, "first"},
		"broken before it began":  {"", io.ErrUnexpectedEOF, "second"},
		"silent before it began":  {"", upstream.ErrFirstEvent, "second"},
		"broken after it began":   {`{`, io.ErrUnexpectedEOF, "first"},
		"large and broken at end": {strings.Repeat(" ", 100_000), io.ErrUnexpectedEOF, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := &echo{status: http.StatusOK, kind: "application/json", body: test.body, breaks: test.breaks}
			r := echoes(t, first, &echo{status: http.StatusOK, kind: "application/json", body: `{"second":1}`}, "")
			answer, err := r.Relay(t.Context(), "m", "", &upstream.Passage{Path: "responses"})
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			got, _ := io.ReadAll(answer.Body)
			if answer.Upstream != test.by || test.by == "first" && string(got) != test.body {
				t.Errorf("%s answered %.20q", answer.Upstream, got)
			}
		})
	}
}
