package pgstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the databases to the schema of this build, so that a store can
// be opened with NoMigrate by a user who may not change it. It returns what it
// did. Any number of processes may call it at once.
func Migrate(ctx context.Context, urls ...string) (done []string, err error) {
	for _, url := range urls {
		c, err := newCluster(ctx, url, defaultTimeout)
		if err != nil {
			return done, err
		}
		steps, err := c.migrate(ctx)
		c.pool.Close()
		if err != nil {
			return done, fmt.Errorf("migrate the store on %s: %w", c.name, err)
		}
		for _, s := range steps {
			done = append(done, c.name+": "+s)
		}
	}
	return done, nil
}

// migrate returns the migrations that it ran.
func (c *cluster) migrate(ctx context.Context) (done []string, err error) {
	db := c.forMigrations()
	defer db.Close()
	if err := c.makeSchema(ctx, db); err != nil {
		return nil, err
	}
	p, err := provider(db)
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	for _, r := range results {
		done = append(done, r.Source.Path)
	}
	return done, err
}

// migrated fails unless the database has the schema of this build, or a later one.
func (c *cluster) migrated(ctx context.Context) error {
	var has int64
	err := c.pool.QueryRow(ctx, "select coalesce(max(version_id) filter (where is_applied), 0) from "+migrationsTable).Scan(&has)
	if err != nil && sqlState(err) != undefinedTable {
		return err
	}
	db := c.forMigrations()
	defer db.Close()
	p, err := provider(db)
	if err != nil {
		return err
	}
	if all := p.ListSources(); has < all[len(all)-1].Version {
		return fmt.Errorf("its schema is of version %d, and this build needs %d: run antiphon migrate", has, all[len(all)-1].Version)
	}
	return nil
}

const migrationsTable = "antiphon_migrations"

// forMigrations is the database without the limits of time: a migration takes as
// long as it takes.
func (c *cluster) forMigrations() *sql.DB {
	cfg := c.pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["statement_timeout"] = "0"
	cfg.RuntimeParams["lock_timeout"] = "0"
	return stdlib.OpenDB(*cfg)
}

func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(schemaLock{}), goose.WithTableName(migrationsTable), goose.WithDisableGlobalRegistry(true))
}

// makeSchema makes the schema that the URL names, if it is not there: that needs
// rights which not everybody has.
func (c *cluster) makeSchema(ctx context.Context, db *sql.DB) error {
	if c.schema == "" {
		return nil
	}
	var there bool
	if err := db.QueryRowContext(ctx, "select exists (select from pg_namespace where nspname = $1)", c.schema).Scan(&there); err != nil || there {
		return err
	}
	_, err := db.ExecContext(ctx, "create schema if not exists "+pgx.Identifier{c.schema}.Sanitize())
	if sqlState(err) == uniqueViolation { // another process was as quick
		return nil
	}
	return err
}

// schemaLock is held while the schema is changed: by one process for each schema
// of a database.
type schemaLock struct{}

var _ lock.SessionLocker = schemaLock{}

const lockKey = "hashtextextended('antiphon ' || current_schema(), 0)"

func (schemaLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "select pg_advisory_lock("+lockKey+")")
	return err
}

func (schemaLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "select pg_advisory_unlock("+lockKey+")")
	return err
}
