package standard

import (
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
)

// TestWindowsKeepTheRelay: a driver of a local engine can do what the one in it can.
func TestWindowsKeepTheRelay(t *testing.T) {
	t.Parallel()
	d := withWindows(chat.New(upstream.Endpoint{}, nil), nil)
	r, ok := d.(upstream.Relayer)
	if !ok || !r.Relays(upstream.PathChatCompletions) || r.Relays(upstream.PathResponses) {
		t.Error("Chat Completions no longer pass to it")
	}
}
