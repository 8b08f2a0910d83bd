package responses

import "encoding/json/jsontext"

// A ConversationRequest is the body of the calls that make and change
// conversations. Make one from a client's bytes with [DecodeConversationRequest].
type ConversationRequest struct {
	// Items are to be added. Nil means that the client said nothing of them.
	Items []Item `json:"items,omitempty"`
	// Metadata is the client's own. Nil means that it said nothing of it.
	Metadata map[string]string `json:"metadata,omitempty"`
	Extra    jsontext.Value    `json:",embed"`
}

// maxConversationItems is how many items one request may bring.
const maxConversationItems = 20

// DecodeConversationRequest decodes and checks a client's body as strictly as
// [DecodeRequest].
func DecodeConversationRequest(body []byte, limits *Limits) (*ConversationRequest, error) {
	lim := limits.withDefaults()
	if len(body) > lim.Bytes {
		return nil, InvalidParam(CodeTooLarge, "", "The request body is larger than %d bytes.", lim.Bytes)
	}
	if err := scan(body, lim.Depth); err != nil {
		return nil, err
	}
	r := new(ConversationRequest)
	if err := decode(body, r); err != nil {
		return nil, err
	}
	if len(r.Items) > maxConversationItems {
		return nil, InvalidParam(CodeInvalidValue, "items", "At most %d items at once, not %d.", maxConversationItems, len(r.Items))
	}
	if err := validateItems("items", r.Items); err != nil {
		return nil, err
	}
	return r, validateMetadata(r.Metadata)
}
