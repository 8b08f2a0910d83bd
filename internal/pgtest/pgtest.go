// Package pgtest gives tests a PostgreSQL: a schema of their own on the server
// that ANTIPHON_TEST_POSTGRES names ([URL]), or a server of their own that they
// may stop, start and break ([Start]).
package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// base is the URL of the shared server.
func base() string {
	return cmp.Or(os.Getenv("ANTIPHON_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test")
}

// URL returns the URL of a schema that is not there yet, and is dropped when the
// test is over. Without a server the test is skipped, and fails in CI.
func URL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, base())
	if err != nil {
		Missing(t, "PostgreSQL does not answer (ANTIPHON_TEST_POSTGRES): %v", err)
	}
	defer conn.Close(ctx)
	schema := "t" + strings.ToLower(rand.Text()[:20])
	t.Cleanup(func() { drop(t, schema) })
	return withSchema(t, base(), schema)
}

func withSchema(t testing.TB, base, schema string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	q.Set("synchronous_commit", "off") // it does not crash here, and all tests share its disk
	u.RawQuery = q.Encode()
	return u.String()
}

func drop(t testing.TB, schema string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, base())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "drop schema if exists "+pgx.Identifier{schema}.Sanitize()+" cascade"); err != nil {
		t.Error(err)
	}
}

// Missing skips a test for which something is missing on this machine, and fails
// it in CI.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
