package responses_test

import (
	"encoding/json/jsontext"
	"errors"
	"reflect"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

func TestSetMembers(t *testing.T) {
	t.Parallel()
	val := func(name, value string) responses.Member {
		return responses.Member{Name: name, Value: jsontext.Value(value)}
	}
	optional := func(name, value string) responses.Member {
		return responses.Member{Name: name, Value: jsontext.Value(value), Optional: true}
	}
	tests := []struct {
		name, obj string
		set       []responses.Member
		want      string
	}{
		{"nothing", `{"a":1}`, nil, `{"a":1}`},
		{"add to nothing", `{}`, []responses.Member{val("a", `1`)}, `{"a":1}`},
		{"add at the end", `{"a":1}`, []responses.Member{val("b", `2`)}, `{"a":1,"b":2}`},
		{"replace in place", `{"a":1,"b":2,"c":3}`, []responses.Member{val("b", `{"x":[]}`)}, `{"a":1,"b":{"x":[]},"c":3}`},
		{"replace and add in order", `{"a":1}`, []responses.Member{val("b", `2`), val("a", `0`), val("c", `3`)}, `{"a":0,"b":2,"c":3}`},
		{"remove", `{"a":1,"b":2}`, []responses.Member{{Name: "a"}}, `{"b":2}`},
		{"remove the last", `{"a":1}`, []responses.Member{{Name: "a"}}, `{}`},
		{"remove what is not there", `{"a":1}`, []responses.Member{{Name: "b"}}, `{"a":1}`},
		{"optional that is there", `{"a":1}`, []responses.Member{optional("a", `2`)}, `{"a":2}`},
		{"optional that is not", `{"a":1}`, []responses.Member{optional("b", `2`)}, `{"a":1}`},
		{"only the top level", `{"x":{"a":1}}`, []responses.Member{val("a", `2`)}, `{"x":{"a":1},"a":2}`},
		{"numbers keep their digits", `{"a":1.50,"b":1e400,"c":12345678901234567890}`, []responses.Member{val("d", `0`)}, `{"a":1.50,"b":1e400,"c":12345678901234567890,"d":0}`},
		{"escaped name", `{"\u0061":1}`, []responses.Member{val("a", `2`)}, `{"a":2}`},
		{"null is a value", `{"a":1}`, []responses.Member{val("a", `null`)}, `{"a":null}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			obj := []byte(tt.obj)
			got, err := responses.SetMembers(obj, tt.set...)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if string(obj) != tt.obj {
				t.Errorf("the argument was changed to %s", obj)
			}
		})
	}
}

func TestSetMembersRefuses(t *testing.T) {
	t.Parallel()
	for _, obj := range []string{``, `[]`, `1`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}"} {
		if got, err := responses.SetMembers([]byte(obj), responses.Member{Name: "b", Value: jsontext.Value(`1`)}); err == nil {
			t.Errorf("SetMembers(%q) = %s, want an error", obj, got)
		}
	}
	_, err := responses.SetMembers([]byte(`[]`))
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Code != responses.CodeInvalidType {
		t.Errorf("SetMembers of an array: got %v, want %s", err, responses.CodeInvalidType)
	}
}

// TestWithItemID: every kind of item can be given another id, and the original
// stays as it is, because events share their payloads.
func TestWithItemID(t *testing.T) {
	t.Parallel()
	for _, v := range implementations {
		it, ok := reflect.New(reflect.TypeOf(v)).Interface().(responses.Item)
		if !ok {
			continue
		}
		if u, ok := it.(*responses.UnknownItem); ok {
			*u = responses.UnknownItem{Name: "acme:x", ID: "x_1", Raw: []byte(`{"type":"acme:x","id":"x_1","n":1}`)}
		}
		before := it.ItemID()
		renamed := responses.WithItemID(it, "new_1")
		if renamed.ItemID() != "new_1" || renamed.Type() != it.Type() {
			t.Errorf("%T: got id %q and type %q", it, renamed.ItemID(), renamed.Type())
		}
		if it.ItemID() != before {
			t.Errorf("%T: the original now has the id %q", it, it.ItemID())
		}
		if got := jsonValue(t, encode(t, renamed)).(map[string]any)["id"]; got != "new_1" {
			t.Errorf("%T: the wire has the id %v", it, got)
		}
	}
}
