package server

import (
	"encoding/json/jsontext"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// conversationObject is a conversation as the API has it.
type conversationObject struct {
	ID        string         `json:"id"`
	Object    string         `json:"object"`
	CreatedAt int64          `json:"created_at"`
	Metadata  jsontext.Value `json:"metadata"`
}

func (x *exchange) writeConversation(c *store.Conversation) error {
	return x.writeValue(conversationObject{ID: c.ID, Object: "conversation", CreatedAt: c.Created().Unix(), Metadata: c.Metadata})
}

// readConversation reads the body of a call that makes or changes a conversation.
// None at all is an empty one.
func (s *Server) readConversation(x *exchange) (*responses.ConversationRequest, error) {
	body, err := s.readJSON(x)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return new(responses.ConversationRequest), nil
	}
	req, err := responses.DecodeConversationRequest(body, s.requestLimits())
	if err == nil && x.gen.Strict {
		x.setStripped(req.Strip())
	}
	return req, err
}

// createConversation is POST /v1/conversations.
func (s *Server) createConversation(x *exchange) error {
	req, err := s.readConversation(x)
	if err != nil {
		return err
	}
	c, err := s.engine.CreateConversation(x.r.Context(), x.owner(), req)
	if err != nil {
		return err
	}
	return x.writeConversation(c)
}

// getConversation is GET /v1/conversations/{id}.
func (s *Server) getConversation(x *exchange) error {
	c, err := s.engine.Conversation(x.r.Context(), x.owner(), x.r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.writeConversation(c)
}

// updateConversation is POST /v1/conversations/{id}.
func (s *Server) updateConversation(x *exchange) error {
	req, err := s.readConversation(x)
	if err != nil {
		return err
	}
	if req.Metadata == nil {
		return responses.InvalidParam(responses.CodeMissing, "metadata", "Send the metadata that replaces the old.")
	}
	c, err := s.engine.UpdateConversation(x.r.Context(), x.owner(), x.r.PathValue("id"), req.Metadata)
	if err != nil {
		return err
	}
	return x.writeConversation(c)
}

// deleteConversation is DELETE /v1/conversations/{id}.
func (s *Server) deleteConversation(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.engine.DeleteConversation(x.r.Context(), x.owner(), id); err != nil {
		return err
	}
	return x.writeValue(deleted{ID: id, Object: "conversation.deleted", Deleted: true})
}
