package native

import (
	"encoding/json/jsontext"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// End returns the failure of a turn whose events ended with err, nil for a clean
// end, before the upstream said that it was done (R15).
func (d *decoder) End(err error) error {
	switch {
	case d.failed != nil:
		return d.failed
	case err != nil:
		return err
	}
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer ended without saying that it was done.")
}

// failure returns the error of response.failed, or that of the error event
// before it if it says nothing, with what the turn cost.
func (d *decoder) failure(response []byte) error {
	err := d.failed
	if e := failure(response); e != nil {
		err = e
	}
	if err == nil {
		err = upstream.WireError(0, "", "", "")
	}
	if resp, decodeErr := decodeResponse(response); decodeErr == nil && resp.Usage != nil {
		return &upstream.Costly{Err: err, Usage: resp.Usage}
	}
	return err
}

// Whole takes an answer that came in one piece although a stream was asked for
// (R7).
func (d *decoder) Whole(body []byte) error {
	resp, err := decodeResponse(body)
	switch {
	case err != nil:
		return upstream.Malformed(body, err)
	case resp.Status == responses.StatusCompleted || resp.Status == "" && resp.Object == "response":
		return d.finish(responses.StatusCompleted, resp)
	case resp.Status == responses.StatusIncomplete:
		return d.finish(responses.StatusIncomplete, resp)
	}
	if e := failure(body); e != nil {
		return e
	}
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer has the status %q.", resp.Status)
}

// terminal takes the event that ends a response well. Its response object may be
// missing: what was streamed is the answer then.
func (d *decoder) terminal(typ responses.EventType, response jsontext.Value, frame []byte) error {
	if d.failed != nil {
		return d.failed
	}
	var resp *responses.Response
	status := responses.StatusCompleted
	if typ == responses.EventIncomplete {
		status = responses.StatusIncomplete
	}
	if response.Kind() == '{' {
		var err error
		if resp, err = decodeResponse(response); err != nil {
			return d.malformed(frame, err)
		}
		switch resp.Status {
		case responses.StatusFailed, responses.StatusCancelled:
			return d.failure(response)
		case responses.StatusIncomplete:
			status = responses.StatusIncomplete
		}
	}
	return d.finish(status, resp)
}

// finish ends the turn with the upstream's response object, which may be nil.
func (d *decoder) finish(status responses.Status, resp *responses.Response) error {
	end := &responses.TurnEnd{Status: status, Upstream: resp}
	var output []responses.Item
	if resp != nil {
		end.Usage = wholeUsage(resp.Usage)
		output, resp.Output = resp.Output, nil // the items are in the events
	}
	if err := d.settle(output, status == responses.StatusIncomplete); err != nil {
		return err
	}
	if d.flush(true) {
		end.Status = responses.StatusIncomplete
	}
	if end.Status == responses.StatusIncomplete {
		end.Reason = responses.ReasonMaxOutputTokens
		if resp != nil && resp.IncompleteDetails != nil && resp.IncompleteDetails.Reason != "" {
			end.Reason = resp.IncompleteDetails.Reason
		}
	}
	d.emit(responses.Event{Type: responses.EventTurnEnd, End: end})
	d.ended = true
	return nil
}

// settle brings the items to what the upstream's final output says: those that
// are still open are closed, those that were never streamed are made.
func (d *decoder) settle(output []responses.Item, incomplete bool) error {
	for i, it := range d.match(output) {
		var err error
		switch {
		case it == nil:
			err = d.whole(output[i])
		case it.done:
		case it.hidden:
			if err = d.reveal(it, output[i]); err == nil {
				err = d.close(it, output[i], nil)
			}
		default:
			err = d.close(it, output[i], nil)
		}
		if err != nil {
			return err
		}
	}
	for len(d.open) > 0 {
		it := d.open[0]
		if it.hidden {
			return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream streamed a call without saying of what.")
		}
		status := responses.StatusCompleted
		if incomplete && it.index == d.shown-1 {
			status = responses.StatusIncomplete
		}
		if err := d.close(it, withStatus(it.asAdded, status), nil); err != nil {
			return err
		}
	}
	return nil
}

// match finds the item that was streamed for each item of the final output: the
// one with its id, or else, because ids may rotate, the next of its type.
func (d *decoder) match(output []responses.Item) []*item {
	found := make([]*item, len(output))
	taken := map[*item]bool{}
	for i, o := range output {
		if it := d.byID[o.ItemID()]; it != nil && it.typ == o.Type() && !taken[it] {
			found[i], taken[it] = it, true
		}
	}
	next := map[string]int{} // type → where to search on
	for i, o := range output {
		if found[i] != nil {
			continue
		}
		at := next[o.Type()]
		for at < len(d.items) && (d.items[at].typ != o.Type() || taken[d.items[at]]) {
			at++
		}
		if next[o.Type()] = at + 1; at < len(d.items) {
			found[i], taken[d.items[at]] = d.items[at], true
		}
	}
	return found
}

// flush emits the done events that were held back. Only the last item of a turn
// may be incomplete: if it is not the last, it is complete as far as it goes. It
// reports whether an incomplete item was emitted.
func (d *decoder) flush(atEnd bool) (incomplete bool) {
	for _, ev := range d.held {
		if atEnd && ev.OutputIndex == d.shown-1 {
			incomplete = true
		} else {
			ev.Item = withStatus(ev.Item, responses.StatusCompleted)
		}
		d.emit(ev)
	}
	d.held = nil
	return incomplete
}

// wholeUsage returns u with its sum, which some servers leave out (R16).
func wholeUsage(u *responses.Usage) *responses.Usage {
	if u == nil || u.TotalTokens != 0 {
		return u
	}
	c := *u
	c.TotalTokens = u.InputTokens + u.OutputTokens
	return &c
}
