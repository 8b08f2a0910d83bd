package pgstore_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/pgstore"
	"github.com/antiphon-dev/antiphon/store/storetest"
)

const retention = 30 * 24 * time.Hour

// partitions are the days of a table's partitions, in order.
func partitions(t *testing.T, url, table string) []string {
	t.Helper()
	return texts(t, url, `select right(c.relname, 8) from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = $1::text::regclass order by 1`, table)
}

// days are those from one to another, counted from a time.
func days(now time.Time, from, to int) (list []string) {
	for i := from; i <= to; i++ {
		list = append(list, now.UTC().AddDate(0, 0, i).Format("20060102"))
	}
	return list
}

func wantPartitions(t *testing.T, url string, want []string) {
	t.Helper()
	for _, table := range []string{"responses", "response_keys"} {
		if diff := cmp.Diff(want, partitions(t, url, table)); diff != "" {
			t.Errorf("days of %s (-want +got):\n%s", table, diff)
		}
	}
}

// TestPartitions: they are made a week ahead, by maintenance or by the response
// that needs one, and dropped when all in them is over its time (R41).
func TestPartitions(t *testing.T) {
	t.Parallel()
	url, clock := pgtest.URL(t), storetest.NewClock()
	s := open(t, &pgstore.Options{Retention: retention, Now: clock.Now}, url)
	defer s.Close()
	began := clock.Now()
	wantPartitions(t, url, days(began, -1, 7))

	first := recordAt(began, 1, nil)
	must(t, s.Create(t.Context(), "o", first))
	clock.Advance(24 * time.Hour)
	must(t, s.Maintain(t.Context()))
	wantPartitions(t, url, days(began, -1, 8))

	clock.Advance(13 * 24 * time.Hour) // nobody has prepared this day
	child := recordAt(clock.Now(), 1, first)
	must(t, s.Create(t.Context(), "o", child))
	wantPartitions(t, url, append(days(began, -1, 8), days(began, 14, 14)...))

	clock.Advance(retention - time.Hour)
	must(t, s.Maintain(t.Context())) // began + 44 days
	wantPartitions(t, url, slices.Concat(days(began, -1, 8), days(began, 14, 14), days(clock.Now(), -1, 7)))
	chain, err := s.Chain(t.Context(), "o", child.ID, store.Caps{Depth: 10, Bytes: 1 << 20})
	if err != nil || len(chain) != 2 {
		t.Errorf("in its last hour a response has a chain of %d, %v", len(chain), err)
	}

	clock.Advance(2 * store.Kept(retention))
	must(t, s.Maintain(t.Context()))
	wantPartitions(t, url, days(clock.Now(), -1, 7))
	if left := texts(t, url, "select relname::text from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r' and relname ~ '_[0-9]{8}$'"); len(left) != 18 {
		t.Errorf("%d tables of days are left, want 18: %q", len(left), left)
	}
	for _, wrong := range []time.Duration{-2 * store.Kept(retention), 60 * 24 * time.Hour} {
		err := s.Create(t.Context(), "o", recordAt(clock.Now().Add(wrong), 1, nil))
		if err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("a response %v from now: %v", wrong, err)
		}
	}
}

// TestPartitionsOfTheDead: what a replica that died left behind is finished by
// the next one.
func TestPartitionsOfTheDead(t *testing.T) {
	t.Parallel()
	url, clock := pgtest.URL(t), storetest.NewClock()
	s := open(t, &pgstore.Options{Retention: retention, Now: clock.Now}, url)
	defer s.Close()
	list := days(clock.Now(), -1, 7)

	// One was detached and not dropped, and one is half detached: a reader is in the way.
	sql := connect(t, url)
	exec(t, sql, "alter table responses detach partition responses_"+list[0])
	exec(t, sql, "begin")
	exec(t, sql, "select from responses")
	other := connect(t, url)
	exec(t, other, "set statement_timeout = '200ms'")
	if _, err := other.Exec(t.Context(), "alter table responses detach partition responses_"+list[1]+" concurrently"); err == nil {
		t.Fatal("it was not in the way")
	}
	exec(t, sql, "commit")
	clock.Advance(2 * store.Kept(retention))
	must(t, s.Maintain(t.Context()))
	wantPartitions(t, url, days(clock.Now(), -1, 7))
	if left := texts(t, url, "select relname::text from pg_class where relnamespace = current_schema()::regnamespace and relname in ($1, $2)", "responses_"+list[0], "responses_"+list[1]); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	must(t, err)
}

// TestDroppingHoldsNobodyUp: while a partition waits to be detached for a
// transaction that stays open, responses are read and written as ever.
func TestDroppingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	url, clock := pgtest.URL(t), storetest.NewClock()
	s := open(t, &pgstore.Options{Retention: retention, Now: clock.Now}, url)
	defer s.Close()
	clock.Advance(store.Kept(retention) + 24*time.Hour)
	must(t, s.Create(t.Context(), "o", recordAt(clock.Now(), 1, nil)))
	reader := connect(t, url)
	exec(t, reader, "begin")
	exec(t, reader, "select from responses")

	done := make(chan error, 1)
	go func() { done <- s.Maintain(t.Context()) }()
	waiting := connect(t, url)
	for pending := 0; pending == 0; {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		must(t, waiting.QueryRow(t.Context(), "select count(*) from pg_inherits where inhparent = 'responses'::regclass and inhdetachpending").Scan(&pending))
	}
	var last *store.Record
	for range 20 {
		began := time.Now()
		last = recordAt(clock.Now(), 1, last)
		must(t, s.Create(t.Context(), "o", last))
		if _, err := s.Chain(t.Context(), "o", last.ID, store.Caps{Depth: 100, Bytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a response took %v", took)
		}
	}
	select {
	case err := <-done:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	exec(t, reader, "commit")
	must(t, <-done)
}

// TestOpensAtOnce: replicas that start together on an empty database agree.
func TestOpensAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			s, err := pgstore.Open(t.Context(), []string{url + "&pool_max_conns=2"}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(s.Create(t.Context(), "o", record(1, nil)), s.Maintain(t.Context()), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := count(t, url, "responses"); n != 5 {
		t.Errorf("%d responses, want 5", n)
	}
	if _, err := pgstore.Open(t.Context(), []string{pgtest.URL(t)}, &pgstore.Options{NoMigrate: true}); err == nil || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("an empty database that must not be migrated: %v", err)
	}
	done, err := pgstore.Migrate(t.Context(), url)
	if err != nil || len(done) > 0 {
		t.Errorf("a database that is up to date was migrated: %q, %v", done, err)
	}
}
