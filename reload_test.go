package antiphon_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// slowDriver streams until it is told to stop, and breaks its streams if it is
// closed before.
type slowDriver struct {
	stop   <-chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (d *slowDriver) Open(ctx context.Context, _ *upstream.Turn) (*upstream.Stream, error) {
	return &upstream.Stream{Close: func() error { return nil }, Events: func(yield func(responses.Event, error) bool) {
		c := responses.NewComposer(0, time.Now)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			c.Text("x", nil)
			for _, ev := range c.Take() {
				if !yield(ev, nil) {
					return
				}
			}
			select {
			case <-tick.C:
			case <-d.stop:
				c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
				for _, ev := range c.Take() {
					if !yield(ev, nil) {
						return
					}
				}
				return
			case <-d.closed:
				yield(responses.Event{}, responses.UpstreamErrorf(responses.CodeUpstream, "the driver was closed"))
				return
			case <-ctx.Done():
				yield(responses.Event{}, context.Cause(ctx))
				return
			}
		}
	}}, nil
}

func (d *slowDriver) Close() error { d.once.Do(func() { close(d.closed) }); return nil }

// TestReloadCutsNothing: a new configuration ten times a second, and a broken one
// in between, under open streams: none is cut, no request fails, and every driver
// that was replaced is closed once it is idle (R36).
func TestReloadCutsNothing(t *testing.T) {
	t.Parallel()
	const streams, reloads = 50, 20
	stop := make(chan struct{})
	var made []*slowDriver
	options := func() *antiphon.Options {
		d := &slowDriver{stop: stop, closed: make(chan struct{})}
		made = append(made, d)
		return &antiphon.Options{
			Drivers: map[string]upstream.Driver{"slow": d, "parrot": parrot{}},
			Models:  map[string]antiphon.Model{"slow": antiphon.ModelAt("slow", ""), "polly": antiphon.ModelAt("parrot", "")},
			Log:     memstore.NewWindow(nil),
			Logger:  slog.New(slog.DiscardHandler),
		}
	}
	gw, err := antiphon.New(options())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gw.Handler())
	defer srv.Close()
	post := func(body string) string {
		resp, err := http.Post(srv.URL+"/v1/responses", "application/json", strings.NewReader(body))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	var wg sync.WaitGroup
	var cut atomic.Int64
	for range streams {
		wg.Go(func() {
			if body := post(`{"model":"slow","input":"x","stream":true}`); !strings.Contains(body, "event: response.completed\n") {
				cut.Add(1)
				t.Log(body[max(0, len(body)-300):])
			}
		})
	}
	for i := range reloads {
		if body := post(`{"model":"polly","input":"hello"}`); !strings.Contains(body, `"status":"completed"`) {
			t.Errorf("reload %d: %s", i, body)
		}
		if err := gw.Reload(options()); err != nil {
			t.Fatal(err)
		}
		broken := options()
		broken.Models = map[string]antiphon.Model{"m": antiphon.ModelAt("nobody", "")}
		if err := gw.Reload(broken); err == nil || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("a broken configuration: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	if cut.Load() > 0 {
		t.Errorf("%d of %d streams were cut", cut.Load(), streams)
	}
	if err := gw.Close(); err != nil {
		t.Fatal(err)
	}
	for i, d := range made {
		if i%2 == 1 || i == 0 { // the others were of broken configurations
			select {
			case <-d.closed:
			default:
				t.Errorf("driver %d was not closed", i)
			}
		}
	}
}

// TestReloadWhileClosing: a request that reloads, and so holds the configuration
// that is being closed, neither waits for the end of that nor is waited for.
func TestReloadWhileClosing(t *testing.T) {
	t.Parallel()
	options := func() *antiphon.Options {
		return &antiphon.Options{Drivers: map[string]upstream.Driver{"parrot": parrot{}}, Log: memstore.NewWindow(nil), Logger: slog.New(slog.DiscardHandler)}
	}
	gw, err := antiphon.New(options())
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	h := gw.Admin(&antiphon.AdminOptions{Reload: func(context.Context) antiphon.Reload {
		if err := gw.Reload(options()); err != nil {
			t.Error(err)
		}
		go func() { closed <- gw.Close() }()
		time.Sleep(20 * time.Millisecond) // let it begin
		_ = gw.Reload(options())          // refused, unless Close is slow to begin
		return antiphon.Reload{}
	}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/reload", nil)
	r.Host = "localhost"
	go h.ServeHTTP(httptest.NewRecorder(), r)
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the gateway does not close")
	}
}
