package main

import (
	"context"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// shout is a driver whose model says what the user said, louder and word by word.
type shout struct {
	pause time.Duration // between two words
}

var _ upstream.Driver = shout{}

// Open refuses what the model cannot do, before anything is sent.
func (s shout) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	if len(t.Request.Tools) > 0 {
		return nil, responses.Unsupported("tools", "This model only shouts.")
	}
	var words []string
	for _, item := range t.Request.Input.Items {
		if msg, ok := item.(*responses.Message); ok && msg.Role == responses.RoleUser {
			words = strings.Fields(strings.ToUpper(msg.Content.Text()))
		}
	}
	return &upstream.Stream{
		Events: func(yield func(responses.Event, error) bool) { s.say(ctx, words, yield) },
		Close:  func() error { return nil },
	}, nil
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
