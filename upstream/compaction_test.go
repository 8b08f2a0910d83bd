package upstream_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/seal"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// scribe is a driver that notes the turn and says what it was told to.
type scribe struct {
	turn *upstream.Turn
	says string
	err  error
}

func (s *scribe) Open(_ context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	s.turn = t
	c := responses.NewComposer(0, time.Now)
	c.Reasoning("thinking about it")
	c.Text(s.says, nil)
	if s.err == nil {
		c.End(&responses.TurnEnd{Status: responses.StatusCompleted, Usage: &responses.Usage{TotalTokens: 7}})
	}
	events := c.Take()
	return &upstream.Stream{Events: func(yield func(responses.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if s.err != nil {
			yield(responses.Event{}, s.err)
		}
	}, Close: func() error { return nil }}, nil
}

func (s *scribe) Close() error { return nil }

func newSealer(t *testing.T) *seal.Sealer {
	t.Helper()
	s, err := seal.New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustRequest(t *testing.T, body string) *responses.Request {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// collect reads a turn, which must obey the grammar.
func collect(t *testing.T, events iter.Seq2[responses.Event, error]) ([]responses.Item, *responses.TurnEnd, error) {
	t.Helper()
	grammar := responses.NewTurnGrammar()
	var fold responses.Fold
	var end *responses.TurnEnd
	for ev, err := range events {
		if err != nil {
			return fold.Output(), nil, err
		}
		if err := grammar.Check(&ev); err != nil {
			t.Fatalf("%s: %v", ev.Type, err)
		}
		fold.Add(&ev)
		end = ev.End
	}
	return fold.Output(), end, nil
}

const longTalk = `{"model":"m","input":[
	{"type":"additional_tools","tools":[{"type":"function","name":"g"}]},
	{"role":"user","content":"Fix the bug."},{"role":"assistant","content":"Done."},{"type":"compaction_trigger"}],
	"tools":[{"type":"function","name":"f"}],"tool_choice":"required","text":{"format":{"type":"json_object"}}}`

// TestCompaction: a trigger gives exactly one compaction item, which is context
// again when it comes back, for its owner only.
func TestCompaction(t *testing.T) {
	t.Parallel()
	inner := &scribe{says: " The bug is fixed.\n"}
	d := upstream.Compacting(inner, newSealer(t))
	s, err := d.Open(t.Context(), &upstream.Turn{Request: mustRequest(t, longTalk), Owner: "team"})
	if err != nil {
		t.Fatal(err)
	}
	out, end, err := collect(t, s.Events)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 1 || out[0].Type() != responses.TypeCompaction || end.Usage.TotalTokens != 7 {
		t.Fatalf("got %+v with %+v", out, end)
	}
	asked := inner.turn.Request
	if asked.Tools != nil || asked.ToolChoice != nil || asked.Text != nil || len(asked.Input.Items) != 3 {
		t.Errorf("the model was asked with %+v", asked)
	}

	compacted := out[0].(*responses.Compaction)
	if strings.Contains(compacted.EncryptedContent, "bug") {
		t.Error("the summary is not sealed")
	}
	next := &responses.Request{Model: "m", Input: responses.Input{Items: []responses.Item{compacted, responses.UserMessage("And now?")}}}
	for owner, want := range map[string]string{"team": "The bug is fixed.", "rival": ""} {
		s, err := d.Open(t.Context(), &upstream.Turn{Request: next, Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		first := inner.turn.Request.Input.Items[0].(*responses.Message)
		if text := first.Content.Text(); want != "" && !strings.HasSuffix(text, want) {
			t.Errorf("%s: the summary came back as %q", owner, text)
		}
		if lost := len(s.Losses) > 0; lost != (want == "") {
			t.Errorf("%s: losses are %v", owner, s.Losses)
		}
		if items := len(inner.turn.Request.Input.Items); want == "" && items != 1 {
			t.Errorf("%s: the model saw %d items", owner, items)
		}
	}
}

func TestCompactionFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		inner *scribe
		want  func(error) bool
	}{
		"without a summary": {&scribe{says: " \n"}, func(err error) bool { return responses.AsError(err).Code == responses.CodeUpstream }},
		"with the upstream": {&scribe{says: "half", err: broken}, func(err error) bool { return errors.Is(err, broken) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := upstream.Compacting(test.inner, newSealer(t)).Open(t.Context(), &upstream.Turn{Request: mustRequest(t, longTalk)})
			if err != nil {
				t.Fatal(err)
			}
			if out, _, err := collect(t, s.Events); err == nil || !test.want(err) || len(out) > 0 {
				t.Errorf("got %v and %v", out, err)
			}
		})
	}
}

func TestCompactionTriggerMustBeLast(t *testing.T) {
	t.Parallel()
	d := upstream.Compacting(&scribe{}, newSealer(t))
	_, err := d.Open(t.Context(), &upstream.Turn{Request: mustRequest(t, `{"input":[{"type":"compaction_trigger"},{"role":"user","content":"x"}]}`)})
	if e := responses.AsError(err); e == nil || e.Param != "input[0]" {
		t.Errorf("got %v", err)
	}
}

func TestOtherTurnsPassUntouched(t *testing.T) {
	t.Parallel()
	inner := &scribe{says: "hi"}
	turn := &upstream.Turn{Request: mustRequest(t, `{"model":"m","input":"x"}`)}
	if _, err := upstream.Compacting(inner, newSealer(t)).Open(t.Context(), turn); err != nil || inner.turn != turn {
		t.Errorf("got %v; the turn was copied: %v", err, inner.turn != turn)
	}
}
