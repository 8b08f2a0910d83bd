package main

import (
	"debug/buildinfo"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

// bill writes what a binary is made of, as it says itself: a CycloneDX bill of
// materials. It returns the file's name.
func (r *release) bill(binary, base string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version,omitzero"`
		PURL    string `json:"purl,omitzero"`
	}
	library := func(m *debug.Module) component {
		if m.Replace != nil {
			m = m.Replace
		}
		return component{"library", m.Path, m.Version, fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)}
	}
	components := []component{{"library", "std", info.GoVersion, "pkg:golang/std@" + info.GoVersion}}
	for _, m := range info.Deps {
		components = append(components, library(m))
	}
	text, err := json.Marshal(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.time.UTC().Format(time.RFC3339),
			"component": component{"application", "antiphon", r.version, fmt.Sprintf("pkg:golang/%s@%s", info.Main.Path, r.version)},
		},
		"components": components,
	}, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return "", err
	}
	name := base + ".cdx.json"
	return name, os.WriteFile(filepath.Join(r.out, name), append(text, '\n'), 0o644)
}
