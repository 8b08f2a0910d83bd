package fakeupstream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

func TestFaultEndsTheBodyEarly(t *testing.T) {
	t.Parallel()
	const body = "data: one\n\ndata: two\n\n"
	for name, tt := range map[string]struct {
		fault   fakeupstream.Fault
		want    string
		wantErr error
	}{
		"none":                      {fakeupstream.Fault{}, body, nil},
		"cut mid-frame":             {fakeupstream.Fault{Kind: fakeupstream.Cut, After: 14}, body[:14], io.ErrUnexpectedEOF},
		"cut after the headers":     {fakeupstream.Fault{Kind: fakeupstream.Cut}, "", io.ErrUnexpectedEOF},
		"cut at the very end":       {fakeupstream.Fault{Kind: fakeupstream.Cut, After: len(body)}, body, io.ErrUnexpectedEOF},
		"cut past the end":          {fakeupstream.Fault{Kind: fakeupstream.Cut, After: len(body) + 1}, body, nil},
		"clean end mid-frame":       {fakeupstream.Fault{Kind: fakeupstream.CleanEOF, After: 14}, body[:14], nil},
		"clean end at once":         {fakeupstream.Fault{Kind: fakeupstream.CleanEOF}, "", nil},
		"one byte per write":        {fakeupstream.Fault{Chunk: 1}, body, nil},
		"one byte per write to cut": {fakeupstream.Fault{Kind: fakeupstream.Cut, After: 3, Chunk: 1}, body[:3], io.ErrUnexpectedEOF},
	} {
		for _, contentType := range []string{"text/event-stream", "application/json"} {
			t.Run(name+", "+contentType, func(t *testing.T) {
				t.Parallel()
				reply := fakeupstream.Reply{ContentType: contentType, Body: []byte(body), Fault: tt.fault}
				srv, url := serve(t, fakeupstream.Script(reply))
				resp := get(t, url)
				got, err := io.ReadAll(resp.Body)
				if string(got) != tt.want || !errors.Is(err, tt.wantErr) {
					t.Errorf("read %q, %v; want %q, %v", got, err, tt.want, tt.wantErr)
				}
				if x := srv.Requests()[0]; x.Written() != int64(len(tt.want)) {
					t.Errorf("Written() = %d, want %d", x.Written(), len(tt.want))
				}
			})
		}
	}
}

func TestCutFirstGivesNoAnswer(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeupstream.Script(fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.CutFirst}}))
	// A POST is not sent again by the client, as a GET on a lost connection might be.
	resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err == nil {
		resp.Body.Close()
		t.Fatalf("got status %d, want no answer", resp.StatusCode)
	}
}

func TestStallLastsUntilTheClientLeaves(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault fakeupstream.Fault
		want  string
	}{
		"mid-body":          {fakeupstream.Fault{Kind: fakeupstream.Stall, After: 7}, "data: o"},
		"after the headers": {fakeupstream.Fault{Kind: fakeupstream.Stall}, ""},
		"at the end":        {fakeupstream.Fault{Kind: fakeupstream.Stall, After: 11}, "data: one\n\n"},
		"before headers":    {fakeupstream.Fault{Kind: fakeupstream.StallFirst}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := fakeupstream.SSE("data: one\n\n")
			reply.Fault = tt.fault
			srv, url := serve(t, fakeupstream.Script(reply))
			ctx, cancel := context.WithCancel(t.Context())
			read := make(chan string, 1)
			go func() { read <- readUntilCancelled(ctx, url) }()

			x, err := srv.Await(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			<-x.Stalled()
			select {
			case <-x.Gone():
				t.Fatal("gone before the client left")
			case <-x.Done():
				t.Fatal("done before the client left")
			default:
			}
			cancel()
			<-x.Gone()
			<-x.Done()
			// What was sent may be dropped by the cancelled client, never altered.
			if got := <-read; !strings.HasPrefix(tt.want, got) {
				t.Errorf("read %q, want a prefix of %q", got, tt.want)
			}
			if x.Written() != int64(len(tt.want)) {
				t.Errorf("Written() = %d, want %d", x.Written(), len(tt.want))
			}
		})
	}
}

func TestArmStrikesFromHereOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind    fakeupstream.Kind
		after   int
		want    string
		wantErr error
	}{
		"cut in the next write": {fakeupstream.Cut, 2, "onetw", io.ErrUnexpectedEOF},
		"cut before it":         {fakeupstream.Cut, 0, "one", io.ErrUnexpectedEOF},
		"clean end":             {fakeupstream.CleanEOF, 2, "onetw", nil},
		"disarmed":              {fakeupstream.None, 0, "onetwo", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, fakeupstream.Script(fakeupstream.Reply{
				Fault: fakeupstream.Fault{Kind: fakeupstream.Cut, After: 5},
				Stream: func(w *fakeupstream.Writer) error {
					if _, err := io.WriteString(w, "one"); err != nil {
						return err
					}
					w.Arm(tt.kind, tt.after)
					// The error is swallowed on purpose: the cut must not look complete.
					_, _ = io.WriteString(w, "two")
					return nil
				},
			}))
			got, err := io.ReadAll(get(t, url).Body)
			if string(got) != tt.want || !errors.Is(err, tt.wantErr) {
				t.Errorf("read %q, %v; want %q, %v", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestFaultStrikesWithTheLastByteBeforeIt(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 1)
	_, url := serve(t, fakeupstream.Script(fakeupstream.Reply{
		Fault: fakeupstream.Fault{Kind: fakeupstream.CleanEOF, After: 3},
		Stream: func(w *fakeupstream.Writer) error {
			_, err := io.WriteString(w, "one")
			wrote <- err
			return err
		},
	}))
	if got, err := io.ReadAll(get(t, url).Body); string(got) != "one" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if <-wrote == nil {
		t.Error("the write that reached the fault succeeded")
	}
}

func TestStreamErrorCutsTheConnection(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeupstream.Script(fakeupstream.Reply{
		Stream: func(*fakeupstream.Writer) error { return errors.New("broken script") },
	}))
	if _, err := io.ReadAll(get(t, url).Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read error %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func TestCloseEndsStalls(t *testing.T) {
	t.Parallel()
	srv, url := serve(t, fakeupstream.Script(fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.Stall}}))
	resp := get(t, url)
	x := srv.Requests()[0]
	<-x.Stalled()
	srv.Close()
	srv.Close()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read error %v, want %v", err, io.ErrUnexpectedEOF)
	}
	<-x.Done()
	select {
	case <-x.Gone():
		t.Error("the client is said to have gone, but the server closed")
	default:
	}
}

// On an unbuffered pipe nothing is taken that the client has not read, so the
// counts are exact.
func TestBackPressureIsVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := fakeupstream.NewServer(fakeupstream.Script(fakeupstream.Reply{
			Stream: func(w *fakeupstream.Writer) error {
				for {
					if _, err := w.Write(bytes.Repeat([]byte("x"), 100)); err != nil {
						return err
					}
				}
			},
		}))
		conn := pipeTo(t, srv)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: fake\r\n\r\n")
		buf := make([]byte, 1<<10)
		for range 5 {
			if _, err := conn.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		x := srv.Requests()[0]
		blocked := x.Written()
		time.Sleep(time.Hour)
		if got := x.Written(); got != blocked || got == 0 {
			t.Errorf("Written() = %d after an hour without reading, was %d", got, blocked)
		}
		if _, err := conn.Read(buf); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := x.Written(); got <= blocked {
			t.Errorf("Written() = %d after a read, want more than %d", got, blocked)
		}
		conn.Close()
		<-x.Gone()
		<-x.Done()
	})
}

func TestDelayComesBeforeTheHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := fakeupstream.NewServer(fakeupstream.Script(fakeupstream.Reply{Delay: time.Minute}, fakeupstream.Reply{Delay: time.Minute}))
		conn := pipeTo(t, srv)
		start := time.Now()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: fake\r\n\r\n")
		buf := make([]byte, 1<<10)
		if _, err := conn.Read(buf); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("first byte after %v, want 1m", got)
		}

		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: fake\r\n\r\n")
		synctest.Wait()
		start = time.Now()
		conn.Close()
		<-srv.Requests()[1].Done()
		if got := time.Since(start); got != 0 {
			t.Errorf("the delay outlived its client by %v", got)
		}
	})
}

// readUntilCancelled returns what a client got before it was made to leave.
func readUntilCancelled(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// pipeTo serves h on one in-memory connection and returns the client's end.
func pipeTo(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	listener := &oneConn{conns: make(chan net.Conn, 1)}
	listener.conns <- server
	web := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(listener)
	}()
	t.Cleanup(func() {
		client.Close()
		web.Close()
		<-served
	})
	return client
}

// oneConn is a listener with a single connection.
type oneConn struct{ conns chan net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (l *oneConn) Close() error   { close(l.conns); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
