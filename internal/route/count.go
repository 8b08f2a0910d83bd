package route

import (
	"context"
	"errors"

	"github.com/antiphon-dev/antiphon/upstream"
)

// CountTokens asks the targets of a turn's model to count the tokens of its input,
// in the order in which the turn would try them. It fails with
// [upstream.ErrCannotCount] if the one that would get the turn cannot.
func (r *Router) CountTokens(ctx context.Context, t *upstream.Turn) (int64, error) {
	name := t.Request.Model
	p, star, err := r.find(name)
	if err != nil {
		return 0, err
	}
	turn := *t
	if p.shapes() {
		if turn.Request, err = p.shape(t.Request); err != nil {
			return 0, err
		}
	}
	var n int64
	for _, c := range p.order(affinity(t)) {
		req := *turn.Request
		req.Model = c.modelFor(name, star)
		turn.Request = &req
		n, err = upstream.CountTokens(ctx, c.driver, &turn)
		if err == nil || errors.Is(err, upstream.ErrCannotCount) || ctx.Err() != nil {
			break
		}
		if again, _ := c.blame(err); !again {
			break
		}
	}
	return n, err
}
