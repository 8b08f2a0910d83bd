package config_test

import (
	"cmp"
	"encoding/json/jsontext"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/config"
)

// A grammar is what the code says of the file: the fields of [config.Config] and
// of what is below it, and their comments.
type grammar struct {
	comments map[string]string   // of fields, by "Type.Field"
	values   map[string][]choice // that the constants of a type are, by the type's name
}

// A choice is one of the values that a key may have.
type choice struct{ value, meaning string }

// required are the keys that a file must have.
var required = map[string]bool{
	"Config.Upstreams": true, "Target.Upstream": true, "Key.Name": true,
	"Rule.Match": true, "Rule.Model": true, "Match.LastUser": true,
}

// either are keys of which a mapping must have one.
var either = map[string][]string{"Upstream": {"url", "command"}}

// readGrammar reads the package's source.
func readGrammar(t *testing.T) *grammar {
	t.Helper()
	set := token.NewFileSet()
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, entry := range names {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
	}
	pkg, err := doc.NewFromFiles(set, parsed, "config", doc.PreserveAST)
	if err != nil {
		t.Fatal(err)
	}
	g := &grammar{comments: map[string]string{}, values: map[string][]choice{}}
	for _, typ := range pkg.Types {
		g.readType(typ)
	}
	return g
}

func (g *grammar) readType(typ *doc.Type) {
	for _, spec := range typ.Decl.Specs {
		structure, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range structure.Fields.List {
			for _, name := range f.Names {
				g.comments[typ.Name+"."+name.Name] = f.Doc.Text()
			}
		}
	}
	for _, group := range typ.Consts {
		for _, spec := range group.Decl.Specs {
			constant := spec.(*ast.ValueSpec)
			value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				panic(err)
			}
			meaning := strings.TrimSpace(constant.Comment.Text())
			if meaning == "" {
				meaning = withoutName(group.Doc, constant.Names[0].Name)
			}
			g.values[typ.Name] = append(g.values[typ.Name], choice{value, meaning})
		}
	}
}

// meaning returns a field's comment as whoever writes a file reads it: without the
// name of the field, on one line.
func (g *grammar) meaning(t *testing.T, owner reflect.Type, f reflect.StructField) string {
	t.Helper()
	name := owner.Name() + "." + f.Name
	comment := g.comments[name]
	if !strings.HasPrefix(comment, f.Name+" ") {
		t.Errorf("the comment of %s does not begin with its name: %q", name, comment)
	}
	text := withoutName(comment, f.Name)
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// withoutName cuts "Name is" off a comment and joins its lines.
func withoutName(comment, name string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text = strings.TrimPrefix(text, name+" ")
	text = strings.TrimPrefix(text, "is ")
	return strings.TrimPrefix(text, "are ")
}

// kinds of values.
var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[config.Secret]()
	jsonType     = reflect.TypeFor[jsontext.Value]()
	modelType    = reflect.TypeFor[config.Model]()
	authType     = reflect.TypeFor[config.UpstreamAuth]()
)

// elem returns the struct that a type is, or that its elements are, and what a
// path adds for them; nil if there is none.
func elem(t reflect.Type) (reflect.Type, string) {
	switch {
	case t.Kind() == reflect.Struct:
		return t, ""
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), ".NAME"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), "[]"
	}
	return nil, ""
}

// TestGrammar: each field has what the schema and the documentation are made of.
func TestGrammar(t *testing.T) {
	t.Parallel()
	g := readGrammar(t)
	seen := 0
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for f := range typ.Fields() {
			seen++
			if g.meaning(t, typ, f) == "" || f.Tag.Get("yaml") == "" {
				t.Errorf("%s.%s has no comment or no key", typ.Name(), f.Name)
			}
			if f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Int64 && f.Type != durationType {
				if _, err := strconv.Atoi(cmp.Or(f.Tag.Get("min"), "none")); err != nil {
					t.Errorf("%s.%s is a number without a smallest one", typ.Name(), f.Name)
				}
			}
			if below, _ := elem(f.Type); below != nil {
				walk(below)
			}
		}
	}
	walk(reflect.TypeFor[config.Config]())
	if seen < 40 {
		t.Errorf("saw only %d fields", seen)
	}
	for name, most := range map[string]int{"Protocol": 2, "UpstreamAuth": 4, "OnMalformed": 2, "OutputMode": 2, "Mode": 1} {
		if len(g.values[name]) < most {
			t.Errorf("%s: found the values %v", name, g.values[name])
		}
	}
}
