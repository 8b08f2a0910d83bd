package storetest

import (
	"encoding/json/jsontext"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// converse makes a conversation of team-a with n items, msg_0 and on.
func (b *bench) converse(n int) *store.Conversation {
	b.Helper()
	c := &store.Conversation{ID: responses.NewID(responses.PrefixConversation, 7, b.clock.Now()), Metadata: jsontext.Value(`{"topic":"ü"}`)}
	b.must(b.CreateConversation(b.Context(), owner, c, numbered(0, n)))
	return c
}

func numbered(from, to int) (items []store.Item) {
	for i := from; i < to; i++ {
		items = append(items, item(fmt.Sprintf("msg_%d", i), fmt.Sprint("item ", i)))
	}
	return items
}

// list returns the ids of a page.
func (b *bench) list(id string, p store.Page) (ids []string, more bool) {
	b.Helper()
	items, more, err := b.ListItems(b.Context(), owner, id, p)
	b.must(err)
	return itemIDs(items), more
}

func conversationsComeAndGo(b *bench) {
	c := b.converse(2)
	b.must(b.CreateConversation(b.Context(), owner, c, numbered(5, 6))) // its answer was lost
	got, err := b.GetConversation(b.Context(), owner, c.ID)
	b.must(err)
	if diff := cmp.Diff(c, got); diff != "" {
		b.Errorf("conversation (-want +got):\n%s", diff)
	}
	c.Metadata = jsontext.Value(`{}`)
	got, err = b.UpdateConversation(b.Context(), owner, c.ID, c.Metadata)
	b.must(err)
	if diff := cmp.Diff(c, got); diff != "" {
		b.Errorf("updated conversation (-want +got):\n%s", diff)
	}
	b.must(b.AddItems(b.Context(), owner, c.ID, numbered(1, 4))) // msg_1 is there already
	ids, more := b.list(c.ID, store.Page{})
	if diff := cmp.Diff([]string{"msg_0", "msg_1", "msg_2", "msg_3"}, ids); diff != "" || more {
		b.Errorf("more: %v; items (-want +got):\n%s", more, diff)
	}
	one, err := b.GetItem(b.Context(), owner, c.ID, "msg_2")
	b.must(err)
	if diff := cmp.Diff(numbered(2, 3)[0], one); diff != "" {
		b.Errorf("item (-want +got):\n%s", diff)
	}
	b.must(b.DeleteItem(b.Context(), owner, c.ID, "msg_2"))
	b.wantErr("delete the item again", b.DeleteItem(b.Context(), owner, c.ID, "msg_2"), store.ErrNotFound)
	_, err = b.GetItem(b.Context(), owner, c.ID, "msg_2")
	b.wantErr("get the deleted item", err, store.ErrNotFound)

	for _, other := range []struct{ owner, id string }{{"team-b", c.ID}, {owner, responses.NewID(responses.PrefixConversation, 7, b.clock.Now())}} {
		_, err = b.GetConversation(b.Context(), other.owner, other.id)
		b.wantErr("get", err, store.ErrNotFound)
		_, err = b.UpdateConversation(b.Context(), other.owner, other.id, c.Metadata)
		b.wantErr("update", err, store.ErrNotFound)
		b.wantErr("delete", b.DeleteConversation(b.Context(), other.owner, other.id), store.ErrNotFound)
		b.wantErr("add", b.AddItems(b.Context(), other.owner, other.id, numbered(7, 8)), store.ErrNotFound)
		_, _, err = b.ListItems(b.Context(), other.owner, other.id, store.Page{})
		b.wantErr("list", err, store.ErrNotFound)
		_, err = b.GetItem(b.Context(), other.owner, other.id, "msg_0")
		b.wantErr("item", err, store.ErrNotFound)
		b.wantErr("delete item", b.DeleteItem(b.Context(), other.owner, other.id, "msg_0"), store.ErrNotFound)
	}
	b.must(b.DeleteConversation(b.Context(), owner, c.ID))
	b.wantErr("delete again", b.DeleteConversation(b.Context(), owner, c.ID), store.ErrNotFound)
	_, _, err = b.ListItems(b.Context(), owner, c.ID, store.Page{})
	b.wantErr("list a deleted one", err, store.ErrNotFound)
}

func conversationsListInPages(b *bench) {
	c := b.converse(25)
	want := itemIDs(numbered(0, 25))
	for _, descending := range []bool{false, true} {
		var got []string
		p := store.Page{Limit: 10, Descending: descending}
		for {
			ids, more := b.list(c.ID, p)
			got = append(got, ids...)
			if !more {
				break
			}
			p.After = ids[len(ids)-1]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("descending %v: items (-want +got):\n%s", descending, diff)
		}
		slices.Reverse(want)
	}
	if ids, more := b.list(c.ID, store.Page{Limit: 25}); len(ids) != 25 || more {
		b.Errorf("a page of all: %d items, more: %v", len(ids), more)
	}
	_, _, err := b.ListItems(b.Context(), owner, c.ID, store.Page{Limit: 5, After: "msg_99"})
	b.wantErr("after an unknown item", err, store.ErrNotFound)
	_, _, err = b.ListItems(b.Context(), owner, c.ID, store.Page{Bytes: 100})
	b.wantErr("too large", err, store.ErrTooLong)
}

func conversationsTakeResponses(b *bench) {
	c := b.converse(1)
	r := b.record(nil)
	r.Conversation = c.ID
	b.must(b.Create(b.Context(), owner, r))
	b.must(b.Create(b.Context(), owner, r))
	running := b.record(nil)
	running.Conversation, running.Status = c.ID, responses.StatusInProgress
	b.must(b.Create(b.Context(), owner, running))
	failed := b.record(nil)
	failed.Conversation, failed.Status = c.ID, responses.StatusFailed
	b.must(b.Create(b.Context(), owner, failed))
	want := append([]string{"msg_0"}, own(r)...)
	if ids, _ := b.list(c.ID, store.Page{}); !slices.Equal(want, ids) {
		b.Errorf("items %q, want %q", ids, want)
	}
	running.Status = responses.StatusIncomplete
	b.must(b.Update(b.Context(), owner, running))
	want = append(want, own(running)...)
	if ids, _ := b.list(c.ID, store.Page{}); !slices.Equal(want, ids) {
		b.Errorf("after the end: items %q, want %q", ids, want)
	}
	got, err := b.Get(b.Context(), owner, r.ID)
	b.must(err)
	if got.Conversation != c.ID {
		b.Errorf("conversation %q, want %q", got.Conversation, c.ID)
	}
	b.must(b.DeleteConversation(b.Context(), owner, c.ID))
	late := b.record(nil)
	late.Conversation = c.ID
	b.wantErr("a response after the conversation was deleted", b.Create(b.Context(), owner, late), store.ErrNotFound)
	_, err = b.Get(b.Context(), owner, late.ID)
	b.wantErr("what was kept of it", err, store.ErrNotFound)
	if _, err := b.Get(b.Context(), owner, r.ID); err != nil {
		b.Errorf("a response of the deleted conversation: %v", err)
	}
}

func conversationsAreBounded(b *bench) {
	c := b.converse(1)
	for i := 1; i < store.MaxConversationItems; i += 1000 {
		b.must(b.AddItems(b.Context(), owner, c.ID, numbered(i, min(i+1000, store.MaxConversationItems))))
	}
	b.wantErr("one more", b.AddItems(b.Context(), owner, c.ID, numbered(store.MaxConversationItems, store.MaxConversationItems+1)), store.ErrTooLong)
	b.must(b.AddItems(b.Context(), owner, c.ID, numbered(0, 1))) // nothing new
}
