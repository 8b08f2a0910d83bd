package native

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"strconv"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// What an upstream may make us remember of one turn. The text of a turn is
// bounded by [upstream.Guard].
const (
	maxItems = 10_000
	maxOpen  = 256
	maxParts = 1024 // of one item
)

// A decoder turns the events of an upstream into those of a turn. A stream that
// is legal passes as it is, with the ids and numbers of the turn; one that is
// not is repaired where nothing is lost by it, and fails otherwise. What it
// yields is always legal by [responses.Grammar].
//
// It is a state machine without I/O, for one goroutine. Take the events after
// each Push, also after one that failed.
type decoder struct {
	newID func(prefix string) string
	// remember is called with an item whose public id is not the one that the
	// upstream expects back beside the item's encrypted content.
	remember func(publicID, upstreamID, encrypted string)
	// skipMalformed leaves out frames that cannot be understood.
	skipMalformed bool

	out    []responses.Event
	ended  bool
	failed *responses.Error // of an error event: response.failed may say more
	items  []*item
	shown  int             // items that were yielded, the next output_index
	open   []*item         // those that are not done
	ids    map[string]bool // public ids in use
	// byID and byIndex find items by what the upstream calls them. An id that
	// stands for two items is mapped to nil, an index to the later of two.
	byID    map[string]*item
	byIndex map[int64]*item
	// held are the done events of incomplete items, which may only be the last.
	held []responses.Event
}

func newDecoder(newID func(prefix string) string) *decoder {
	return &decoder{
		newID:    newID,
		remember: func(string, string, string) {},
		ids:      map[string]bool{},
		byID:     map[string]*item{},
		byIndex:  map[int64]*item{},
	}
}

// Take returns the events since the last Take. They are valid until the next
// call of any method.
func (d *decoder) Take() []responses.Event {
	out := d.out
	d.out = d.out[:0]
	return out
}

// Ended reports whether the turn has ended.
func (d *decoder) Ended() bool { return d.ended }

// Push takes the data of one event, which it does not keep. The error is the
// failure of the turn: what the upstream said of it, or what is wrong with what
// it said.
func (d *decoder) Push(data []byte) error {
	if d.ended || string(data) == "[DONE]" {
		return nil
	}
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return d.malformed(data, err)
	}
	switch h.Type {
	case responses.EventCreated, responses.EventQueued, responses.EventInProgress, eventKeepalive:
		return nil
	case responses.EventError:
		d.failed = failure(data)
		if d.failed == nil {
			d.failed = upstream.WireError(0, "", "", "")
		}
		return nil
	case responses.EventFailed:
		return d.failure(h.Response)
	case responses.EventCompleted, responses.EventIncomplete:
		return d.terminal(h.Type, h.Response, data)
	}
	if d.failed != nil {
		return nil // after an error only response.failed has anything to say
	}
	ev, err := decodeEvent(h.Type, bytes.Clone(data))
	if err != nil {
		return d.malformed(data, err)
	}
	return d.event(&incoming{Event: ev, head: h})
}

func (d *decoder) malformed(data []byte, err error) error {
	if d.skipMalformed {
		return nil
	}
	return upstream.Malformed(data, err)
}

// decodeEvent decodes an event that is not about the life of the response.
func decodeEvent(typ responses.EventType, raw []byte) (ev responses.Event, err error) {
	if name, ok := otherNames[typ]; ok {
		if raw, err = responses.SetMembers(raw, responses.Member{Name: "type", Value: quote(string(name))}); err != nil {
			return ev, err
		}
	}
	if ev, err = responses.DecodeEvent(raw); err == nil {
		return ev, nil
	}
	if fixed, ok := encodeEventArguments(raw); ok {
		return responses.DecodeEvent(fixed)
	}
	return ev, err
}

// incoming is an event of the upstream on its way through the decoder.
type incoming struct {
	responses.Event
	head
}

// event dispatches an event about the output.
func (d *decoder) event(in *incoming) error {
	typ := in.Event.Type
	if k := deltaKinds[typ]; k != nil {
		return d.delta(k, in)
	}
	if k := doneKinds[typ]; k != nil {
		return d.textDone(k, in)
	}
	switch typ {
	case responses.EventItemAdded:
		return d.itemAdded(in)
	case responses.EventItemDone:
		return d.itemDone(in)
	case responses.EventPartAdded, responses.EventSummaryPartAdded:
		return d.partAdded(in)
	case responses.EventPartDone, responses.EventSummaryPartDone:
		return d.partDone(in)
	case responses.EventAnnotationAdded:
		return d.annotation(in)
	}
	d.other(in)
	return nil
}

// other passes on an event that we do not act on.
func (d *decoder) other(in *incoming) {
	if it := d.find(in); it != nil && !it.hidden {
		in.Event.OutputIndex, in.Event.ItemID = it.index, it.id
	}
	d.emit(in.Event)
}

func (d *decoder) emit(ev responses.Event) { d.out = append(d.out, ev) }

// pass emits an event about it, placed.
func (d *decoder) pass(in *incoming, it *item, set ...responses.Member) error {
	ev, err := in.placed(it, set...)
	if err == nil {
		d.emit(ev)
	}
	return err
}

// placed returns an event about it with the turn's id and index, spliced in
// where the upstream left them out, and with the members set.
func (in *incoming) placed(it *item, set ...responses.Member) (responses.Event, error) {
	ev := in.Event
	ev.OutputIndex, ev.ItemID = it.index, it.id
	if !in.head.OutputIndex.given {
		set = append(set, responses.Member{Name: "output_index", Value: number(it.index)})
	}
	if in.Event.ItemID == "" && ev.Item == nil {
		set = append(set, responses.Member{Name: "item_id", Value: quote(it.id)})
	}
	if len(set) == 0 {
		return ev, nil
	}
	raw, err := responses.SetMembers(ev.Raw, set...)
	ev.Raw = raw
	return ev, err
}

// find returns the item that an event is about, done or not; nil if it is new.
func (d *decoder) find(in *incoming) *item {
	id := in.Event.ItemID
	if in.Event.Item != nil {
		id = in.Event.Item.ItemID()
	}
	if it := d.byID[id]; it != nil {
		return it
	}
	if !in.head.OutputIndex.given {
		return d.lastOpen()
	}
	it := d.byIndex[in.head.OutputIndex.at]
	if it == nil {
		return nil
	}
	if id != "" && id != it.upstreamID {
		if it.done && !it.rotates {
			return nil // an upstream that uses one index for several items
		}
		it.rotates = true
	}
	return it
}

// lastOpen returns the item that was begun last of those that are not done.
func (d *decoder) lastOpen() *item {
	if len(d.open) == 0 {
		return nil
	}
	return d.open[len(d.open)-1]
}

// lost is the failure of a turn whose events cannot be shown without losing what
// they say.
func lost(format string, args ...any) error {
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's events contradict each other: %s.", fmt.Sprintf(format, args...)).WithCause(upstream.ErrGrammar)
}

func number(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
