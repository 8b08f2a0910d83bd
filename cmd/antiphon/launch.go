package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon/standard"
)

// launchFlags are the flags of antiphon launch codex as they were given.
type launchFlags struct {
	serveFlags
	model string
	codex string
}

func (p *program) launchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "launch",
		Short: "Start an agent on a model of yours",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for \"antiphon launch\"; there is codex", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(p.launchCodexCommand())
	return cmd
}

func (p *program) launchCodexCommand() *cobra.Command {
	var f launchFlags
	cmd := &cobra.Command{
		Use:   "codex [-- ARGS…]",
		Short: "Start Codex on a model of yours",
		Long: `Start Codex on a model of yours.

It uses the gateway that antiphon serve runs on this machine or, if there is none or
an --upstream is named, one of its own that ends with Codex. What stands behind -- is
for Codex: antiphon launch codex -- exec "fix the tests". Codex gets a home of its
own; your ~/.codex is not touched.`,
		Args: onlyBehindDash,
		RunE: func(cmd *cobra.Command, args []string) error { return p.launchCodex(cmd.Context(), &f, args) },
	}
	f.registerUpstreams(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "use this `MODEL`; default the first that is listed")
	flags.StringVar(&f.codex, "codex", "", "start the Codex at `PATH`; default the one on PATH")
	return cmd
}

// onlyBehindDash refuses arguments that may be meant for us as well as for Codex.
func onlyBehindDash(cmd *cobra.Command, args []string) error {
	if n := cmd.ArgsLenAtDash(); len(args) > 0 && n != 0 {
		return fmt.Errorf("%q: what is for Codex stands behind --, as in: antiphon launch codex -- %[1]s", args[0])
	}
	return nil
}

// launchCodex runs Codex to its end. Its exit code is ours.
func (p *program) launchCodex(ctx context.Context, f *launchFlags, args []string) error {
	codex, err := findCodex(f.codex)
	if err != nil {
		return err
	}
	home, err := codexHome()
	if err != nil {
		return err
	}
	g, err := p.gatewayFor(ctx, f, home)
	if err != nil {
		return err
	}
	code, err := p.runOn(g, f, home, codex, args)
	if err := errors.Join(err, g.stop()); err != nil {
		return err
	}
	if code != exitOK {
		return exitError(code)
	}
	return nil
}

// runOn writes Codex's profile for the gateway and runs it.
func (p *program) runOn(g *codexGateway, f *launchFlags, home, codex string, args []string) (code int, err error) {
	model, err := g.choose(f.model)
	if err != nil {
		return 0, err
	}
	profile := profile{
		Dir: home, Base: g.base, Model: model.name, Window: model.window,
		Catalog: g.catalog, NoWebSearch: model.translated,
	}
	if err := profile.write(); err != nil {
		return 0, fmt.Errorf("write Codex's profile: %w", err)
	}
	for _, note := range append(g.notes, model.notes...) {
		fmt.Fprintln(p.stderr, "antiphon: "+note)
	}
	// Another launch may write the profile before Codex reads it.
	address := "model_providers." + providerName + ".base_url=" + tomlString(g.base)
	return p.runCodex(codex, append([]string{"-c", address}, args...), "CODEX_HOME="+home)
}

// codexHome returns the directory in which Codex keeps what it keeps, made for us
// only.
func codexHome() (string, error) {
	config, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for Codex's profile: %w", err)
	}
	dir := filepath.Join(config, "antiphon", "codex")
	return dir, os.MkdirAll(dir, 0o700)
}

// A codexModel is the model that Codex is started with.
type codexModel struct {
	name       string
	window     int64 // 0 if not known
	translated bool  // it is behind another protocol than the Responses API
	notes      []string
}

// choose returns the named model, or the first that is listed.
func (g *codexGateway) choose(name string) (codexModel, error) {
	m := codexModel{name: name}
	if name == "" {
		usable := slices.DeleteFunc(slices.Clone(g.models), func(m listedModel) bool {
			return !pasteable(m.ID) || !standard.GeneratesText(m.ID)
		})
		if len(usable) == 0 {
			return m, g.noModel()
		}
		m.name = usable[0].ID
		if n := len(usable); n > 1 {
			m.notes = append(m.notes, fmt.Sprintf("using %s, the first of %d models; --model chooses another", m.name, n))
		} else {
			m.notes = append(m.notes, fmt.Sprintf("using %s, the only model", m.name))
		}
	}
	i := slices.IndexFunc(g.models, func(l listedModel) bool { return l.ID == m.name })
	if i < 0 {
		m.notes = append(m.notes, fmt.Sprintf("the gateway does not list %s; it is asked for all the same", printable(m.name)))
	} else {
		m.window = g.models[i].ContextWindow
	}
	g.describe(&m)
	return m, nil
}

// describe adds what is known of the model beyond what a gateway lists: that of our
// own gateway.
func (g *codexGateway) describe(m *codexModel) {
	var engine string
	var upTo bool
	if g.report != nil {
		for _, s := range g.report.Served(g.config) {
			if s.Name == m.name {
				engine, upTo, m.translated = s.Upstream.Engine, s.UpTo, s.Upstream.Protocol != "responses"
			}
		}
	}
	if advice := standard.WindowAdvice(engine, m.window, upTo); advice != "" {
		m.notes = append(m.notes, "warning: "+printable(m.name)+": "+advice)
	}
}

// noModel says why there is nothing to start Codex with.
func (g *codexGateway) noModel() error {
	var why []string
	if g.report != nil {
		for _, u := range g.report.Upstreams {
			if u.Err != nil {
				why = append(why, fmt.Sprintf("%s at %s: %s", u.Name, u.URL, strings.TrimSuffix(u.Err.Error(), ".")))
			}
		}
	}
	if len(why) == 0 {
		return fmt.Errorf("the gateway at %s lists no model; name one with --model", g.base)
	}
	return fmt.Errorf("no model is known (%s); start the server, or name a model with --model", strings.Join(why, "; "))
}
