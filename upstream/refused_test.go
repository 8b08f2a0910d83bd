package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// TestWhoseKeyWasRefused: a key of the gateway that an upstream refuses is the
// gateway's trouble, the client's own key is the client's.
func TestWhoseKeyWasRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		auth   upstream.Auth
		status int
		want   responses.Code
	}{
		"the client's, unknown":    {upstream.ClientAuth(), 401, responses.CodeInvalidKey},
		"the client's, forbidden":  {upstream.ClientAuth(), 403, responses.CodeForbidden},
		"the client's, other":      {upstream.ClientAuth(), 429, responses.CodeRateLimit},
		"the gateway's, unknown":   {upstream.BearerAuth("ours"), 401, responses.CodeUpstream},
		"the gateway's, forbidden": {upstream.BearerAuth("ours"), 403, responses.CodeUpstream},
		"none":                     {nil, 401, responses.CodeUpstream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(`{"error":{"message":"who are you?"}}`))
			}))
			defer srv.Close()
			base, err := url.Parse(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			e := upstream.Endpoint{Base: base, Auth: test.auth, Client: srv.Client()}
			_, err = e.Post(t.Context(), "x", nil, http.Header{"Authorization": {"Bearer theirs"}})
			if got := responses.AsError(err); got.Code != test.want || !upstream.SafeToRetry(err) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
