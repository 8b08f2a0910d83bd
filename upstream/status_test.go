package upstream_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// TestStatusThatIsNone: an answer whose status no server can pass on is a failure of
// the upstream, not a success without a body (R33).
func TestStatusThatIsNone(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"000", "042", "099", "101", "199"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			e := endpoint(t, "http://"+answering(t, "HTTP/1.1 "+status+" Odd\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"))
			resp, err := e.Relay(t.Context(), &upstream.Passage{Method: http.MethodPost, Path: "responses", Body: []byte(`{}`)})
			if err == nil {
				resp.Body.Close()
				t.Fatalf("got the answer %s", resp.Status)
			}
			if e := responses.AsError(err); e.Code != responses.CodeUpstream || e.Origin != responses.OriginUpstream {
				t.Errorf("got %v", err)
			}
		})
	}
}

// answering returns the address of a server that gives one answer, word for word.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, answer)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}
