package server

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strings"
	"sync"

	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
)

// A keptAt is where an upstream remembers something, and how it calls the model.
type keptAt struct {
	route.Place
	model relay.Rename
}

// keptIDs is the index of what upstreams remember for whom. It is the only thing
// that lets a client reach one of their ids, so what it has forgotten is gone for
// clients. It outlives generations, and ends with the process.
type keptIDs struct {
	max     int       // how many there may be
	evicted func(int) // is told how many were forgotten for others; may be nil

	mu         sync.Mutex // guards what follows
	young, old map[keptID]*keptAt
}

// keptID is an id of an owner's. Somebody else's is none.
type keptID struct{ owner, id string }

// defaultKeptIDs is how many ids are remembered, at some 200 bytes each.
const defaultKeptIDs = 200_000

func newKeptIDs(max int, evicted func(int)) *keptIDs {
	return &keptIDs{max: max, evicted: evicted, young: map[keptID]*keptAt{}}
}

// find returns where the owner's id is remembered, nil if it is not.
func (k *keptIDs) find(owner, id string) *keptAt {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := keptID{owner, id}
	if at := k.young[key]; at != nil {
		return at
	}
	at := k.old[key]
	if at != nil {
		delete(k.old, key)
		k.put(key, at)
	}
	return at
}

// add notes ids as the owner's.
func (k *keptIDs) add(owner string, at *keptAt, ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		key := keptID{owner, id}
		delete(k.old, key)
		k.put(key, at)
	}
}

// put is under mu. When half of the room is taken by what was used lately, the rest
// is forgotten.
func (k *keptIDs) put(key keptID, at *keptAt) {
	k.young[key] = at
	if len(k.young) < max(k.max/2, 1) {
		return
	}
	gone := len(k.old)
	k.old, k.young = k.young, map[keptID]*keptAt{}
	if gone > 0 && k.evicted != nil {
		k.evicted(gone)
	}
}

// forget removes what the upstream has deleted.
func (k *keptIDs) forget(owner, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.young, keptID{owner, id})
	delete(k.old, keptID{owner, id})
}

func (k *keptIDs) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.young) + len(k.old)
}

// learn returns what notes the ids of an answer as those of the client, before it
// sees them.
func (x *exchange) learn(at *keptAt) func(t responses.EventType, data []byte) {
	left := maxLearned
	return func(t responses.EventType, data []byte) {
		switch t {
		case "", responses.EventCreated, responses.EventQueued, responses.EventItemAdded, responses.EventItemDone,
			responses.EventCompleted, responses.EventIncomplete, responses.EventFailed:
			ids := idsIn(data)
			ids = ids[:min(len(ids), left)]
			left -= len(ids)
			x.s.kept.add(x.owner(), at, ids)
		}
	}
}

// maxLearned bounds the ids that are learned from one answer: an upstream could
// push out those of others.
const maxLearned = 10_000

// idsIn returns the ids in an event or a whole answer that the upstream has made: of
// the response or the conversation, and of items of its output. Those in lists may
// have come from a client, and one that sends an id has not gained it by that.
func idsIn(data []byte) []string {
	type object struct {
		ID string `json:"id"`
	}
	type answer struct {
		object
		Output []object `json:"output"`
	}
	var got struct {
		answer
		Response answer `json:"response"`
		Item     object `json:"item"`
	}
	if json.Unmarshal(data, &got, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	var ids []string
	note := func(objects ...object) {
		for _, o := range objects {
			if isKeptID(o.ID) {
				ids = append(ids, o.ID)
			}
		}
	}
	note(got.object, got.Response.object, got.Item)
	note(got.Output...)
	note(got.Response.Output...)
	return ids
}

// isKeptID reports whether an id can be an upstream's: it is put into paths.
func isKeptID(id string) bool {
	return id != "" && len(id) <= 128 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}
