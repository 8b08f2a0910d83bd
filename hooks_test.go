package antiphon_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

func everybody(name string) func(*http.Request) (*antiphon.Caller, error) {
	return func(*http.Request) (*antiphon.Caller, error) { return &antiphon.Caller{Name: name}, nil }
}

// TestOneOfThemDecides: keys beside Authenticate would be keys that nobody asks
// for, so neither New nor Reload takes both.
func TestOneOfThemDecides(t *testing.T) {
	t.Parallel()
	options := func() *antiphon.Options {
		return &antiphon.Options{
			Drivers: map[string]upstream.Driver{"parrot": parrot{}}, Log: memstore.NewWindow(nil),
			Authenticate: everybody("ada"),
		}
	}
	both := options()
	both.Keys = []antiphon.Key{{Name: "ci", Secret: "ak-of-ci"}}
	if _, err := antiphon.New(both); err == nil || !strings.Contains(err.Error(), "both set") {
		t.Errorf("New with both: %v", err)
	}
	gw, err := antiphon.New(options())
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Close()
	if err := gw.Reload(both); err == nil || !strings.Contains(err.Error(), "both set") {
		t.Errorf("Reload with both: %v", err)
	}
}

// TestHooksAreReloaded: new requests get the hooks of the new configuration, also
// if it has none (R36).
func TestHooksAreReloaded(t *testing.T) {
	t.Parallel()
	refuse := responses.Errorf(responses.CodeForbidden, "no")
	options := func(authenticate, transform error) *antiphon.Options {
		o := &antiphon.Options{
			Drivers: map[string]upstream.Driver{"parrot": parrot{}}, Log: memstore.NewWindow(nil), Logger: slog.New(slog.DiscardHandler),
		}
		if authenticate != nil {
			o.Authenticate = func(*http.Request) (*antiphon.Caller, error) { return nil, authenticate }
		}
		if transform != nil {
			o.TransformRequest = func(context.Context, *antiphon.Caller, *responses.Request) (*responses.Request, error) {
				return nil, transform
			}
		}
		return o
	}
	gw, err := antiphon.New(options(refuse, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Close()
	for i, step := range []struct {
		opts *antiphon.Options
		want string
	}{
		{nil, "403 "},
		{options(nil, nil), "200 hello"},
		{options(nil, refuse), "403 "},
		{options(nil, nil), "200 hello"},
	} {
		if step.opts != nil {
			if err := gw.Reload(step.opts); err != nil {
				t.Fatal(err)
			}
		}
		if got := ask(gw, "", "polly", "hello"); !strings.HasPrefix(got, step.want) {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// TestTransformReachesTheWire: the native driver sends a client's own bytes where
// it can; what a hook changed is in what it sends all the same (R34).
func TestTransformReachesTheWire(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent <- string(body)
		w.WriteHeader(http.StatusBadRequest) // the answer does not matter here, and this one is not tried again
	}))
	defer srv.Close()
	base, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	gw, err := antiphon.New(&antiphon.Options{
		Drivers:          map[string]upstream.Driver{"native": native.New(upstream.Endpoint{Base: base}, nil)},
		TransformRequest: redact,
		Log:              memstore.NewWindow(nil),
		Logger:           slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Close()
	answer := ask(gw, "", "polly", "When does Bluebird ship?")
	select {
	case body := <-sent:
		if strings.Contains(body, "Bluebird") || !strings.Contains(body, "When does [project] ship?") {
			t.Errorf("the upstream got %s", body)
		}
	default:
		t.Errorf("nothing was sent: %s", answer)
	}
}
