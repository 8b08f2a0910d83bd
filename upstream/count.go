package upstream

import (
	"context"
	"errors"
)

// A TokenCounter is a driver whose upstream can count.
type TokenCounter interface {
	// CountTokens returns how many tokens the input of the turn has, with its
	// instructions and tools. It generates nothing. It fails with ErrCannotCount if
	// the upstream turns out not to have such a call.
	CountTokens(ctx context.Context, t *Turn) (int64, error)
}

// ErrCannotCount: there is nobody who could count the tokens of a turn.
var ErrCannotCount = errors.New("upstream: it cannot count tokens")

// CountTokens asks d to count, which it need not be able to.
func CountTokens(ctx context.Context, d Driver, t *Turn) (int64, error) {
	if c, ok := d.(TokenCounter); ok {
		return c.CountTokens(ctx, t)
	}
	return 0, ErrCannotCount
}

// CountTokens implements [TokenCounter] as far as the guarded driver does, within
// the time for a first event.
func (g *guard) CountTokens(ctx context.Context, t *Turn) (int64, error) {
	if g.limits.FirstEvent > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.limits.FirstEvent, ErrFirstEvent)
		defer cancel()
	}
	n, err := CountTokens(ctx, g.Driver, t)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}
