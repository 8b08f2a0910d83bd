package fakeupstream

import (
	"encoding/json/jsontext"
	"strings"
	"testing"
)

func TestInstance(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		schema string
		which  propertyChoice
		want   string
	}{
		"none":            {``, allProperties, `{}`},
		"null":            {`null`, allProperties, `{}`},
		"no schema":       {`7`, allProperties, `null`},
		"broken":          {`{"required":1}`, allProperties, `null`},
		"string":          {`{"type":"string"}`, allProperties, `"w"`},
		"long string":     {`{"type":"string","minLength":3}`, allProperties, `"wxx"`},
		"anything":        {`{}`, allProperties, `"w"`},
		"number":          {`{"type":"number"}`, allProperties, `1`},
		"least integer":   {`{"type":"integer","minimum":5}`, allProperties, `5`},
		"greatest number": {`{"type":"number","maximum":0.5}`, allProperties, `0.5`},
		"boolean":         {`{"type":"boolean"}`, allProperties, `true`},
		"only null":       {`{"type":"null"}`, allProperties, `null`},
		"nullable":        {`{"type":["null","integer"]}`, allProperties, `1`},
		"const":           {`{"const": {"a": 1}}`, allProperties, `{"a":1}`},
		"enum":            {`{"type":"string","enum":["b","a"]}`, allProperties, `"b"`},
		"array":           {`{"type":"array","items":{"type":"integer"}}`, allProperties, `[1]`},
		"longer array":    {`{"items":{"type":"integer"},"minItems":3}`, allProperties, `[1,1,1]`},
		"untyped array":   {`{"type":"array"}`, allProperties, `["w"]`},
		"all properties":  {`{"type":"object","properties":{"b":{},"a":{"type":"integer"}},"required":["a"]}`, allProperties, `{"b":"w","a":1}`},
		"required only":   {`{"properties":{"b":{},"a":{"type":"integer"}},"required":["a"]}`, requiredProperties, `{"a":1}`},
		"choice":          {`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, allProperties, `1`},
		"other choice":    {`{"oneOf":[{"type":"boolean"}]}`, allProperties, `true`},
		"sum":             {`{"allOf":[{"type":"boolean"}]}`, allProperties, `true`},
		"reference":       {`{"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}}`, allProperties, `1`},
		"lost reference":  {`{"$ref":"#/$defs/b"}`, allProperties, `null`},
		"endless":         {`{"$ref":"#"}`, allProperties, `null`},
		"list that ends": {
			`{"type":"object","properties":{"next":{"$ref":"#"}}}`, allProperties,
			strings.Repeat(`{"next":`, 5) + `{}` + strings.Repeat(`}`, 5),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := instance(jsontext.Value(tt.schema), "w", tt.which); string(got) != tt.want {
				t.Errorf("instance(%s) = %s, want %s", tt.schema, got, tt.want)
			}
		})
	}
}

// Sixteen references to a schema with sixteen references, and so on, must not
// fill the memory.
func TestInstanceOfAnExplodingSchemaIsBounded(t *testing.T) {
	t.Parallel()
	schema := `{"type":"array","minItems":16,"items":{"$ref":"#"}}`
	got := jsontext.Value(instance(jsontext.Value(schema), "x", allProperties))
	if len(got) > 2*maxInstanceBytes || !got.IsValid() {
		t.Errorf("%d bytes, valid %v", len(got), got.IsValid())
	}
}
