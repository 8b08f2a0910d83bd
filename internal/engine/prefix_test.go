package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/upstream"
)

// forgetful is a store that recognises nothing that is sent again.
type forgetful struct{ store.Store }

func (forgetful) Prefix(context.Context, string, uint16, []store.Mark) (*store.Found, error) {
	return nil, store.ErrNotFound
}

// newResender is a memoryRig whose model answers with the same item, id included,
// whenever it hears the same: two of them can be compared.
func newResender(t *testing.T, depth int, wrap func(store.Store) store.Store) *memoryRig {
	m := newMemoryRig(t, &engine.Options{Retention: 24 * time.Hour, ContextDepth: depth})
	m.store.Store = wrap(m.store.Store)
	m.open = openFunc(func(_ context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
		heard, err := json.Marshal(turn.Request.Input)
		if err != nil {
			return nil, err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(heard))
		events := say("heard " + sum)
		for i := range events {
			events[i].ItemID = "msg_" + sum[:32]
			if events[i].Item != nil {
				events[i].Item = responses.WithItemID(events[i].Item, events[i].ItemID)
			}
		}
		return &upstream.Stream{Upstream: "fake", Events: script{events: events}.run(t.Context()), Close: func() error { return nil }}, nil
	})
	return m
}

// input is the whole input of a response, as its client can list it.
func (m *memoryRig) input(id string) (items []string, err error) {
	list, err := m.InputItems(m.t.Context(), "o", id, store.Page{})
	if err != nil {
		return nil, err
	}
	values, err := list.Encode(func(string) bool { return true })
	for _, v := range values {
		items = append(items, string(v))
	}
	return items, err
}

// stored is how many bytes of items a response takes.
func (m *memoryRig) stored(id string) (n int) {
	r, err := m.store.Get(m.t.Context(), "o", id)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, it := range slices.Concat(r.Context, r.Input, r.Output) {
		n += len(it.Data)
	}
	return n
}

// TestStateResends: clients that send everything again get the same answers to
// every read as if everything were stored again; in random histories with branches,
// deletions and the passing of time (R40, R42).
func TestStateResends(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				two := []*memoryRig{
					newResender(t, 9, func(s store.Store) store.Store { return s }),
					newResender(t, 9, func(s store.Store) store.Store { return forgetful{s} }),
				}
				histories := [][]string{nil}
				var made [][2]string // ids of the same response in both
				for range 80 {
					time.Sleep(time.Duration(random.IntN(40)) * time.Minute)
					if len(made) > 0 && random.IntN(10) == 0 {
						for i, id := range made[random.IntN(len(made))] {
							_, _ = two[i].Delete(t.Context(), "o", id) // again is nothing
						}
						continue
					}
					history := slices.Clone(histories[random.IntN(len(histories))])
					history = append(history, newInput(random)...)
					var answers [2]*responses.Response
					for i, m := range two {
						answers[i] = m.run(`{"model":"m","input":[` + strings.Join(history, ",") + `]}`)
					}
					if a, b := said(answers[0]), said(answers[1]); a != b {
						t.Fatalf("the models heard different things: %s, %s", a, b)
					}
					made = append(made, [2]string{answers[0].ID, answers[1].ID})
					histories = append(histories, append(history, resent(t, random, answers[0])))
					if random.IntN(4) == 0 {
						histories = append(histories, history) // a branch before the answer
					}
				}
				compare(t, two, made)
				linked := 0
				for _, ids := range made {
					if r, err := two[0].store.Get(t.Context(), "o", ids[0]); err == nil && r.Link.ID != "" {
						linked++
					}
				}
				if linked < 5 {
					t.Errorf("only %d requests were recognised", linked)
				}
			})
		})
	}
}

// newInput is something to say.
func newInput(random *rand.Rand) []string {
	switch random.IntN(5) {
	case 0:
		return []string{`{"role":"developer","content":"Be brief."}`, `{"role":"user","content":"hello"}`}
	case 1:
		return []string{`{"type":"acme:note", "id":"note_1", "text": "x"}`, `{"role":"user","content":[{"type":"input_text","text":"with a note"}]}`}
	case 2:
		return []string{`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c","output":"r"}`}
	}
	return []string{fmt.Sprintf(`{"role":"user","content":"number %d"}`, random.IntN(3))}
}

// resent is an answer as a client sends it again: as it came, by reference, or in
// its own words.
func resent(t *testing.T, random *rand.Rand, r *responses.Response) string {
	switch random.IntN(4) {
	case 0:
		return fmt.Sprintf(`{"role":"assistant","content":%q}`, said(r))
	default:
		data, err := json.Marshal(r.Output[0])
		if err != nil {
			t.Fatal(err)
		}
		spaced := jsontext.Value(data)
		if err := spaced.Indent(); err != nil {
			t.Fatal(err)
		}
		return string(spaced)
	}
}

// compare asks both for everything.
func compare(t *testing.T, two []*memoryRig, made [][2]string) {
	t.Helper()
	there := 0
	for n, ids := range made {
		var lists [2][]string
		var errs [2]string
		var heard [2]string
		for i, m := range two {
			var err error
			if lists[i], err = m.input(ids[i]); err != nil {
				errs[i] = err.Error()
				continue
			}
			heard[i] = said(m.run(next("go on", &responses.Response{ID: ids[i]})))
		}
		if diff := cmp.Diff(lists[1], lists[0]); diff != "" || errs[0] != errs[1] {
			t.Fatalf("response %d: %q and %q (-stored again +recognised):\n%s", n, errs[1], errs[0], diff)
		}
		if heard[0] != heard[1] {
			t.Fatalf("response %d: what goes on from it hears something else", n)
		}
		if errs[0] == "" {
			there++
		}
	}
	if there == 0 || there == len(made) {
		t.Errorf("%d of %d are there", there, len(made))
	}
}

// TestStateResendsAreSmall: 50 turns of 2 KB that are all sent again each time
// take little more than the turns themselves, also if they come by reference (R40).
func TestStateResendsAreSmall(t *testing.T) {
	t.Parallel()
	m := newResender(t, 0, func(s store.Store) store.Store { return s })
	for name, resend := range map[string]func(last *responses.Response) string{
		"as they came": func(last *responses.Response) string {
			data, err := json.Marshal(last.Output[0])
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		},
		"by reference": func(last *responses.Response) string {
			return fmt.Sprintf(`{"type":"item_reference","id":%q}`, last.Output[0].ItemID())
		},
	} {
		var history []string
		said, stored := 0, 0
		for turn := range 50 {
			text := strings.Repeat(fmt.Sprintf("%s %03d ", name, turn), 2<<10/(len(name)+5))
			history = append(history, fmt.Sprintf(`{"role":"user","content":%q}`, text))
			last := m.run(`{"model":"m","input":[` + strings.Join(history, ",") + `]}`)
			said += len(text) + len(last.Output[0].(*responses.Message).Content.Text())
			stored += m.stored(last.ID)
			history = append(history, resend(last))
		}
		ratio := float64(stored) / float64(said)
		t.Logf("%s: %d bytes stored for %d said, %.2f", name, stored, said, ratio)
		if ratio > 1.3 {
			t.Errorf("%s: %.2f times what was said is stored", name, ratio)
		}
	}
}
