package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon/config"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Work with configuration files",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for \"antiphon config\"", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file and list everything that is wrong with it",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return p.checkConfig(args[0]) },
	})
	cmd.AddCommand(&cobra.Command{
		Use:   "print FILE",
		Short: "Print what a configuration file means, with defaults and without secrets",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return p.printConfig(args[0]) },
	})
	cmd.AddCommand(&cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files, for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := p.stdout.Write(config.Schema())
			return err
		},
	})
	return cmd
}

func (p *program) checkConfig(path string) error {
	c, err := loadConfig(path)
	if err != nil {
		return err
	}
	models := "every model that they list"
	if n := len(c.Models); n > 0 {
		models = count(n, "model")
	}
	_, err = fmt.Fprintf(p.stdout, "%s is valid: %s, %s\n", path, count(len(c.Upstreams), "upstream"), models)
	return err
}

func (p *program) printConfig(path string) error {
	c, err := loadConfig(path)
	if err != nil {
		return err
	}
	text, err := c.YAML()
	if err != nil {
		return fmt.Errorf("print %s: %w", path, err)
	}
	_, err = p.stdout.Write(text)
	return err
}

// loadConfig reads a file. One that cannot be read is the caller's mistake too.
func loadConfig(path string) (*config.Config, error) {
	c, err := config.Load(path)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// count returns "1 model", "2 models".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
