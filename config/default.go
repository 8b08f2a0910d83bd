package config

import (
	"reflect"
	"strconv"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// Default returns the configuration of an empty file: everything but upstreams.
func Default() *Config {
	var c Config
	fillDefaults(reflect.ValueOf(&c).Elem())
	return &c
}

// fillDefaults sets the fields of a struct, and of the structs in it, that are
// zero and have a default. A default that cannot be read is a mistake in this
// package and panics.
func fillDefaults(v reflect.Value) {
	for f, field := range v.Fields() {
		text, ok := f.Tag.Lookup("default")
		switch {
		case f.Type.Kind() == reflect.Struct:
			fillDefaults(field)
		case !ok || !field.IsZero():
		case f.Type == durationType:
			t, err := parseDuration(text)
			if err != nil {
				panic(err)
			}
			field.SetInt(int64(t))
		case field.CanInt():
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				panic(err)
			}
			field.SetInt(n)
		default:
			field.SetString(text)
		}
	}
}

// fillIn sets what a file left out and follows from what it says.
func (c *Config) fillIn() {
	for i := range c.Auth.Keys {
		c.Auth.Keys[i].fillIn()
	}
	for name, m := range c.Models {
		m.fillIn()
		c.Models[name] = m
	}
}
