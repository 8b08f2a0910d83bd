//go:build unix

package conformance_test

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// A tap stands between Codex and the gateways and keeps what Codex sends. It
// gives one request to each gateway in turn.
type tap struct {
	url string

	mu   sync.Mutex
	sent []sentRequest // for responses, as they came
}

type sentRequest struct {
	header http.Header
	body   []byte
}

func newTap(t *testing.T, gateways []string) *tap {
	t.Helper()
	var targets []*url.URL
	for _, gateway := range gateways {
		target, err := url.Parse(gateway)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	p := &tap{}
	web := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		n := p.keep(r)
		r.SetURL(targets[n%len(targets)])
	}})
	t.Cleanup(web.Close)
	p.url = web.URL
	return p
}

// keep writes down a request for a response and returns how many were before.
func (p *tap) keep(r *httputil.ProxyRequest) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.sent)
	if r.In.Method != http.MethodPost {
		return n
	}
	// A body that breaks off is passed on as far as it came; the comparison
	// with what arrived will tell.
	body, _ := io.ReadAll(r.In.Body)
	r.Out.Body = io.NopCloser(bytes.NewReader(body))
	p.sent = append(p.sent, sentRequest{header: r.In.Header.Clone(), body: body})
	return n
}

// requests returns what Codex has sent.
func (p *tap) requests() []sentRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// inputTypes returns the types of the input items of a request.
func (r sentRequest) inputTypes() ([]string, error) {
	var body struct {
		Input []struct {
			Type string `json:"type"`
		} `json:"input"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return nil, err
	}
	var types []string
	for _, item := range body.Input {
		types = append(types, item.Type)
	}
	return types, nil
}

// ownHeaders are between the two ends of a connection, and the gateway has one
// of its own: its credentials, and its wish for a stream whatever the client
// wants.
var ownHeaders = []string{
	"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Te", "Transfer-Encoding", "Upgrade",
}

// compareRequests compares what Codex sent with what arrived at the upstream,
// request by request.
func (s *codexStage) compareRequests(compare func(sent sentRequest, arrived *fakeupstream.Exchange) error) error {
	sent, arrived := s.tap.requests(), s.arrived()
	if len(sent) != len(arrived) {
		return fmt.Errorf("Codex sent %d requests, %d arrived", len(sent), len(arrived))
	}
	for i := range sent {
		if err := compare(sent[i], arrived[i]); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// compareHeaders expects every header of Codex to arrive as it was sent.
func compareHeaders(sent sentRequest, arrived *fakeupstream.Exchange) error {
	var errs []error
	for name, want := range sent.header {
		if got := arrived.Header[name]; !slices.Contains(ownHeaders, name) && !slices.Equal(got, want) {
			errs = append(errs, fmt.Errorf("header %s: Codex sent %q, %q arrived", name, want, got))
		}
	}
	return errors.Join(errs...)
}

// compareBodies expects the members of both bodies to be equal as JSON values.
func compareBodies(sent sentRequest, arrived *fakeupstream.Exchange) error {
	want, err := members(sent.body)
	if err != nil {
		return fmt.Errorf("what Codex sent: %w", err)
	}
	got, err := members(arrived.Body)
	if err != nil {
		return fmt.Errorf("what arrived: %w", err)
	}
	return same("body", want, got)
}

// members returns the members of an object, each in its canonical spelling.
func members(body []byte) (map[string]string, error) {
	var raw map[string]jsontext.Value
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, err
	}
	spelled := make(map[string]string, len(raw))
	for name, value := range raw {
		if err := value.Canonicalize(); err != nil {
			return nil, fmt.Errorf("member %s: %w", name, err)
		}
		spelled[name] = string(value)
	}
	return spelled, nil
}
