package engine

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// An OutputMode is how a response says that tools are to be called.
type OutputMode string

// The output modes. "" is OutputJSON.
const (
	// OutputJSON says it with call items only.
	OutputJSON OutputMode = "openai-json"
	// OutputObsidian adds a last message with the same calls as <use_tool> blocks,
	// which is what Obsidian Copilot reads.
	OutputObsidian OutputMode = "obsidian-xml"
)

// Known reports whether there is such a mode.
func (m OutputMode) Known() bool {
	return slices.Contains([]OutputMode{"", OutputJSON, OutputObsidian}, m)
}

// renderedSuffix ends the id of a message that renders calls. What comes before
// it is msg_ and the digits of the response's id. No server makes such ids, so the
// message is known when it comes back, by any process and without a store.
const renderedSuffix = "_use_tool"

// MayHoldRendered reports whether a request's body may hold a message that was
// rendered for an output mode, which no model is to see again.
func MayHoldRendered(body []byte) bool { return bytes.Contains(body, []byte(renderedSuffix+`"`)) }

func renderedID(responseID string) string {
	return responses.PrefixMessage + strings.TrimPrefix(responseID, responses.PrefixResponse) + renderedSuffix
}

func isRenderedID(id string) bool {
	return strings.HasPrefix(id, responses.PrefixMessage) && strings.HasSuffix(id, renderedSuffix)
}

// render appends the message that the run's output mode asks for, if the turn
// has ended well and left calls for the client. It is made before the log, of
// ordinary events, so no reader can tell it from the model's own.
func (r *Run) render(ctx context.Context, end *responses.TurnEnd) error {
	if r.job.Output != OutputObsidian || end.Status != responses.StatusCompleted {
		return nil
	}
	blocks := useToolBlocks(r.fold.Output())
	if len(blocks) == 0 {
		return nil
	}
	c := responses.NewComposer(r.shard, r.engine.opts.Now)
	for _, block := range blocks {
		c.Text(block, nil)
	}
	c.End(end)
	id := renderedID(r.info.ID)
	r.base = r.fold.Len()
	for _, ev := range c.Take() {
		if ev.Type == responses.EventTurnEnd {
			break
		}
		if ev.Item != nil {
			ev.Item = responses.WithItemID(ev.Item, id)
		} else {
			ev.ItemID = id
		}
		if err := r.item(ctx, ev); err != nil {
			return err
		}
	}
	return nil
}

// withoutRendered returns req without messages that render calls: the calls
// themselves are in the input too, and a model that saw both would learn to write
// the blocks itself. req is left as it is.
func withoutRendered(req *responses.Request) (*responses.Request, error) {
	rendered := func(it responses.Item) bool { return isRenderedID(it.ItemID()) }
	if !slices.ContainsFunc(req.Input.Items, rendered) {
		return req, nil
	}
	out := *req
	out.Input.Items = slices.DeleteFunc(slices.Clone(req.Input.Items), rendered)
	if req.Raw == nil {
		return &out, nil
	}
	input, err := rawWithoutRendered(req.Raw)
	if err != nil {
		return nil, err
	}
	out.Raw, err = responses.SetMembers(req.Raw, responses.Member{Name: "input", Value: input})
	return &out, err
}

// rawWithoutRendered returns the input of a body without the same messages, all
// others byte for byte.
func rawWithoutRendered(body jsontext.Value) (jsontext.Value, error) {
	var items []jsontext.Value
	for name, v := range responses.Members(body) {
		if name != "input" {
			continue
		}
		if err := json.Unmarshal(v, &items); err != nil {
			return nil, err
		}
	}
	items = slices.DeleteFunc(items, func(item jsontext.Value) bool {
		for name, v := range responses.Members(item) {
			if name == "id" && v.Kind() == '"' {
				id, err := jsontext.AppendUnquote(nil, v)
				return err == nil && isRenderedID(string(id))
			}
		}
		return false
	})
	out := []byte{'['}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']'), nil
}
