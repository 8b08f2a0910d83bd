package server

import (
	"encoding/json/jsontext"
	"net/url"
	"slices"
	"strconv"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// itemList is a page of items as the API has it.
type itemList struct {
	Object  string           `json:"object"`
	Data    []jsontext.Value `json:"data"`
	FirstID string           `json:"first_id"`
	LastID  string           `json:"last_id"`
	HasMore bool             `json:"has_more"`
}

// writeItems answers with a page.
func (x *exchange) writeItems(items *engine.Items) error {
	data, err := items.Encode(included(x.r.URL.Query()))
	if err != nil {
		return err
	}
	return x.writeValue(itemList{Object: "list", Data: data, FirstID: items.FirstID(), LastID: items.LastID(), HasMore: items.More()})
}

// included tells what a query asks for beyond the ordinary. Clients write lists in
// both ways.
func included(query url.Values) func(name string) bool {
	names := slices.Concat(query["include"], query["include[]"])
	return func(name string) bool { return slices.Contains(names, name) }
}

// How many items a page has.
const defaultPage, largestPage = 20, 100

// pageOf reads which page a query asks for: the newest items first, unless it says
// otherwise.
func pageOf(query url.Values) (store.Page, error) {
	p := store.Page{Limit: defaultPage, After: query.Get("after"), Descending: true}
	if s := query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > largestPage {
			return p, responses.InvalidParam(responses.CodeInvalidValue, "limit", "Must be a number from 1 to %d, not %q.", largestPage, s)
		}
		p.Limit = n
	}
	switch order := query.Get("order"); order {
	case "", "desc":
	case "asc":
		p.Descending = false
	default:
		return p, responses.InvalidParam(responses.CodeInvalidValue, "order", "Must be asc or desc, not %q.", order)
	}
	return p, nil
}

// listInputItems is GET /v1/responses/{id}/input_items.
func (s *Server) listInputItems(x *exchange) error {
	page, err := pageOf(x.r.URL.Query())
	if err != nil {
		return err
	}
	items, err := s.engine.InputItems(x.r.Context(), x.owner(), x.r.PathValue("id"), page)
	if err != nil {
		return err
	}
	return x.writeItems(items)
}

// listConversationItems is GET /v1/conversations/{id}/items.
func (s *Server) listConversationItems(x *exchange) error {
	page, err := pageOf(x.r.URL.Query())
	if err != nil {
		return err
	}
	items, err := s.engine.ListItems(x.r.Context(), x.owner(), x.r.PathValue("id"), page)
	if err != nil {
		return err
	}
	return x.writeItems(items)
}

// createConversationItems is POST /v1/conversations/{id}/items.
func (s *Server) createConversationItems(x *exchange) error {
	req, err := s.readConversation(x)
	if err != nil {
		return err
	}
	if len(req.Items) == 0 {
		return responses.InvalidParam(responses.CodeMissing, "items", "Send the items to add.")
	}
	items, err := s.engine.AddItems(x.r.Context(), x.owner(), x.r.PathValue("id"), req.Items)
	if err != nil {
		return err
	}
	return x.writeItems(items)
}

// getConversationItem is GET /v1/conversations/{id}/items/{item}.
func (s *Server) getConversationItem(x *exchange) error {
	item, err := s.engine.Item(x.r.Context(), x.owner(), x.r.PathValue("id"), x.r.PathValue("item"))
	if err != nil {
		return err
	}
	data, err := item.Encode(included(x.r.URL.Query()))
	if err != nil {
		return err
	}
	return x.writeValue(data[0])
}

// deleteConversationItem is DELETE /v1/conversations/{id}/items/{item}. As the API
// has it, the answer is the conversation.
func (s *Server) deleteConversationItem(x *exchange) error {
	c, err := s.engine.DeleteItem(x.r.Context(), x.owner(), x.r.PathValue("id"), x.r.PathValue("item"))
	if err != nil {
		return err
	}
	return x.writeConversation(c)
}
