package main

import (
	"context"
	"encoding/json/v2"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// How much TestReloadUnderLoad does: little for every run of the tests; make
// show-routing asks for the real size.
var (
	reloadTime    = flag.Duration("reload-time", 2*time.Second, "how long TestReloadUnderLoad reloads, ten times a second")
	reloadStreams = flag.Int("reload-streams", 40, "how many streams are open meanwhile")
)

const (
	staysKey = "stays-key-0123456789"
	goesKey  = "goes-key-0123456789"
)

// A loadRig is a running antiphon over a small model.
type loadRig struct {
	t              *testing.T
	client         *http.Client
	file, upstream string
	gateway, admin string // URLs
}

// startLoad starts antiphon with the file.
func startLoad(t *testing.T, file func(r *loadRig) string) *loadRig {
	t.Helper()
	fake := fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Chat}).Answer)
	web := httptest.NewServer(fake)
	t.Cleanup(web.Close)
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	r := &loadRig{t: t, file: filepath.Join(dir, "gateway.yaml"), upstream: web.URL, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	t.Cleanup(r.client.CloseIdleConnections)
	r.write(file(r))
	p, err := startProcess(dir, nil, []string{"serve", "--listen", "127.0.0.1:0", "--config", r.file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	address, err := p.awaitAddress()
	if err != nil {
		t.Fatalf("%v; it wrote:\n%s", err, p.output())
	}
	m, err := p.awaitOutput(regexp.MustCompile(`Admin on (http://\S+)`))
	if err != nil {
		t.Fatal(err)
	}
	r.gateway, r.admin = "http://"+address, m[1]
	return r
}

// good is a file that is valid, and another one for each n.
func (r *loadRig) good(n int, both bool) string {
	keys := fmt.Sprintf("\n    - { name: stays, key: %s }", staysKey)
	if both {
		keys += fmt.Sprintf("\n    - { name: goes, key: %s }", goesKey)
	}
	return fmt.Sprintf(`admin: { listen: "127.0.0.1:0" }
auth:
  keys:%s
upstreams: { local: { protocol: chat, url: %q } }
models: { m: { upstream: local, model: tiny, info: { context_window: %d } } }
`, keys, r.upstream, n+1)
}

// broken is a file that is not valid, another one for each n, and what is to be
// said of it.
func (r *loadRig) broken(n int) (file string, want antiphon.Problem) {
	good := r.good(n, true)
	last := strings.Count(good, "\n") + 1 // the line of what is appended
	problem := func(path string, line, column int, message string) antiphon.Problem {
		return antiphon.Problem{Path: path, Line: line, Column: column, Message: message}
	}
	switch n % 8 {
	case 0:
		return strings.Replace(good, "protocol:", "protocl:", 1), problem("upstreams.local.protocl", last-2, 23, "unknown key; did you mean protocol?")
	case 1:
		return good + fmt.Sprintf("listn: 127.0.0.1:%d\n", n), problem("listn", last, 1, "unknown key; did you mean listen?")
	case 2:
		return good + fmt.Sprintf("timeouts: { idle: %d }\n", n), problem("timeouts.idle", last, 13, fmt.Sprintf("%d has no unit; write %[1]ds for seconds, or use m or h", n))
	case 3:
		return strings.Replace(good, "upstream: local", fmt.Sprintf("upstream: gone-%d", n), 1),
			problem("models.m.upstream", last-1, 16, fmt.Sprintf(`there is no upstream "gone-%d"; there is local`, n))
	case 4:
		return good + fmt.Sprintf("seal_keys: [\"${NOT_SET_%d}\"]\n", n), problem("seal_keys[0]", last, 13, fmt.Sprintf("the environment variable NOT_SET_%d is not set", n))
	case 5:
		return good + fmt.Sprintf("cors: { origins: [\"*.site%d.example\"] }\n", n), problem("cors.origins[0]", last, 19, "is not an origin")
	case 6:
		return good + fmt.Sprintf("timeouts: { drain: %ds }\n", n+1), problem("timeouts.drain", 0, 0, fmt.Sprintf("cannot change from 1m to %s while the gateway runs", short(n+1)))
	}
	return good + fmt.Sprintf("cors: { origins: [site%d\n", n), problem("", last, 0, "not valid YAML")
}

func short(seconds int) string {
	return strings.TrimSuffix((time.Duration(seconds) * time.Second).String(), "0s")
}

// write replaces the file as editors and orchestrators do.
func (r *loadRig) write(text string) {
	r.t.Helper()
	next := r.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(next, r.file); err != nil {
		r.t.Fatal(err)
	}
}

// reload asks for the file to be read.
func (r *loadRig) reload() (status int, came antiphon.Reload) {
	r.t.Helper()
	resp, err := r.client.Post(r.admin+"/admin/reload", "", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.UnmarshalRead(resp.Body, &came); err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, came
}

// ask sends a request and returns the status and the whole answer.
func (r *loadRig) ask(ctx context.Context, key, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.gateway+"/v1/responses", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

// TestReloadUnderLoad: the file changes ten times a second under open streams and
// a steady flow of requests, and is broken in between. No stream is cut and no
// request fails; each broken file changes nothing and is told precisely. A key that
// is taken out of the file is refused soon after, and its streams finish (R35,
// R36).
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	r := startLoad(t, func(r *loadRig) string { return r.good(0, true) })
	const pace = 250 * time.Millisecond
	count := int((*reloadTime + 4*time.Second) / pace)
	body := fmt.Sprintf(`{"model":"m","stream":true,"input":"count to %d [[delay %s]]"}`, count, pace)

	// The streams, every tenth of the key that will go.
	var open sync.WaitGroup
	var cut, finished [2]atomic.Int64
	for i := range *reloadStreams {
		key, of := staysKey, 0
		if i%10 == 0 {
			key, of = goesKey, 1
		}
		open.Go(func() {
			status, answer, err := r.ask(t.Context(), key, body)
			if err != nil || status != http.StatusOK || strings.Count(answer, "event: response.completed\n") != 1 || !strings.Contains(answer, fmt.Sprintf(" %d\"", count)) {
				cut[of].Add(1)
				t.Errorf("a stream ended with %d, %v: %s", status, err, answer[max(0, len(answer)-300):])
				return
			}
			finished[of].Add(1)
		})
	}
	// The requests.
	ctx, enough := context.WithCancel(t.Context())
	var asked, failed atomic.Int64
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				asked.Add(1)
				if status, answer, err := r.ask(t.Context(), staysKey, `{"model":"m","input":"hello"}`); err != nil || status != http.StatusOK {
					failed.Add(1)
					t.Errorf("a request got %d, %v: %s", status, err, answer)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}

	reloads, refusals := r.reloadFor(*reloadTime)
	gone, took := r.removeKey()
	enough()
	asking.Wait()
	open.Wait()

	t.Logf("| %d reloads in %s, 10 a second | %d streams open: %d cut | %d requests: %d failed |", reloads, *reloadTime, *reloadStreams, cut[0].Load()+cut[1].Load(), asked.Load(), failed.Load())
	t.Logf("| %d broken files in between | no effect, each told with its place |", refusals)
	t.Logf("| a key taken out of the file | refused after %s (at most 2 s), %d of its %d streams finished |", took.Round(time.Millisecond), finished[1].Load(), finished[1].Load()+cut[1].Load())
	if !gone || took > 2*time.Second {
		t.Errorf("the key that was removed was refused after %s: %t", took, gone)
	}
	if finished[1].Load() == 0 || finished[0].Load() == 0 {
		t.Error("no stream finished: nothing was tested")
	}
}

// reloadFor writes a new file ten times a second, and a broken one after every
// second or, if there is time, every third.
func (r *loadRig) reloadFor(d time.Duration) (reloads, refusals int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	each := 2
	if d >= 10*time.Second {
		each = 3
	}
	for n := 1; n <= int(d/(100*time.Millisecond)); n++ {
		<-tick.C
		r.write(r.good(n, true))
		if status, came := r.reload(); status != http.StatusOK {
			r.t.Fatalf("reload %d: %d %+v", n, status, came)
		}
		reloads++
		if n%each != 0 {
			continue
		}
		file, want := r.broken(refusals)
		r.write(file)
		status, came := r.reload()
		refusals++
		if status != http.StatusUnprocessableEntity || len(came.Changed) != 0 || len(came.Problems) != 1 || !tells(came.Problems[0], want) {
			r.t.Errorf("broken file %d: %d %+v, want %+v", refusals-1, status, came, want)
		}
	}
	return reloads, refusals
}

// tells reports whether a problem is the wanted one, whose message may be a part
// and whose column may be open.
func tells(got, want antiphon.Problem) bool {
	return got.Path == want.Path && got.Line == want.Line && (want.Column == 0 || got.Column == want.Column) && strings.Contains(got.Message, want.Message)
}

// removeKey takes a key out of the file and waits for the gateway to notice by
// itself.
func (r *loadRig) removeKey() (gone bool, took time.Duration) {
	r.t.Helper()
	if status, answer, err := r.ask(r.t.Context(), goesKey, `{"model":"m","input":"hello"}`); err != nil || status != http.StatusOK {
		r.t.Fatalf("before the key was removed: %d, %v: %s", status, err, answer)
	}
	r.write(r.good(0, false))
	began := time.Now()
	for time.Since(began) < 10*time.Second {
		status, _, err := r.ask(r.t.Context(), goesKey, `{"model":"m","input":"hello"}`)
		if err != nil {
			r.t.Fatal(err)
		}
		if status == http.StatusUnauthorized {
			return true, time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false, time.Since(began)
}
