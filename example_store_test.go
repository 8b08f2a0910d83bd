package antiphon_test

import (
	"encoding/json/v2"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A store makes a gateway remember: responses can be gone on from and fetched.
// pgstore and redisstore share what they hold between gateways.
func ExampleNew_store() {
	gw, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"parrot": parrot{}},
		Store:   memstore.NewStore(&memstore.StoreOptions{Bytes: 64 << 20}),
		Log:     memstore.NewWindow(nil),
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close() // also closes the store
	call := func(method, path, body string) (answer struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Store  bool   `json:"store"`
	}) {
		w := httptest.NewRecorder()
		gw.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		if w.Code != http.StatusOK {
			fmt.Println(w.Code, w.Body)
		} else if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			fmt.Println(err)
		}
		return answer
	}
	first := call("POST", "/v1/responses", `{"model":"polly","input":"hello"}`)
	second := call("POST", "/v1/responses", `{"model":"polly","input":"hello again","previous_response_id":"`+first.ID+`"}`)
	got := call("GET", "/v1/responses/"+second.ID, "")
	fmt.Println(got.Status, got.Store, got.ID == second.ID)
	// Output: completed true true
}
