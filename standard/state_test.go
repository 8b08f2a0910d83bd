//go:build unix

package standard_test

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/internal/redistest"
	"github.com/antiphon-dev/antiphon/standard"
)

// outage is a server of our own that can be away.
type outage struct {
	url      string
	down, up func()
}

// TestStateOutage stops and starts the store under load, over the whole gateway:
// what stores nothing loses nothing; what is stored is refused before the model is
// called, with a 503 that says so, or completes; and nothing that a client saw
// completed is missing afterwards (R40).
func TestStateOutage(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) outage{
		"PostgreSQL": func(t *testing.T) outage {
			s := pgtest.Start(t)
			return outage{s.URL(), func() { check(t, s.Stop(syscall.SIGINT)) }, func() { check(t, s.Start()) }}
		},
		"Redis": func(t *testing.T) outage {
			s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			return outage{"redis://" + s.Addr + "/0", s.Kill, s.Restart}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := start(t)
			l := startLoad(t, store.url)
			for range 2 {
				l.await(&l.done, 40)
				store.down()
				l.await(&l.turnedAway, 10)
				l.await(&l.plain, 20)
				time.Sleep(time.Second) // for those that wait for the store to wait
				store.up()
			}
			l.await(&l.done, 40)
			l.finish()
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// load is a crowd of clients, and what came of their requests.
type load struct {
	t       *testing.T
	gateway *httptest.Server
	fake    *fakeupstream.Server
	stop    chan struct{}
	clients sync.WaitGroup

	number           atomic.Int64
	plain, late      atomic.Int64
	done, turnedAway atomic.Int64

	mu                 sync.Mutex
	completed, refused map[string]string // prompt → id of the response, or the error
}

func startLoad(t *testing.T, store string) *load {
	l := &load{t: t, stop: make(chan struct{}), completed: map[string]string{}, refused: map[string]string{}}
	upstream, fake := playModel(t, fakeupstream.Chat)
	l.fake = fake
	c := config.Default()
	c.Upstreams = map[string]config.Upstream{"local": {Protocol: config.ProtocolChat, URL: upstream}}
	c.State.Store = config.StoreURL(store)
	g, err := standard.New(t.Context(), c, &standard.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.gateway = httptest.NewServer(g.Handler())
	t.Cleanup(func() {
		l.gateway.Close()
		check(t, g.Close())
	})
	for i := range 6 {
		l.clients.Go(func() { l.talk(i%2 == 0) })
	}
	for range 2 {
		l.clients.Go(l.chat)
	}
	return l
}

// await waits until something has happened n times more.
func (l *load) await(count *atomic.Int64, n int64) {
	l.t.Helper()
	limit := time.Now().Add(time.Minute)
	for goal := count.Load() + n; count.Load() < goal; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			l.t.Fatalf("nothing moves: %d completed, %d refused, %d that stored nothing", l.done.Load(), l.turnedAway.Load(), l.plain.Load())
		}
	}
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		time.Sleep(5 * time.Millisecond)
		return false
	}
}

// chat stores nothing, and must always be served.
func (l *load) chat() {
	for !l.stopped() {
		if status, body := l.post(`{"model":"m","input":"count to 3","store":false}`); status != http.StatusOK || !bytes.Contains(body, []byte("1 2 3")) {
			l.t.Errorf("store: false: %d %s", status, body)
		}
		l.plain.Add(1)
	}
}

// talk goes on from response to response.
func (l *load) talk(stream bool) {
	previous := ""
	for turn := 0; !l.stopped(); turn++ {
		prompt := fmt.Sprintf("prompt %d.", l.number.Add(1))
		request := map[string]any{"model": "m", "input": prompt, "stream": stream}
		if previous != "" && turn%10 != 0 {
			request["previous_response_id"] = previous
		}
		body, err := json.Marshal(request)
		if err != nil {
			l.t.Error(err)
			return
		}
		began := time.Now()
		status, answer := l.post(string(body))
		if time.Since(began) > time.Second {
			l.late.Add(1)
		}
		id := l.note(prompt, status, answer, stream)
		if id != "" {
			previous = id
		}
	}
}

// note takes down what a client was told, and returns the id of a response that
// completed.
func (l *load) note(prompt string, status int, answer []byte, stream bool) (id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case status == http.StatusServiceUnavailable && bytes.Contains(answer, []byte(`"server_is_overloaded"`)) && bytes.Contains(answer, []byte("store does not answer")):
		l.refused[prompt] = string(answer)
		l.turnedAway.Add(1)
	case status == http.StatusOK && (!stream || bytes.Contains(answer, []byte("event: response.completed\n"))):
		_, rest, _ := strings.Cut(string(answer), `"id":"`)
		id, _, _ = strings.Cut(rest, `"`)
		l.completed[prompt] = id
		l.done.Add(1)
	default:
		l.t.Errorf("%s: status %d, neither refused nor completed: %s", prompt, status, answer)
	}
	return id
}

func (l *load) post(body string) (int, []byte) {
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.gateway.URL+"/v1/responses", strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return 0, nil
	}
	return l.do(req)
}

func (l *load) do(req *http.Request) (int, []byte) {
	resp, err := l.gateway.Client().Do(req)
	if err != nil {
		l.t.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	check(l.t, err)
	return resp.StatusCode, answer
}

// finish ends the load and checks the promises for all of it.
func (l *load) finish() {
	close(l.stop)
	l.clients.Wait()
	var calls []string
	for _, x := range l.fake.Requests() {
		calls = append(calls, string(x.Body))
	}
	all := strings.Join(calls, "\n")
	for prompt := range l.refused {
		if strings.Contains(all, prompt) {
			l.t.Errorf("%s was refused, but the model was called", prompt)
		}
	}
	for prompt, id := range l.completed {
		req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.gateway.URL+"/v1/responses/"+id, nil)
		if err != nil {
			l.t.Fatal(err)
		}
		if status, answer := l.do(req); status != http.StatusOK || !bytes.Contains(answer, []byte(prompt)) {
			l.t.Errorf("%s completed, but is %d %s", prompt, status, answer)
		}
	}
	l.t.Logf("%d completed and all there (%d of them waited for the store), %d refused before the model was called, %d that stored nothing", len(l.completed), l.late.Load(), len(l.refused), l.plain.Load())
}
