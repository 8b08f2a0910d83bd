package antiphon_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// TestPanicsKeepSecrets: also at the level of debug and in the trace of a panic
// nothing is logged of keys, of the gateway or of its upstreams (R35).
func TestPanicsKeepSecrets(t *testing.T) {
	t.Parallel()
	const clientKey, upstreamKey = "canary-client-key-4d1", "canary-upstream-key-9e7"
	_, address := startModel(t, fakeupstream.Responses)
	base, err := url.Parse(address + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	logs := new(lockedBuffer)
	g, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"up": native.New(upstream.Endpoint{Base: base, Client: client, Auth: upstream.BearerAuth(upstreamKey)}, nil)},
		Keys:    []antiphon.Key{{Name: "ci", Secret: clientKey}},
		TransformRequest: func(_ context.Context, _ *antiphon.Caller, r *responses.Request) (*responses.Request, error) {
			if r.Model == "panic" {
				panic("on purpose")
			}
			return r, nil
		},
		Log:    memstore.NewWindow(nil),
		Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g.Handler())
	said := new(strings.Builder)
	for _, key := range []string{clientKey, clientKey + "x", ""} {
		for _, model := range []string{"m", "panic"} {
			req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/responses", strings.NewReader(`{"model":"`+model+`","input":"hello"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			said.WriteString(resp.Status + readUntilCut(resp))
			resp.Body.Close()
		}
	}
	srv.Close()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	log := logs.String()
	if !strings.Contains(log, "on purpose") || !strings.Contains(said.String(), "500 ") || !strings.Contains(said.String(), "401 ") || !strings.Contains(said.String(), "200 ") {
		t.Fatalf("not everything happened: %s, %s", said, log)
	}
	for _, secret := range []string{clientKey, upstreamKey} {
		if strings.Contains(log, secret) || strings.Contains(said.String(), secret) {
			t.Errorf("%s is in %s or in %s", secret, log, said)
		}
	}
}
