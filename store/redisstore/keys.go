package redisstore

import (
	"hash/fnv"
	"strconv"

	"github.com/antiphon-dev/antiphon/responses"
)

// Keys look like
//
//	antiphon:{0a3}:r:6:team-a:resp_…
//
// The shard in braces is the hash tag: all keys of a shard are in one slot of a
// cluster, and scripts touch only one shard. The prefix has no braces, so what
// comes from clients and stands behind the tag cannot be taken for it. The owner's
// length stands before it, so that no owner and id look like other ones.

// What keys lead to.
const (
	kindRecord       = 'r' // a hash; see record.go
	kindItem         = 'i' // the id of the record that an output item is in
	kindMark         = 'm' // the id of the record that a context is in
	kindConversation = 'c' // a hash: m metadata, n the last position
	kindOrder        = 'o' // a sorted set: positions of a conversation's items
	kindData         = 'd' // a hash: the conversation's items by id
	kindReady        = 'w' // written to see whether writing works
)

// space is where the keys of one owner in one shard are.
type space struct {
	prefix string
	owner  string
	shard  uint16
}

// space returns where an id of ours belongs, and false if it is not of ours.
func (s *Store) space(owner, id string) (space, bool) {
	shard, ok := responses.Shard(id)
	return space{s.prefix, owner, shard}, ok
}

func (p space) begin(kind byte) []byte {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, len(p.prefix)+len(p.owner)+64)
	b = append(b, p.prefix...)
	b = append(b, '{', digits[p.shard>>8&15], digits[p.shard>>4&15], digits[p.shard&15], '}', ':', kind, ':')
	b = strconv.AppendInt(b, int64(len(p.owner)), 10)
	b = append(b, ':')
	b = append(b, p.owner...)
	return append(b, ':')
}

// key returns the key of a thing. With an empty id it is what such keys begin with.
func (p space) key(kind byte, id string) string { return string(append(p.begin(kind), id...)) }

// conversation returns the three keys of a conversation.
func (p space) conversation(id string) []string {
	return []string{p.key(kindConversation, id), p.key(kindOrder, id), p.key(kindData, id)}
}

// item returns the key under which an output item is found by its id alone. Ids of
// ours say a shard, mostly that of their record; others are spread.
func (p space) item(id string) (key string, shard uint16) {
	shard, ok := responses.Shard(id)
	if !ok {
		h := fnv.New32a()
		h.Write([]byte(id))
		shard = uint16(h.Sum32() % responses.Shards)
	}
	p.shard = shard
	return p.key(kindItem, id), shard
}
