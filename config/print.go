package config

import (
	"bytes"
	"encoding/json/jsontext"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// YAML returns the configuration as a file would say it, with the defaults that
// apply written out and a placeholder for each secret. Without secrets, parsing it
// gives c again.
func (c *Config) YAML() ([]byte, error) {
	return yaml.MarshalWithOptions(printed(reflect.ValueOf(c.effective())), yaml.IndentSequence(true))
}

// effective returns a copy of c that says everything, once.
func (c *Config) effective() Config {
	e := *c
	fillDefaults(reflect.ValueOf(&e).Elem())
	e.Auth.Keys = slices.Clone(c.Auth.Keys)
	for i := range e.Auth.Keys {
		e.Auth.Keys[i].fillIn()
	}
	e.Upstreams, e.Models = map[string]Upstream{}, map[string]Model{}
	for name, u := range c.Upstreams {
		fillDefaults(reflect.ValueOf(&u).Elem())
		switch {
		case u.Auth != "" || u.Protocol == ProtocolCodex:
		case len(u.Keys()) > 0:
			u.Auth = AuthBearer
		default:
			u.Auth = AuthNone
		}
		e.Upstreams[name] = u
	}
	for name, m := range c.Models {
		m.Targets = m.Pool()
		m.Upstream, m.Model = "", "" // said by the targets
		e.Models[name] = m
	}
	return e
}

// printed returns v in types that the YAML library writes: mappings in the order
// of the fields, or sorted by key if the keys are the user's. What is empty is
// nil.
func printed(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case Secret:
		return orNil(value.String())
	case StoreURL:
		return orNil(escapeReferences(value.String()))
	case time.Duration:
		return shortDuration(value)
	case jsontext.Value:
		return flowJSON(value)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return printed(v.Elem())
	case reflect.String:
		return orNil(escapeReferences(v.String()))
	case reflect.Slice:
		var list []any
		for _, elem := range v.Seq2() {
			list = append(list, printed(elem))
		}
		return orNil(list)
	case reflect.Map:
		return printedMap(v)
	case reflect.Struct:
		return printedStruct(v)
	}
	return v.Interface()
}

func printedMap(v reflect.Value) any {
	values := map[string]any{}
	for key, elem := range v.Seq2() {
		values[key.String()] = printed(elem)
	}
	var m yaml.MapSlice
	for _, key := range slices.Sorted(maps.Keys(values)) {
		m = append(m, yaml.MapItem{Key: key, Value: values[key]})
	}
	return orNil(m)
}

// printedStruct leaves out what is zero, unless there is a default that it is
// not.
func printedStruct(v reflect.Value) any {
	var m yaml.MapSlice
	for f, field := range v.Fields() {
		if _, ok := f.Tag.Lookup("default"); !ok && field.IsZero() {
			continue
		}
		if value := printed(field); value != nil {
			m = append(m, yaml.MapItem{Key: f.Tag.Get("yaml"), Value: value})
		}
	}
	return orNil(m)
}

// orNil returns nil for what is empty, so that it can be left out.
func orNil[T string | []any | yaml.MapSlice](v T) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

// flowJSON is JSON in a YAML file: as it is, because JSON is YAML.
type flowJSON jsontext.Value

// MarshalYAML is called by the YAML library.
func (j flowJSON) MarshalYAML() ([]byte, error) {
	return bytes.ReplaceAll(j, []byte("${"), []byte("$${")), nil
}

// escapeReferences makes text that is read as it is, and not as a reference.
func escapeReferences(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// shortDuration writes 5m and not 5m0s, and 30d and not 720h0m0s.
func shortDuration(d time.Duration) string {
	if day := 24 * time.Hour; d >= 2*day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
