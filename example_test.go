package antiphon_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// parrot is a driver without an upstream: it says what the user said.
type parrot struct{}

func (parrot) Open(_ context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	c := responses.NewComposer(0, time.Now)
	if msg, ok := t.Request.Input.Items[0].(*responses.Message); ok {
		c.Text(msg.Content.Text(), nil)
	}
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	return &upstream.Stream{Events: yieldAll(c.Take()), Close: func() error { return nil }}, nil
}

func (parrot) Close() error { return nil }

func yieldAll(events []responses.Event) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// A gateway with one driver, embedded in a server of one's own.
func ExampleNew() {
	gw, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"parrot": parrot{}},
		Log:     memstore.NewWindow(nil),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close()
	srv := httptest.NewServer(gw.Handler())
	defer srv.Close()

	resp, err := http.Post(srv.URL+"/v1/responses", "application/json", strings.NewReader(`{"model":"polly","input":"hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := responses.DecodeResponse(body)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status, answer.Output[0].(*responses.Message).Content.Text())
	// Output: completed hello
}
