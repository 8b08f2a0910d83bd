package antiphon_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// startPassing serves a transparent gateway with the models "fast", which its
// upstream calls "tiny", and "*", each over the upstreams at the addresses.
func startPassing(t *testing.T, opts antiphon.Options, addresses ...string) *testGateway {
	t.Helper()
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	opts.Drivers, opts.Models = map[string]upstream.Driver{}, map[string]antiphon.Model{}
	var fast, rest antiphon.Model
	for i, address := range addresses {
		base, err := url.Parse(address + "/deep/v1")
		if err != nil {
			t.Fatal(err)
		}
		name := string(rune('a' + i))
		opts.Drivers[name] = native.New(upstream.Endpoint{Base: base, Client: client, Auth: upstream.BearerAuth(canary)}, nil)
		fast.Targets = append(fast.Targets, antiphon.Target{Upstream: name, Model: "tiny", Priority: i + 1})
		rest.Targets = append(rest.Targets, antiphon.Target{Upstream: name, Model: "else", Priority: i + 1})
	}
	opts.Models["fast"], opts.Models["*"] = fast, rest
	return serveGateway(t, &opts)
}

// TestOtherPathsPass: what is not ours goes where its model points, without one to
// the upstream of "*", as it came, and so does the answer (R30).
func TestOtherPathsPass(t *testing.T) {
	t.Parallel()
	picture := bytes.Repeat([]byte{0, 255, 13, 10, 7}, 50_000)
	fake, base := startTarget(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		switch {
		case strings.HasSuffix(x.Path, "/content"):
			return fakeupstream.Reply{Status: 200, ContentType: "image/png", Body: picture, Header: http.Header{"Set-Cookie": {"a=b"}, "X-Own": {"1"}}}
		case strings.HasSuffix(x.Path, "/speech"):
			return fakeupstream.SSE("data: {\"type\":\"speech\",  \"x\":1}\n\n")
		case x.Method == http.MethodDelete:
			return fakeupstream.Reply{Status: 204}
		}
		return fakeupstream.JSON(201, `{"model":"tiny", "data" : [1.0]}`)
	})
	g := startPassing(t, antiphon.Options{}, base)
	for name, test := range map[string]struct {
		method, path, body   string
		sentPath, sentBody   string
		status               int
		answer, answeredType string
	}{
		"a list":         {"GET", "/v1/files?limit=2&after=%2Fx", "", "/deep/v1/files?limit=2&after=%2Fx", "", 201, `{"model":"tiny", "data" : [1.0]}`, "application/json"},
		"without /v1":    {"GET", "/files", "", "/deep/v1/files", "", 201, `{"model":"tiny", "data" : [1.0]}`, "application/json"},
		"by its model":   {"POST", "/v1/images/generations", `{"model":"fast", "n" : 1.0}`, "/deep/v1/images/generations", `{"model":"tiny","n":1.0}`, 201, `{"model":"fast","data":[1.0]}`, "application/json"},
		"by a name":      {"POST", "/v1/moderations", `{"model":"omni", "input":"x"}`, "/deep/v1/moderations", `{"model":"else","input":"x"}`, 201, `{"model":"omni","data":[1.0]}`, "application/json"},
		"without one":    {"POST", "/v1/batches", ` {"input_file_id" : "f"}`, "/deep/v1/batches", ` {"input_file_id" : "f"}`, 201, `{"model":"tiny", "data" : [1.0]}`, "application/json"},
		"a list as JSON": {"PATCH", "/v1/things", `[1.0, 2]`, "/deep/v1/things", `[1.0, 2]`, 201, `{"model":"tiny", "data" : [1.0]}`, "application/json"},
		"deleted":        {"DELETE", "/v1/files/file-1", "", "/deep/v1/files/file-1", "", 204, "", ""},
		"bytes":          {"GET", "/v1/files/file-1/content", "", "/deep/v1/files/file-1/content", "", 200, string(picture), "image/png"},
		"events":         {"POST", "/v1/audio/speech", `{"model":"tiny"}`, "/deep/v1/audio/speech", `{"model":"else"}`, 200, "data: {\"type\":\"speech\",  \"x\":1}\n\n", "text/event-stream"},
		"of a namesake":  {"POST", "/v1/chat/completions/x", `{"model":"fast"}`, "/deep/v1/chat/completions/x", `{"model":"tiny"}`, 201, `{"model":"fast","data":[1.0]}`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := g.send(t, test.method, test.path, test.body)
			if resp.StatusCode != test.status || body != test.answer || !strings.HasPrefix(resp.Header.Get("Content-Type"), test.answeredType) {
				t.Errorf("got %d %v %.300q", resp.StatusCode, resp.Header, body)
			}
			if resp.Header.Get("Antiphon-Upstream") != "a" || resp.Header.Get("Set-Cookie") != "" {
				t.Errorf("headers %v", resp.Header)
			}
			requests := fake.Requests()
			sent := requests[len(requests)-1]
			got := sent.Path
			if sent.Query != "" {
				got += "?" + sent.Query
			}
			if sent.Method != test.method || got != test.sentPath || string(sent.Body) != test.sentBody || sent.Header.Get("Authorization") != "Bearer "+canary {
				t.Errorf("the upstream got %s %s %s", sent.Method, got, sent.Body)
			}
		})
	}
}

// TestUploadsPass: a form is passed on while it comes, byte for byte and once.
func TestUploadsPass(t *testing.T) {
	t.Parallel()
	fake, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(200, `{"id":"file-1"}`) })
	g := startPassing(t, antiphon.Options{MaxBodyBytes: 3 << 20}, base)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "a.bin")
	if err == nil {
		_, err = part.Write(bytes.Repeat([]byte("\x00\xff\r\n"), 1<<19))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(form.Bytes())
	for name, body := range map[string]io.Reader{"announced": bytes.NewReader(form.Bytes()), "in chunks": io.MultiReader(bytes.NewReader(form.Bytes()))} {
		resp, err := g.Client().Post(g.URL+"/v1/files", w.FormDataContentType(), body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		requests := fake.Requests()
		sent := requests[len(requests)-1]
		if resp.StatusCode != 200 || sha256.Sum256(sent.Body) != want || sent.Header.Get("Content-Type") != w.FormDataContentType() {
			t.Errorf("%s: %d, the upstream got %d bytes of %s", name, resp.StatusCode, len(sent.Body), sent.Header.Get("Content-Type"))
		}
	}
	// What is too large is the client's fault, however often: the upstream stays in use.
	before := len(fake.Requests())
	for i := range 8 {
		large := io.Reader(bytes.NewReader(make([]byte, 4<<20)))
		if i%2 == 0 {
			large = io.MultiReader(large) // its length is not announced
		}
		resp, err := g.Client().Post(g.URL+"/v1/files", "application/octet-stream", large)
		if err != nil {
			continue // the connection was closed while it was still being sent
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if got := len(fake.Requests()); got != before {
		t.Errorf("%d uploads that were too large arrived", got-before)
	}
	if resp, body := g.send(t, "GET", "/v1/files", ""); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", resp.StatusCode, body)
	}
	if strings.Contains(g.logs.String(), "upstream_error") {
		t.Errorf("the upstream was blamed: %s", g.logs)
	}
}

// TestOtherPathsAreSentOnce: nobody knows what they do, so they do not fail over.
func TestOtherPathsAreSentOnce(t *testing.T) {
	t.Parallel()
	_, bad := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.JSON(500, `{"error":{"message":"oops"}}`)
	})
	second, good := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(200, `{}`) })
	g := startPassing(t, antiphon.Options{}, bad, good)
	for _, body := range []string{"", `{"model":"fast"}`} {
		if resp, answer := g.send(t, "POST", "/v1/batches", body); resp.StatusCode != 500 || answer != `{"error":{"message":"oops"}}` {
			t.Errorf("%s: got %d %s", body, resp.StatusCode, answer)
		}
	}
	if n := len(second.Requests()); n > 0 {
		t.Errorf("the second target got %d requests", n)
	}
}

// TestNowhereToPass: without an upstream for it there is nothing, and a key reaches
// no further than its models.
func TestNowhereToPass(t *testing.T) {
	t.Parallel()
	fake, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(200, `{}`) })
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	driver := func() map[string]upstream.Driver {
		return map[string]upstream.Driver{"a": native.New(upstream.Endpoint{Base: u}, nil)}
	}
	g := serveGateway(t, &antiphon.Options{Drivers: driver(), Models: map[string]antiphon.Model{"fast": antiphon.ModelAt("a", "tiny")}})
	for body, code := range map[string]string{"": "not_found", `{"input":"x"}`: "not_found", `{"model":"slow"}`: "model_not_found", `{"model":"fast","Model":"slow"}`: "invalid_json"} {
		if resp, answer := g.send(t, "POST", "/v1/things", body); resp.StatusCode/100 != 4 || !strings.Contains(answer, `"`+code+`"`) {
			t.Errorf("%s: got %d %s", body, resp.StatusCode, answer)
		}
	}
	some := sha256.Sum256([]byte("some-0123456789abcdef"))
	every := sha256.Sum256([]byte("every-0123456789abcdef"))
	keyed := serveGateway(t, &antiphon.Options{
		Drivers: driver(), Models: map[string]antiphon.Model{"*": antiphon.ModelAt("a", "")},
		Keys: []antiphon.Key{{Name: "some", SHA256: some, Models: []string{"fast"}}, {Name: "all", SHA256: every}},
	})
	for name, test := range map[string]struct {
		key, body string
		status    int
	}{
		"all, without a model":  {"every-0123456789abcdef", "", 200},
		"all":                   {"every-0123456789abcdef", `{"model":"slow"}`, 200},
		"some":                  {"some-0123456789abcdef", `{"model":"fast"}`, 200},
		"some, another":         {"some-0123456789abcdef", `{"model":"slow"}`, 404},
		"some, without a model": {"some-0123456789abcdef", "", 404},
		"some, a model of null": {"some-0123456789abcdef", `{"model":null}`, 404},
		"nobody":                {"", `{"model":"fast"}`, 401},
	} {
		before := len(fake.Requests())
		req, err := http.NewRequest("POST", keyed.URL+"/v1/things", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+test.key)
		resp, err := keyed.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if reached := len(fake.Requests()) > before; resp.StatusCode != test.status || reached != (test.status == 200) {
			t.Errorf("%s: %d, reached %t", name, resp.StatusCode, reached)
		}
	}
	for _, r := range fake.Requests() {
		if strings.Contains(fmt.Sprint(r.Header), "0123456789abcdef") {
			t.Errorf("a key went on: %v", r.Header)
		}
	}
}

// raw sends a request as it is written and returns the status.
func raw(t *testing.T, address, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0 // closed
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestHostilePaths: no spelling reaches what is the gateway's own, or what is
// outside of an upstream's base.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	fake, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(200, `{}`) })
	g := startPassing(t, antiphon.Options{}, base)
	address := strings.TrimPrefix(g.URL, "http://")
	for _, path := range []string{
		"/v1/..", "/v1/../admin", "/v1/../../etc", "/v1/files/../../../x", "/v1/./files", "/v1/files/.", "/v1/files/..", "/v1/files/...",
		"/v1/%2e%2e/x", "/v1/%2E%2E/%2e%2e/x", "/v1/files/%2e%2e%2fx", "/v1/files%2f..%2fx", "/v1/files%2Fx", "/v1/files%5c..%5cx", `/v1/files\..\x`,
		"/v1/%252e%252e/x", "/v1/files%00", "/v1/files%0d%0aX:1", "/v1/files;a=b", "/v1/..;/x", "//evil.test/v1/files", "/v1//files", "/v1/files/", "/v1/files//x",
		"/v1/responses/resp_1/steal", "/v1/RESPONSES/resp_1", "/V1/Responses/resp_1/x", "/v1/responses./resp_1", "/responses/resp_1/x", "/v1/v1/responses/resp_1",
		"/v1/v1/v1/conversations/c", "/v1/r%65sponses/resp_1/x", "/v1/%72esponses/resp_1/x", "/v1/conversations/c/x/y/z/w", "/x/responses/resp_1", "/v1/x/Conversations/c",
		"/v1/responses%2fresp_1", "/v1/responses/input_tokens/x", "/admin", "/admin/reload", "/v1/admin/reload", "/Admin/reload", "/v1", "/v1/", "/", "*",
		"/v1/f\xc3\xafles", "/v1/" + strings.Repeat("x", 2000),
	} {
		for _, method := range []string{"GET", "POST"} {
			if status := raw(t, address, method+" "+path+" HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); status == 200 {
				t.Errorf("%s %s passed", method, path)
			}
		}
	}
	for _, request := range []string{
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", "CONNECT /v1/files HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"TRACE /v1/files HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n",
	} {
		if status := raw(t, address, request); status == 200 {
			t.Errorf("%q passed", request)
		}
	}
	for _, r := range fake.Requests() {
		t.Errorf("the upstream got %s %s", r.Method, r.Path)
	}
	// The absolute form says where the client thinks that it is, not where to go.
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request went elsewhere") }))
	t.Cleanup(other.Close)
	hostile := "GET " + other.URL + "/v1/files HTTP/1.1\r\nHost: " + strings.TrimPrefix(other.URL, "http://") + "\r\n" +
		"Connection: close, X-Codex-Hop\r\nX-Codex-Hop: 1\r\nCookie: session=1\r\nProxy-Authorization: Basic x\r\nX-Forwarded-For: 1.2.3.4\r\n" +
		"Authorization: Bearer mine\r\nX-Api-Key: mine\r\nOpenAI-Organization: mine\r\nTE: trailers\r\nUpgrade: websocket\r\nKeep-Alive: 1\r\n\r\n"
	if status := raw(t, address, hostile); status != 200 {
		t.Fatalf("status %d", status)
	}
	sent := fake.Requests()[0]
	if sent.Path != "/deep/v1/files" || sent.Header.Get("Authorization") != "Bearer "+canary {
		t.Errorf("the upstream got %s %v", sent.Path, sent.Header)
	}
	for _, name := range []string{"Cookie", "Proxy-Authorization", "X-Forwarded-For", "X-Api-Key", "Openai-Organization", "Te", "Upgrade", "Keep-Alive", "X-Codex-Hop"} {
		if v := sent.Header.Get(name); v != "" {
			t.Errorf("%s went on: %s", name, v)
		}
	}
}
