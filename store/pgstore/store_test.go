package pgstore_test

import (
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/pgstore"
	"github.com/antiphon-dev/antiphon/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a store on the given databases that the test closes.
func open(t *testing.T, opts *pgstore.Options, urls ...string) *pgstore.Store {
	t.Helper()
	var o pgstore.Options
	if opts != nil {
		o = *opts
	}
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := pgstore.Open(t.Context(), urls, &o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStore runs the contract's suite (R40, R41).
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.RunStore(t, func(t *testing.T, retention time.Duration, now func() time.Time) store.Store {
		return open(t, &pgstore.Options{Retention: retention, Now: now}, pgtest.URL(t))
	})
}

// TestStoreOnTwoDatabases runs it on two that share the shards (R41).
func TestStoreOnTwoDatabases(t *testing.T) {
	t.Parallel()
	storetest.RunStore(t, func(t *testing.T, retention time.Duration, now func() time.Time) store.Store {
		return open(t, &pgstore.Options{Retention: retention, Now: now}, pgtest.URL(t), pgtest.URL(t))
	})
}
