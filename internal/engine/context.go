package engine

import (
	"context"
	"encoding/json/v2"
	"errors"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

var errNoPrevious = responses.InvalidParam(responses.CodePreviousNotFound, "previous_response_id",
	"There is no such response: it was never stored, was deleted, or is older than responses are kept. Send the whole conversation in `input` instead.")

// continueResponse loads the chain that ends in the previous response.
func (e *Engine) continueResponse(ctx context.Context, owner string, m *memory) error {
	id, ok := responses.ResponseID(m.asked.PreviousResponseID)
	if !ok {
		return errNoPrevious
	}
	chain, err := e.opts.Store.Chain(ctx, owner, id, e.caps())
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
		m.link = store.Link{ID: id, Items: len(items)} // the last one's is what counts
		if items, err = e.withConversation(ctx, owner, items, left); err != nil {
			return err
		}
		for _, it := range items {
			left -= len(it.Data)
		}
		m.context = append(m.context, items...)
	}
	m.shard, _ = responses.Shard(id)
	m.depth, m.oldest = last.Depth+1, last.Oldest
	m.copied = m.depth >= e.opts.ContextDepth || !store.MayLink(m.oldest, e.opts.Now(), e.opts.Retention)
	return nil
}

// caps bound a chain. A response that is to be remembered never makes one deeper.
func (e *Engine) caps() store.Caps {
	return store.Caps{Depth: e.opts.ContextDepth + 1, Bytes: e.opts.ContextBytes}
}

func (e *Engine) chainFailure(err error) error {
	if errors.Is(err, store.ErrTooLong) {
		return e.tooLong("previous_response_id")
	}
	return storeFailure(err, errNoPrevious)
}

func (e *Engine) tooLong(param string) error {
	return responses.InvalidParam(responses.CodeContextLength, param,
		"What this response goes on from is larger than the %d bytes that this gateway puts before a model: begin anew with a summary of it.", e.opts.ContextBytes)
}

var errNoSuchConversation = responses.InvalidParam(responses.CodeNotFound, "conversation", "%s", errNoConversation.Message)

// continueConversation loads the items of the conversation.
func (e *Engine) continueConversation(ctx context.Context, owner string, m *memory) error {
	id := m.asked.ConversationID()
	if !isConversationID(id) {
		return errNoSuchConversation
	}
	items, _, err := e.opts.Store.ListItems(ctx, owner, id, store.Page{Bytes: e.opts.ContextBytes})
	if errors.Is(err, store.ErrTooLong) {
		return e.tooLong("conversation")
	}
	if err != nil {
		return storeFailure(err, errNoSuchConversation)
	}
	m.conversation, m.context = id, items
	m.shard, _ = responses.Shard(id)
	return nil
}

// A mention stands, as the first item of a record that was made in a conversation,
// for what the conversation held then. Whoever goes on from that record alone gets
// the same context without a copy of it in every record.
type mention struct {
	Conversation string `json:"conversation"`
	Last         string `json:"last"` // the id of its last item, "" if it had none
}

// mentioned is the context of a record in a conversation.
func (m *memory) mentioned() ([]store.Item, error) {
	if m.conversation == "" {
		return nil, nil
	}
	mention := mention{Conversation: m.conversation}
	if n := len(m.context); n > 0 {
		mention.Last = m.context[n-1].ID
	}
	data, err := json.Marshal(&mention)
	return []store.Item{{ID: m.conversation, Data: data}}, err
}

var errConversationLeft = responses.InvalidParam(responses.CodePreviousNotFound, "previous_response_id",
	"This response was made in a conversation that no longer has what came before it: go on in a `conversation`, or send the whole of it in `input`.")

// withConversation returns the items of a record with those of the conversation
// that it mentions.
func (e *Engine) withConversation(ctx context.Context, owner string, items []store.Item, limit int) ([]store.Item, error) {
	if len(items) == 0 || !isConversationID(items[0].ID) {
		return items, nil
	}
	var mention mention
	if json.Unmarshal(items[0].Data, &mention, json.RejectUnknownMembers(true)) != nil {
		return items, nil // an item of a client, which has an id and a type, whatever they are
	}
	if mention.Last == "" {
		return items[1:], nil
	}
	all, _, err := e.opts.Store.ListItems(ctx, owner, mention.Conversation, store.Page{Bytes: limit})
	if errors.Is(err, store.ErrTooLong) {
		return nil, e.tooLong("previous_response_id")
	}
	if err != nil {
		return nil, storeFailure(err, errConversationLeft)
	}
	last := slices.IndexFunc(all, func(it store.Item) bool { return it.ID == mention.Last })
	if last < 0 {
		return nil, errConversationLeft
	}
	return slices.Concat(all[:last+1], items[1:]), nil
}

func isConversationID(id string) bool {
	_, ok := responses.IDBytes(id)
	return ok && strings.HasPrefix(id, responses.PrefixConversation)
}
