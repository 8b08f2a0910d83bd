package main

import (
	"encoding/json/jsontext"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// providerName is what Codex's configuration calls us.
const providerName = "antiphon"

// A profile is what Codex is told, in a directory of its own. The files are written
// anew each time, whole or not at all, and readable by their owner only.
type profile struct {
	Dir    string
	Base   string
	Model  string
	Window int64 // 0 if not known
	// Catalog describes the models; nil if Codex's own catalog has them.
	Catalog []byte
	// NoWebSearch: the model's upstream has none, so that Codex need not offer it.
	NoWebSearch bool
	// Kept is what Codex or the user have put into the configuration.
	Kept string
}

// configTOML is Codex's configuration. It calls nobody but us, and leaves nothing
// running behind: its daemon would outlive the gateway.
var configTOML = template.Must(template.New("config.toml").Funcs(template.FuncMap{"toml": tomlString}).Parse(
	`# Written by antiphon launch codex, each time anew. Tables that are not antiphon's
# are kept: what you trust, MCP servers and the like.
model = {{toml .Model}}
model_provider = {{toml .Provider}}
{{- if .Catalog}}
model_catalog_json = {{toml .CatalogPath}}
{{- else if .Window}}
model_context_window = {{.Window}}
{{- end}}
{{- if .NoWebSearch}}
web_search = "disabled"
{{- end}}
check_for_update_on_startup = false

[model_providers.{{.Provider}}]
name = "Antiphon"
base_url = {{toml .Base}}
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
plugins = false
apps = false
daemon_auto_start = false
{{.Kept}}`))

// ownTables are the tables of configTOML.
var ownTables = []string{"model_providers." + providerName, "analytics", "features"}

// Provider and CatalogPath are for the template.
func (p *profile) Provider() string    { return providerName }
func (p *profile) CatalogPath() string { return filepath.Join(p.Dir, "models.json") }

// write writes the profile.
func (p *profile) write() error {
	if p.Catalog != nil {
		if err := writeFile(p.CatalogPath(), p.Catalog); err != nil {
			return err
		}
	}
	path := filepath.Join(p.Dir, "config.toml")
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	p.Kept = otherTables(string(old))
	var b strings.Builder
	if err := configTOML.Execute(&b, p); err != nil {
		return err
	}
	return writeFile(path, []byte(b.String()))
}

// otherTables returns the tables of a configuration that are not ours, as they are
// written. A line that begins with a bracket begins a table: Codex writes arrays in
// one line.
func otherTables(text string) string {
	var kept strings.Builder
	keep := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "[") {
			keep = !slices.Contains(ownTables, strings.Trim(line, "[] \t\r\n"))
			if keep {
				kept.WriteString("\n")
			}
		}
		if keep && strings.TrimSpace(line) != "" {
			kept.WriteString(strings.TrimRight(line, "\r\n") + "\n")
		}
	}
	return kept.String()
}

// tomlString writes a string as TOML has it, which is as JSON has it but for one
// character.
func tomlString(s string) string {
	quoted, _ := jsontext.AppendQuote(nil, s) // the error only reports invalid UTF-8, which becomes U+FFFD
	return strings.ReplaceAll(string(quoted), "\x7f", `\u007f`)
}

// writeFile replaces a file by one that its owner alone can read. Whoever reads it
// meanwhile sees the old one or the new one.
func writeFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
