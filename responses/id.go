package responses

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// Id prefixes. Servers and clients tell the kind of an id by them, and some
// servers refuse an item that comes back under another prefix.
const (
	PrefixResponse       = "resp_"
	PrefixMessage        = "msg_"
	PrefixFunctionCall   = "fc_"
	PrefixCustomToolCall = "ctc_"
	PrefixReasoning      = "rs_"
	PrefixCall           = "call_"
	PrefixCompaction     = "cmp_"
	PrefixToolSearchCall = "tsc_"
	PrefixConversation   = "conv_"
	PrefixMCPListTools   = "mcpl_"
	PrefixMCPCall        = "mcp_"
	PrefixMCPApproval    = "mcpr_"
)

// maxIDLength is what clients and servers accept (R17).
const maxIDLength = 64

// Shards is the number of logical shards that an id can name.
const Shards = 1 << 12

// NewID returns prefix and 32 hex digits in the shape of a version 7 UUID: 48
// bits of milliseconds, 12 bits of shard, 62 bits of randomness. An id says when
// and in which shard its response lives; it is never authority to read it.
func NewID(prefix string, shard uint16, now time.Time) string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16|0x7000|uint64(shard%Shards))
	b[8] = b[8]&0x3f | 0x80
	var out [16 + 32]byte
	n := copy(out[:], prefix)
	return string(hex.AppendEncode(out[:n], b[:]))
}

// RandomShard draws the shard of a response that has no parent.
func RandomShard() uint16 {
	var b [2]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint16(b[:]) % Shards
}

// Shard returns the shard of an id made by [NewID], and false for any other.
func Shard(id string) (uint16, bool) {
	b, ok := IDBytes(id)
	return binary.BigEndian.Uint16(b[6:8]) & (Shards - 1), ok
}

// IDTime returns when an id was made by [NewID], to the millisecond, and the zero
// time for any other.
func IDTime(id string) time.Time {
	b, ok := IDBytes(id)
	if !ok {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:8]) >> 16))
}

// IDBytes returns the UUID in an id made by [NewID], and false for any other. The
// digits are lower case: an id has one spelling.
func IDBytes(id string) (b [16]byte, ok bool) {
	_, digits, _ := strings.Cut(id, "_")
	if len(digits) != 32 || strings.ToLower(digits) != digits {
		return b, false
	}
	if _, err := hex.Decode(b[:], []byte(digits)); err != nil || b[6]>>4 != 7 || b[8]>>6 != 2 {
		return [16]byte{}, false
	}
	return b, true
}

// ResponseID returns the id of the response that a client means by id: clients may
// have put another prefix before the digits (R17). It is false for what no response
// can have.
func ResponseID(id string) (string, bool) {
	digits := id[max(0, len(id)-32):]
	prefix := strings.TrimRight(id[:len(id)-len(digits)], "_-")
	for i := range len(prefix) {
		if c := prefix[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return "", false
		}
	}
	id = PrefixResponse + digits
	_, ok := IDBytes(id)
	return id, ok
}

// ValidID reports whether id may be shown to clients under prefix: right
// prefix, at most 64 characters of A-Z a-z 0-9 _ - (R17).
func ValidID(prefix, id string) bool {
	if !strings.HasPrefix(id, prefix) || len(id) == len(prefix) || len(id) > maxIDLength {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// ItemPrefix is the id prefix of items of the given type, and "" for types
// whose ids nobody checks.
func ItemPrefix(typ string) string {
	switch typ {
	case TypeMessage:
		return PrefixMessage
	case TypeFunctionCall:
		return PrefixFunctionCall
	case TypeCustomToolCall:
		return PrefixCustomToolCall
	case TypeReasoning:
		return PrefixReasoning
	case TypeCompaction:
		return PrefixCompaction
	case TypeToolSearchCall:
		return PrefixToolSearchCall
	case TypeMCPListTools:
		return PrefixMCPListTools
	case TypeMCPCall:
		return PrefixMCPCall
	case TypeMCPApprovalRequest:
		return PrefixMCPApproval
	}
	return ""
}
