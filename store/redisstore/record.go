package redisstore

import (
	"encoding/binary"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// A record is a hash. Fields that would be empty are missing.
//
//	s status   e epoch   l the id of its link   c its conversation
//	p place: depth, milliseconds of the oldest, items of the link
//	h head   q losses   a context   i input   o output   (packed)
//	t marks: 32 bytes of hash and 4 of items each
//	k how many records continue it   x it is deleted
//
// A record that was wiped has x alone.

// fields are those that Get asks for, in the order of [decode].
var fields = []string{"s", "x", "e", "l", "c", "p", "h", "q", "a", "i", "o", "t"}

var errBroken = errors.New("redisstore: a stored record is broken")

// created returns the fields of a new record and their values.
func created(r *store.Record) ([]string, error) {
	set, err := updated(r)
	if err != nil {
		return nil, err
	}
	set = append(set, "p", place{r.Depth, r.Oldest, r.Link.Items}.String())
	set = add(set, "l", r.Link.ID)
	set = add(set, "c", r.Conversation)
	set = add(set, "a", rueidis.BinaryString(store.PackItems(r.Context)))
	return add(set, "i", rueidis.BinaryString(store.PackItems(r.Input))), nil
}

// updated returns the fields that an update sets: the status and the epoch first,
// which the script looks at.
func updated(r *store.Record) ([]string, error) {
	set := []string{"s", string(r.Status), "e", strconv.FormatInt(r.Epoch, 10)}
	if len(r.Head) > 0 {
		set = append(set, "h", rueidis.BinaryString(store.Pack(r.Head)))
	}
	if len(r.Losses) > 0 {
		losses, err := json.Marshal(r.Losses)
		if err != nil {
			return nil, err
		}
		set = append(set, "q", rueidis.BinaryString(store.Pack(losses)))
	}
	set = add(set, "o", rueidis.BinaryString(store.PackItems(r.Output)))
	var marks []byte
	for _, m := range r.Marks {
		marks = append(marks, m.Hash[:]...)
		marks = binary.BigEndian.AppendUint32(marks, uint32(min(max(m.Items, 0), math.MaxUint32)))
	}
	return add(set, "t", rueidis.BinaryString(marks)), nil
}

func add(set []string, field, value string) []string {
	if value == "" {
		return set
	}
	return append(set, field, value)
}

// place is where a record stands in its chain.
type place struct {
	depth  int
	oldest time.Time
	items  int // of its link
}

func (p place) String() string {
	b := strconv.AppendInt(make([]byte, 0, 32), int64(p.depth), 10)
	b = strconv.AppendInt(append(b, ' '), p.oldest.UnixMilli(), 10)
	return string(strconv.AppendInt(append(b, ' '), int64(p.items), 10))
}

func parsePlace(text string) (p place, err error) {
	depth, rest, _ := strings.Cut(text, " ")
	oldest, items, _ := strings.Cut(rest, " ")
	ms, err1 := strconv.ParseInt(oldest, 10, 64)
	var err2, err3 error
	p.depth, err2 = strconv.Atoi(depth)
	p.items, err3 = strconv.Atoi(items)
	if errors.Join(err1, err2, err3) != nil {
		return p, fmt.Errorf("%w: its place is %q", errBroken, text)
	}
	p.oldest = time.UnixMilli(ms)
	return p, nil
}

// decode returns the record whose fields were read.
func decode(id string, v []string) (*store.Record, error) {
	r := &store.Record{ID: id, Status: responses.Status(v[0]), Conversation: v[4]}
	var err error
	if r.Epoch, err = strconv.ParseInt(v[2], 10, 64); err != nil {
		return nil, fmt.Errorf("%w: its epoch is %q", errBroken, v[2])
	}
	p, err := parsePlace(v[5])
	if err != nil {
		return nil, err
	}
	r.Depth, r.Oldest, r.Link = p.depth, p.oldest, store.Link{ID: v[3], Items: p.items}
	if r.Head, err = store.Body(v[6]).Unpack(math.MaxInt); err != nil {
		return nil, err
	}
	losses, err := store.Body(v[7]).Unpack(math.MaxInt)
	if err != nil {
		return nil, err
	}
	if len(losses) > 0 {
		if err := json.Unmarshal(losses, &r.Losses); err != nil {
			return nil, fmt.Errorf("%w: %w", errBroken, err)
		}
	}
	for i, items := range []*[]store.Item{&r.Context, &r.Input, &r.Output} {
		if *items, err = store.Body(v[8+i]).Items(math.MaxInt); err != nil {
			return nil, err
		}
	}
	for marks := []byte(v[11]); len(marks) >= 36; marks = marks[36:] {
		r.Marks = append(r.Marks, store.Mark{Hash: [32]byte(marks), Items: int(binary.BigEndian.Uint32(marks[32:]))})
	}
	return r, nil
}

// texts returns the elements of an array, "" for those that are missing.
func texts(m rueidis.RedisMessage) ([]string, error) {
	elements, err := m.ToArray()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	out := make([]string, len(elements))
	for i := range elements {
		out[i] = text(&elements[i])
	}
	return out, nil
}

// text is a string or a number; "" if it is missing.
func text(m *rueidis.RedisMessage) string {
	if m.IsInt64() {
		n, _ := m.ToInt64()
		return strconv.FormatInt(n, 10)
	}
	s, _ := m.ToString()
	return s
}

// body is a string that is not copied; nil if it is missing.
func body(m *rueidis.RedisMessage) store.Body {
	b, _ := m.AsBytes()
	return b
}
