package codex

import (
	"encoding/json/jsontext"

	"github.com/antiphon-dev/antiphon/responses"
)

// The methods that we call.
const (
	methodInitialize  = "initialize"
	methodInitialized = "initialized"
	methodDiagnostics = "server/diagnostics"
	methodThreadStart = "thread/start"
	methodInject      = "thread/inject_items"
	methodTurnStart   = "turn/start"
	methodDelete      = "thread/delete"
)

// The notifications that we act on.
const (
	noteTurnStarted      = "turn/started"
	noteTurnCompleted    = "turn/completed"
	noteItemStarted      = "item/started"
	noteTextDelta        = "item/agentMessage/delta"
	noteSummaryPartAdded = "item/reasoning/summaryPartAdded"
	noteSummaryDelta     = "item/reasoning/summaryTextDelta"
	noteRawItem          = "rawResponseItem/completed"
	noteRawResponse      = "rawResponse/completed"
	noteError            = "error"
	noteRerouted         = "model/rerouted"
	noteCompacted        = "thread/compacted"
)

// heeded are the notifications that can matter to a turn. Codex sends many others.
var heeded = map[string]bool{
	noteTurnStarted: true, noteTurnCompleted: true, noteItemStarted: true, noteTextDelta: true, noteSummaryPartAdded: true, noteSummaryDelta: true,
	noteRawItem: true, noteRawResponse: true, noteError: true, noteRerouted: true, noteCompacted: true,
}

// requestToolCall is the server's wish to have a tool run. It is not answered: the
// turn ends instead.
const requestToolCall = "item/tool/call"

// initialize introduces us.
type initialize struct {
	ClientInfo struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	} `json:"clientInfo"`
	Capabilities struct {
		ExperimentalAPI bool `json:"experimentalApi"`
	} `json:"capabilities"`
}

// diagnostics is the answer to server/diagnostics.
type diagnostics struct {
	Process struct {
		ResidentMemoryBytes int64 `json:"residentMemoryBytes"`
	} `json:"process"`
}

// threadStart are the parameters of thread/start.
type threadStart struct {
	Model            string         `json:"model"`
	BaseInstructions string         `json:"baseInstructions"` // empty replaces Codex's own, too
	DynamicTools     []dynamicTool  `json:"dynamicTools"`
	ServiceTier      string         `json:"serviceTier,omitzero"`
	Config           map[string]any `json:"config,omitempty"`

	ApprovalPolicy string   `json:"approvalPolicy"`
	Sandbox        string   `json:"sandbox"`
	Environments   []string `json:"environments"` // always empty: nothing to run commands in
	Ephemeral      bool     `json:"ephemeral"`
	RawEvents      bool     `json:"experimentalRawEvents"`
}

// dynamicTool is a function of the client.
type dynamicTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

// threadStarted is the answer to thread/start.
type threadStarted struct {
	Thread struct {
		ID string `json:"id"`
	} `json:"thread"`
}

// inject are the parameters of thread/inject_items.
type inject struct {
	ThreadID string           `json:"threadId"`
	Items    []jsontext.Value `json:"items"`
}

// turnStart are the parameters of turn/start. The input has been injected.
type turnStart struct {
	ThreadID     string         `json:"threadId"`
	Input        []string       `json:"input"`
	Effort       string         `json:"effort,omitzero"`
	Summary      string         `json:"summary"`
	OutputSchema jsontext.Value `json:"outputSchema,omitzero"`
}

// deleteThread are the parameters of thread/delete, which ends a turn, too.
type deleteThread struct {
	ThreadID string `json:"threadId"`
}

// note is what notifications carry, as far as we look.
type note struct {
	ThreadID     string         `json:"threadId"`
	TurnID       string         `json:"turnId"`
	ItemID       string         `json:"itemId"`
	Delta        string         `json:"delta"`
	SummaryIndex int            `json:"summaryIndex"`
	Item         jsontext.Value `json:"item"`
	Usage        jsontext.Value `json:"usage"`
	Error        *turnError     `json:"error"`
	WillRetry    bool           `json:"willRetry"`
	ToModel      string         `json:"toModel"`
	Turn         struct {
		ID     string     `json:"id"`
		Status string     `json:"status"`
		Error  *turnError `json:"error"`
	} `json:"turn"`
}

// threadItem is an item as Codex itself has it.
type threadItem struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// The types of thread items that are streamed.
const (
	itemAgentMessage = "agentMessage"
	itemReasoning    = "reasoning"
)

// The end of a turn that went well.
const turnCompleted = "completed"

// usage are the counts of one model response.
type usage struct {
	TotalTokens           *int64 `json:"totalTokens"`
	InputTokens           *int64 `json:"inputTokens"`
	CachedInputTokens     int64  `json:"cachedInputTokens"`
	OutputTokens          *int64 `json:"outputTokens"`
	ReasoningOutputTokens int64  `json:"reasoningOutputTokens"`
}

// turnError says why a turn failed. Info is a word, or an object with one member
// whose name is the word.
type turnError struct {
	Message string         `json:"message"`
	Info    jsontext.Value `json:"codexErrorInfo"`
}

// metadataMember is what Codex adds to raw items for itself.
const metadataMember = "internal_chat_message_metadata_passthrough"

// itemMetadata is a part of it: what became of the parts of an injected message.
type itemMetadata struct {
	Metadata struct {
		Kinds []string `json:"content_item_kinds"`
	} `json:"internal_chat_message_metadata_passthrough"`
}

// kindImageError marks an image that Codex has replaced by an excuse.
const kindImageError = "images.preparation_error"

// The past as it is injected.
type (
	wireMessage struct {
		Type    string           `json:"type"`
		ID      string           `json:"id,omitzero"`
		Role    responses.Role   `json:"role"`
		Content []jsontext.Value `json:"content"`
		Phase   string           `json:"phase,omitzero"`
		Status  responses.Status `json:"status,omitzero"`
	}
	wireReasoning struct {
		Type             string           `json:"type"`
		ID               string           `json:"id,omitzero"`
		Summary          []responses.Part `json:"summary"`
		Content          []responses.Part `json:"content,omitempty"`
		EncryptedContent string           `json:"encrypted_content,omitzero"`
	}
	wireCall struct {
		Type      string           `json:"type"`
		ID        string           `json:"id,omitzero"`
		CallID    string           `json:"call_id"`
		Name      string           `json:"name"`
		Arguments string           `json:"arguments"`
		Status    responses.Status `json:"status,omitzero"`
	}
	wireOutput struct {
		Type   string         `json:"type"`
		ID     string         `json:"id,omitzero"`
		CallID string         `json:"call_id"`
		Output jsontext.Value `json:"output"`
	}
	wireText struct {
		Type        string           `json:"type"`
		Text        string           `json:"text"`
		Annotations []jsontext.Value `json:"annotations,omitempty"`
	}
	wireImage struct {
		Type     string `json:"type"`
		ImageURL string `json:"image_url"`
		Detail   string `json:"detail,omitzero"`
	}
)
