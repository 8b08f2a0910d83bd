package server

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
)

// TestKeptIDsAreBounded: the index forgets what was not used for the longest time,
// says so, and never grows beyond its bound.
func TestKeptIDsAreBounded(t *testing.T) {
	t.Parallel()
	const most, total = 1000, 20_000
	evicted := 0
	k := newKeptIDs(most, func(n int) { evicted += n })
	at := &keptAt{Place: route.Place{Upstream: "u"}}
	k.add("o", at, []string{"used"})
	for i := range total {
		k.add("o", at, []string{fmt.Sprint("id", i)})
		if i%100 == 0 && k.find("o", "used") == nil {
			t.Fatalf("what is used was forgotten after %d others", i)
		}
		if n := k.len(); n > most {
			t.Fatalf("there are %d", n)
		}
	}
	if k.find("o", "id0") != nil || k.find("o", fmt.Sprint("id", total-1)) == nil || k.find("o", fmt.Sprint("id", total-most/2)) == nil {
		t.Error("the wrong ones were forgotten")
	}
	if got := evicted + k.len(); got != total+1 {
		t.Errorf("%d were forgotten and %d are left of %d", evicted, k.len(), total+1)
	}
	if k.find("p", "used") != nil {
		t.Error("somebody else's id was found")
	}
	k.forget("p", "used")
	k.forget("o", "used")
	if k.find("o", "used") != nil {
		t.Error("a deleted id was found")
	}
}

// idNotes notes how many ids were forgotten.
type idNotes struct {
	Observer
	n int
}

func (o *idNotes) IDsEvicted(n int) { o.n += n }

// TestForgettingIsObserved: an observer that wants to know is told of every id that
// was forgotten for others.
func TestForgettingIsObserved(t *testing.T) {
	t.Parallel()
	var notes idNotes
	s := New(nil, &Generation{}, &Options{Observer: &notes, KeptIDs: 10})
	for i := range 100 {
		s.kept.add("o", &keptAt{}, []string{fmt.Sprint("id", i)})
	}
	if left := s.kept.len(); notes.n == 0 || notes.n+left != 100 {
		t.Errorf("told of %d, and %d are left", notes.n, left)
	}
}

// TestIDsIn: ids are taken from where answers have those that the upstream has made, and
// nothing that could be more than a part of a path.
func TestIDsIn(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{"id":"resp_1","output":[{"id":"msg_1"},{"id":"fc_1"},{}]}`:                                {"resp_1", "msg_1", "fc_1"},
		`{"type":"response.created","response":{"id":"resp_1","output":[]}}`:                        {"resp_1"},
		`{"type":"response.completed","response":{"id":"resp_1","output":[{"id":"rs_1"}]}}`:         {"resp_1", "rs_1"},
		`{"type":"response.output_item.added","item":{"id":"msg_1","content":[{"id":"x"}]}}`:        {"msg_1"},
		`{"object":"list","data":[{"id":"msg_1"},{"id":"msg_2"}],"first_id":"msg_1"}`:               nil,
		`{"id":"../secrets","output":[{"id":"a/b"},{"id":"a?b"},{"id":"é"},{"id":""},{"id":".."}]}`: nil,
		`{"id":7}`:    nil,
		`["resp_1"]`:  nil,
		`no JSON`:     nil,
		`{"id":"r_1"`: nil,
	} {
		if diff := cmp.Diff(want, idsIn([]byte(body))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

// TestLearningIsBounded: one answer cannot push out the ids of all others.
func TestLearningIsBounded(t *testing.T) {
	t.Parallel()
	x := &exchange{s: &Server{kept: newKeptIDs(10*maxLearned, nil)}}
	learn := x.learn(&keptAt{})
	for i := range 2 * maxLearned {
		learn(responses.EventItemAdded, fmt.Appendf(nil, `{"item":{"id":"msg_%d"}}`, i))
	}
	if n := x.s.kept.len(); n != maxLearned {
		t.Errorf("%d ids were learned", n)
	}
}
