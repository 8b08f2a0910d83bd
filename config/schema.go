package config

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. It is
// made from [Config] and its comments; what it lets through, [Parse] may still
// refuse.
func Schema() []byte { return bytes.Clone(schema) }
