package config_test

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/antiphon-dev/antiphon/config"
)

type object = map[string]any

// reference is the pattern of text that stands for other text.
const reference = `\$\{`

// TestSchemaIsCurrent: schema.json is what the fields and their comments say.
func TestSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	made := makeSchema(t)
	golden(t, "schema.json", made)
	if !*update && !bytes.Equal(config.Schema(), made) {
		t.Error("Schema is not schema.json")
	}
}

// makeSchema returns the schema that the code says, which is not the one that was
// compiled in while the files are rewritten.
func makeSchema(t *testing.T) []byte {
	t.Helper()
	g := readGrammar(t)
	schema := g.structure(t, reflect.TypeFor[config.Config]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Antiphon's configuration file"
	schema["type"] = "object"
	data, err := json.Marshal(schema, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// structure returns the schema of a mapping whose keys we define. A key without a
// value leaves the default, so null is valid everywhere.
func (g *grammar) structure(t *testing.T, typ reflect.Type) object {
	properties, must := object{}, []string{}
	for f := range typ.Fields() {
		key := f.Tag.Get("yaml")
		property := g.schema(t, f.Type)
		property["description"] = g.meaning(t, typ, f)
		if text, ok := f.Tag.Lookup("default"); ok {
			property["default"] = defaultValue(f.Type, text)
		}
		if least, err := strconv.Atoi(f.Tag.Get("min")); err == nil {
			property["minimum"] = least
		}
		if required[typ.Name()+"."+f.Name] {
			must = append(must, key)
		}
		properties[key] = property
	}
	schema := object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if len(must) > 0 {
		schema["required"] = must
	}
	if keys := either[typ.Name()]; len(keys) > 0 {
		var one []object
		for _, key := range keys {
			one = append(one, object{"required": []string{key}})
		}
		schema["anyOf"] = one
	}
	return schema
}

func defaultValue(typ reflect.Type, text string) any {
	if n, err := strconv.Atoi(text); err == nil && typ.Kind() == reflect.Int {
		return n
	}
	return text
}

func (g *grammar) schema(t *testing.T, typ reflect.Type) object {
	switch {
	case typ == jsonType:
		return object{}
	case typ == durationType:
		return object{"type": []string{"string", "null"}, "pattern": `^(([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+|[0-9]+d)$|` + reference}
	case typ == modelType:
		return object{"anyOf": []object{{"type": "string"}, g.structure(t, typ)}}
	case len(g.values[typ.Name()]) > 0:
		return g.oneOf(typ)
	}
	switch typ.Kind() {
	case reflect.Struct:
		return g.structure(t, typ)
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": g.schema(t, typ.Elem())}
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": g.schema(t, typ.Elem())}
	case reflect.Pointer:
		return g.schema(t, typ.Elem())
	case reflect.Bool:
		return object{"type": []string{"boolean", "string", "null"}, "pattern": `^(true|false)$|` + reference}
	case reflect.Int, reflect.Int64:
		return object{"type": []string{"integer", "string", "null"}, "pattern": `^[0-9]+$|` + reference}
	}
	return object{"type": []string{"string", "null"}}
}

// oneOf returns the schema of a choice.
func (g *grammar) oneOf(typ reflect.Type) object {
	values := []any{}
	for _, c := range g.values[typ.Name()] {
		values = append(values, c.value)
	}
	other := reference
	if typ == authType {
		other = `^header .|` + reference
	}
	return object{"anyOf": []object{{"enum": append(values, nil)}, {"type": "string", "pattern": other}}}
}

// compiled returns the schema, ready to check files.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(makeSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// violations returns what the schema says of a file.
func violations(t *testing.T, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	file, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(file)
}

// TestSchemaTakesGoodFiles: an editor that knows the schema does not complain
// about what the gateway takes.
func TestSchemaTakesGoodFiles(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../examples/config/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema := compiled(t)
	for _, name := range append(files(t, ".good.yaml"), examples...) {
		if err := violations(t, schema, read(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSchemaRefuses: what an editor can see is seen there.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	const upstream = `upstreams: { a: { url: "http://h.test" } }` + "\n"
	for name, file := range map[string]string{
		"no upstreams":           "listen: 127.0.0.1:1",
		"a misspelt key":         upstream + "listne: 127.0.0.1:1",
		"a misspelt key inside":  `upstreams: { a: { url: "http://h.test", ulr: x } }`,
		"no url":                 `upstreams: { a: { protocol: chat } }`,
		"a protocol of later":    `upstreams: { a: { url: "http://h.test", protocol: messages } }`,
		"no way to authenticate": `upstreams: { a: { url: "http://h.test", auth: basic } }`,
		"neither true nor false": `upstreams: { a: { url: "http://h.test", relay: maybe } }`,
		"no duration":            upstream + "timeouts: { idle: 5 minutes }",
		"no limit":               upstream + "auth: { keys: [{ name: a, key: b, limits: { concurrent: 0 } }] }",
		"a list as a model":      upstream + "models: { m: [a] }",
		"a target of nobody":     upstream + "models: { m: { targets: [{ model: x }] } }",
	} {
		if violations(t, schema, []byte(file)) == nil {
			t.Errorf("%s: the schema takes %s", name, file)
		}
		if _, err := parse([]byte(file)); err == nil {
			t.Errorf("%s: the parser takes %s", name, file)
		}
	}
}
