package antiphon_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/responses"
)

// ask plays the client of the examples: it sends a request with a bearer token and
// returns the status with the text of the answer, or with the error as it came.
func ask(gw *antiphon.Gateway, token, model, input string) string {
	r := httptest.NewRequest("POST", "/v1/responses", strings.NewReader(fmt.Sprintf(`{"model":%q,"input":%q}`, model, input)))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	gw.Handler().ServeHTTP(w, r)
	if w.Code != 200 {
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	answer, err := responses.DecodeResponse(w.Body.Bytes())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(w.Code, " ", answer.Output[0].(*responses.Message).Content.Text())
}
