package standard_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// TestReloadRemembers: an upstream that does not answer while the configuration
// is read again stays what it was; one whose entry has changed does not (R36).
func TestReloadRemembers(t *testing.T) {
	t.Parallel()
	model := fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Responses})
	var down atomic.Bool
	address, _ := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if down.Load() && string(x.Body) == "{}" || down.Load() && x.Method == http.MethodGet {
			return fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}}
		}
		return model.Answer(x)
	})
	var report *standard.Report
	opts := &standard.Options{
		Report: func(r *standard.Report) { report = r }, ProbeTime: time.Minute, Logger: slog.New(slog.DiscardHandler),
	}
	c := upstreams(map[string]config.Upstream{"u": {URL: address}})
	g, err := standard.New(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	first := report
	if u := first.Upstreams[0]; u.Protocol != config.ProtocolResponses || len(u.Models) == 0 {
		t.Fatalf("found %+v", u)
	}
	down.Store(true)
	opts.Known, opts.ProbeTime = first, 200*time.Millisecond
	if err := standard.Reload(t.Context(), g, c, opts); err != nil {
		t.Fatal(err)
	}
	if u := report.Upstreams[0]; u.Protocol != config.ProtocolResponses || u.Err != nil || len(u.Models) == 0 {
		t.Errorf("after a reload it is %+v", u)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"tiny","input":"hello"}`))
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("a request got %d %s", w.Code, w.Body)
	}
	other := upstreams(map[string]config.Upstream{"u": {URL: address, APIKey: "new"}})
	if err := standard.Reload(t.Context(), g, other, opts); err != nil {
		t.Fatal(err)
	}
	if u := report.Upstreams[0]; u.Err == nil {
		t.Errorf("a changed entry is taken for what it was: %+v", u)
	}
}
