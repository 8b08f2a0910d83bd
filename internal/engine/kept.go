package engine

import (
	"bytes"
	"context"
	"encoding/json/jsontext"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// errNoResponse says nothing of the id: whose it is, or whether it ever was one,
// is nobody else's business.
var errNoResponse = responses.InvalidParam(responses.CodeNotFound, "",
	"There is no such response: it was never stored, was deleted, or is older than responses are kept.")

// errStateless is for what a gateway without a store cannot have.
var errStateless = responses.InvalidParam(responses.CodeNotFound, "", "This gateway keeps no responses and no conversations.")

// A Kept response is one as it was remembered.
type Kept struct {
	record *store.Record
}

// Retrieve returns a response of owner.
func (e *Engine) Retrieve(ctx context.Context, owner, id string) (*Kept, error) {
	id, err := e.keptID(id)
	if err != nil {
		return nil, err
	}
	record, err := e.opts.Store.Get(ctx, owner, id)
	if err != nil {
		return nil, storeFailure(err, errNoResponse)
	}
	return &Kept{record}, nil
}

// keptID is the id under which the store has what a client calls id.
func (e *Engine) keptID(id string) (string, error) {
	if e.opts.Store == nil {
		return "", errStateless
	}
	id, ok := responses.ResponseID(id)
	if !ok {
		return "", errNoResponse
	}
	return id, nil
}

// Delete forgets a response of owner, and returns its id.
func (e *Engine) Delete(ctx context.Context, owner, id string) (string, error) {
	id, err := e.keptID(id)
	if err != nil {
		return "", err
	}
	return id, storeFailure(e.opts.Store.Delete(ctx, owner, id), errNoResponse)
}

// Losses are what the upstream did not honour.
func (k *Kept) Losses() []responses.Loss { return k.record.Losses }

// InputItems returns a page of the input of a response of owner.
func (e *Engine) InputItems(ctx context.Context, owner, id string, p store.Page) (*Items, error) {
	kept, err := e.Retrieve(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	items, err := e.wholeInput(ctx, owner, kept.record)
	if err != nil {
		return nil, err
	}
	page, more, err := store.Cut(items, p)
	return &Items{page, more}, storeFailure(err, errNoAfter)
}

// Items are a page of a list.
type Items struct {
	kept []store.Item
	more bool
}

// FirstID and LastID are the ids of the first and the last item, "" if there is
// none.
func (l *Items) FirstID() string { return l.id(0) }

// LastID is described with FirstID.
func (l *Items) LastID() string { return l.id(len(l.kept) - 1) }

func (l *Items) id(i int) string {
	if len(l.kept) == 0 {
		return ""
	}
	return l.kept[i].ID
}

// More reports whether there are items after these.
func (l *Items) More() bool { return l.more }

// Encode returns the items. Of what must be asked for, they have what includes
// names.
func (l *Items) Encode(includes func(name string) bool) ([]jsontext.Value, error) {
	return shown(l.kept, includes)
}

// Encode returns the response object. Of what must be asked for, it has what
// includes names.
func (k *Kept) Encode(includes func(name string) bool) ([]byte, error) {
	output, err := shown(k.record.Output, includes)
	if err != nil {
		return nil, err
	}
	return responses.SetMembers(k.record.Head, responses.Member{Name: "output", Value: joinValues(output)})
}

// shown returns kept items as clients see them: the sealed form of reasoning is
// for those who ask for it.
func shown(items []store.Item, includes func(name string) bool) ([]jsontext.Value, error) {
	values := make([]jsontext.Value, len(items))
	sealed := includes(responses.IncludeEncryptedReasoning)
	for i, it := range items {
		values[i] = it.Data
		if sealed || !bytes.Contains(it.Data, []byte("encrypted_content")) {
			continue
		}
		item, err := responses.DecodeItem(it.Data)
		if err != nil {
			return nil, err
		}
		if item.Type() != responses.TypeReasoning {
			continue
		}
		if values[i], err = responses.SetMembers(it.Data, responses.Member{Name: "encrypted_content"}); err != nil {
			return nil, err
		}
	}
	return values, nil
}
