package responses_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// implementations are the structs behind the three unions.
var implementations = []any{
	responses.Message{}, responses.FunctionCall{}, responses.FunctionCallOutput{},
	responses.CustomToolCall{}, responses.CustomToolCallOutput{}, responses.Reasoning{},
	responses.ItemReference{}, responses.Compaction{}, responses.CompactionTrigger{},
	responses.AdditionalTools{}, responses.ToolSearchCall{}, responses.ToolSearchOutput{}, responses.UnknownItem{},
	responses.MCPListTools{}, responses.MCPCall{}, responses.MCPApprovalRequest{}, responses.MCPApprovalResponse{},

	responses.InputText{}, responses.InputImage{}, responses.InputFile{}, responses.OutputText{},
	responses.Refusal{}, responses.SummaryText{}, responses.ReasoningText{}, responses.UnknownPart{},

	responses.FunctionTool{}, responses.CustomTool{}, responses.NamespaceTool{}, responses.ToolSearch{}, responses.UnknownTool{},
	responses.MCPTool{},
}

// notKept are structs without a place for unknown members, and why.
var notKept = map[string]string{
	"Event":     "keeps the whole event in Raw",
	"TurnEnd":   "never on the wire",
	"Loss":      "ours, and only ever sent",
	"ErrorBody": "an upstream's error is classified and written anew, so that nothing of its account leaks",
	"Content":   "a list or a string: it has no members of its own",
	"Input":     "a list or a string: it has no members of its own",
}

// wireStructs returns every struct of the package that can be reached from a
// request, a response or an event, by name.
func wireStructs() map[string]reflect.Type {
	found := map[string]reflect.Type{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			isOurs := strings.HasSuffix(t.PkgPath(), "/responses")
			if _, seen := found[t.Name()]; seen || !isOurs || strings.HasPrefix(t.Name(), "kind[") {
				return // kind is a word on the wire
			}
			found[t.Name()] = t
			for f := range t.Fields() {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[responses.Request]())
	walk(reflect.TypeFor[responses.Response]())
	walk(reflect.TypeFor[responses.Event]())
	for _, v := range implementations {
		walk(reflect.TypeOf(v))
	}
	return found
}

// TestEveryWireStructKeepsUnknownMembers: only a jsontext.Value tagged ",embed"
// keeps what a struct does not name; without it json/v2 drops data in silence.
func TestEveryWireStructKeepsUnknownMembers(t *testing.T) {
	t.Parallel()
	structs := wireStructs()
	for name, typ := range structs {
		embeds := 0
		for f := range typ.Fields() {
			if _, opts, _ := strings.Cut(f.Tag.Get("json"), ","); opts == "embed" {
				embeds++
				if f.Type != reflect.TypeFor[jsontext.Value]() {
					t.Errorf("%s.%s is embedded as %s, want jsontext.Value", name, f.Name, f.Type)
				}
			}
		}
		reason, excepted := notKept[name]
		switch {
		case excepted && embeds > 0:
			t.Errorf("%s keeps unknown members, so it is no exception (%s)", name, reason)
		case !excepted && embeds != 1:
			t.Errorf("%s has %d fields for unknown members, want 1", name, embeds)
		}
	}
	for name := range notKept {
		if _, ok := structs[name]; !ok {
			t.Errorf("notKept names %s, which is not on the wire any more", name)
		}
	}
}

// TestUnknownMembersSurvive decodes each struct with a member it does not know.
func TestUnknownMembersSurvive(t *testing.T) {
	t.Parallel()
	const doc = `{"type":"acme","acme":{"deep":[1,{"x":null}],"text":"\u00e9"}}`
	for name, typ := range wireStructs() {
		// Unknown kinds are only made by the union, in the test below.
		if _, excepted := notKept[name]; excepted || strings.HasPrefix(name, "Unknown") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := reflect.New(typ).Interface()
			if err := json.Unmarshal([]byte(doc), v); err != nil {
				t.Fatal(err)
			}
			got, _ := jsonValue(t, encode(t, v)).(map[string]any)
			want, _ := jsonValue(t, []byte(doc)).(map[string]any)
			if diff := cmp.Diff(want["acme"], got["acme"]); diff != "" {
				t.Errorf("the unknown member changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownKindsSurvive: an item, part, tool or format that this version does
// not know comes out of a request and of a response as it went in (R6).
func TestUnknownKindsSurvive(t *testing.T) {
	t.Parallel()
	const (
		item = `{"type":"acme:item","id":"x_1","status":"failed","n":1.50}`
		part = `{"type":"acme:part","a":[{}]}`
		tool = `{"type":"acme:tool","b":null}`
		list = `[` + item + `,{"type":"message","role":"user","content":[` + part + `]}]`
	)
	r := decode(t, `{"input":`+list+`,"tools":[`+tool+`]}`)
	sameJSON(t, encode(t, r), []byte(`{"input":`+list+`,"tools":[`+tool+`]}`))
	unknown, ok := r.Input.Items[0].(*responses.UnknownItem)
	if !ok || unknown.Type() != "acme:item" || unknown.ItemID() != "x_1" || responses.ItemStatus(unknown) != responses.StatusFailed {
		t.Errorf("got %#v, want an unknown item with its type, id and status", r.Input.Items[0])
	}

	resp, err := responses.DecodeResponse([]byte(`{"id":"resp_1","output":` + list + `,"tools":[` + tool + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, encode(t, resp.Output), []byte(list))
	sameJSON(t, encode(t, resp.Tools), []byte(`[`+tool+`]`))
}

// TestImplementationsAreComplete compares the list above with the methods named
// Type in the source.
func TestImplementationsAreComplete(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for _, v := range implementations {
		want[reflect.TypeOf(v).Name()] = true
	}
	got := map[string]bool{}
	eachFile(t, ".", func(name string, f *ast.File) {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "Type" || fn.Recv == nil || strings.HasSuffix(name, "_test.go") {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				got[star.X.(*ast.Ident).Name] = true
			}
		}
	})
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("implementations (-test +source):\n%s", diff)
	}
}

// TestNoSilentTagOptions: json/v2 ignores the options "unknown" and "inline",
// which its drafts had, without a word; so a struct that uses them loses data.
func TestNoSilentTagOptions(t *testing.T) {
	t.Parallel()
	tags := 0
	eachFile(t, "..", func(name string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			text, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			_, opts, _ := strings.Cut(reflect.StructTag(text).Get("json"), ",")
			for opt := range strings.SplitSeq(opts, ",") {
				if opt == "unknown" || opt == "inline" {
					t.Errorf("%s: the tag %s has no effect", name, field.Tag.Value)
				}
			}
			tags++
			return true
		})
	})
	if tags < 100 {
		t.Errorf("only %d tags were looked at", tags)
	}
}

// eachFile parses the Go files below dir.
func eachFile(t *testing.T, dir string, visit func(name string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visit(name, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
