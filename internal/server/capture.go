package server

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
)

// maxCaptured is how much of a body is captured.
const maxCaptured = 64 << 10

// A capture holds the bodies of a request and its answer, for a key whose owner
// the operator is helping; see [Key.Capture]. It belongs to the goroutine that
// serves the request.
type capture struct {
	secret          string // the credential that the client showed
	request, answer bytes.Buffer
	more            bool // there was more than is captured
}

// startCapture begins to capture, if the client's key says so and somebody reads it.
func (x *exchange) startCapture() {
	if x.key.Capture && x.s.opts.Logger.Enabled(x.r.Context(), slog.LevelDebug) {
		x.capture = &capture{secret: presented(x.r.Header)}
	}
}

// add appends what there is room for. A capture that is nil takes nothing.
func (c *capture) add(to func(*capture) *bytes.Buffer, b []byte) {
	if c == nil {
		return
	}
	buffer := to(c)
	room := maxCaptured - buffer.Len()
	if len(b) > room {
		b, c.more = b[:room], true
	}
	buffer.Write(b)
}

func ofRequest(c *capture) *bytes.Buffer { return &c.request }
func ofAnswer(c *capture) *bytes.Buffer  { return &c.answer }

// logCapture writes what was captured to the log.
func (x *exchange) logCapture() {
	if x.capture == nil {
		return
	}
	c := x.capture
	x.s.opts.Logger.LogAttrs(x.r.Context(), slog.LevelDebug, "captured",
		slog.String("request_id", x.id), slog.String("key", x.key.Name), slog.Bool("cut", c.more),
		slog.String("request", c.redacted(&c.request)), slog.String("answer", c.redacted(&c.answer)))
}

// Secrets as they stand in bodies: members whose names say so, up to their end or
// where the body was cut, and what looks like a credential wherever it is.
var (
	secretHeaders = regexp.MustCompile(`(?i)("headers"\s*:\s*)\{[^}]*(\}|$)`)
	secretMembers = regexp.MustCompile(`(?i)("[a-z0-9_-]*(?:authorization|password|secret|cookie|credential|api[_-]?key|[_-]token|"token)"\s*:\s*)"(?:[^"\\]|\\.)*("|\\?$)`)
	secretWords   = regexp.MustCompile(`(?i)\bbearer [a-z0-9._~+/=-]+|\b(?:sk|pk|rk|ghp|gho|xox[a-z])[-_][a-z0-9_-]{8,}`)
)

const redactedWord = "[redacted]"

// redacted returns a body without what is secret in it.
func (c *capture) redacted(body *bytes.Buffer) string {
	text := strings.ToValidUTF8(body.String(), "\uFFFD")
	if c.secret != "" {
		text = strings.ReplaceAll(text, c.secret, redactedWord)
	}
	text = secretHeaders.ReplaceAllString(text, `$1"`+redactedWord+`"`)
	text = secretMembers.ReplaceAllString(text, `$1"`+redactedWord+`"`)
	return secretWords.ReplaceAllString(text, redactedWord)
}
