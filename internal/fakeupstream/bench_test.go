package fakeupstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// countdown are requests for n tokens as a stream, by path.
func countdown(n int) map[string]string {
	text := fmt.Sprintf("count to %d", n)
	return map[string]string{
		"/v1/chat/completions": `{"model":"tiny","stream":true,"messages":[{"role":"user","content":"` + text + `"}]}`,
		"/v1/responses":        `{"model":"tiny","stream":true,"input":"` + text + `"}`,
	}
}

// Under load the fake must not be what is measured. This test cannot run in
// parallel: it counts the allocations of the process.
func TestTokensCostNoAllocation(t *testing.T) {
	const n = 20_000
	for path, body := range countdown(n) {
		srv := NewServer(NewModel(nil).Answer)
		allocations := testing.AllocsPerRun(3, func() { serveTo(srv, path, body) })
		if perToken := allocations / n; perToken > 0.05 {
			t.Errorf("%s: %.2f allocations per token, want none", path, perToken)
		}
	}
}

func BenchmarkToken(b *testing.B) {
	for path := range countdown(1) {
		b.Run(path, func(b *testing.B) {
			srv := NewServer(NewModel(nil).Answer)
			b.ReportAllocs()
			for done := 0; done < b.N; done += maxCount {
				serveTo(srv, path, countdown(min(b.N-done, maxCount))[path])
			}
		})
	}
}

func serveTo(srv *Server, path, body string) {
	srv.ServeHTTP(&discard{http.Header{}}, httptest.NewRequest("POST", path, strings.NewReader(body)))
}

// discard is a connection that takes everything.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}
