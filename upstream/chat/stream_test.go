package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

const (
	sayHello   = `data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}` + "\n\n"
	sayStop    = "data: " + stopChunk + "\n\n"
	sayUsage   = `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}` + "\n\n"
	sayDone    = "data: [DONE]\n\n"
	sayNothing = ""
)

// newTestStream returns a stream that reads r as HTTP would: until ctx ends.
func newTestStream(ctx context.Context, r *io.PipeReader) *stream {
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() { r.CloseWithError(context.Cause(ctx)) })
	return &stream{ctx: ctx, cancel: cancel, body: r, dec: newTestDecoder()}
}

// TestLastWords: a server that does not end its stream cannot keep the turn
// open, and one that is a little late loses nothing.
func TestLastWords(t *testing.T) {
	t.Parallel()
	type step struct {
		after time.Duration
		text  string
	}
	tests := []struct {
		name  string
		steps []step
		usage bool
		took  time.Duration
	}{
		{
			name:  "silent after the finish reason",
			steps: []step{{0, sayHello + sayStop}, {time.Hour, sayNothing}},
			took:  afterFinish,
		},
		{
			name:  "usage in time, then silent",
			steps: []step{{0, sayHello + sayStop}, {afterFinish / 2, sayUsage}, {time.Hour, sayNothing}},
			usage: true,
			took:  afterFinish/2 + afterFinish,
		},
		{
			name:  "open after the end mark",
			steps: []step{{0, sayHello + sayStop + sayUsage + sayDone}, {time.Hour, sayNothing}},
			usage: true,
			took:  afterDone,
		},
		{
			name:  "closed after the end mark",
			steps: []step{{0, sayHello + sayStop + sayUsage + sayDone}},
			usage: true,
		},
		{
			name:  "slow, but not done",
			steps: []step{{0, sayHello}, {10 * afterFinish, sayHello}, {0, sayStop + sayUsage}},
			usage: true,
			took:  10 * afterFinish,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				var server sync.WaitGroup
				defer server.Wait()
				server.Go(func() {
					defer w.Close()
					for _, st := range tt.steps {
						time.Sleep(st.after)
						if _, err := io.WriteString(w, st.text); err != nil {
							return // the reader has left
						}
					}
				})
				start := time.Now()
				end, err := readEnd(newTestStream(t.Context(), r).frames, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := end.Usage != nil; got != tt.usage {
					t.Errorf("the usage is known: %t, want %t", got, tt.usage)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// TestSlowReader: the time that the reader takes is not the server's.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go func() {
			defer w.Close()
			io.WriteString(w, sayStop+sayHello)
			io.WriteString(w, sayUsage+sayDone)
		}()
		end, err := readEnd(newTestStream(t.Context(), r).frames, func() { time.Sleep(2 * afterFinish) })
		if err != nil {
			t.Fatal(err)
		}
		if end.Usage == nil {
			t.Error("the usage was lost while the reader was busy")
		}
	})
}

// readEnd reads events to the end of the turn and calls f for each before it.
func readEnd(events func(func(responses.Event, error) bool), f func()) (end *responses.TurnEnd, err error) {
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		if end = ev.End; end == nil && f != nil {
			f()
		}
	}
	return end, nil
}

// TestCancelAfterFinish: a turn that was cancelled does not end well, although
// its model had finished.
func TestCancelAfterFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, sayHello+sayStop)
			time.Sleep(time.Second)
			cancel(left)
		}()
		if _, err := readEnd(newTestStream(ctx, r).frames, nil); !errors.Is(err, left) {
			t.Errorf("the turn ended with %v, want the cause of the context", err)
		}
	})
}

func TestWholeAnswerIsBounded(t *testing.T) {
	t.Parallel()
	s := &stream{ctx: t.Context(), body: spaces{}, dec: newTestDecoder()}
	_, err := readEnd(s.whole, nil)
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeUpstream {
		t.Errorf("an endless answer: %v, want a failure of the upstream", err)
	}
}

// spaces is white space without end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte(" "), len(p))), nil
}
