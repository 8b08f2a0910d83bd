package responses

import "fmt"

// A Fold builds the response object from the events of a response, as a client
// that streams would: the items come from the item events, the rest from the
// lifecycle events (R12). The zero value is ready to use. It expects events that
// [Grammar] accepts and is for one goroutine.
type Fold struct {
	resp  *Response
	items []Item // by output index; nil while open
}

// Add takes the next event.
func (f *Fold) Add(ev *Event) {
	switch shapes[ev.Type].class {
	case classLifecycle:
		f.resp = ev.Response
	case classItemAdded:
		f.set(ev.OutputIndex, nil)
	case classItemDone:
		f.set(ev.OutputIndex, ev.Item)
	}
}

// set puts an item at its index. An index beyond the next one cannot come from
// a legal stream and is ignored, so that it cannot make the fold grow.
func (f *Fold) set(i int, it Item) {
	switch {
	case i >= 0 && i < len(f.items):
		f.items[i] = it
	case i == len(f.items):
		f.items = append(f.items, it)
	}
}

// Output returns the items that are done, in order.
func (f *Fold) Output() []Item {
	out := make([]Item, 0, len(f.items))
	for _, it := range f.items {
		if it != nil {
			out = append(out, it)
		}
	}
	return out
}

// Len is how many items were added.
func (f *Fold) Len() int { return len(f.items) }

// Response returns the response so far: the last lifecycle event's object with
// the folded items as its output. It fails before the first lifecycle event.
func (f *Fold) Response() (*Response, error) {
	if f.resp == nil {
		return nil, fmt.Errorf("fold: no lifecycle event yet")
	}
	r := *f.resp
	r.Output = f.Output()
	return &r, nil
}
