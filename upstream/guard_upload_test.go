package upstream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/upstream"
)

// taker is an upstream that answers when it has read the request.
type taker struct{ upstream.Driver }

func (taker) Relays(string) bool { return true }

func (taker) Relay(ctx context.Context, p *upstream.Passage) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, p.Stream); err != nil {
		return nil, err
	}
	p.Account = "mine"
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, context.Cause(ctx)
}

// slowBody comes in pieces.
type slowBody struct {
	pieces int
	pause  time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.pause)
	if b.pieces--; b.pieces < 0 {
		return 0, io.EOF
	}
	return len(p), nil
}

func (*slowBody) Close() error { return nil }

// TestUploadsTakeTheirTime: the upstream's time begins when it has the request, so a
// client with a slow line can send a large one; one that stops sending has as long as
// the upstream has (R30).
func TestUploadsTakeTheirTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pause time.Duration
		err   error
	}{
		"slowly":   {20 * time.Second, nil},
		"too slow": {time.Hour, upstream.ErrFirstEvent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := upstream.Guard(taker{}, upstream.Limits{FirstEvent: 30 * time.Second})
				p := &upstream.Passage{Path: "files", Stream: &slowBody{10, test.pause}}
				resp, err := d.(upstream.Relayer).Relay(t.Context(), p)
				if !errors.Is(err, test.err) {
					t.Fatalf("got %v, want %v", err, test.err)
				}
				if err != nil {
					return
				}
				resp.Body.Close()
				if p.Account != "mine" {
					t.Errorf("sent with the account %q", p.Account)
				}
			})
		})
	}
}
