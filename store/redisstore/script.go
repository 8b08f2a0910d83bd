package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// What scripts return when something is not as it should be.
const (
	codeOK = iota
	codeNotFound
	codeLinkGone
	codeTooLong
	codeFenced
	codeConversation // the record adds to a conversation: say which, and what
)

// errConversation asks the caller of update to come again with the conversation.
var errConversation = errors.New("redisstore: the items of the conversation are needed")

var codes = map[int64]error{
	codeNotFound:     store.ErrNotFound,
	codeLinkGone:     store.ErrLinkGone,
	codeTooLong:      store.ErrTooLong,
	codeFenced:       store.ErrFenced,
	codeConversation: errConversation,
}

//go:embed lua/*.lua
var sources embed.FS

// A script runs in Redis as one step, within one slot.
type script struct {
	source, digest string
	readOnly       bool
}

var (
	createScript     = newScript("create", "add")
	updateScript     = newScript("update", "add")
	chainScript      = newScript("chain").reads()
	deleteScript     = newScript("delete")
	prefixScript     = newScript("prefix").reads()
	converseScript   = newScript("converse", "add")
	addItemsScript   = newScript("additems", "add")
	metadataScript   = newScript("metadata")
	listScript       = newScript("list").reads()
	deleteItemScript = newScript("deleteitem")
)

// newScript puts a script together: names for the codes, the parts that it uses,
// and itself.
func newScript(name string, parts ...string) *script {
	var b strings.Builder
	fmt.Fprintf(&b, "local NOT_FOUND, LINK_GONE, TOO_LONG, FENCED, CONVERSATION = %d, %d, %d, %d, %d\n",
		codeNotFound, codeLinkGone, codeTooLong, codeFenced, codeConversation)
	b.WriteString("local ENDED = {")
	for _, s := range []responses.Status{responses.StatusCompleted, responses.StatusIncomplete, responses.StatusFailed, responses.StatusCancelled} {
		fmt.Fprintf(&b, " %s = true,", s)
	}
	b.WriteString(" }\n")
	for _, part := range append(parts, name) {
		text, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // the files are part of the program
		}
		b.Write(text)
	}
	sum := sha1.Sum([]byte(b.String())) // by which Redis knows scripts
	return &script{source: b.String(), digest: hex.EncodeToString(sum[:])}
}

func (s *script) reads() *script {
	s.readOnly = true
	return s
}

// command returns the call of a script, by its digest or whole.
func (s *script) command(c rueidis.Client, whole bool, keys, args []string) rueidis.Completed {
	name, text := "EVALSHA", s.digest
	if whole {
		name, text = "EVAL", s.source
	}
	if s.readOnly {
		name += "_RO"
	}
	b := c.B().Arbitrary(name, text, strconv.Itoa(len(keys))).Keys(keys...).Args(args...)
	if s.readOnly {
		return b.ReadOnly()
	}
	return b.Build()
}

// run runs a script, and the other commands beside it. Redis forgets scripts when
// it starts; so one that it does not know is sent whole.
func (s *Store) run(ctx context.Context, sc *script, keys, args []string, beside ...rueidis.Completed) (rueidis.RedisMessage, error) {
	var none rueidis.RedisMessage
	command := sc.command(s.client, false, keys, args)
	var last rueidis.RedisResult
	if len(beside) == 0 {
		last = s.client.Do(ctx, command)
	} else {
		results := s.client.DoMulti(ctx, append(beside, command)...)
		for _, r := range results[:len(beside)] {
			if err := r.Error(); err != nil {
				return none, s.failed(ctx, err)
			}
		}
		last = results[len(beside)]
	}
	if e, ok := rueidis.IsRedisErr(last.Error()); ok && e.IsNoScript() {
		last = s.client.Do(ctx, sc.command(s.client, true, keys, args))
	}
	m, err := last.ToMessage()
	if err != nil {
		return none, s.failed(ctx, err)
	}
	if m.IsInt64() {
		if code, _ := m.ToInt64(); code != codeOK {
			return none, codes[code]
		}
	}
	return m, nil
}

// failed says what an error from the client means. Whatever Redis refuses (it is
// loading, full, a replica, without a node for the slot) may work later.
func (s *Store) failed(ctx context.Context, err error) error {
	if end, ok := ctx.Deadline(); ok && errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(end) {
		<-ctx.Done() // the client's timer may run ahead of the context's
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	kind := store.ErrUnavailable
	if e, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "OOM ") {
		kind = store.ErrFull // beyond maxmemory, with a policy that evicts nothing
	}
	return fmt.Errorf("%w: redis: %w", kind, err)
}
