package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// A Change is a difference between two configurations.
type Change struct {
	// Path is what differs, such as upstreams.local.url or auth.keys.
	Path string
	// Restart is true if only a restart makes it take effect.
	Restart bool
	// From and To are the two values, as far as they are short and no secrets.
	From, To string
}

// Changes returns what differs between two configurations, in the order of the
// documentation. Lists differ as a whole.
func Changes(old, next *Config) []Change {
	var list []Change
	changes(&list, Change{}, reflect.ValueOf(old.effective()), reflect.ValueOf(next.effective()))
	return list
}

// changes adds what differs between two values; at says where they are.
func changes(list *[]Change, at Change, old, next reflect.Value) {
	switch {
	case reflect.DeepEqual(old.Interface(), next.Interface()):
	case old.Kind() == reflect.Struct:
		for f, field := range old.Fields() {
			below := at
			below.Path = join(at.Path, f.Tag.Get("yaml"))
			below.Restart = at.Restart || f.Tag.Get("reload") == "no"
			changes(list, below, field, next.FieldByIndex(f.Index))
		}
	case old.Kind() == reflect.Map && isWord(at.Path): // upstreams and models; a map below them is one setting
		names := map[string]bool{}
		for _, m := range []reflect.Value{old, next} {
			for key := range m.Seq() {
				names[key.String()] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			below, key := at, reflect.ValueOf(name)
			below.Path = join(at.Path, name)
			was, is := old.MapIndex(key), next.MapIndex(key)
			if was.IsValid() && is.IsValid() {
				changes(list, below, was, is)
			} else {
				*list = append(*list, below)
			}
		}
	default:
		at.From, at.To = scalar(old), scalar(next)
		*list = append(*list, at)
	}
}

// scalar is a value in a word; empty if it is a secret, or more than a word.
func scalar(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Secret:
		return ""
	case time.Duration:
		return shortDuration(value)
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return fmt.Sprint(v.Interface())
	}
	return ""
}

// NeedsRestart returns an [*Error] that names what differs and cannot change while
// the gateway runs, or nil.
func NeedsRestart(name string, changes []Change) error {
	var p problems
	for _, c := range changes {
		if !c.Restart {
			continue
		}
		values := ""
		if c.From != "" || c.To != "" {
			values = fmt.Sprintf(" from %s to %s", cmp.Or(c.From, "nothing"), cmp.Or(c.To, "nothing"))
		}
		p.addf(c.Path, "cannot change%s while the gateway runs; restart it, or take the change back", values)
	}
	return p.err(name)
}
