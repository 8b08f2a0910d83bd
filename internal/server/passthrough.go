package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// In transparent mode a path that is nobody's here goes to an upstream as it came:
// to that of the model that its JSON body names, without one to that of the model
// "*". It is sent to one target and never again, because nobody here knows what it
// asks for.
//
// Such a path comes from a stranger and ends up behind the gateway's credential, so
// only plain ones pass (see upstream.PlainPath), and none that could reach what the
// gateway answers for itself: responses and conversations belong to their owner,
// whatever an upstream would say.

// otherAPI is what observers read for every path that is not ours: a client's
// invention must not become a label.
const otherAPI = "other"

// ownWords are segments that make a path the gateway's own, wherever they stand.
var ownWords = []string{"responses", "conversations"}

// ownRoots are first segments that do.
var ownRoots = []string{"admin", "healthz", "readyz", "models"}

// otherPath returns the path below the root of an API, and false if it is not one
// that passes. Servers may ignore the case of paths, and dots at the end of their
// segments, so that does not matter here either.
func otherPath(r *http.Request) (string, bool) {
	path, plain := upstream.PlainPath(r.URL.EscapedPath())
	if !plain || r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		return "", false
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		word := strings.ToLower(strings.TrimRight(s, "."))
		if slices.Contains(ownWords, word) {
			return "", false
		}
		segments[i] = word
	}
	first := 0 // after any number of roots: one is ours, others may be the upstream's
	for first < len(segments) && segments[first] == "v1" {
		first++
	}
	if first == len(segments) || len(segments) == first+1 && slices.Contains(ownRoots, segments[first]) || segments[first] == "admin" {
		return "", false
	}
	return strings.TrimPrefix(path, "v1/"), true
}

// passOther passes a request for a path that is not ours on.
func (s *Server) passOther(x *exchange) error {
	path, ok := otherPath(x.r)
	if !ok {
		return s.unknownPath(x)
	}
	if err := x.refuseStrangeName(); err != nil {
		return err
	}
	p := &upstream.Passage{Method: x.r.Method, Path: path, Query: x.r.URL.RawQuery, Header: x.forwarded(), Once: true}
	p.Header.Set("Accept", "*/*")
	if accept := x.r.Header.Get("Accept"); accept != "" && len(accept) <= maxForwardedValue {
		p.Header.Set("Accept", accept)
	}
	head, err := s.otherBody(x, p)
	if err != nil {
		return err
	}
	if p.Stream != nil {
		defer p.Stream.Close() // the transport may read on although it has an answer
	}
	r, err := x.relayRouter(head.Model, path)
	if err != nil && head.Model == "" {
		return s.unknownPath(x)
	}
	if err != nil {
		return err
	}
	x.shape = shape{model: head.Model, stream: head.Stream, relayed: true}
	answer, err := r.Relay(x.r.Context(), head.Model, "", p)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	x.passHeader(answer)
	return s.passAnswer(x, answer, relay.Rename{From: answer.Model, To: head.Model})
}

// otherBody puts the request's body into p, and returns what it says of its model.
// JSON is read, as strictly as ever; anything else is passed on while it comes.
func (s *Server) otherBody(x *exchange, p *upstream.Passage) (*responses.Head, error) {
	none := new(responses.Head)
	if x.r.ContentLength == 0 && len(x.r.TransferEncoding) == 0 {
		return none, nil
	}
	p.ContentType = x.r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(p.ContentType)
	if p.ContentType != "" && err != nil {
		return nil, responses.InvalidParam(responses.CodeMediaType, "", "The header Content-Type cannot be read.")
	}
	if p.ContentType == "" || media == "application/json" {
		if p.Body, err = s.readBody(x); err != nil {
			return nil, err
		}
		if trimmed := bytes.TrimLeft(p.Body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
			return none, nil // nothing that could name a model
		}
		return responses.PeekModel(p.Body, s.requestLimits())
	}
	if coding, err := contentCoding(x.r.Header); err != nil || coding != "" {
		return nil, responses.InvalidParam(responses.CodeMediaType, "", "Send a body of this type plain, without Content-Encoding.")
	}
	if x.r.ContentLength > int64(s.opts.MaxBodyBytes) {
		return nil, tooLarge(s.opts.MaxBodyBytes)
	}
	p.Length = x.r.ContentLength
	p.Stream = &clientBody{http.MaxBytesReader(x.ResponseWriter, x.r.Body, int64(s.opts.MaxBodyBytes)), s.opts.MaxBodyBytes}
	return none, nil
}

// clientBody is a body that is passed on while it comes. Its errors are the
// client's, so that no upstream is blamed for them.
type clientBody struct {
	io.ReadCloser
	limit int
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return n, tooLarge(b.limit)
	}
	return n, engine.ErrClientGone
}

// passAnswer passes an answer on, of whatever kind it is.
func (s *Server) passAnswer(x *exchange, answer *route.Relayed, rename relay.Rename) error {
	out := newClientStream(x, s.opts.WriteTimeout)
	var seen *relay.Seen
	var err error
	switch {
	case upstream.Streams(answer.Response):
		x.streams()
		x.WriteHeader(answer.StatusCode)
		seen, err = relay.Stream(out, out.rc.Flush, answer.Body, relay.Options{Rename: rename, Foreign: true})
	case rename.From != rename.To && upstream.CheckJSON(answer.Response) == nil:
		seen, err = x.passWhole(answer, relay.Options{Rename: rename})
	default:
		seen = new(relay.Seen)
		if answer.ContentLength >= 0 { // so that a client notices if not all of it came
			x.Header().Set("Content-Length", strconv.FormatInt(answer.ContentLength, 10))
		}
		x.WriteHeader(answer.StatusCode)
		_, err = io.Copy(flushing{out}, answer.Body)
	}
	x.noteRelayed(otherAPI, seen, err)
	x.cutUnless(err == nil || x.err != nil) // an error that was answered is whole
	return nil
}

// flushing sends what is written at once: nobody here knows what the client waits
// for.
type flushing struct{ out *clientStream }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.out.Write(p)
	if err == nil {
		err = f.out.rc.Flush()
	}
	return n, err
}
