package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/antiphon-dev/antiphon/store"
)

// cluster is one database.
type cluster struct {
	name    string // for messages: no secrets
	schema  string // "" means that the server's default is used
	pool    *pgxpool.Pool
	timeout time.Duration
	drop    sync.Mutex   // held while partitions are dropped
	alive   atomic.Int64 // when it last answered, in nanoseconds; 0 means that it did not
}

const (
	// fresh is how long an answer shows that the database is there.
	fresh = time.Second
	// maxConns is how many connections a replica opens unless the URL says so.
	maxConns = 16
	// tries is how often a call is sent whose connection broke.
	tries = 3
)

// settings of every connection. A chain is one plan over all partitions: made
// anew, or compiled, it costs many times what running it does. All that is ever
// needed is to look up keys, one after another; a plan that reads whole tables,
// because it was made while today's was empty, would still be used when it is not.
// The times end what would hold others up.
var settings = map[string]string{
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"enable_seqscan":                      "off",
	"enable_bitmapscan":                   "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_material":                     "off",
	"enable_memoize":                      "off",
	"statement_timeout":                   "5s",
	"lock_timeout":                        "2s",
	"idle_in_transaction_session_timeout": "5s",
	"application_name":                    "antiphon",
}

func newCluster(ctx context.Context, url string, timeout time.Duration) (*cluster, error) {
	cfg, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	params := cfg.ConnConfig.RuntimeParams
	for name, value := range settings {
		if params[name] == "" { // the URL knows better
			params[name] = value
		}
	}
	// A standby cannot take what it is given, and may not have what was acknowledged.
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if cfg.ConnConfig.ConnectTimeout == 0 || cfg.ConnConfig.ConnectTimeout > timeout {
		cfg.ConnConfig.ConnectTimeout = timeout
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &cluster{
		name:    fmt.Sprintf("%s:%d/%s", cfg.ConnConfig.Host, cfg.ConnConfig.Port, cfg.ConnConfig.Database),
		schema:  firstSchema(params["search_path"]),
		pool:    pool,
		timeout: timeout,
	}, nil
}

// firstSchema is the first schema of a search path, as PostgreSQL reads it.
func firstSchema(path string) string {
	name, _, _ := strings.Cut(path, ",")
	name = strings.TrimSpace(name)
	if quoted, ok := strings.CutPrefix(name, `"`); ok {
		return strings.TrimSuffix(quoted, `"`)
	}
	return strings.ToLower(name)
}

// parseURL reads a URL. The driver's message would repeat it, with its password.
func parseURL(raw string) (*pgxpool.Config, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("pgstore: the URL of the store is not of the form postgres://user:password@host:port/database")
	}
	cfg, err := pgxpool.ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("pgstore: the URL of the store on %s is not understood: check its parameters", u.Host)
	}
	if !u.Query().Has("pool_max_conns") {
		cfg.MaxConns = maxConns
	}
	return cfg, nil
}

// run calls f with the pool until it succeeds, fails by itself, or the database
// does not answer, which is ErrUnavailable. f may then have taken effect: it is
// called again only if that does no harm.
func (c *cluster) run(ctx context.Context, op string, repeatable bool, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for try := 1; ; try++ {
		err := f(limited)
		switch {
		case err == nil || contractual(err):
			c.alive.Store(time.Now().UnixNano())
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !unavailable(err):
			return fmt.Errorf("pgstore: %s on %s: %w", op, c.name, err)
		}
		c.alive.Store(0)
		if try < tries && limited.Err() == nil && broken(err) && (repeatable || pgconn.SafeToRetry(err)) {
			c.pool.Reset() // its other connections are as old as the one that broke
			continue
		}
		kind := store.ErrUnavailable
		if sqlState(err) == diskFull {
			kind = store.ErrFull
		}
		return fmt.Errorf("%w: PostgreSQL on %s, %s: %w", kind, c.name, op, err)
	}
}

// ready asks the database unless it has just answered.
func (c *cluster) ready(ctx context.Context) error {
	if time.Since(time.Unix(0, c.alive.Load())) < fresh {
		return nil
	}
	return c.run(ctx, "ask whether it is ready", true, func(ctx context.Context) error {
		var standby bool
		if err := c.pool.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&standby); err != nil {
			return err
		}
		if standby {
			return errStandby
		}
		return nil
	})
}

// queryAll calls scan for each row.
func (c *cluster) queryAll(ctx context.Context, sql string, args []any, scan func(rows pgx.Rows) error) error {
	rows, err := c.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
