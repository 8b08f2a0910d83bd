package pgstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// parseID returns the UUID of an id of the given kind.
func parseID(prefix, id string) ([16]byte, bool) {
	if !strings.HasPrefix(id, prefix) || len(id) != len(prefix)+32 {
		return [16]byte{}, false
	}
	return responses.IDBytes(id)
}

// optionalID is parseID for a column that may be null.
func optionalID(prefix, id string) (b *[16]byte, ok bool) {
	if id == "" {
		return nil, true
	}
	parsed, ok := parseID(prefix, id)
	return &parsed, ok
}

// formatID is the opposite of optionalID.
func formatID(prefix string, b *[16]byte) string {
	if b == nil {
		return ""
	}
	return prefix + hex.EncodeToString(b[:])
}

// floorID is the smallest id of the millisecond of t.
func floorID(t time.Time) (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], uint64(max(t.UnixMilli(), 0))<<16)
	return b
}

// lastID is greater than every id.
var lastID = [16]byte(bytes.Repeat([]byte{0xff}, 16))

// firstVisible is the smallest id that is not over its time.
func (s *Store) firstVisible() [16]byte {
	return floorID(s.now().Add(-s.retention).Truncate(time.Millisecond).Add(time.Millisecond))
}

// itemKey is what an item is found by: its id, unless that is too long for an
// index.
func itemKey(id string) []byte {
	if len(id) <= 64 {
		return []byte(id)
	}
	sum := sha256.Sum256([]byte(id))
	return append([]byte("sha256:"), sum[:]...)
}

// markKey is what a marked context is found by.
func markKey(shard uint16, m store.Mark) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(m.Hash)), shard), m.Hash[:]...)
}

// keys are what a record is found by, and for each how many items a marked
// context takes; nil means that it is an output item.
func keys(r *store.Record) (keys [][]byte, items []*int32) {
	for _, it := range r.Output {
		keys, items = append(keys, itemKey(it.ID)), append(items, nil)
	}
	shard, _ := responses.Shard(r.ID)
	for _, m := range r.Marks {
		n := int32(m.Items)
		keys, items = append(keys, markKey(shard, m)), append(items, &n)
	}
	return keys, items
}
