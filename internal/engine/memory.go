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
	// context is what came before, as it is kept.
	context []store.Item
	// link, depth and oldest are those of the record to be.
	link   store.Link
	depth  int
	oldest time.Time // zero if it is alone
	// copied is true if the record takes the context along instead of linking.
	copied bool
}

// recall finds out what a request goes on from. What cannot be served is an error
// that is an HTTP status, before any upstream is called.
func (e *Engine) recall(ctx context.Context, owner string, req *responses.Request) (*memory, error) {
	m := &memory{asked: req, added: req.Input.Items, shard: responses.RandomShard()}
	if e.opts.Store == nil {
		return m, refuseState(req)
	}
	if req.Background != nil && *req.Background {
		return nil, responses.Unsupported("background", "This gateway runs responses in the foreground only.")
	}
	m.keep = req.Store == nil || *req.Store
	if req.PreviousResponseID != "" {
		if err := e.continueResponse(ctx, owner, m); err != nil {
			return nil, err
		}
	}
	if m.keep {
		if err := e.opts.Store.Ready(ctx, m.shard); err != nil {
			return nil, storeFailure(err, nil)
		}
	}
	return m, m.putContext()
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

var errNoPrevious = responses.InvalidParam(responses.CodePreviousNotFound, "previous_response_id",
	"There is no such response: it was never stored, was deleted, or is older than responses are kept. Send the whole conversation in `input` instead.")

// continueResponse loads the chain that ends in the previous response.
func (e *Engine) continueResponse(ctx context.Context, owner string, m *memory) error {
	id, ok := responses.ResponseID(m.asked.PreviousResponseID)
	if !ok {
		return errNoPrevious
	}
	chain, err := e.opts.Store.Chain(ctx, owner, id, store.Caps{Depth: e.opts.ContextDepth + 1, Bytes: e.opts.ContextBytes})
	if err != nil {
		return e.chainFailure(err)
	}
	last := &chain[len(chain)-1]
	switch last.Status {
	case responses.StatusCompleted, responses.StatusIncomplete:
	default:
		return responses.InvalidParam(responses.CodeInvalidValue, "previous_response_id",
			"This response is %s, so there is nothing to go on from: continue from the one before it.", last.Status)
	}
	left := e.opts.ContextBytes
	for i := range chain {
		items, err := chain[i].Unpack(left)
		if err != nil {
			return e.chainFailure(err)
		}
		for _, it := range items {
			left -= len(it.Data)
		}
		m.context = append(m.context, items...)
		if i == len(chain)-1 {
			m.link = store.Link{ID: id, Items: len(items)}
		}
	}
	m.shard, _ = responses.Shard(id)
	m.depth, m.oldest = last.Depth+1, last.Oldest
	m.copied = m.depth >= e.opts.ContextDepth || !store.MayLink(m.oldest, e.opts.Now(), e.opts.Retention)
	return nil
}

func (e *Engine) chainFailure(err error) error {
	if errors.Is(err, store.ErrTooLong) {
		return responses.InvalidParam(responses.CodeContextLength, "previous_response_id",
			"What this response goes on from is larger than the %d MiB that this gateway puts before a model: begin anew with a summary of it.", e.opts.ContextBytes>>20)
	}
	return storeFailure(err, errNoPrevious)
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
	if len(m.context) == 0 && m.asked.PreviousResponseID == "" {
		return nil
	}
	req := *m.asked
	req.PreviousResponseID, req.Conversation = "", nil
	items := make([]responses.Item, 0, len(m.context)+len(m.added))
	for _, kept := range m.context {
		it, err := responses.DecodeItem(kept.Data)
		if err != nil {
			return fmt.Errorf("stored item %s: %w", kept.ID, err)
		}
		items = append(items, it)
	}
	req.Input.Items = append(items, m.added...)
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

// keptInput returns the items that the request added as they are kept.
func (m *memory) keptInput(responseID string) ([]store.Item, error) {
	kept := make([]store.Item, 0, len(m.added))
	for i, it := range m.added {
		if _, ok := it.(*responses.CompactionTrigger); ok {
			continue // it asked for something once, and says nothing
		}
		it = responses.AsResource(it)
		if it.ItemID() == "" {
			it = responses.WithItemID(it, inputID(it.Type(), responseID, i))
		}
		data, err := json.Marshal(it)
		if err != nil {
			return nil, err
		}
		kept = append(kept, store.Item{ID: it.ItemID(), Data: data})
	}
	return kept, nil
}

// keptOutput returns generated items as they are kept: without what was rendered
// for the client only.
func keptOutput(items []responses.Item) ([]store.Item, error) {
	kept := make([]store.Item, 0, len(items))
	for _, it := range items {
		if isRenderedID(it.ItemID()) {
			continue
		}
		data, err := json.Marshal(it)
		if err != nil {
			return nil, err
		}
		kept = append(kept, store.Item{ID: it.ItemID(), Data: data})
	}
	return slices.Clip(kept), nil
}
