package storetest

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// A Clock is the time that a store under test sees. It begins at the real time,
// so that backends which look ahead find what they prepared.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at the real time.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the time on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// retention is what stores under test are asked to keep.
const retention = 30 * 24 * time.Hour

var caps = store.Caps{Depth: 1 << 12, Bytes: 64 << 20}

// bench is one test's store and clock.
type bench struct {
	*testing.T
	store.Store
	clock *Clock
}

// RunStore checks the contract of [store.Store]. open returns an empty store that
// keeps responses for the retention by the clock; the test closes it.
func RunStore(t *testing.T, open func(t *testing.T, retention time.Duration, now func() time.Time) store.Store) {
	for name, test := range map[string]func(*bench){
		"ReturnsWhatWasCreated":          returnsWhatWasCreated,
		"CreatesOnce":                    createsOnce,
		"UpdatesUnderItsEpoch":           updatesUnderItsEpoch,
		"ChainsInOrder":                  chainsInOrder,
		"ChainsBranches":                 chainsBranches,
		"ChainsTakePartOfARecord":        chainsTakePartOfARecord,
		"ChainsKeepToTheirCaps":          chainsKeepToTheirCaps,
		"HidesWhatOthersOwn":             hidesWhatOthersOwn,
		"DeletesAndKeepsChains":          deletesAndKeepsChains,
		"ForgetsAfterTheRetention":       forgetsAfterTheRetention,
		"FindsOutputItems":               findsOutputItems,
		"FindsTheLongestPrefix":          findsTheLongestPrefix,
		"RefusesUnknownIDs":              refusesUnknownIDs,
		"ConversationsComeAndGo":         conversationsComeAndGo,
		"ConversationsListInPages":       conversationsListInPages,
		"ConversationsTakeResponses":     conversationsTakeResponses,
		"ConversationsAreBounded":        conversationsAreBounded,
		"CreatesConcurrentlyWithoutLoss": createsConcurrently,
		"AnswersLikeTheModel":            answersLikeTheModel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			s := open(t, retention, clock.Now)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			test(&bench{t, s, clock})
		})
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) wantErr(what string, err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("%s: %v, want %v", what, err, want)
	}
}

// item returns an item that says text.
func item(id, text string) store.Item {
	return store.Item{ID: id, Data: jsontext.Value(fmt.Sprintf(`{"id":%q,"type":"message","content":%q}`, id, text))}
}

// record returns a response of one input and one output item that has completed,
// and continues parent if there is one.
func (b *bench) record(parent *store.Record) *store.Record {
	shard := uint16(7)
	r := &store.Record{Status: responses.StatusCompleted, Epoch: 1, Oldest: b.clock.Now().Truncate(time.Millisecond)}
	if parent != nil {
		shard, _ = responses.Shard(parent.ID)
		r.Link = store.Link{ID: parent.ID, Items: len(parent.Context) + len(parent.Input) + len(parent.Output)}
		r.Depth, r.Oldest = parent.Depth+1, parent.Oldest
	}
	r.ID = responses.NewID(responses.PrefixResponse, shard, b.clock.Now())
	r.Head = jsontext.Value(`{"id":"` + r.ID + `","object":"response","metadata":{"a":"ü"}}`)
	tail := r.ID[len(r.ID)-12:]
	r.Input = []store.Item{item("msg_in_"+tail, "question "+tail)}
	r.Output = []store.Item{item("msg_out_"+tail, "answer "+tail)}
	return r
}

// create keeps a new response of team-a.
func (b *bench) create(parent *store.Record) *store.Record {
	b.Helper()
	r := b.record(parent)
	b.must(b.Create(b.Context(), owner, r))
	return r
}

// ids are the ids of the items of a chain, in order.
func (b *bench) chain(owner, id string) (ids []string, err error) {
	segments, err := b.Chain(b.Context(), owner, id, caps)
	for _, s := range segments {
		items, err := s.Unpack(1 << 20)
		if err != nil {
			return nil, err
		}
		ids = append(ids, itemIDs(items)...)
	}
	return ids, err
}

func itemIDs(items []store.Item) (ids []string) {
	for _, it := range items {
		ids = append(ids, it.ID)
	}
	return ids
}

// own are the ids of a record's items.
func own(records ...*store.Record) (ids []string) {
	for _, r := range records {
		ids = append(ids, itemIDs(r.Context)...)
		ids = append(ids, itemIDs(r.Input)...)
		ids = append(ids, itemIDs(r.Output)...)
	}
	return ids
}

var asKept = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)}

func (b *bench) wantChain(want []string, id string) {
	b.Helper()
	got, err := b.chain(owner, id)
	b.must(err)
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("chain (-want +got):\n%s", diff)
	}
}

func returnsWhatWasCreated(b *bench) {
	r := b.record(nil)
	r.Losses = []responses.Loss{{Param: "seed", Reason: "not known"}}
	r.Context = []store.Item{item("msg_0", "before")}
	r.Marks = []store.Mark{{Hash: [32]byte{1}, Items: 2}}
	b.must(b.Create(b.Context(), owner, r))
	got, err := b.Get(b.Context(), owner, r.ID)
	b.must(err)
	if diff := cmp.Diff(r, got, asKept, cmpopts.IgnoreFields(store.Record{}, "Marks")); diff != "" {
		b.Errorf("record (-want +got):\n%s", diff)
	}
	shard, _ := responses.Shard(r.ID)
	b.must(b.Ready(b.Context(), shard))
}

// A write whose answer was lost is sent again.
func createsOnce(b *bench) {
	r := b.create(nil)
	again := *r
	again.Output = []store.Item{item("msg_other", "another answer")}
	b.must(b.Create(b.Context(), owner, &again))
	b.wantChain(own(r), r.ID)
}

func updatesUnderItsEpoch(b *bench) {
	parent := b.create(nil)
	r := b.record(parent)
	final := *r
	r.Status, r.Output = responses.StatusInProgress, nil
	b.must(b.Create(b.Context(), owner, r))

	step := final
	step.Status = responses.StatusInProgress
	step.Link, step.Input = store.Link{}, nil // they stay as they were created
	b.must(b.Update(b.Context(), owner, &step))
	b.wantChain(own(parent, &final), r.ID)

	taken := step
	taken.Epoch = 2
	b.must(b.Update(b.Context(), owner, &taken))
	b.wantErr("an old writer", b.Update(b.Context(), owner, &step), store.ErrFenced)

	final.Epoch = 2
	b.must(b.Update(b.Context(), owner, &final))
	b.must(b.Update(b.Context(), owner, &final)) // its answer was lost
	failed := final
	failed.Status = responses.StatusFailed
	b.wantErr("another end", b.Update(b.Context(), owner, &failed), store.ErrFenced)
	b.wantErr("a response that is not there", b.Update(b.Context(), owner, b.record(nil)), store.ErrNotFound)
	b.wantErr("somebody else's", b.Update(b.Context(), "team-b", &final), store.ErrNotFound)

	got, err := b.Get(b.Context(), owner, r.ID)
	b.must(err)
	if diff := cmp.Diff(&final, got, asKept); diff != "" {
		b.Errorf("record (-want +got):\n%s", diff)
	}
}

func chainsInOrder(b *bench) {
	var chain []*store.Record
	var last *store.Record
	for range 60 {
		last = b.create(last)
		chain = append(chain, last)
		b.clock.Advance(time.Minute)
	}
	b.wantChain(own(chain...), last.ID)
	b.wantChain(own(chain[:30]...), chain[29].ID)
	segments, err := b.Chain(b.Context(), owner, last.ID, caps)
	b.must(err)
	tip := segments[len(segments)-1]
	if tip.ID != last.ID || tip.Depth != 59 || !tip.Oldest.Equal(chain[0].Oldest) || tip.Status != responses.StatusCompleted {
		b.Errorf("the last segment is %+v", tip)
	}
}

func chainsBranches(b *bench) {
	root := b.create(nil)
	left, right := b.create(root), b.create(root)
	leaf := b.create(right)
	b.wantChain(own(root, left), left.ID)
	b.wantChain(own(root, right, leaf), leaf.ID)
}

func chainsTakePartOfARecord(b *bench) {
	root := b.create(nil)
	r := b.record(root)
	r.Link.Items = 1 // the input without the output
	b.must(b.Create(b.Context(), owner, r))
	b.wantChain(append(itemIDs(root.Input), own(r)...), r.ID)
	alone := b.record(nil)
	alone.Context = []store.Item{item("msg_c1", "before"), item("msg_c2", "and before")}
	b.must(b.Create(b.Context(), owner, alone))
	b.wantChain(own(alone), alone.ID)
}

func chainsKeepToTheirCaps(b *bench) {
	var last *store.Record
	for range 10 {
		last = b.create(last)
	}
	if _, err := b.Chain(b.Context(), owner, last.ID, store.Caps{Depth: 10, Bytes: 1 << 20}); err != nil {
		b.Errorf("a chain of the greatest depth: %v", err)
	}
	_, err := b.Chain(b.Context(), owner, last.ID, store.Caps{Depth: 9, Bytes: 1 << 20})
	b.wantErr("too deep", err, store.ErrTooLong)
	_, err = b.Chain(b.Context(), owner, last.ID, store.Caps{Depth: 10, Bytes: 100})
	b.wantErr("too large", err, store.ErrTooLong)
}

func hidesWhatOthersOwn(b *bench) {
	r := b.create(nil)
	_, err := b.Get(b.Context(), "team-b", r.ID)
	b.wantErr("get", err, store.ErrNotFound)
	_, err = b.chain("team-b", r.ID)
	b.wantErr("chain", err, store.ErrNotFound)
	b.wantErr("delete", b.Delete(b.Context(), "team-b", r.ID), store.ErrNotFound)
	items, err := b.Items(b.Context(), "team-b", itemIDs(r.Output))
	b.must(err)
	if len(items) > 0 {
		b.Errorf("another owner gets %d items", len(items))
	}
	b.wantErr("link", b.Create(b.Context(), "team-b", b.record(r)), store.ErrLinkGone)
	b.wantChain(own(r), r.ID)
}

func deletesAndKeepsChains(b *bench) {
	root := b.create(nil)
	middle := b.create(root)
	leaf := b.create(middle)
	b.must(b.Delete(b.Context(), owner, middle.ID))
	_, err := b.Get(b.Context(), owner, middle.ID)
	b.wantErr("get", err, store.ErrNotFound)
	_, err = b.chain(owner, middle.ID)
	b.wantErr("chain", err, store.ErrNotFound)
	b.wantErr("delete again", b.Delete(b.Context(), owner, middle.ID), store.ErrNotFound)
	b.wantErr("link", b.Create(b.Context(), owner, b.record(middle)), store.ErrLinkGone)
	items, err := b.Items(b.Context(), owner, itemIDs(middle.Output))
	b.must(err)
	if len(items) > 0 {
		b.Error("an item of a deleted response is found")
	}
	b.wantChain(own(root, middle, leaf), leaf.ID)
	b.must(b.Delete(b.Context(), owner, leaf.ID))
	b.wantChain(own(root), root.ID)
	b.must(b.Create(b.Context(), owner, middle)) // it is deleted, not free
	_, err = b.Get(b.Context(), owner, middle.ID)
	b.wantErr("get after creating it again", err, store.ErrNotFound)
}

func forgetsAfterTheRetention(b *bench) {
	root := b.create(nil)
	b.clock.Advance(retention/2 - time.Hour)
	child := b.create(root)
	b.clock.Advance(retention/2 + time.Hour - time.Second)
	b.wantChain(own(root), root.ID)
	b.clock.Advance(2 * time.Second)
	_, err := b.Get(b.Context(), owner, root.ID)
	b.wantErr("get", err, store.ErrNotFound)
	_, err = b.chain(owner, root.ID)
	b.wantErr("chain", err, store.ErrNotFound)
	b.wantErr("delete", b.Delete(b.Context(), owner, root.ID), store.ErrNotFound)
	items, err := b.Items(b.Context(), owner, itemIDs(root.Output))
	b.must(err)
	if len(items) > 0 {
		b.Error("an item of an expired response is found")
	}
	b.wantChain(own(root, child), child.ID) // the child has time left, and so has its context
}

func findsOutputItems(b *bench) {
	first := b.create(nil)
	second := b.create(first)
	ask := append(itemIDs(first.Output), itemIDs(second.Output)...)
	items, err := b.Items(b.Context(), owner, append(ask, "msg_unknown"))
	b.must(err)
	want := append(first.Output[:1:1], second.Output...)
	if diff := cmp.Diff(want, items, cmpopts.SortSlices(func(x, y store.Item) bool { return x.ID < y.ID })); diff != "" {
		b.Errorf("items (-want +got):\n%s", diff)
	}
	_, err = b.Items(b.Context(), owner, make([]string, store.MaxItemIDs+1))
	b.wantErr("too many", err, store.ErrTooLong)
}

func findsTheLongestPrefix(b *bench) {
	hash := func(n byte) [32]byte { return [32]byte{n} }
	r := b.record(nil)
	r.Marks = []store.Mark{{Hash: hash(1), Items: 1}, {Hash: hash(2), Items: 2}}
	b.must(b.Create(b.Context(), owner, r))
	shard, _ := responses.Shard(r.ID)
	ask := append(r.Marks[:2:2], store.Mark{Hash: hash(3), Items: 3})
	found, err := b.Prefix(b.Context(), owner, shard, ask)
	b.must(err)
	want := &store.Found{Mark: 1, Link: store.Link{ID: r.ID, Items: 2}, Oldest: r.Oldest}
	if diff := cmp.Diff(want, found, asKept); diff != "" {
		b.Errorf("found (-want +got):\n%s", diff)
	}
	_, err = b.Prefix(b.Context(), "team-b", shard, ask)
	b.wantErr("another owner", err, store.ErrNotFound)
	_, err = b.Prefix(b.Context(), owner, shard, ask[2:])
	b.wantErr("an unknown one", err, store.ErrNotFound)
	b.must(b.Delete(b.Context(), owner, r.ID))
	_, err = b.Prefix(b.Context(), owner, shard, ask)
	b.wantErr("a deleted one", err, store.ErrNotFound)
}

// Ids come from clients.
func refusesUnknownIDs(b *bench) {
	for _, id := range []string{"", "resp_", "resp_1", "chatcmpl-x", "resp_" + string(make([]byte, 32)), "resp_zz", "resp_\xff", "../x", "resp_*", "resp_" + fmt.Sprintf("%0100d", 1),
		responses.NewID(responses.PrefixResponse, 1, b.clock.Now()), responses.NewID(responses.PrefixResponse, 1, time.UnixMilli(1)), responses.NewID(responses.PrefixResponse, 1, b.clock.Now().AddDate(1000, 0, 0))} {
		_, err := b.Get(b.Context(), owner, id)
		b.wantErr(fmt.Sprintf("get %q", id), err, store.ErrNotFound)
		_, err = b.chain(owner, id)
		b.wantErr(fmt.Sprintf("chain %q", id), err, store.ErrNotFound)
		b.wantErr(fmt.Sprintf("delete %q", id), b.Delete(b.Context(), owner, id), store.ErrNotFound)
		_, err = b.GetConversation(b.Context(), owner, id)
		b.wantErr(fmt.Sprintf("conversation %q", id), err, store.ErrNotFound)
		_, err = b.Items(b.Context(), owner, []string{id})
		b.must(err)
	}
}

func createsConcurrently(b *bench) {
	root := b.create(nil)
	records := make([]*store.Record, 32)
	var wg sync.WaitGroup
	for i := range records {
		records[i] = b.record(root)
		wg.Go(func() {
			if err := b.Create(b.Context(), owner, records[i]); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range records {
		b.wantChain(own(root, r), r.ID)
	}
}
