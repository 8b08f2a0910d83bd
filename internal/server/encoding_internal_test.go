package server

import (
	"context"
	"errors"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/engine"
)

// TestUnpackWaitsForADecoder: no more bodies are unpacked at once than there are
// decoders, and who waits for one may leave.
func TestUnpackWaitsForADecoder(t *testing.T) {
	t.Parallel()
	free := newUnpackers()
	var taken []*unpacker
	for range maxUnpackers {
		taken = append(taken, <-free)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := free.unpack(gone, codingZstd, nil, 10); !errors.Is(err, engine.ErrClientGone) {
		t.Errorf("without a decoder: %v", err)
	}
	free <- taken[0]
	for range 2 { // the second needs what the first has put back
		if body, err := free.unpack(t.Context(), codingZstd, nil, 10); err != nil || len(body) != 0 {
			t.Errorf("with a decoder: %q, %v", body, err)
		}
	}
}
