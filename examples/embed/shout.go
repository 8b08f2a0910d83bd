package main

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// shout is a driver whose model says what the user said, louder and word by word. If
// it has a function, it calls that with the user's words first, and says what came of
// it.
type shout struct {
	pause time.Duration // between two words
}

var _ upstream.Driver = shout{}

// Open refuses what the model cannot do, before anything is sent.
func (s shout) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	var said string
	called := false
	for _, item := range t.Request.Input.Items {
		switch it := item.(type) {
		case *responses.Message:
			if it.Role == responses.RoleUser {
				said, called = it.Content.Text(), false
			}
		case *responses.FunctionCallOutput:
			said, called = it.Output.Text(), true
		}
	}
	events := func(yield func(responses.Event, error) bool) {
		s.say(ctx, strings.Fields(strings.ToUpper(said)), yield)
	}
	for i, entry := range t.Request.Tools {
		f, ok := entry.(*responses.FunctionTool)
		if !ok {
			return nil, responses.Unsupported(fmt.Sprintf("tools[%d]", i), "This model only shouts, and calls functions.")
		}
		if !called {
			events = func(yield func(responses.Event, error) bool) { call(f.Name, said, yield) }
		}
	}
	return &upstream.Stream{Events: events, Close: func() error { return nil }}, nil
}

// call yields a call of a function of teams.
func call(name, team string, yield func(responses.Event, error) bool) {
	c := responses.NewComposer(0, time.Now)
	arguments, _ := json.Marshal(map[string]string{"team": team}) // text can be encoded
	c.FunctionCall("", name).Arguments(string(arguments))
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	for _, ev := range c.Take() {
		if !yield(ev, nil) {
			return
		}
	}
}

// say yields the words as they come. The composer makes legal events of them.
func (s shout) say(ctx context.Context, words []string, yield func(responses.Event, error) bool) {
	c := responses.NewComposer(0, time.Now)
	send := func() bool {
		for _, ev := range c.Take() {
			if !yield(ev, nil) {
				return false
			}
		}
		return true
	}
	for i, word := range words {
		if i > 0 {
			word = " " + word
		}
		c.Text(word, nil)
		if !send() {
			return
		}
		select {
		case <-time.After(s.pause):
		case <-ctx.Done(): // the client is gone, or the gateway stops
			yield(responses.Event{}, context.Cause(ctx))
			return
		}
	}
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	send()
}

// Close has nothing to release.
func (shout) Close() error { return nil }
