package config_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
)

// example is the file that the documentation shows whole.
const example = "../examples/config/team.yaml"

// TestDocsAreCurrent: docs/config.md is what the fields and their comments say.
func TestDocsAreCurrent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.Write(read(t, "testdata/intro.md"))
	g := readGrammar(t)
	g.writeSection(t, &b, "", reflect.TypeFor[config.Config]())
	text := read(t, example)
	if _, err := parse(text); err != nil {
		t.Errorf("the example is not valid: %v", err)
	}
	fmt.Fprintf(&b, "\n## An example\n\n```yaml\n%s```\n", text)
	golden(t, "../docs/config.md", []byte(b.String()))
}

// writeSection writes the table of a mapping, then those of the mappings in it.
func (g *grammar) writeSection(t *testing.T, b *strings.Builder, path string, typ reflect.Type) {
	heading := "Keys"
	if path != "" {
		heading = "`" + path + "`"
	}
	fmt.Fprintf(b, "\n## %s\n\n| key | value | default | reload | meaning |\n|---|---|---|---|---|\n", heading)
	for f := range typ.Fields() {
		reload := "yes"
		switch {
		case f.Tag.Get("reload") == "no":
			reload = "restart"
		case f.Type.Kind() == reflect.Struct:
			reload = "" // its own table says it
		}
		meaning := strings.NewReplacer("|", `\|`, `"*"`, "`*`").Replace(g.meaning(t, typ, f))
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s%s |\n", f.Tag.Get("yaml"), valueOf(f), defaultOf(typ, f), reload, meaning, g.choices(f.Type))
	}
	for f := range typ.Fields() {
		if below, suffix := elem(f.Type); below != nil {
			g.writeSection(t, b, strings.TrimPrefix(path+"."+f.Tag.Get("yaml"), ".")+suffix, below)
		}
	}
}

// choices lists the values that a key may have.
func (g *grammar) choices(typ reflect.Type) string {
	var list []string
	for _, c := range g.values[typ.Name()] {
		list = append(list, fmt.Sprintf("`%s`: %s", c.value, strings.TrimSuffix(c.meaning, ".")))
	}
	if len(list) == 0 {
		return ""
	}
	return " " + strings.Join(list, "; ") + "."
}

func defaultOf(owner reflect.Type, f reflect.StructField) string {
	if required[owner.Name()+"."+f.Name] {
		return "required"
	}
	if keys := either[owner.Name()]; slices.Contains(keys, f.Tag.Get("yaml")) {
		return "one of `" + strings.Join(keys, "`, `") + "`"
	}
	if text := f.Tag.Get("default"); text != "" {
		return "`" + text + "`"
	}
	return ""
}

// valueOf names what is written after a key.
func valueOf(f reflect.StructField) string {
	if least := f.Tag.Get("min"); least != "" {
		return "number, at least " + least
	}
	return wordFor(f.Type)
}

func wordFor(typ reflect.Type) string {
	switch {
	case typ == durationType:
		return "duration"
	case typ == secretType:
		return "secret text"
	case typ == jsonType:
		return "any value"
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return wordFor(typ.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Struct:
		return "mapping"
	case reflect.Slice:
		return "list of " + cmp.Or(map[reflect.Kind]string{reflect.Struct: "mappings"}[typ.Elem().Kind()], wordFor(typ.Elem()))
	case reflect.Map:
		return "names, each with " + cmp.Or(map[reflect.Kind]string{reflect.Struct: "a mapping"}[typ.Elem().Kind()], wordFor(typ.Elem()))
	}
	return "text"
}
