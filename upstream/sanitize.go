package upstream

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/antiphon-dev/antiphon/responses"
)

// Sanitized returns a driver whose answers hold only what the published API has:
// members and kinds that the upstream of d made up are taken out, and named in the
// turn's end. Its failures are as they were; see [Public].
func Sanitized(d Driver) Driver { return &sanitized{Wrapped{d}} }

type sanitized struct{ Wrapped }

// Open implements [Driver].
func (s *sanitized) Open(ctx context.Context, t *Turn) (*Stream, error) {
	stream, err := s.Driver.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	clean := *stream
	clean.Events = stripped(stream.Events)
	return &clean, nil
}

func stripped(events iter.Seq2[responses.Event, error]) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		var strip responses.AnswerStripper
		for ev, err := range events {
			if c, ok := errors.AsType[*Costly](err); ok {
				err = &Costly{Err: c.Err, Usage: strip.Usage(c.Usage)}
			}
			if err == nil && !strip.Strip(&ev) {
				continue
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// publicMessages are what clients of a sanitized upstream read of its failures, in
// place of its own words.
var publicMessages = map[responses.Code]string{
	responses.CodeUpstream:       "The upstream could not answer this request.",
	responses.CodeRateLimit:      "The upstream has too many requests; try again later.",
	responses.CodeOverloaded:     "The upstream is overloaded; try again later.",
	responses.CodeTimeout:        "The upstream did not answer in time.",
	responses.CodeModelNotFound:  "The upstream does not have this model.",
	responses.CodeContextLength:  "The input is longer than the model's context window.",
	responses.CodeInvalidPrompt:  "The upstream refused the prompt.",
	responses.CodeInvalidRequest: "The upstream refused the request as not valid.",
	responses.CodeTooLarge:       "The request is larger than the upstream takes.",
	// The credential was the client's own: any other is the gateway's trouble.
	responses.CodeInvalidKey: "The upstream does not accept this API key.",
	responses.CodeForbidden:  "The upstream does not allow this with this API key.",
}

// Public returns the failure of an upstream as clients may read it who are not to
// know whom they talk to: our own words for its class, and nothing that tells of an
// account (R33). What it was is its cause, for the log. Failures that are not the
// upstream's pass as they are.
func Public(err error) error {
	e, ok := errors.AsType[*responses.Error](err)
	if !ok || e.Origin != responses.OriginUpstream {
		return err
	}
	code := e.Code
	message, known := publicMessages[code]
	if !known { // a quota is the account's
		code, message = responses.CodeUpstream, publicMessages[responses.CodeUpstream]
	}
	public := responses.UpstreamErrorf(code, "%s", message)
	public.RetryAfter = e.RetryAfter
	if responses.HasParam(e.Param) {
		public.Param = e.Param
	}
	return public.WithCause(err)
}

// AnswerError reads the rest of an answer that is no success, closes it, and
// returns the failure that it is. Client holds those headers of the client that
// were there to be forwarded.
func AnswerError(resp *http.Response, client http.Header) error {
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came of it is enough
	return AnswerFailure(resp, client, body)
}

// AnswerFailure returns the failure that an answer with the body is. It is the
// client's if the credential was.
func AnswerFailure(resp *http.Response, client http.Header, body []byte) error {
	if resp.Request != nil {
		key := resp.Request.Header.Get("Authorization")
		if key != "" && key == client.Get("Authorization") {
			if err := clientRefused(resp.StatusCode, body); err != nil {
				return err
			}
		}
	}
	return StatusError(resp, body)
}

// Redacted returns the failure that an upstream told of inside its answer, without
// the credential that the answer's request was sent with, should it quote it.
func Redacted(err error, resp *http.Response) error {
	if c, ok := err.(*Costly); ok {
		return &Costly{Err: Redacted(c.Err, resp), Usage: c.Usage}
	}
	e, ok := err.(*responses.Error)
	if !ok || resp == nil {
		return err
	}
	message := string(redact([]byte(e.Message), resp.Request))
	if message == e.Message {
		return err
	}
	clean := *e
	clean.Message = message
	return &clean
}
