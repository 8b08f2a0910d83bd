package chat_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"net/url"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
)

// A driver runs one model call and yields its events.
func Example() {
	server := httptest.NewServer(fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.SSE(answer + answerEnd)
	}))
	defer server.Close()
	base, err := url.Parse(server.URL + "/v1")
	if err != nil {
		log.Fatal(err)
	}
	client := upstream.NewClient()
	defer client.CloseIdleConnections()
	driver := chat.New(upstream.Endpoint{Base: base, Client: client, Auth: upstream.BearerAuth("sk-1")}, nil)
	defer driver.Close()

	request := &responses.Request{
		Model: "m",
		Input: responses.Input{Items: []responses.Item{responses.UserMessage("Say hello.")}},
	}
	stream, err := driver.Open(context.Background(), &upstream.Turn{Request: request})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for event, err := range stream.Events {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Type {
		case responses.EventTextDelta:
			fmt.Println(event.Text)
		case responses.EventTurnEnd:
			fmt.Println(event.End.Status)
		}
	}
	// Output:
	// Hello
	// completed
}
