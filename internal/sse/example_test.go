package sse_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/antiphon-dev/antiphon/internal/sse"
)

// A handler answers with a stream of events, and a client reads it.
func Example() {
	handler := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		w := sse.NewWriter(rw, http.NewResponseController(rw).Flush)
		w.Comment("the model is thinking")
		w.Add("greeting", []byte("hello")) // Ready at once:
		w.Add("greeting", []byte("world")) // both and the end
		w.Done()                           // are one write.
	}
	srv := httptest.NewServer(http.HandlerFunc(handler))
	defer srv.Close()

	res, err := http.Get(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	for event, err := range sse.Read(res.Body, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q %s\n", event.Type, event.Data)
	}
	// Output:
	// "greeting" hello
	// "greeting" world
	// "" [DONE]
}
