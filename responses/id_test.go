package responses_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

var prefixes = []string{
	responses.PrefixResponse, responses.PrefixMessage, responses.PrefixFunctionCall, responses.PrefixCustomToolCall,
	responses.PrefixReasoning, responses.PrefixCall, responses.PrefixCompaction,
}

// TestNewIDShape: 32 hex digits in the shape of a version 7 UUID, within what
// clients and servers take (R17).
func TestNewIDShape(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^[a-z]+_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$`)
	for _, prefix := range prefixes {
		id := responses.NewID(prefix, responses.RandomShard(), time.Now())
		if !strings.HasPrefix(id, prefix) || !shape.MatchString(id) {
			t.Errorf("NewID(%q) = %q, want %s", prefix, id, shape)
		}
		if !responses.ValidID(prefix, id) {
			t.Errorf("ValidID(%q, %q) = false", prefix, id)
		}
	}
	long := responses.NewID("a_very_long_prefix_of_someone_", 0, time.Now())
	if want := len("a_very_long_prefix_of_someone_") + 32; len(long) != want {
		t.Errorf("a long prefix gives %q of %d characters, want %d", long, len(long), want)
	}
}

func TestShardRoundTrip(t *testing.T) {
	t.Parallel()
	for shard := range uint16(responses.Shards) {
		id := responses.NewID(responses.PrefixResponse, shard, time.UnixMilli(1<<47))
		if got, ok := responses.Shard(id); !ok || got != shard {
			t.Fatalf("Shard(%q) = %d, %t; want %d", id, got, ok, shard)
		}
	}
	// A shard out of range must not reach into the version or the time.
	id := responses.NewID(responses.PrefixResponse, responses.Shards+5, time.UnixMilli(0))
	if got, ok := responses.Shard(id); !ok || got != 5 {
		t.Errorf("Shard(%q) = %d, %t; want 5", id, got, ok)
	}
	for range 100 {
		if s := responses.RandomShard(); s >= responses.Shards {
			t.Fatalf("RandomShard = %d, want less than %d", s, responses.Shards)
		}
	}
}

func TestShardOfForeignIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"", "resp_", "resp", "resp_67ccd3a9da748190baa7f1570fe91ac604becb25c45c1d41",
		"0190a0b0c0d070018000000000000001",         // no prefix
		"resp_0190a0b0c0d040018000000000000001",    // version 4
		"resp_0190a0b0c0d0700180000000000000zz",    // not hex
		"resp_0190a0b0c0d07001800000000000000",     // short
		"resp_0190a0b0c0d0700180000000000000011",   // long
		"chatcmpl-0190a0b0c0d07001800000000000001", // another's
	} {
		if s, ok := responses.Shard(id); ok {
			t.Errorf("Shard(%q) = %d, want none", id, s)
		}
	}
}

// TestIDsSortByTime: the first 48 bits are milliseconds, so ids sort by when
// they were made, and a day is a range of ids.
func TestIDsSortByTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	last := ""
	for i := range 1000 {
		id := responses.NewID(responses.PrefixResponse, responses.Shards-1-uint16(i), now.Add(time.Duration(i)*time.Millisecond))
		if id <= last {
			t.Fatalf("id %d: %q is not after %q", i, id, last)
		}
		last = id
	}
	a, b := responses.NewID("", 0, now), responses.NewID("", 0, now)
	if a == b || a[:12] != b[:12] {
		t.Errorf("two ids of one millisecond: %q and %q, want the same time and other random bits", a, b)
	}
}

func TestValidID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prefix, id string
		want             bool
	}{
		{"ours", "msg_", "msg_0190a0b0c0d070018000000000000001", true},
		{"short", "msg_", "msg_1", true},
		{"any prefix", "", "call-1_A", true},
		{"64 characters", "fc_", "fc_" + strings.Repeat("x", 61), true},
		{"65 characters", "fc_", "fc_" + strings.Repeat("x", 62), false},
		{"empty", "", "", false},
		{"only the prefix", "msg_", "msg_", false},
		{"other prefix", "msg_", "fc_1", false},
		{"chat id", "resp_", "chatcmpl-1", false},
		{"space", "msg_", "msg_a b", false},
		{"dot", "", "a.b", false},
		{"slash", "", "a/b", false},
		{"letter beyond ASCII", "", "msg_é", false},
		{"line break", "", "a\nb", false},
		{"zero byte", "", "a\x00", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := responses.ValidID(tt.prefix, tt.id); got != tt.want {
				t.Errorf("ValidID(%q, %q) = %t, want %t", tt.prefix, tt.id, got, tt.want)
			}
		})
	}
}

func TestItemPrefix(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		responses.TypeMessage: "msg_", responses.TypeFunctionCall: "fc_", responses.TypeCustomToolCall: "ctc_",
		responses.TypeReasoning: "rs_", responses.TypeCompaction: "cmp_", "acme:x": "",
	}
	for typ, prefix := range want {
		if got := responses.ItemPrefix(typ); got != prefix {
			t.Errorf("ItemPrefix(%q) = %q, want %q", typ, got, prefix)
		}
	}
}
