package engine

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// A memory is what a run goes on from, and how it will be remembered itself.
type memory struct {
	// asked is the request as models get it: the context, then what it adds.
	asked *responses.Request
	// added are the input items of the request itself.
	added []responses.Item
	// keep is true if the response is to be stored.
	keep bool
	// shard is that of what the run goes on from, so that both lie together.
	shard uint16
	// conversation is the conversation that the response belongs to, "" if none.
	conversation string
	// context is what came before, as it is kept, and before the same as items.
	context []store.Item
	before  []responses.Item
	// resolved is true if added is other than what the client sent.
	resolved bool
	// link, depth and oldest are those of the record to be.
	link   store.Link
	depth  int
	oldest time.Time // zero if it is alone
	// hashes are those of added, if the request goes on from nothing; the first
	// linked of its items are stored already, where link says.
	hashes []contextHash
	linked int
	// copied is true if the record takes the context along instead of linking.
	copied bool
}

// recall finds out what a request goes on from. What cannot be served is an error
// that is an HTTP status, before any upstream is called.
func (e *Engine) recall(ctx context.Context, owner string, req *responses.Request) (*memory, error) {
	m := &memory{asked: req, added: req.Input.Items, shard: responses.RandomShard()}
	if e.opts.Store == nil {
		if err := refuseState(req); err != nil {
			return nil, err
		}
		return m, m.checkCalls()
	}
	if req.Background != nil && *req.Background {
		return nil, responses.Unsupported("background", "This gateway runs responses in the foreground only.")
	}
	m.keep = req.Store == nil || *req.Store
	for _, step := range []func(context.Context, string, *memory) error{e.loadContext, e.resolve, e.recognise, e.ready} {
		if err := step(ctx, owner, m); err != nil {
			return nil, err
		}
	}
	return m, m.putContext()
}

// loadContext loads what came before.
func (e *Engine) loadContext(ctx context.Context, owner string, m *memory) error {
	switch {
	case m.asked.PreviousResponseID != "":
		return e.continueResponse(ctx, owner, m)
	case m.asked.ConversationID() != "":
		return e.continueConversation(ctx, owner, m)
	}
	return nil
}

// ready makes sure that the response can be kept before anybody pays for it.
func (e *Engine) ready(ctx context.Context, _ string, m *memory) error {
	if !m.keep {
		return nil
	}
	return storeFailure(e.opts.Store.Ready(ctx, m.shard), nil)
}

// refuseState refuses by name what needs a store of responses: ignoring it would
// answer another question than was asked.
func refuseState(req *responses.Request) error {
	const why = "This gateway keeps no responses: send the whole conversation in `input`."
	switch {
	case req.PreviousResponseID != "":
		return responses.Unsupported("previous_response_id", why)
	case req.Conversation != nil && req.Conversation.Kind() != 'n':
		return responses.Unsupported("conversation", why)
	case req.Background != nil && *req.Background:
		return responses.Unsupported("background", "This gateway keeps no responses: run it in the foreground.")
	}
	return nil
}

// storeFailure is the public form of what a store says. notFound is for what is not
// there.
func storeFailure(err error, notFound *responses.Error) error {
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case notFound != nil && errors.Is(err, store.ErrNotFound):
		return notFound
	case errors.Is(err, store.ErrUnavailable):
		e := responses.Errorf(responses.CodeOverloaded,
			"The gateway's store does not answer, and no model was called. Try again, or send \"store\": false with the whole conversation in `input`.").WithCause(err)
		e.RetryAfter = time.Second
		return e
	}
	return fmt.Errorf("store: %w", err)
}

// putContext makes the request of which models get the whole.
func (m *memory) putContext() error {
	if m.asked.PreviousResponseID == "" && m.asked.Conversation == nil && !m.resolved {
		return nil
	}
	req := *m.asked
	req.PreviousResponseID, req.Conversation = "", nil
	req.Input.Items = slices.Concat(m.before, m.added)
	if req.Raw != nil {
		raw, err := m.rawInput()
		if err != nil {
			return err
		}
		req.Raw, err = responses.SetMembers(req.Raw,
			responses.Member{Name: "input", Value: raw}, responses.Member{Name: "previous_response_id"}, responses.Member{Name: "conversation"})
		if err != nil {
			return err
		}
	}
	m.asked = &req
	return nil
}

// rawInput is the whole input as JSON.
func (m *memory) rawInput() (jsontext.Value, error) {
	all := make([]jsontext.Value, 0, len(m.context)+len(m.added))
	for _, kept := range m.context {
		all = append(all, kept.Data)
	}
	for _, it := range m.added {
		data, err := json.Marshal(it)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return joinValues(all), nil
}

// joinValues makes an array of values, each as it is.
func joinValues(values []jsontext.Value) jsontext.Value {
	size := 2
	for _, v := range values {
		size += len(v) + 1
	}
	out := append(make([]byte, 0, size), '[')
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}
