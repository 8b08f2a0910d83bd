package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json/jsontext"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// answersLikeTheModel does at random what gateways do, with trees of responses,
// branches, deletions, expiries and foreign owners, and compares every answer with
// a plain model's (R40, R41). -rapid.checks and -rapid.steps make it larger.
func answersLikeTheModel(b *bench) {
	var runs atomic.Int64
	rapid.Check(b.T, func(t *rapid.T) {
		w := &world{T: t, b: b, run: runs.Add(1)}
		for _, name := range []string{"team", rapid.SampledFrom([]string{"team-b", "", "{team}", "team:x", "%", "tëam"}).Draw(t, "other")} {
			w.owners = append(w.owners, fmt.Sprintf("%s-%d", name, w.run))
		}
		t.Repeat(map[string]func(*rapid.T){
			"Create":             w.create,
			"CreateBranch":       w.createBranch,
			"CreateAgain":        w.createAgain,
			"CreateInTalk":       w.createInConversation,
			"Update":             w.update,
			"Delete":             w.delete,
			"Advance":            w.advance,
			"Chain":              w.chain,
			"Items":              w.items,
			"Prefix":             w.prefix,
			"CreateConversation": w.createConversation,
			"UpdateConversation": w.updateConversation,
			"DeleteConversation": w.deleteConversation,
			"AddItems":           w.addItems,
			"ListItems":          w.listItems,
			"GetItem":            w.getItem,
			"DeleteItem":         w.deleteItem,
		})
		w.compareAll()
	})
}

// world is one sequence of steps: a store, and the model of what it should hold.
// Owners are new in each, so that one store serves all.
type world struct {
	*rapid.T
	b      *bench
	run    int64
	owners []string
	model  model
	made   int
}

func (w *world) now() time.Time { return w.b.clock.Now() }

// sameBytes compares data as a whole: byte by byte takes most of the test's time.
var sameBytes = cmp.FilterValues(func(x, y jsontext.Value) bool { return len(x)+len(y) > 0 }, cmp.Comparer(bytes.Equal))

// same compares an error and an answer with the model's.
func (w *world) same(what string, wantErr, err error, want, got any, opts ...cmp.Option) {
	w.Helper()
	if !sameError(wantErr, err) {
		w.Fatalf("%s: %v, the model says %v", what, err, wantErr)
	}
	if err != nil {
		return
	}
	if diff := cmp.Diff(want, got, append(opts, asKept, sameBytes)...); diff != "" {
		w.Fatalf("%s (-model +store):\n%s", what, diff)
	}
}

func (w *world) sameError(what string, want, got error) {
	w.Helper()
	w.same(what, want, got, nil, nil)
}

// anyOwner is mostly the given one.
func (w *world) anyOwner(t *rapid.T, owner string) string {
	if rapid.IntRange(0, 5).Draw(t, "owner") > 0 {
		return owner
	}
	return w.owners[rapid.IntRange(0, 1).Draw(t, "another")]
}

// anyRecord is one that was created, or nobody's.
func (w *world) anyRecord(t *rapid.T) *modelRecord {
	if n := len(w.model.records); n > 0 {
		// The youngest is the likeliest, so that chains grow.
		return w.model.records[n-1-rapid.IntRange(0, n-1).Draw(t, "record")]
	}
	return &modelRecord{Record: *w.newRecord(t, 1), owner: w.owners[0]}
}

func (w *world) anyConversation(t *rapid.T) *modelConversation {
	if n := len(w.model.conversations); n > 0 {
		return w.model.conversations[rapid.IntRange(0, n-1).Draw(t, "conversation")]
	}
	return &modelConversation{Conversation: store.Conversation{ID: responses.NewID(responses.PrefixConversation, 1, w.now())}, owner: w.owners[0]}
}

// newItems are up to n items with ids of ours and of others.
func (w *world) newItems(t *rapid.T, n int, shard uint16) (items []store.Item) {
	for range rapid.IntRange(0, n).Draw(t, "items") {
		w.made++
		id := responses.NewID(responses.PrefixMessage, shard, w.now())
		switch rapid.IntRange(0, 3).Draw(t, "id") {
		case 0:
			id = fmt.Sprintf("msg_%d_%d", w.run, w.made)
		case 1:
			id = fmt.Sprintf("msg {%d}:*'\"ü_%d", w.run, w.made)
		}
		text := strings.Repeat("word ", rapid.SampledFrom([]int{0, 1, 300}).Draw(t, "words"))
		items = append(items, item(id, text))
	}
	return items
}

func (w *world) newMarks(t *rapid.T) (marks []store.Mark) {
	first := rapid.IntRange(0, 12).Draw(t, "mark")
	for i := range rapid.IntRange(0, 2).Draw(t, "marks") {
		marks = append(marks, store.Mark{Hash: w.hash(first + i), Items: i})
	}
	return marks
}

func (w *world) hash(n int) [32]byte { return sha256.Sum256(fmt.Append(nil, w.run, n)) }

var statuses = []responses.Status{responses.StatusCompleted, responses.StatusCompleted, responses.StatusIncomplete, responses.StatusFailed,
	responses.StatusCancelled, responses.StatusInProgress, responses.StatusInProgress, responses.StatusQueued}

func (w *world) newRecord(t *rapid.T, shard uint16) *store.Record {
	r := &store.Record{
		ID:     responses.NewID(responses.PrefixResponse, shard, w.now()),
		Status: rapid.SampledFrom(statuses).Draw(t, "status"),
		Epoch:  rapid.Int64Range(0, 2).Draw(t, "epoch"),
		Oldest: w.now().Truncate(time.Millisecond),
		Input:  w.newItems(t, 2, shard),
		Output: w.newItems(t, 2, shard),
		Marks:  w.newMarks(t),
	}
	w.decorate(t, r)
	return r
}

func (w *world) decorate(t *rapid.T, r *store.Record) {
	r.Head = jsontext.Value(fmt.Sprintf(`{"id":%q,"n":%d}`, r.ID, w.made))
	if rapid.Bool().Draw(t, "loss") {
		r.Losses = []responses.Loss{{Param: "seed", Reason: "not known"}}
	}
}

func (w *world) tryCreate(what, owner string, r *store.Record) {
	w.sameError(what, w.model.create(w.now(), owner, *r), w.b.Create(w.b.Context(), owner, r))
}

func (w *world) create(t *rapid.T) {
	r := w.newRecord(t, rapid.Uint16Range(0, 2).Draw(t, "shard"))
	r.Context = w.newItems(t, 3, 1)
	w.tryCreate("create", w.owners[rapid.IntRange(0, 1).Draw(t, "owner")], r)
}

func (w *world) createBranch(t *rapid.T) {
	parent := w.anyRecord(t)
	shard, _ := responses.Shard(parent.ID)
	r := w.newRecord(t, shard)
	r.Depth, r.Oldest = parent.Depth+1, parent.Oldest
	own := len(parent.Context) + len(parent.Input) + len(parent.Output)
	r.Link = store.Link{ID: parent.ID, Items: rapid.SampledFrom([]int{own, own, own, 0, own / 2, own + 1}).Draw(t, "part")}
	w.tryCreate("create a branch", w.anyOwner(t, parent.owner), r)
}

func (w *world) createAgain(t *rapid.T) {
	if len(w.model.records) == 0 {
		return
	}
	old := w.anyRecord(t)
	again := old.Record
	again.Output, again.Marks = w.newItems(t, 1, 1), nil
	w.tryCreate("create again", old.owner, &again)
}

func (w *world) createInConversation(t *rapid.T) {
	c := w.anyConversation(t)
	shard, _ := responses.Shard(c.ID)
	r := w.newRecord(t, shard)
	r.Conversation = c.ID
	if len(c.items) > 0 && rapid.Bool().Draw(t, "repeat") {
		r.Input = append(r.Input, c.items[0])
	}
	w.tryCreate("create in a conversation", w.anyOwner(t, c.owner), r)
}

func (w *world) update(t *rapid.T) {
	old := w.anyRecord(t)
	shard, _ := responses.Shard(old.ID)
	r := old.Record
	r.Status = rapid.SampledFrom(append(statuses, old.Status, old.Status)).Draw(t, "status")
	r.Epoch += rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "epoch")
	r.Output = append(slices.Clone(r.Output), w.newItems(t, 2, shard)...)
	r.Marks = w.newMarks(t)
	r.Link, r.Context, r.Input, r.Conversation = store.Link{}, nil, nil, "" // they stay as they were created
	w.decorate(t, &r)
	owner := w.anyOwner(t, old.owner)
	w.sameError("update", w.model.update(w.now(), owner, r), w.b.Update(w.b.Context(), owner, &r))
}

func (w *world) delete(t *rapid.T) {
	r := w.anyRecord(t)
	owner := w.anyOwner(t, r.owner)
	w.sameError("delete", w.model.delete(w.now(), owner, r.ID), w.b.Delete(w.b.Context(), owner, r.ID))
}

func (w *world) advance(t *rapid.T) {
	w.b.clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Hour, retention / 4, retention / 2, retention - time.Millisecond}).Draw(t, "time"))
	w.model.expire(w.now())
}

func (w *world) chain(t *rapid.T) {
	r := w.anyRecord(t)
	tight := store.Caps{Depth: rapid.IntRange(1, 4).Draw(t, "depth"), Bytes: rapid.IntRange(1, 4000).Draw(t, "bytes")}
	w.compareChain(w.anyOwner(t, r.owner), r.ID, rapid.SampledFrom([]store.Caps{caps, tight}).Draw(t, "caps"))
}

func (w *world) compareChain(owner, id string, caps store.Caps) {
	want, wantErr := w.model.chain(w.now(), owner, id, caps)
	segments, err := w.b.Chain(w.b.Context(), owner, id, caps)
	var got []modelSegment
	for _, s := range segments {
		items, err := s.Unpack(1 << 20)
		if err != nil {
			w.Fatalf("unpack a segment of %s: %v", id, err)
		}
		got = append(got, modelSegment{s.ID, s.Status, s.Depth, s.Oldest, items})
	}
	w.same("chain", wantErr, err, want, got)
}

var byID = cmpopts.SortSlices(func(x, y store.Item) bool { return x.ID < y.ID })

func (w *world) items(t *rapid.T) {
	owner := w.owners[rapid.IntRange(0, 1).Draw(t, "owner")]
	ids := []string{"msg_unknown"}
	for range rapid.IntRange(0, 4).Draw(t, "records") {
		r := w.anyRecord(t)
		ids = append(ids, own(&r.Record)...)
	}
	slices.Sort(ids)
	w.compareItems(owner, slices.Compact(ids))
}

func (w *world) compareItems(owner string, ids []string) {
	got, err := w.b.Items(w.b.Context(), owner, ids)
	w.same("items", nil, err, w.model.items(w.now(), owner, ids), got, byID)
}

func (w *world) prefix(t *rapid.T) {
	owner, shard := w.owners[rapid.IntRange(0, 1).Draw(t, "owner")], rapid.Uint16Range(0, 2).Draw(t, "shard")
	var ask []store.Mark
	first := rapid.IntRange(0, 12).Draw(t, "first")
	for i := range rapid.IntRange(1, 6).Draw(t, "marks") {
		ask = append(ask, store.Mark{Hash: w.hash(first + i), Items: i})
	}
	allowed, mayMiss := w.model.prefixes(w.now(), owner, shard, ask)
	found, err := w.b.Prefix(w.b.Context(), owner, shard, ask)
	if err != nil {
		if !sameError(store.ErrNotFound, err) || !mayMiss {
			w.Fatalf("prefix: %v, the model allows %+v", err, allowed)
		}
		return
	}
	if !slices.ContainsFunc(allowed, func(f store.Found) bool { return cmp.Equal(f, *found, asKept) }) {
		w.Fatalf("prefix: %+v, the model allows %+v", *found, allowed)
	}
}

func (w *world) createConversation(t *rapid.T) {
	shard := rapid.Uint16Range(0, 2).Draw(t, "shard")
	c := &store.Conversation{ID: responses.NewID(responses.PrefixConversation, shard, w.now()), Metadata: jsontext.Value(`{}`)}
	owner := w.owners[rapid.IntRange(0, 1).Draw(t, "owner")]
	if len(w.model.conversations) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
		old := w.anyConversation(t)
		c.ID, owner = old.ID, old.owner
	}
	items := w.newItems(t, 3, shard)
	w.sameError("create a conversation", w.model.converse(owner, *c, items), w.b.CreateConversation(w.b.Context(), owner, c, items))
}

func (w *world) updateConversation(t *rapid.T) {
	c := w.anyConversation(t)
	owner := w.anyOwner(t, c.owner)
	w.made++
	metadata := jsontext.Value(fmt.Sprintf(`{"n":"%d"}`, w.made))
	want, wantErr := w.model.conversation(owner, c.ID)
	got, err := w.b.UpdateConversation(w.b.Context(), owner, c.ID, metadata)
	if wantErr == nil {
		want.Metadata = metadata
		w.same("update a conversation", nil, err, &want.Conversation, got)
		return
	}
	w.sameError("update a conversation", wantErr, err)
}

func (w *world) deleteConversation(t *rapid.T) {
	c := w.anyConversation(t)
	owner := w.anyOwner(t, c.owner)
	w.sameError("delete a conversation", w.model.forget(owner, c.ID), w.b.DeleteConversation(w.b.Context(), owner, c.ID))
}

func (w *world) addItems(t *rapid.T) {
	c := w.anyConversation(t)
	owner := w.anyOwner(t, c.owner)
	items := w.newItems(t, 4, 1)
	if len(c.items) > 0 && rapid.Bool().Draw(t, "repeat") {
		changed := c.items[len(c.items)-1]
		changed.Data = jsontext.Value(`{}`)
		items = append(items, changed)
	}
	if len(items) > 0 {
		items = append(items, items[0])
	}
	w.sameError("add items", w.model.add(owner, c.ID, items), w.b.AddItems(w.b.Context(), owner, c.ID, items))
}

// anyItem is the id of an item of a conversation, or nobody's.
func (w *world) anyItem(t *rapid.T, c *modelConversation) string {
	if i := rapid.IntRange(0, len(c.items)).Draw(t, "item"); i < len(c.items) {
		return c.items[i].ID
	}
	return "msg_unknown"
}

func (w *world) listItems(t *rapid.T) {
	c := w.anyConversation(t)
	p := store.Page{
		Limit:      rapid.IntRange(0, 4).Draw(t, "limit"),
		Bytes:      rapid.SampledFrom([]int{0, 1 << 20, 1}).Draw(t, "bytes"),
		Descending: rapid.Bool().Draw(t, "descending"),
	}
	if rapid.Bool().Draw(t, "after") {
		p.After = w.anyItem(t, c)
	}
	w.comparePage(w.anyOwner(t, c.owner), c.ID, p)
}

func (w *world) comparePage(owner, id string, p store.Page) {
	type page struct {
		Items []store.Item
		More  bool
	}
	var want, got page
	var wantErr, err error
	want.Items, want.More, wantErr = w.model.list(owner, id, p)
	got.Items, got.More, err = w.b.ListItems(w.b.Context(), owner, id, p)
	w.same(fmt.Sprintf("list %+v", p), wantErr, err, want, got)
}

func (w *world) getItem(t *rapid.T) {
	c := w.anyConversation(t)
	owner, item := w.anyOwner(t, c.owner), w.anyItem(t, c)
	want, wantErr := w.model.item(owner, c.ID, item)
	got, err := w.b.GetItem(w.b.Context(), owner, c.ID, item)
	w.same("get an item", wantErr, err, want, got)
}

func (w *world) deleteItem(t *rapid.T) {
	c := w.anyConversation(t)
	owner, item := w.anyOwner(t, c.owner), w.anyItem(t, c)
	w.sameError("delete an item", w.model.deleteItem(owner, c.ID, item), w.b.DeleteItem(w.b.Context(), owner, c.ID, item))
}

// compareAll reads everything back, as its owner and as the other.
func (w *world) compareAll() {
	for _, owner := range w.owners {
		var ids []string
		for _, r := range w.model.records {
			want, wantErr := w.model.find(w.now(), owner, r.ID)
			got, err := w.b.Get(w.b.Context(), owner, r.ID)
			if wantErr == nil {
				w.same("get", nil, err, &want.Record, got, cmpopts.IgnoreFields(store.Record{}, "Marks"))
			}
			w.sameError("get", wantErr, err)
			w.compareChain(owner, r.ID, caps)
			ids = append(ids, own(&r.Record)...)
		}
		slices.Sort(ids)
		w.compareItems(owner, slices.Compact(ids))
		for _, c := range w.model.conversations {
			want, wantErr := w.model.conversation(owner, c.ID)
			got, err := w.b.GetConversation(w.b.Context(), owner, c.ID)
			if wantErr == nil {
				w.same("get a conversation", nil, err, &want.Conversation, got)
			}
			w.sameError("get a conversation", wantErr, err)
			w.comparePage(owner, c.ID, store.Page{})
		}
	}
}
