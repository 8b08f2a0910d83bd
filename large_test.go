package antiphon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// TestLargeRequestsDoNotWait: what a response repeats of its request may be larger
// than the window of its log; nobody waits for anybody then (R5, R7).
func TestLargeRequestsDoNotWait(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	_, base := startModel(t, fakeupstream.Chat)
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			g := startOver(t, base, protocols[0].driver, antiphon.Options{})
			began := time.Now()
			resp, answer := g.send(t, "POST", "/v1/responses", fmt.Sprintf(`{"model":"m","instructions":%q,"input":"hello","stream":%t}`, long, stream))
			if took := time.Since(began); resp.StatusCode != 200 || !strings.Contains(answer, `"completed"`) || took > 5*time.Second {
				t.Errorf("%d after %s: %.200s", resp.StatusCode, took, answer)
			}
		})
	}
}
