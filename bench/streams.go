package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// opening is how many streams are being opened at a time: fewer than the
	// backlog of a listener.
	opening = 128
	// spareFiles is what a process needs besides its streams.
	spareFiles = 500
)

// measureStreams holds many streams open, on which little happens, and measures
// what each costs the gateway in memory. Then all of them must end well.
func measureStreams(ctx context.Context, r *rig, s *section) error {
	want := pick(r, 8_000, 500)
	n, err := streamsThatFit(want)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("of %d", n)
	if n < want {
		note = fmt.Sprintf("not %d: the limit of open files is too low", want)
		r.say("streams: %d, %s", n, note)
	}
	upstream, gateway, err := r.replayed(ctx)
	if err != nil {
		return err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	to := route{"gateway", gateway, responsesProtocol}
	if err := warmUp(ctx, client, to); err != nil {
		return err
	}
	before, err := memoryOf(gateway.pid())
	if err != nil {
		return err
	}
	held := openStreams(ctx, client, to, n)
	during, err := held.plateau(ctx, r, gateway)
	if err == nil {
		err = fetch(ctx, client, http.MethodPost, upstream.url()+"/release", nil)
	}
	if err != nil {
		held.cancel(err)
	}
	if ended := <-held.ended; err == nil {
		err = ended
	}
	s.add(row{
		Metric: "open at once and completed", Value: float64(held.completed.Load()),
		Note: note, Limit: atLeast(float64(n)).hard(),
	})
	if err != nil {
		return err
	}
	s.add(row{
		Metric: "gateway's memory per open stream", Value: float64(during.now-before.now) / 1024 / float64(n), Unit: "KiB",
		Note: fmt.Sprintf("%s in all", format(mib(during.now), "MiB")), Limit: atMost(64),
	})
	return nil
}

// streamsThatFit returns want, or fewer if a process may not have that many
// files: the gateway needs two for each stream.
func streamsThatFit(want int) (int, error) {
	files, err := maxOpenFiles()
	if err != nil {
		return 0, err
	}
	if fit := (int(min(files, 1<<20)) - spareFiles) / 2; fit < want {
		return max(fit, 1), nil
	}
	return want, nil
}

// heldStreams are streams that are open until the upstream releases them.
type heldStreams struct {
	n         int
	begun     atomic.Int64
	completed atomic.Int64
	allBegun  chan struct{}
	cancel    context.CancelCauseFunc
	ended     chan error // gets the first error, or nil, when all have ended
}

// openStreams opens n streams, some at a time. It does not wait.
func openStreams(ctx context.Context, client *http.Client, to route, n int) *heldStreams {
	h := &heldStreams{n: n, allBegun: make(chan struct{}), ended: make(chan error, 1)}
	ctx, h.cancel = context.WithCancelCause(ctx)
	slots := make(chan struct{}, opening)
	go func() {
		defer h.cancel(nil)
		h.ended <- together(ctx, n, func(ctx context.Context, _ int) error {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return h.one(ctx, client, to, func() { <-slots })
		})
	}()
	return h
}

// one reads a stream to its end and gives its slot back at the first delta.
func (h *heldStreams) one(ctx context.Context, client *http.Client, to route, begun func()) error {
	ask := call{to: to, model: script{playHold, 1}.String(), prompt: "hold", buffer: 4 << 10}
	ask.first = func() {
		begun()
		if h.begun.Add(1) == int64(h.n) {
			close(h.allBegun)
		}
	}
	t, err := ask.read(ctx, client)
	if err != nil {
		return err
	}
	if t.last != "response.completed" || !t.done {
		return ask.explain(ctx, fmt.Errorf("the answer ended with %q", t.last))
	}
	h.completed.Add(1)
	return nil
}

// plateau waits until all streams are open and some ticks have passed, and
// returns the memory of the gateway then.
func (h *heldStreams) plateau(ctx context.Context, r *rig, gateway *process) (memory, error) {
	progress := time.NewTicker(2 * time.Second)
	defer progress.Stop()
	for open := false; !open; {
		select {
		case <-h.allBegun:
			open = true
		case <-progress.C:
			r.say("streams: %d of %d are open", h.begun.Load(), h.n)
		case err := <-h.ended:
			h.ended <- err // for the caller, who waits for the end too
			return memory{}, fmt.Errorf("streams ended before all were open: %w", err)
		case <-ctx.Done():
			return memory{}, context.Cause(ctx)
		}
	}
	r.say("streams: all %d are open", h.n)
	if err := sleep(ctx, holdTick*2+holdTick/2); err != nil {
		return memory{}, err
	}
	return memoryOf(gateway.pid())
}
