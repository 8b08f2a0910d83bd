// Package native is the driver for upstreams that speak the Responses API
// themselves. What passes through it changes as little as possible: a request is
// the client's own bytes with the model and the memory decided by the gateway,
// and an event keeps every member that is not ours.
//
// Servers of this API differ in what they leave out, renumber and contradict.
// The driver repairs what can be repaired without losing anything, so that every
// client sees the one order of events that package responses describes.
package native

import (
	"context"
	"crypto/sha256"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Options configures [New]. The zero value is usable.
type Options struct {
	// Stateful leaves store and include to the client, for an upstream that
	// remembers responses itself. Otherwise it is told to store nothing and to
	// return its reasoning encrypted, because the gateway remembers.
	Stateful bool
	// SkipMalformed leaves out frames that cannot be understood. Otherwise they
	// are a failure of the turn that quotes the frame (R15).
	SkipMalformed bool
}

const (
	// maxWhole bounds an answer that comes in one piece, and a list of models.
	maxWhole = 64 << 20
	// maxIDs is how many ids that are not the upstream's own are remembered. An
	// item whose id was forgotten goes back under its public id, and an upstream
	// that insists on its own then refuses it.
	maxIDs = 10_000
	// maxPlain is how many models without encrypted reasoning are remembered.
	maxPlain = 1000
	// drainTime is how long an upstream may take from its last event to the end
	// of its answer for the connection to be used again.
	drainTime = 20 * time.Millisecond
	// drainBytes is how much may come in between.
	drainBytes = 4 << 10
)

// driver implements [upstream.Driver].
type driver struct {
	endpoint upstream.Endpoint
	opts     Options
	// ids maps public ids to those that the upstream expects.
	ids *recent[idKey, string]
	// plain are the models that refuse to encrypt their reasoning.
	plain *recent[string, struct{}]

	ctx   context.Context // ends with the driver
	close context.CancelCauseFunc
}

// idKey is a public id and the digest of the content that it stands beside.
type idKey struct {
	id     string
	digest [sha256.Size]byte
}

var (
	_ upstream.Driver      = (*driver)(nil)
	_ upstream.ModelLister = (*driver)(nil)
)

// New returns a driver for the Responses API below e.Base. It does no I/O. Nil
// options mean the defaults. The client's headers are forwarded, whatever e says:
// they are part of the protocol, and some decide how a body is read.
func New(e upstream.Endpoint, opts *Options) upstream.Driver {
	e.ForwardHeaders = true
	d := &driver{
		endpoint: e,
		ids:      newRecent[idKey, string](maxIDs),
		plain:    newRecent[string, struct{}](maxPlain),
	}
	if opts != nil {
		d.opts = *opts
	}
	d.ctx, d.close = context.WithCancelCause(context.Background())
	return d
}

// Relays implements [upstream.Relayer]: servers of this API have the older ones
// too.
func (d *driver) Relays(string) bool { return true }

// Relay implements [upstream.Relayer].
func (d *driver) Relay(ctx context.Context, p *upstream.Passage) (*http.Response, error) {
	return d.endpoint.Relay(ctx, p)
}

// Close implements [upstream.Driver].
func (d *driver) Close() error {
	d.close(upstream.ErrClosed)
	return nil
}

// Open implements [upstream.Driver].
func (d *driver) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(d.ctx, func() { cancel(upstream.ErrClosed) })
	resp, losses, err := d.send(ctx, t)
	if err != nil {
		unlink()
		cancel(nil)
		return nil, err
	}
	s := &stream{ctx: ctx, cancel: cancel, resp: resp, decoder: d.newDecoder(t)}
	return &upstream.Stream{
		Header: resp.Header,
		Losses: losses,
		Events: s.events(),
		Close: sync.OnceValue(func() error {
			unlink()
			cancel(nil)
			return resp.Body.Close()
		}),
	}, nil
}

// send posts the turn, and again without what the upstream refuses and can do
// without. A model that has no reasoning to encrypt may refuse to be asked for it:
// what only we asked for is then left out, now and from now on. Reasoning that
// another upstream has encrypted, because the conversation began there, is left out
// and reported.
func (d *driver) send(ctx context.Context, t *upstream.Turn) (*http.Response, []responses.Loss, error) {
	if d.ctx.Err() != nil {
		return nil, nil, upstream.ErrClosed
	}
	enc := encoding{stateful: d.opts.Stateful, upstreamID: d.upstreamID}
	_, enc.plain = d.plain.get(t.Request.Model)
	var losses upstream.Losses
	for {
		body, added, err := enc.encode(t.Request)
		if err != nil {
			return nil, nil, err
		}
		resp, err := d.post(ctx, t, body)
		switch {
		case err == nil:
			if enc.plain {
				d.plain.put(t.Request.Model, struct{}{})
			}
			return resp, losses.List, nil
		case added && refusesInclude(err):
			enc.plain = true
		case !enc.unsealed && errors.Is(err, upstream.ErrSealed) && slices.ContainsFunc(t.Request.Input.Items, isSealedReasoning):
			enc.unsealed = true
			at := slices.IndexFunc(t.Request.Input.Items, isSealedReasoning)
			losses.Once(fmt.Sprintf("input[%d]", at), "encrypted_content", "It cannot be opened by this upstream; no encrypted reasoning was sent.")
		default:
			return nil, nil, err
		}
	}
}

func refusesInclude(err error) bool {
	e, ok := errors.AsType[*responses.Error](err)
	return ok && e.Code.Status() == http.StatusBadRequest && strings.HasPrefix(e.Param, "include")
}

// post sends body and checks that the answer is one.
func (d *driver) post(ctx context.Context, t *upstream.Turn, body []byte) (*http.Response, error) {
	resp, err := d.endpoint.Post(ctx, "responses", body, t.Header)
	if err != nil {
		return nil, err
	}
	if !upstream.Streams(resp) {
		if err := upstream.CheckJSON(resp); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, nil
}

func (d *driver) newDecoder(t *upstream.Turn) *decoder {
	shard, ok := responses.Shard(t.RunID)
	if !ok {
		shard = responses.RandomShard()
	}
	dec := newDecoder(func(prefix string) string { return responses.NewID(prefix, shard, time.Now()) })
	dec.skipMalformed = d.opts.SkipMalformed
	dec.remember = func(publicID, upstreamID, encrypted string) {
		d.ids.put(idKey{publicID, sha256.Sum256([]byte(encrypted))}, upstreamID)
	}
	return dec
}

func (d *driver) upstreamID(id, encrypted string) string {
	upstreamID, _ := d.ids.get(idKey{id, sha256.Sum256([]byte(encrypted))})
	return upstreamID
}

// stream is the answer to one turn.
type stream struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	resp    *http.Response
	decoder *decoder
}

// events yields the turn.
func (s *stream) events() iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		read := s.readWhole
		if upstream.Streams(s.resp) {
			read = s.readStream
		}
		if err := read(yield); err != nil {
			yield(responses.Event{}, upstream.Redacted(err, s.resp))
		}
		if s.decoder.Ended() {
			s.drain()
		}
	}
}

// readStream reads an event stream. It returns the failure of the turn, nil if
// the turn ended or its reader left.
func (s *stream) readStream(yield func(responses.Event, error) bool) error {
	for frame, err := range sse.Read(s.resp.Body, nil) {
		if err != nil {
			return s.decoder.End(upstream.ReadFailure(s.ctx, err))
		}
		err := s.decoder.Push(frame.Data)
		if !s.yield(yield) {
			return nil
		}
		if err != nil || s.decoder.Ended() {
			return err
		}
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return s.decoder.End(nil)
}

// readWhole reads an answer that came in one piece.
func (s *stream) readWhole(yield func(responses.Event, error) bool) error {
	body, err := readAll(s.ctx, s.resp.Body)
	if err != nil {
		return err
	}
	err = s.decoder.Whole(body)
	if !s.yield(yield) {
		return nil
	}
	return err
}

// yield hands over what was decoded. It reports whether the reader wants more.
func (s *stream) yield(yield func(responses.Event, error) bool) bool {
	for _, ev := range s.decoder.Take() {
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}

// drain reads the end of the answer, which is all that keeps the connection from
// being used again. Nobody waits for it long.
func (s *stream) drain() {
	timer := time.AfterFunc(drainTime, func() { s.cancel(nil) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, s.resp.Body, drainBytes) // what it says is of no interest
}

// readAll reads a body that is not too large.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxWhole+1))
	switch {
	case err != nil:
		return nil, upstream.ReadFailure(ctx, err)
	case len(body) > maxWhole:
		return nil, responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer is larger than %d bytes.", maxWhole)
	}
	return body, nil
}

// Models implements [upstream.ModelLister].
func (d *driver) Models(ctx context.Context) ([]upstream.Model, error) {
	resp, err := d.endpoint.Get(ctx, "models")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := upstream.CheckJSON(resp); err != nil {
		return nil, err
	}
	body, err := readAll(ctx, resp.Body)
	if err != nil {
		return nil, err
	}
	return decodeModels(body)
}

// decodeModels reads a list of models. The context window has a name of its own
// at every server that tells it.
func decodeModels(body []byte) ([]upstream.Model, error) {
	var list struct {
		Data []struct {
			ID            string `json:"id"`
			Created       int64  `json:"created"`
			OwnedBy       string `json:"owned_by"`
			ContextWindow int64  `json:"context_window"`
			ContextLength int64  `json:"context_length"`
			MaxModelLen   int64  `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, upstream.Malformed(body, err)
	}
	models := make([]upstream.Model, 0, len(list.Data))
	for _, m := range list.Data {
		window := max(m.ContextWindow, m.ContextLength, m.MaxModelLen)
		models = append(models, upstream.Model{ID: m.ID, ContextWindow: window, Created: m.Created, OwnedBy: m.OwnedBy})
	}
	return models, nil
}
