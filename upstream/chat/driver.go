// Package chat is the driver for upstreams that speak Chat Completions: vLLM,
// Ollama, llama.cpp, SGLang, LM Studio, OpenAI, DeepSeek, Mistral and most
// others.
//
// A turn is encoded into one POST …/chat/completions (encode.go, which also
// lists what the protocol cannot carry), and the chunks that come back are
// decoded into the events of package responses (decode.go). Both are pure; this
// file and stream.go hold the only I/O. Servers of this protocol agree on the
// outline and differ in everything else, so the decoder takes every spelling
// that is in use and trusts none of it.
package chat

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Options configures [New]. The zero value suits most servers.
type Options struct {
	// DeveloperRole sends developer messages under that role. Otherwise they go
	// as system messages, the only such role that most servers know.
	DeveloperRole bool
	// MaxCompletionTokens sends max_output_tokens as max_completion_tokens
	// instead of max_tokens: OpenAI's reasoning models take only the former.
	MaxCompletionTokens bool
	// OmitReasoning leaves the model's earlier reasoning out of the history,
	// for servers that refuse reasoning_content. It is reported as a loss.
	OmitReasoning bool
	// Sealer seals reasoning into encrypted_content for clients that ask for it,
	// and opens what comes back. Nil means that reasoning travels in the clear
	// only, as its summary.
	Sealer upstream.Sealer
	// Name is this upstream's name. Reasoning that was sealed under another name
	// is another model's and is not sent.
	Name string
	// NoStream asks for whole answers, for servers that cannot stream, or
	// cannot stream tool calls.
	NoStream bool
	// SkipMalformed passes over frames of a stream that are not valid instead
	// of failing the turn.
	SkipMalformed bool
	// Extensions names request members outside the Responses API that the
	// server understands, such as top_k or chat_template_kwargs. They are sent
	// as the client wrote them; any other is reported as a loss.
	Extensions []string
}

// New returns a driver for the server at the endpoint, whose base is the URL
// that chat/completions is below, such as http://127.0.0.1:8000/v1. Nil options
// mean the defaults. New does no I/O. The driver is an [upstream.ModelLister].
func New(endpoint upstream.Endpoint, opts *Options) upstream.Driver {
	d := &driver{endpoint: endpoint}
	if opts != nil {
		d.opts = *opts
	}
	d.closing, d.close = context.WithCancel(context.Background())
	return d
}

type driver struct {
	endpoint upstream.Endpoint
	opts     Options

	closing context.Context // ends when the driver is closed
	close   context.CancelFunc
}

var (
	_ upstream.Driver      = (*driver)(nil)
	_ upstream.ModelLister = (*driver)(nil)
	_ upstream.Relayer     = (*driver)(nil)
)

// Open implements [upstream.Driver].
func (d *driver) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	enc, err := encode(t, &d.opts)
	if err != nil {
		return nil, err
	}
	if d.closing.Err() != nil {
		return nil, upstream.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(d.closing, func() { cancel(upstream.ErrClosed) })
	release := func() {
		unhook()
		cancel(nil)
	}
	resp, err := d.post(ctx, t, enc.body)
	if err != nil {
		release()
		return nil, err
	}
	shard, _ := responses.Shard(t.RunID)
	dec := newDecoder(responses.NewComposer(shard, time.Now), enc.box)
	if (t.Returns || t.Request.Includes(responses.IncludeEncryptedReasoning)) && d.opts.Sealer != nil {
		dec.out.EncryptReasoning(func(text string) string { return d.opts.sealReasoning(t.Owner, dec.field, text) })
	}
	s := &stream{ctx: ctx, cancel: cancel, resp: resp, body: resp.Body, dec: dec}
	events := s.whole
	if upstream.Streams(resp) {
		events, dec.skipMalformed = s.frames, d.opts.SkipMalformed
	}
	return &upstream.Stream{
		Losses: enc.losses,
		Header: resp.Header,
		Events: events,
		Close: sync.OnceValue(func() error {
			release()
			return resp.Body.Close()
		}),
	}, nil
}

// post sends the request and checks that the answer is of a kind that can be
// read, whether or not it is the kind that was asked for (R7).
func (d *driver) post(ctx context.Context, t *upstream.Turn, body []byte) (*http.Response, error) {
	resp, err := d.endpoint.Post(ctx, "chat/completions", body, t.Header)
	if err != nil || upstream.Streams(resp) {
		return resp, err
	}
	if err := upstream.CheckJSON(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// Relays implements [upstream.Relayer]: the server has everything but responses.
func (d *driver) Relays(path string) bool { return path != upstream.PathResponses }

// Relay implements [upstream.Relayer].
func (d *driver) Relay(ctx context.Context, p *upstream.Passage) (*http.Response, error) {
	return d.endpoint.Relay(ctx, p)
}

// Close implements [upstream.Driver]. It may be repeated.
func (d *driver) Close() error {
	d.close()
	return nil
}
