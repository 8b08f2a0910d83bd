package native_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDriver(e upstream.Endpoint) upstream.Driver { return native.New(e, nil) }

func TestGoldens(t *testing.T) { upstreamtest.Goldens(t, "testdata", newDriver) }

func TestConformance(t *testing.T) {
	const begin = `data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","content":[]}}

data: {"type":"response.content_part.added","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}

`
	delta := func(text string) string {
		return fmt.Sprintf("data: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":%q}\n\n", text)
	}
	upstreamtest.Run(t, upstreamtest.Harness{
		New: newDriver,
		Stream: begin + delta("Hel") + delta("lo") + `data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}

data: [DONE]

`,
		Text: "Hello",
		Endless: func(n int) string {
			if n == 0 {
				return begin
			}
			return delta(fmt.Sprint(n, " "))
		},
	})
}
