package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
)

func (p *program) migrateCommand() *cobra.Command {
	var file, store string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the databases of the store to the schema of this version",
		Long: `Bring the databases of the store to the schema of this version.

The gateway does so itself when it starts. This is for those who want it done
before, or by another user. It may run while gateways do, and more than once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.storeOf(file, store)
			if err != nil {
				return err
			}
			done, err := standard.Migrate(cmd.Context(), s)
			for _, step := range done {
				fmt.Fprintln(p.stdout, step)
			}
			if err == nil && len(done) == 0 {
				_, err = fmt.Fprintln(p.stdout, "nothing to do")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the store is that of the configuration in `FILE` (also ANTIPHON_CONFIG)")
	cmd.Flags().StringVar(&store, "store", "", "the store is at `URL`, or at several, separated by spaces")
	return cmd
}

// storeOf is the store that the flags name.
func (p *program) storeOf(file, store string) (config.StoreURL, error) {
	if store != "" && file != "" {
		return "", usagef("--config and --store exclude each other")
	}
	s := config.StoreURL(store)
	if store == "" {
		path, _ := p.flagOrEnv(file, "--config", "ANTIPHON_CONFIG")
		if path == "" {
			return "", usagef("say which store: --config FILE or --store postgres://user:password@host/database")
		}
		c, err := loadConfig(path)
		if err != nil {
			return "", err
		}
		s = c.State.Store
	}
	if s.Engine() != "postgres" {
		return "", usagef("a store in %q has no schema; only PostgreSQL has", s)
	}
	return s, nil
}
