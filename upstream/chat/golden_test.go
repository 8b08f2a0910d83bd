package chat_test

import (
	"fmt"
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

func newDriver(e upstream.Endpoint) upstream.Driver { return chat.New(e, nil) }

func TestGoldens(t *testing.T) {
	t.Parallel()
	upstreamtest.Goldens(t, "testdata", newDriver)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	piece := func(text string) string {
		return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
	}
	upstreamtest.Run(t, upstreamtest.Harness{
		New: newDriver,
		Stream: piece("Hel") + piece("lo") +
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		Text:    "Hello",
		Endless: func(n int) string { return piece(fmt.Sprintf("%d ", n)) },
	})
}
