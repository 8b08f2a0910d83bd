package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// canaries are secrets, by what they are, that stand where nobody may read them.
var canaries = map[string]string{
	"a key by value":           "canary-key-value-5f0c1a",
	"a key of the environment": "canary-key-env-81d2b7",
	"a key in a file":          "canary-key-file-c93e44",
	"the admin key":            "canary-admin-key-0a77f1",
	"an upstream's key":        "canary-upstream-key-7b6e20",
	"another upstream's key":   "canary-upstream-key-19ffa3",
	"a second key of it":       "canary-upstream-key-2c41d8",
	"a header of an upstream":  "canary-header-e0b95a",
	"a seal key":               "canary-seal-key-of-32-bytes-0123",
	"the password of a store":  "canary-store-password-66d1",
	"a wrong value in a file":  "canary-misplaced-f2a8c0",
}

// found names the canary that is in text, as it is or in a usual disguise.
func found(text string) string {
	for what, secret := range canaries {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)), url.QueryEscape(secret)} {
			if strings.Contains(text, form) {
				return what
			}
		}
	}
	return ""
}

// sinks are everything that somebody may read.
type sinks struct {
	t    *testing.T
	seen int
}

// take searches what has come out somewhere.
func (s *sinks) take(where, text string) {
	s.t.Helper()
	s.seen++
	if what := found(text); what != "" {
		s.t.Errorf("%s: %s is in %.2000s", where, what, text)
	}
}

// An echo is a model server that quotes in its errors what it was sent. Models
// whose name ends in echo-STATUS get one.
type echo struct {
	http.Handler
	mu  sync.Mutex
	got bytes.Buffer // all headers that came; guarded by mu
}

var echoed = regexp.MustCompile(`"model": ?"[^"]*echo-(\d+)"`)

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	quoted := fmt.Sprint(r.Header["Authorization"], r.Header["Api-Key"], r.Header["X-Team"])
	e.mu.Lock()
	e.got.WriteString(quoted)
	e.mu.Unlock()
	m := echoed.FindSubmatch(body)
	if m == nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.Handler.ServeHTTP(w, r)
		return
	}
	status, _ := strconv.Atoi(string(m[1]))
	answer, _ := json.Marshal(map[string]any{"error": map[string]any{"message": "Wrong key: " + quoted, "code": "invalid_api_key", "type": quoted}})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("WWW-Authenticate", quoted)
	w.WriteHeader(status)
	w.Write(answer)
}

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got.String()
}

// startEcho plays a model server that quotes.
func startEcho(t *testing.T) (*echo, string) {
	fake := fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Chat | fakeupstream.Responses}).Answer)
	e := &echo{Handler: fake}
	srv := httptest.NewServer(e)
	t.Cleanup(func() {
		fake.Close()
		srv.Close()
	})
	return e, srv.URL
}

// canaryFile is a configuration in which every secret is a canary.
func canaryFile(upstream, dead, more string) string {
	c := canaries
	return fmt.Sprintf(`admin: { listen: "127.0.0.1:0", key: %q }
auth:
  keys:
    - { name: by-value, key: %q }
    - { name: by-env, key: "${CANARY_KEY}" }
    - { name: by-file, key: "${file:%s}" }
upstreams:
  native: { protocol: responses, url: %q, api_key: "${CANARY_UPSTREAM}", headers: { X-Team: %q } }
  talk: { protocol: chat, url: %q, api_keys: [%q, %q], auth: azure }
  dead: { protocol: chat, url: %q, api_key: %q }
models: { "n-*": native, "c-*": talk, down: dead }
seal_keys: [%q]
%s`, c["the admin key"], c["a key by value"], "key.txt", upstream+"/v1", c["a header of an upstream"],
		upstream+"/v1", c["another upstream's key"], c["a second key of it"], dead+"/v1", c["an upstream's key"],
		base64.StdEncoding.EncodeToString([]byte(c["a seal key"])), more)
}

// brokenFiles are configurations that are wrong next to a secret, or because of it.
var brokenFiles = map[string]string{
	"unknown member":  "upstreams: { a: { url: 'http://127.0.0.1:1/v1', api_kye: MISPLACED } }\n",
	"wrong kind":      "upstreams: { a: { url: 'http://127.0.0.1:1/v1', api_key: [MISPLACED] } }\n",
	"short seal key":  "seal_keys: [MISPLACED]\nupstreams: { a: { url: 'http://127.0.0.1:1/v1' } }\n",
	"unclosed":        "auth:\n  keys:\n    - { name: a, key: \"MISPLACED\n",
	"two of the same": "auth: { keys: [ { name: a, key: MISPLACED }, { name: b, key: MISPLACED } ] }\nupstreams: { a: { url: 'http://127.0.0.1:1/v1' } }\n",
	"not a hash":      "auth: { keys: [ { name: a, key_sha256: MISPLACED } ] }\nupstreams: { a: { url: 'http://127.0.0.1:1/v1' } }\n",
	"with a space":    "upstreams: { a: { url: 'http://127.0.0.1:1/v1', api_key: \"MISPLACED MISPLACED\\n\" } }\n",
	"in a header":     "upstreams: { a: { url: 'http://127.0.0.1:1/v1', headers: { X-Team: \"MISPLACED\\nx\" } } }\n",
	"in an address":   "upstreams: { a: { url: 'http://me:MISPLACED@127.0.0.1:1/v1' } }\n",
	"in a store":      "state: { store: 'postgres://me:MISPLACED@127.0.0.1:notaport/x' }\nupstreams: { a: { url: 'http://127.0.0.1:1/v1' } }\n",
	"tabs":            "auth:\n\tkeys: MISPLACED\n",
}

// TestSecretsStayInside: no secret of a configuration is ever seen outside: not in
// answers or their headers, not in the log, not in what the commands print, whether
// things go well or wrong, and not if an upstream quotes what it was sent (R33,
// R35). What is sent in confidence is received, so that there was something to
// hide.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	if found("x "+canaries["a seal key"]) == "" || found(hex.EncodeToString([]byte(canaries["the admin key"]))) == "" || found("nothing") != "" {
		t.Fatal("the search does not find")
	}
	up, address := startEcho(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	keyFile := write("key.txt", canaries["a key in a file"]+"\n")
	good := strings.ReplaceAll(canaryFile(address, gone.URL, ""), "${file:key.txt}", "${file:"+keyFile+"}")
	file := write("antiphon.yaml", good)
	env := []string{"CANARY_KEY=" + canaries["a key of the environment"], "CANARY_UPSTREAM=" + canaries["an upstream's key"], "GORACE=atexit_sleep_ms=20"}
	out := &sinks{t: t}

	// What the other commands print.
	command := func(args ...string) {
		t.Helper()
		cmd := exec.Command("antiphon", args...)
		cmd.Dir, cmd.Env = dir, env
		said, _ := cmd.CombinedOutput() // some of them must fail
		out.take(strings.Join(args, " "), string(said))
	}
	command("config", "check", file)
	command("config", "print", file)
	command("doctor", "--config", file, "--timeout", "5s")
	command("doctor", "--config", file, "--timeout", "5s", "--json")
	for name, text := range brokenFiles {
		broken := write("broken.yaml", strings.ReplaceAll(text, "MISPLACED", canaries["a wrong value in a file"]))
		for _, args := range [][]string{{"config", "check", broken}, {"config", "print", broken}, {"serve", "--listen", "127.0.0.1:0", "--config", broken}, {"doctor", "--config", broken}} {
			cmd := exec.Command("antiphon", args...)
			cmd.Dir, cmd.Env = dir, env
			said, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("%s: %s accepts it", name, args[0])
			}
			out.take(name+", "+args[0], string(said))
		}
	}
	unreachable := write("store.yaml", good+"state: { store: \"postgres://me:"+canaries["the password of a store"]+"@127.0.0.1:1/x\" }\n")
	command("config", "print", unreachable)
	command("serve", "--listen", "127.0.0.1:0", "--config", unreachable)

	// What a gateway answers and logs.
	p, err := startProcess(dir, env, []string{"serve", "--listen", "127.0.0.1:0", "--config", file})
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	listening, err := p.awaitAddress()
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.awaitOutput(regexp.MustCompile(`Admin on http://(\S+)`))
	if err != nil {
		t.Fatal(err)
	}
	admin := m[1]
	send := func(method, url, key, body string) int {
		t.Helper()
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body) // a stream that was cut is fine
		out.take(method+" "+url+" "+body, fmt.Sprint(resp.Status, resp.Header, string(answer)))
		return resp.StatusCode
	}
	api := "http://" + listening + "/v1"
	for _, what := range []string{"a key by value", "a key of the environment", "a key in a file"} {
		key := canaries[what]
		for _, model := range []string{"n-x", "c-x"} {
			for _, rest := range []string{"", `,"store":false`, `,"stream":true`, `,"store":false,"stream":true`} {
				if status := send("POST", api+"/responses", key, `{"model":"`+model+`","input":"count to 2"`+rest+`}`); status != http.StatusOK {
					t.Errorf("%s, %s%s: status %d", what, model, rest, status)
				}
			}
		}
		send("GET", api+"/models", key, "")
		send("POST", api+"/responses", key[:len(key)-1], `{"model":"n-x","input":"x"}`) // almost right
	}
	key := canaries["a key by value"]
	for _, status := range []int{400, 401, 402, 403, 404, 413, 422, 429, 500, 503} {
		for _, model := range []string{"n-echo-%d", "c-echo-%d"} {
			model = fmt.Sprintf(model, status)
			for _, rest := range []string{"", `,"store":false`, `,"stream":true`, `,"store":false,"stream":true`} {
				if got := send("POST", api+"/responses", key, `{"model":"`+model+`","input":"x"`+rest+`}`); got < 400 && !strings.Contains(rest, `"stream":true`) {
					t.Errorf("%s%s: status %d", model, rest, got)
				}
			}
			send("POST", api+"/chat/completions", key, `{"model":"`+model+`","messages":[]}`)
			send("POST", api+"/embeddings", key, `{"model":"`+model+`","input":"x"}`)
		}
	}
	for _, body := range []string{`{"model":"down","input":"x"}`, `{"model":"down","input":"x","stream":true}`, `{"model":"nobody","input":"x"}`, `{"model":`, `[]`, `{"model":"n-x","input":7}`} {
		send("POST", api+"/responses", key, body)
	}
	send("GET", api+"/nothing?key="+url.QueryEscape("x"), "", "")
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/vars", "/debug/pprof/cmdline", "/admin/top", "/nothing"} {
		send("GET", "http://"+admin+path, canaries["the admin key"], "")
		send("GET", "http://"+admin+path, "", "")
	}
	for _, text := range brokenFiles {
		write("antiphon.yaml", strings.ReplaceAll(text, "MISPLACED", canaries["a wrong value in a file"]))
		if status := send("POST", "http://"+admin+"/admin/reload", canaries["the admin key"], ""); status != http.StatusUnprocessableEntity {
			t.Errorf("a broken file was taken over: %d", status)
		}
	}
	write("antiphon.yaml", strings.Replace(good, "name: by-env", "name: by-name", 1))
	send("POST", "http://"+admin+"/admin/reload", canaries["the admin key"], "")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); code != 0 || err != nil {
		t.Errorf("it ended with %d, %v", code, err)
	}
	out.take("the log", p.output())
	if n := strings.Count(p.output(), "\n"); n < 100 {
		t.Errorf("the log has %d lines only", n)
	}
	for _, what := range []string{"an upstream's key", "another upstream's key", "a second key of it", "a header of an upstream"} {
		if !strings.Contains(up.received(), canaries[what]) {
			t.Errorf("%s never reached the upstream", what)
		}
	}
	t.Logf("searched %d answers, logs and outputs", out.seen)
}
