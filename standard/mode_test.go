package standard_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// TestModesOfAFile: mode, relay and sanitize of a file decide what clients get (R30,
// R33), and a reload changes it.
func TestModesOfAFile(t *testing.T) {
	t.Parallel()
	fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.JSON(http.StatusPaymentRequired, `{"error":{"message":"Acme GmbH has no credit left."}}`)
	})
	provider := httptest.NewServer(fake)
	t.Cleanup(func() {
		fake.Close()
		provider.Close()
	})
	file := func(root, upstream string) *config.Config {
		c, err := config.Parse([]byte(root+"\nupstreams: { a: { protocol: responses, url: \""+provider.URL+"/v1\""+upstream+" } }"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	quiet := &standard.Options{Logger: slog.New(slog.DiscardHandler)}
	gw, err := standard.New(t.Context(), file("", ""), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Close()
	web := httptest.NewServer(gw.Handler())
	defer web.Close()
	for _, test := range []struct {
		root, upstream string
		status         int
		words          bool
	}{
		{"", "", 402, true},                  // relayed
		{"", ", relay: false", 502, false},   // run: trouble with an account is ours
		{"", ", sanitize: true", 502, false}, // run, too
		{"mode: strict", "", 502, false},
		{"mode: transparent", ", relay: true", 402, true},
	} {
		if err := standard.Reload(t.Context(), gw, file(test.root, test.upstream), quiet); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(web.URL+"/v1/responses", "application/json", strings.NewReader(`{"model":"m","input":"x","store":false,"acme":1}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != test.status || strings.Contains(string(body), "Acme") != test.words || (resp.Header.Get("Antiphon-Stripped") != "") != (test.root == "mode: strict") {
			t.Errorf("%q %q: got %d %v %s", test.root, test.upstream, resp.StatusCode, resp.Header, body)
		}
	}
}
