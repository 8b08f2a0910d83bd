package upstreamtest_test

import (
	"context"
	"encoding/json/v2"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// smallDriver speaks the smallest protocol that the suite can be run on: it
// posts {"say": text} and reads frames {"text": …} until one is {"done": true}.
// Its fault, if any, is a breach of the contract that the suite must notice.
type smallDriver struct {
	endpoint upstream.Endpoint
	fault    fault
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

type fault string

// The breaches. Each is something that a driver has done somewhere.
const (
	sound           fault = ""
	endsOnEOF       fault = "takes the end of the body for the end of the turn"
	twoErrors       fault = "yields two errors"
	stopsSilently   fault = "stops without an end or an error"
	ignoresBadFrame fault = "skips frames that are not JSON"
	sendsTwice      fault = "sends the request twice"
	keepsBody       fault = "does not close the body"
	hidesCause      fault = "hides the cause of a cancel"
	outlivesClose   fault = "does not end its streams when it is closed"
	wrapsStatus     fault = "hides what an HTTP error said"
	illegal         fault = "yields a delta for an item that is not open"
	refusesLate     fault = "refuses a request after it was sent"
	losesLoss       fault = "does not report what it leaves out"
	leaks           fault = "leaves a goroutine behind"
	lacksNothing    fault = "declares that it lacks a check that there is not"
)

var errDriverClosed = errors.New("the driver is closed")

func newSmall(e upstream.Endpoint, f fault) *smallDriver {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &smallDriver{e, f, ctx, cancel}
}

func (d *smallDriver) Close() error {
	if d.fault != outlivesClose {
		d.cancel(errDriverClosed)
	}
	return nil
}

func (d *smallDriver) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	if d.fault != refusesLate && len(t.Request.Tools) > 0 {
		return nil, responses.Unsupported("tools", "This upstream has no tools.")
	}
	var losses []responses.Loss
	if t.Request.Temperature != nil && d.fault != losesLoss {
		losses = append(losses, responses.Loss{Param: "temperature", Reason: "not supported"})
	}
	text := t.Request.Input.Items[0].(*responses.Message).Content.Text()
	body, err := json.Marshal(map[string]string{"say": text})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(d.ctx, func() { cancel(errDriverClosed) })
	resp, err := d.endpoint.Post(ctx, "say", body, t.Header)
	if err == nil && d.fault == sendsTwice {
		resp.Body.Close()
		resp, err = d.endpoint.Post(ctx, "say", body, t.Header)
	}
	if err == nil && !upstream.Streams(resp) {
		resp.Body.Close()
		err = responses.UpstreamErrorf(responses.CodeUpstream, "The upstream does not stream.")
	}
	if err == nil && len(t.Request.Tools) > 0 {
		resp.Body.Close()
		err = responses.Unsupported("tools", "This upstream has no tools.")
	}
	if err != nil {
		stop()
		cancel(nil)
		if d.fault == wrapsStatus {
			return nil, errors.New("the upstream failed")
		}
		return nil, err
	}
	if d.fault == leaks {
		go func() { <-time.After(1000 * time.Hour) }()
	}
	return &upstream.Stream{
		Losses: losses,
		Header: resp.Header,
		Events: d.events(ctx, resp.Body),
		Close: sync.OnceValue(func() error {
			stop()
			cancel(nil)
			if d.fault == keepsBody {
				return nil
			}
			return resp.Body.Close()
		}),
	}, nil
}

func (d *smallDriver) events(ctx context.Context, body io.Reader) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		c := responses.NewComposer(0, time.Now)
		err := d.read(ctx, c, body, yield)
		switch {
		case err == nil || d.fault == stopsSilently:
		case d.fault == hidesCause:
			yield(responses.Event{}, responses.UpstreamErrorf(responses.CodeUpstream, "It failed."))
		case yield(responses.Event{}, err) && d.fault == twoErrors:
			yield(responses.Event{}, err)
		}
	}
}

// read yields the events of body; nil once the turn has ended or the reader
// wants no more.
func (d *smallDriver) read(ctx context.Context, c *responses.Composer, body io.Reader, yield func(responses.Event, error) bool) error {
	for frame, err := range sse.Read(body, nil) {
		if err != nil {
			return upstream.ReadFailure(ctx, err)
		}
		var said struct {
			Text string `json:"text"`
			Done bool   `json:"done"`
		}
		if err := json.Unmarshal(frame.Data, &said); err != nil {
			if d.fault == ignoresBadFrame {
				continue
			}
			return upstream.Malformed(frame.Data, err)
		}
		if d.fault == illegal && said.Done {
			yield(responses.Event{Type: responses.EventTextDelta, ItemID: "msg_1", OutputIndex: 9}, nil)
		}
		c.Text(said.Text, nil)
		if said.Done {
			c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
		}
		if !yieldAll(c, yield) || said.Done {
			return nil
		}
	}
	if d.fault == endsOnEOF {
		c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
		yieldAll(c, yield)
		return nil
	}
	return upstream.ReadFailure(ctx, io.ErrUnexpectedEOF)
}

func yieldAll(c *responses.Composer, yield func(responses.Event, error) bool) bool {
	for _, ev := range c.Take() {
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}
