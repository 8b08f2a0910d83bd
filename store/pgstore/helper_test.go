package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// record returns a response of one input and one output item that has completed,
// and continues parent if there is one.
func record(shard uint16, parent *store.Record) *store.Record {
	return recordAt(time.Now(), shard, parent)
}

func recordAt(now time.Time, shard uint16, parent *store.Record) *store.Record {
	r := &store.Record{ID: responses.NewID(responses.PrefixResponse, shard, now), Status: responses.StatusCompleted, Epoch: 1, Oldest: now, Head: []byte(`{}`)}
	if parent != nil {
		r.Link = store.Link{ID: parent.ID, Items: 2}
		r.Depth, r.Oldest = parent.Depth+1, parent.Oldest
	}
	tail := r.ID[len(r.ID)-12:]
	r.Input = []store.Item{{ID: "msg_in_" + tail, Data: []byte(`{"text":"question ` + tail + `"}`)}}
	r.Output = []store.Item{{ID: "msg_out_" + tail, Data: []byte(`{"text":"answer ` + tail + `"}`)}}
	return r
}

func conversation(shard uint16) *store.Conversation {
	return &store.Conversation{ID: responses.NewID(responses.PrefixConversation, shard, time.Now()), Metadata: []byte(`{}`)}
}

// connect returns a connection beside the store.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

func count(t testing.TB, url, table string) (n int) {
	t.Helper()
	must(t, connect(t, url).QueryRow(t.Context(), "select count(*) from "+table).Scan(&n))
	return n
}

// texts returns the only column of what is asked for.
func texts(t testing.TB, url, sql string, args ...any) []string {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(), sql, args...)
	must(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return list
}
