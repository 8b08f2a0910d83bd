package antiphon_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// A strict gateway says what it took out of a request, and keeps an upstream's
// account to itself.
func ExampleOptions_strict() {
	provider := httptest.NewServer(fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.JSON(http.StatusPaymentRequired, `{"error":{"message":"Acme GmbH has no credit left."}}`)
	}))
	defer provider.Close()
	base, err := url.Parse(provider.URL + "/v1")
	if err != nil {
		panic(err)
	}
	gw, err := antiphon.New(&antiphon.Options{
		Mode:    antiphon.ModeStrict,
		Drivers: map[string]upstream.Driver{"provider": native.New(upstream.Endpoint{Base: base}, nil)},
		Log:     memstore.NewWindow(nil),
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	defer gw.Close()
	web := httptest.NewServer(gw.Handler())
	defer web.Close()

	resp, err := http.Post(web.URL+"/v1/responses", "application/json", strings.NewReader(`{"model":"m","input":"Hello","top_k":4}`))
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Header.Get("Antiphon-Stripped"))
	fmt.Println(resp.StatusCode, string(body))
	// Output:
	// "top_k";reason="unknown member"
	// 502 {"error":{"type":"server_error","code":"upstream_error","message":"The upstream could not answer this request.","param":null}}
}
