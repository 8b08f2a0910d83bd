package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/upstream"
)

// listener is an upstream that notes the header of each request.
type listener struct {
	*httptest.Server
	got []http.Header
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := new(listener)
	l.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		l.got = append(l.got, r.Header)
	}))
	t.Cleanup(l.Close)
	return l
}

// post sends a request of a client with that header through e.
func (l *listener) post(t *testing.T, e upstream.Endpoint, client http.Header) error {
	t.Helper()
	base, err := url.Parse(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	e.Base, e.Client = base, l.Client()
	resp, err := e.Post(t.Context(), "responses", []byte("{}"), client)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// TestClientHeaders: an endpoint forwards the client's headers only if it is told
// to, and the client's credential only where the client is to sign in itself.
func TestClientHeaders(t *testing.T) {
	t.Parallel()
	header := func(pairs ...string) http.Header {
		h := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream, application/json"}, "Content-Length": {"2"}, "Accept-Encoding": {"gzip"}}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	plain := []string{"Session-Id", "s", "User-Agent", "codex/1", "X-Codex-Beta-Features", "a", "X-Codex-Beta-Features", "b", "X-Openai-Subagent", "review"}
	credential := []string{
		"Authorization", "Bearer client", "Chatgpt-Account-Id", "acc", "Openai-Organization", "org", "Openai-Project", "proj",
		"X-Openai-Actor-Authorization", "actor", "X-Openai-Agent-Assertion", "jwt", "X-Openai-Account-Routing-Override", "x", "X-Oai-Attestation", "y",
	}
	const goAgent = "Go-http-client/1.1"
	all := slices.Concat(plain, credential)
	for name, tt := range map[string]struct {
		endpoint upstream.Endpoint
		client   []string
		want     http.Header
	}{
		"nothing forwarded": {upstream.Endpoint{}, all, header("User-Agent", goAgent)},
		"the gateway's key": {upstream.Endpoint{Auth: upstream.BearerAuth("ours")}, all, header("User-Agent", goAgent, "Authorization", "Bearer ours")},
		"forwarded, no credential": {
			upstream.Endpoint{ForwardHeaders: true}, all, header(plain...),
		},
		"forwarded, the gateway's key": {
			upstream.Endpoint{ForwardHeaders: true, Auth: upstream.BearerAuth("ours")}, all, header(append(plain, "Authorization", "Bearer ours")...),
		},
		"forwarded, the client's key": {
			upstream.Endpoint{ForwardHeaders: true, Auth: upstream.ClientAuth()}, all, header(all...),
		},
		"only the client's key": {
			upstream.Endpoint{Auth: upstream.ClientAuth()}, all, header(append(credential, "User-Agent", goAgent)...),
		},
		"a project without a key": {
			upstream.Endpoint{Auth: upstream.ClientAuth()}, []string{"Openai-Project", "proj"}, header("User-Agent", goAgent),
		},
		"the operator's headers win": {
			upstream.Endpoint{ForwardHeaders: true, Auth: upstream.ClientAuth(), Header: http.Header{"User-Agent": {"ours"}, "Openai-Project": {"ours"}}},
			[]string{"User-Agent", "theirs", "Authorization", "Bearer client", "Openai-Project", "theirs"},
			header("User-Agent", "ours", "Authorization", "Bearer client", "Openai-Project", "ours"),
		},
		"a second credential is none": {
			upstream.Endpoint{Auth: upstream.ClientAuth()},
			[]string{"Authorization", "Bearer one", "Authorization", "Bearer two"},
			header("User-Agent", goAgent, "Authorization", "Bearer one"),
		},
		"not the type of the body": {
			upstream.Endpoint{ForwardHeaders: true}, []string{"Content-Type", "text/plain", "User-Agent", "x"}, header("User-Agent", "x"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			client := http.Header{}
			for i := 0; i < len(tt.client); i += 2 {
				client.Add(tt.client[i], tt.client[i+1])
			}
			before := client.Clone()
			if err := l.post(t, tt.endpoint, client); err != nil {
				t.Fatal(err)
			}
			l.Close()
			if diff := cmp.Diff([]http.Header{tt.want}, l.got); diff != "" {
				t.Errorf("the upstream got (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, client); diff != "" {
				t.Errorf("the client's headers were changed:\n%s", diff)
			}
		})
	}
}

// TestHeaderInjection: a line break in a value does not become a header. Our own
// server never yields one; an embedder's might.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]http.Header{
		"forwarded value": {"User-Agent": {"a\r\nX-Evil: 1"}},
		"forwarded name":  {"X-Codex-A\r\nX-Evil": {"1"}},
		"line feed":       {"User-Agent": {"a\nX-Evil: 1"}},
		"credential":      {"Authorization": {"Bearer a\r\nX-Evil: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			err := l.post(t, upstream.Endpoint{ForwardHeaders: true, Auth: upstream.ClientAuth()}, client)
			l.Close()
			if err == nil || len(l.got) > 0 {
				t.Errorf("%v; the upstream got %v", err, l.got)
			}
		})
	}
}
