package server

import (
	"bytes"

	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/upstream"
)

// aboutTheBody are the headers of a sanitized upstream that its clients get: the
// others tell who it is, and how its account stands.
var aboutTheBody = canonical("Content-Type", "Content-Disposition", "Cache-Control")

// query is what follows the path. In strict mode there is nothing that could.
func (x *exchange) query() string {
	if x.gen.Strict {
		return ""
	}
	return x.r.URL.RawQuery
}

// passClean passes the answer of a sanitized upstream on, with what is published of
// the API only. The router has turned what is no success into our own words.
func (s *Server) passClean(x *exchange, answer *route.Relayed, path string, rename relay.Rename) error {
	api := published[path]
	if upstream.Streams(answer.Response) {
		x.streams()
		x.WriteHeader(answer.StatusCode)
		out := newClientStream(x, s.opts.WriteTimeout)
		seen, err := api.Stream(out, out.rc.Flush, answer.Body, rename)
		err = upstream.Redacted(err, answer.Response)
		x.noteRelayed(path, seen, err)
		x.cutUnless(err == nil)
		return nil
	}
	buf := answers.Get().(*bytes.Buffer)
	defer putAnswer(buf)
	body, seen := []byte(nil), new(relay.Seen)
	err := x.readAnswer(buf, answer)
	if err == nil {
		body, seen, err = api.Whole(buf.Bytes(), rename)
		err = upstream.Redacted(err, answer.Response)
	}
	if err == nil {
		err = x.writeJSON(answer.StatusCode, body)
	}
	x.noteRelayed(path, seen, err)
	return upstream.Public(err)
}
