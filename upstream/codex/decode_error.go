package codex

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"regexp"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// incompletePrefix is how Codex says that a response was cut short; the reason
// follows.
const incompletePrefix = "Incomplete response returned, reason: "

// fail ends the turn with what Codex says of its failure. A response that was cut
// short is no failure (R15).
func (d *decoder) fail(e *turnError) error {
	if e == nil {
		e = &turnError{}
	}
	if reason, ok := strings.CutPrefix(e.Message, incompletePrefix); ok {
		return d.end(&responses.TurnEnd{Status: responses.StatusIncomplete, Reason: reason})
	}
	err, refused := classify(e)
	if refused != 0 && !d.began {
		return err.WithCause(upstream.Refused(refused))
	}
	return err
}

// verdicts are what the words of Codex mean. A status is that of a refusal: the
// turn was not run.
var verdicts = map[string]struct {
	code    responses.Code
	refused int
	private bool // the message is about the gateway's account
}{
	"contextWindowExceeded":       {code: responses.CodeContextLength, refused: http.StatusBadRequest},
	"usageLimitExceeded":          {code: responses.CodeQuota, refused: http.StatusTooManyRequests},
	"sessionBudgetExceeded":       {code: responses.CodeQuota, refused: http.StatusTooManyRequests},
	"rateLimitExceeded":           {code: responses.CodeRateLimit, refused: http.StatusTooManyRequests},
	"serverOverloaded":            {code: responses.CodeOverloaded, refused: http.StatusServiceUnavailable},
	"flexUnavailable":             {code: responses.CodeOverloaded, refused: http.StatusServiceUnavailable},
	"policyCapacityUnavailable":   {code: responses.CodeOverloaded, refused: http.StatusServiceUnavailable},
	"modelNotFound":               {code: responses.CodeModelNotFound, refused: http.StatusNotFound},
	"badRequest":                  {code: responses.CodeInvalidRequest, refused: http.StatusBadRequest},
	"unauthorized":                {code: responses.CodeUpstream, refused: http.StatusUnauthorized, private: true},
	"cyberPolicy":                 {code: responses.CodeInvalidPrompt},
	"misalignmentPolicyViolation": {code: responses.CodeInvalidPrompt},
}

// classify finds our code and, for a refusal, its status.
func classify(e *turnError) (err *responses.Error, refused int) {
	word, status := e.word()
	message := publicMessage(e.Message)
	if status != 0 {
		return upstream.WireError(status, "", "", message), status
	}
	if v, ok := verdicts[word]; ok {
		if v.private {
			return upstream.WireError(v.refused, "", "", ""), v.refused
		}
		if message == "" {
			message = "The upstream failed without saying why."
		}
		return responses.UpstreamErrorf(v.code, "%s", message), v.refused
	}
	if err := providerError(e.Message); err != nil {
		return err, http.StatusBadRequest
	}
	return upstream.WireError(0, "", "", message), 0
}

// word returns what Codex calls the failure, and the HTTP status that is said to
// be behind it, 0 if there is none.
func (e *turnError) word() (word string, status int) {
	switch e.Info.Kind() {
	case '"':
		if json.Unmarshal(e.Info, &word) != nil {
			return "", 0
		}
	case '{':
		var object map[string]struct {
			Status *int `json:"httpStatusCode"`
		}
		if json.Unmarshal(e.Info, &object) != nil {
			return "", 0
		}
		for name, v := range object {
			word = name
			if v.Status != nil && *v.Status >= 300 && *v.Status <= 599 {
				status = *v.Status
			}
		}
	}
	return word, status
}

// providerError reads the body of a provider's 400, which Codex passes on as its
// message.
func providerError(message string) *responses.Error {
	var body struct {
		Error struct {
			Type    string         `json:"type"`
			Code    jsontext.Value `json:"code"`
			Message string         `json:"message"`
			Param   jsontext.Value `json:"param"`
		} `json:"error"`
	}
	if !strings.HasPrefix(message, "{") || json.Unmarshal([]byte(message), &body) != nil || body.Error.Message == "" {
		return nil
	}
	err := upstream.WireError(http.StatusBadRequest, body.Error.Type, text(body.Error.Code), body.Error.Message)
	if err.Code.Status() == http.StatusBadRequest {
		err.Param = text(body.Error.Param)
	}
	return err
}

// text returns v if it is a string, else "".
func text(v jsontext.Value) (s string) {
	if v.Kind() == '"' {
		_ = json.Unmarshal(v, &s) // it is a string
	}
	return s
}

// What Codex adds to a provider's words: the status in front, and behind them
// where the provider is, which is no business of clients.
var (
	statusPrefix = regexp.MustCompile(`^unexpected status \d{3}( [A-Za-z ]+)?: `)
	placeSuffix  = regexp.MustCompile(`, (url: |request id: |cf-ray: ).*$`)
	anyURL       = regexp.MustCompile(`[a-z]+://[^\s,)]+`)
)

// maxMessage bounds a message that is passed on.
const maxMessage = 1000

// publicMessage returns what a client may read of a message of Codex.
func publicMessage(m string) string {
	m = placeSuffix.ReplaceAllString(statusPrefix.ReplaceAllString(m, ""), "")
	m = anyURL.ReplaceAllString(m, "its provider")
	if len(m) > maxMessage {
		m = strings.ToValidUTF8(m[:maxMessage], "") + "…"
	}
	return m
}
