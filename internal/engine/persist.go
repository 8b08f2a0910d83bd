package engine

import (
	"context"
	"encoding/json/v2"
	"errors"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

const (
	// commitTime is how long an answer waits for a store that does not answer.
	commitTime = 30 * time.Second
	// lastTry is how long a response that has failed waits for it.
	lastTry = 2 * time.Second
	// The pause between two tries grows from the first to the longest.
	firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second
)

// persist keeps the response as it is now. It is called before anybody is told of
// the state that it keeps; so what a client has seen is there for every replica.
func (r *Run) persist(ctx context.Context, resp *responses.Response) error {
	if !r.memory.keep {
		return nil
	}
	record, err := r.record(resp)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := r.write(ctx, record)
		switch {
		case errors.Is(err, store.ErrLinkGone) && record.Link.ID != "":
			// What it goes on from was deleted meanwhile: then it takes that along.
			r.memory.standAlone()
			if record, err = r.record(resp); err != nil {
				return err
			}
			continue
		case !errors.Is(err, store.ErrUnavailable):
			return r.commitFailure(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return r.commitFailure(err)
		}
	}
}

// write keeps a record: as a new one, or in place of an earlier step.
func (r *Run) write(ctx context.Context, record *store.Record) error {
	if r.created {
		return r.engine.opts.Store.Update(ctx, r.info.Owner, record)
	}
	err := r.engine.opts.Store.Create(ctx, r.info.Owner, record)
	r.created = err == nil
	return err
}

// persistStep keeps what the response has come to between two rounds, so that the
// next one does not begin before what it builds on is safe.
func (r *Run) persistStep(ctx context.Context) error {
	resp := *r.resp
	resp.Output, resp.Usage = r.fold.Output(), r.hosting.usage
	return r.persist(ctx, &resp)
}

// persistFailed keeps a response that has failed, if it can: a client that has
// seen its stream begin may ask for it.
func (r *Run) persistFailed(ctx context.Context, resp *responses.Response) {
	if !r.memory.keep || !r.created && (!r.accepted || !r.info.Stream) {
		return
	}
	record, err := r.record(resp)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastTry)
	defer cancel()
	if errors.Is(r.write(ctx, record), store.ErrLinkGone) {
		r.memory.standAlone()
		if record, err = r.record(resp); err == nil {
			_ = r.write(ctx, record) // the client has its error in any case
		}
	}
}

// commitFailure is the public form of why an answer could not be kept.
func (r *Run) commitFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound) && r.memory.conversation == "":
		return responses.InvalidParam(responses.CodeNotFound, "", "The response was deleted, or the gateway's store had no room for it, while it was made.").WithCause(err)
	case errors.Is(err, store.ErrNotFound):
		return responses.InvalidParam(responses.CodeNotFound, "conversation", "The conversation was deleted while the response was made, so it was not stored.").WithCause(err)
	case errors.Is(err, store.ErrTooLong):
		return responses.InvalidParam(responses.CodeContextLength, "conversation",
			"The conversation would have more than %d items, so the response was not stored: begin a new one.", store.MaxConversationItems).WithCause(err)
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return responses.Errorf(responses.CodeOverloaded,
			"The response was made, but the gateway's store did not take it within %s. Send the request again, or with \"store\": false.", commitTime).
			WithCause(errors.Join(err, store.ErrUnavailable))
	}
	return err
}

// record is the response as it is kept.
func (r *Run) record(resp *responses.Response) (*store.Record, error) {
	head := *resp
	head.Output = []responses.Item{}
	data, err := json.Marshal(&head)
	if err != nil {
		return nil, err
	}
	m := r.memory
	record := &store.Record{
		ID: resp.ID, Status: resp.Status, Conversation: m.conversation, Head: data,
		Losses: append(r.head.Losses[:len(r.head.Losses):len(r.head.Losses)], r.end.Losses...),
		Link:   m.link, Depth: m.depth, Oldest: m.oldest,
	}
	if m.copied {
		record.Context, record.Link, record.Depth, record.Oldest = m.context, store.Link{}, 0, time.Time{}
	} else if record.Context, err = m.mentioned(); err != nil {
		return nil, err
	}
	if record.Oldest.IsZero() {
		record.Oldest = record.Created()
	}
	if record.Input, err = m.keptInput(resp.ID); err != nil {
		return nil, err
	}
	if record.Output, err = keptOutput(resp.Output); err != nil {
		return nil, err
	}
	record.Marks, err = m.marks(record)
	return record, err
}

// standAlone makes the record to be one that holds all of its context.
func (m *memory) standAlone() {
	if m.linked == 0 {
		m.copied = true
		return
	}
	m.linked, m.link, m.depth, m.oldest = 0, store.Link{}, 0, time.Time{}
}
