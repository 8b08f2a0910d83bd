package responses

import "fmt"

// An Order checks a stream of events by their types alone: what can be held of the
// [Grammar] without decoding anything, for those who pass a stream on as it came.
//
//	created → (queued) → in_progress → items … → one terminal event
//
// Nothing is said of an item outside of one, as many items are done as were added,
// and where a sequence number was looked at, it is the count of the events before.
//
// The zero value is ready. It is for one goroutine.
type Order struct {
	state grammarState
	open  int   // items that were added and are not done
	next  int64 // sequence number of the next event
	run   EventType
}

// Check says why an event of type t may not come next; nil if it may. Seq is its
// sequence number, negative if that is not known. After an error the order must not
// be used further.
func (o *Order) Check(t EventType, seq int64) error {
	if seq >= 0 && seq != o.next {
		return fmt.Errorf("sequence_number is %d, not %d", seq, o.next)
	}
	o.next++
	if t == o.run && t != "" { // most events are the next delta of a text
		return nil
	}
	o.run = ""
	if o.state == grammarEnded {
		return errAfterEnd
	}
	switch class := shapes[t].class; class {
	case classLifecycle:
		return o.lifecycle(t)
	case classTurnEnd:
		return errNotHere
	case classError:
		return o.state.fail()
	default:
		if o.state != grammarRunning {
			return errNotRunning
		}
		return o.item(t, class)
	}
}

// Ended reports whether the terminal event was seen.
func (o *Order) Ended() bool { return o.state == grammarEnded }

func (o *Order) lifecycle(t EventType) error {
	next, legal := o.state.after(t)
	if !legal {
		return errNotHere
	}
	o.state = next
	if next == grammarEnded && t != EventFailed && o.open > 0 {
		return fmt.Errorf("%d items are still open", o.open)
	}
	return nil
}

func (o *Order) item(t EventType, c class) error {
	switch {
	case c == classOther:
		return nil
	case c == classItemAdded:
		o.open++
		return nil
	case o.open == 0:
		return fmt.Errorf("no item is open")
	case c == classItemDone:
		o.open--
	case c == classDelta:
		o.run = t
	}
	return nil
}
