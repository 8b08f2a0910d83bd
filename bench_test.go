package antiphon_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
)

// cannedStream answers every request with the same event stream.
type cannedStream []byte

func (c cannedStream) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(bytes.NewReader(c)), Request: r,
	}, nil
}

// BenchmarkTranslate is one text delta of a Chat Completions stream on its whole
// way through the gateway: what an event costs without the network.
func BenchmarkTranslate(b *testing.B) {
	const perStream = 10_000
	var stream bytes.Buffer
	for range perStream {
		stream.WriteString(`data: {"id":"chatcmpl-8f3a","object":"chat.completion.chunk","created":1763164800,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	}
	stream.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	base, err := url.Parse("http://up.example/v1")
	if err != nil {
		b.Fatal(err)
	}
	g, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"up": chat.New(upstream.Endpoint{
			Base: base, Client: &http.Client{Transport: cannedStream(stream.Bytes())},
		}, nil)},
		Log:    memstore.NewWindow(nil),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	b.ReportAllocs()
	for left := b.N; left > 0; left -= perStream {
		r := httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"m","input":"x","stream":true}`))
		w := &discard{header: http.Header{}}
		g.Handler().ServeHTTP(w, r)
		if w.bytes < perStream*100 {
			b.Fatalf("only %d bytes came", w.bytes)
		}
	}
}

// discard is a client that counts what it gets.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }
func (d *discard) Flush()                      {}
