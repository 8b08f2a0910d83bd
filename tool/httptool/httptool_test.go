package httptool_test

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/tool/httptool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s [%s]", r.Method, r.URL.RequestURI(), body, r.Header.Get("X-Key"))
}

// TestRequests: arguments go where the template has them, escaped for that place,
// and what is left goes into the query or the body (R43).
func TestRequests(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(echo))
	defer srv.Close()
	for _, tt := range []struct{ method, url, arguments, want string }{
		{"", "/v1?q={city}", `{"city":"Rome"}`, "GET /v1?q=Rome  [k]"},
		{"GET", "/v1?q={city}&n=1", `{"city":"A&b=c #?/é"}`, "GET /v1?q=A%26b%3Dc+%23%3F%2F%C3%A9&n=1  [k]"},
		{"GET", "/v1/{city}/now", `{"city":"a/../b?c"}`, "error: one dot or two"},
		{"GET", "/v1/{city}/now", `{"city":"a/b?c"}`, "GET /v1/a%2Fb%3Fc/now  [k]"},
		{"GET", "/v1/{city}/now", `{"city":".."}`, "error: one dot or two"},
		{"DELETE", "/v1/{id}", `{"id":""}`, "error: must not be empty"},
		{"GET", "/v1?user=me&q={city}", `{"city":"x","user":"you"}`, "error: \"user\" is not one that can be given"},
		{"GET", "/v1?q={city}", `{"city":"x","q":"y"}`, "error: \"q\" is not one that can be given"},
		{"GET", "/v1/{city}", `{}`, "error: the argument city is missing"},
		{"GET", "/v1/{city}", `{"city":null}`, "error: the argument city is missing"},
		{"GET", "/v1", `{"n":1.50,"list":[1,2],"s":"x y"}`, "GET /v1?n=1.50&list=%5B1%2C2%5D&s=x+y  [k]"},
		{"GET", "/v1", ``, "GET /v1  [k]"},
		{"GET", "", `{"a":true}`, "GET /?a=true  [k]"},
		{"DELETE", "/v1/{id}", `{"id":7,"force":true}`, "DELETE /v1/7?force=true  [k]"},
		{"post", "/v1/{id}", `{"id":"x","n":1.50,"o":{"k":[]}}`, `POST /v1/x {"n":1.50,"o":{"k":[]}} [k]`},
		{"PUT", "/v1", `{}`, "PUT /v1 {} [k]"},
		{"GET", "/v1", `[1]`, "error: not a JSON object"},
		{"GET", "/v1", `{"a":`, "error: not a JSON object"},
	} {
		got := call(t, t.Context(), &httptool.Options{
			Name: "t", URL: srv.URL + tt.url, Method: tt.method, Header: http.Header{"X-Key": {"k"}},
		}, tt.arguments)
		if want, isError := strings.CutPrefix(tt.want, "error: "); isError && !strings.Contains(got, want) || !isError && got != tt.want {
			t.Errorf("%s %s with %s: got %q, want %q", tt.method, tt.url, tt.arguments, got, tt.want)
		}
	}
}

// call returns the text of a result, or the error.
func call(t *testing.T, ctx context.Context, opts *httptool.Options, arguments string) string {
	t.Helper()
	h, err := httptool.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	res, err := h.Run(ctx, &tool.Call{Name: "t", Arguments: jsontext.Value(arguments), MaxBytes: 1000})
	if err != nil {
		return err.Error()
	}
	if res.IsError {
		return "failed: " + responses.TextOf(res.Content)
	}
	if img, ok := res.Content[0].(*responses.InputImage); ok {
		return img.ImageURL
	}
	return responses.TextOf(res.Content)
}

// TestAnswers: what an endpoint answers is bounded in size, time and type, and
// tells nothing of where it is.
func TestAnswers(t *testing.T) {
	t.Parallel()
	quit := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"title":"no such city"}`)
		case "/png":
			w.Header().Set("Content-Type", "image/png")
			w.Write([]byte{1, 2, 3})
		case "/zip":
			w.Header().Set("Content-Type", "application/zip")
		case "/500":
			w.Header().Set("Content-Type", "application/zip")
			w.WriteHeader(http.StatusInternalServerError)
		case "/large":
			for range 100 << 4 { // 100 MB, if somebody reads them
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/inside":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/never":
			<-quit
		case "/latin":
			w.Header().Set("Content-Type", "text/plain")
			w.Write([]byte("caf\xe9"))
		}
	}))
	defer srv.Close()
	defer close(quit)
	for path, want := range map[string]string{
		"/json":   "failed: The endpoint answered 404 Not Found.\n{\"title\":\"no such city\"}",
		"/png":    "data:image/png;base64,AQID",
		"/zip":    "the endpoint answered with application/zip, which is neither text nor an image",
		"/500":    "the endpoint answered 500 Internal Server Error",
		"/large":  "its result is larger than 1000 bytes",
		"/broken": "the endpoint could not be reached, or did not answer properly",
		"/inside": "the endpoint redirected to a place that may not be reached",
		"/round":  "there are too many redirects",
		"/never":  "the tool took too long",
		"/latin":  "caf\uFFFD",
	} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("the tool took too long"))
		if got := call(t, ctx, &httptool.Options{Name: "t", URL: srv.URL + path}, `{}`); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
		cancel()
	}
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + u.Hostname() + ":1/secret"
	if got := call(t, t.Context(), &httptool.Options{Name: "t", URL: closed}, `{}`); strings.Contains(got, u.Hostname()) || !strings.Contains(got, "could not be reached") {
		t.Errorf("nobody listens: got %q", got)
	}
}

// TestRefusedTemplates: what a model must not decide is no place for an argument.
func TestRefusedTemplates(t *testing.T) {
	t.Parallel()
	for u, want := range map[string]string{
		"":                             "must begin with",
		"weather.example":              "must begin with",
		"ftp://weather.example":        "must begin with",
		"https://{host}/v1":            "must not depend on an argument",
		"https://{sub}.example/v1":     "must not depend on an argument",
		"https://x.example:{port}/v1":  "",
		"https://u:p@x.example/v1":     "user name or password",
		"https://x.example/{a b}":      "no {name}",
		"https://x.example/}":          "no {name}",
		"https://x.example/#{a}":       "fragment",
		"https://x.example\x00/":       "not one",
		"{scheme}://x.example/":        "must begin with",
		"https://169.254.169.254%2f@/": "",
	} {
		_, err := httptool.New(&httptool.Options{Name: "t", URL: u})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want a refusal with %q", u, err, want)
		}
	}
	if _, err := httptool.New(&httptool.Options{Name: "t", URL: "https://x.example", Method: "TRACE"}); err == nil {
		t.Error("TRACE is taken")
	}
}
