package standard

import (
	"context"
	"log/slog"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/store/pgstore"
	"github.com/antiphon-dev/antiphon/store/redisstore"
)

// newStore is the switch from a store's name to the store; nil is none. The
// configuration was checked.
func newStore(ctx context.Context, c *config.Config, logger *slog.Logger) (store.Store, error) {
	switch c.State.Store.Engine() {
	case "none":
		return nil, nil
	case "postgres":
		s, err := pgstore.Open(ctx, c.State.Store.URLs(), &pgstore.Options{Retention: c.State.Retention, Logger: logger})
		if err != nil {
			return nil, err // and not a nil *pgstore.Store, which is no nil store
		}
		return s, nil
	case "redis":
		s, err := redisstore.Open(ctx, c.State.Store.URLs()[0], &redisstore.Options{Retention: c.State.Retention, Logger: logger})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return memstore.NewStore(&memstore.StoreOptions{Retention: c.State.Retention}), nil
}

// Migrate brings a store that has a schema to that of this build, and returns what
// it did. A gateway does so by itself when it starts.
func Migrate(ctx context.Context, s config.StoreURL) (done []string, err error) {
	if s.Engine() != "postgres" {
		return nil, nil
	}
	return pgstore.Migrate(ctx, s.URLs()...)
}
