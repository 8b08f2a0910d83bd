package main

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// paceTick is the time between two deltas of a stream at a steady pace.
	paceTick = time.Millisecond
	// holdTick is the time between two deltas of a stream that is held open.
	holdTick = 2 * time.Second
	// holdTicks ends one that nobody releases.
	holdTicks = 300
)

// replay is the upstream that costs little: it plays canned answers. It counts
// what it writes, and it holds streams open until it is told to end them.
type replay struct {
	responses sync.Map      // script to *cannedResponse, as rendered at the first request
	release   chan struct{} // closed by POST /release
	stats     struct {
		open, total, most atomic.Int64
	}
}

// replayStats is what GET /stats answers.
type replayStats struct {
	Open  int64 `json:"open"`  // streams that are being played
	Total int64 `json:"total"` // bytes written to all streams so far
	Most  int64 `json:"most"`  // bytes written to the stream that got most
}

func newReplay(*childFlags) (http.Handler, error) {
	r := &replay{release: make(chan struct{})}
	release := sync.OnceFunc(func() { close(r.release) })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", r.complete)
	mux.HandleFunc("POST /v1/responses", r.respond)
	mux.HandleFunc("GET /stats", r.serveStats)
	mux.HandleFunc("POST /release", func(http.ResponseWriter, *http.Request) { release() })
	return mux, nil
}

func (r *replay) serveStats(w http.ResponseWriter, _ *http.Request) {
	s := &r.stats
	_ = json.MarshalWrite(w, replayStats{Open: s.open.Load(), Total: s.total.Load(), Most: s.most.Load()})
}

// complete plays the script that the request names.
func (r *replay) complete(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Model string `json:"model"`
	}
	if err := json.UnmarshalRead(io.LimitReader(req.Body, 1<<20), &body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s, err := parseScript(body.Model)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if s.kind == playWhole {
		http.Error(w, s.String()+" is no script for the Chat Completions protocol", http.StatusNotFound)
		return
	}
	r.stats.open.Add(1)
	defer r.stats.open.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	out := &player{stats: r, w: w, flush: http.NewResponseController(w).Flush}
	switch answer := render(s); s.kind {
	case playHold:
		out.hold(req, answer)
	case playPaced:
		tick := time.NewTicker(paceTick)
		defer tick.Stop()
		out.play(answer, tick.C)
	default:
		now := make(chan time.Time)
		close(now)
		out.play(answer, now)
	}
}

// respond answers in the Responses protocol, at once.
func (r *replay) respond(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s, err := parseScript(firstMember(body, "model"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	answer, err := r.response(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", answer.contentType)
	if s.kind == playWhole {
		_, _ = w.Write(answer.body) // a client that left does not matter
		return
	}
	out := &player{stats: r, w: w, flush: http.NewResponseController(w).Flush}
	for _, piece := range answer.pieces {
		if !out.write(piece) {
			return
		}
	}
}

// response returns the answer of a script, which is rendered once.
func (r *replay) response(s script) (*cannedResponse, error) {
	if answer, ok := r.responses.Load(s); ok {
		return answer.(*cannedResponse), nil
	}
	if !slices.Contains([]string{playWhole, playBurst, playToken}, s.kind) {
		return nil, fmt.Errorf("%v is no script for the Responses protocol", s)
	}
	answer, _ := r.responses.LoadOrStore(s, renderResponse(s))
	return answer.(*cannedResponse), nil
}

// firstMember returns the string that is the first member of an object, "" if
// that has another name. It does not look at the rest, which may be long.
func firstMember(object []byte, name string) string {
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	// After an error a token is the zero value, which is no string.
	_, _ = dec.ReadToken()
	key, _ := dec.ReadToken()
	if key.Kind() != '"' || key.String() != name {
		return ""
	}
	value, _ := dec.ReadToken()
	if value.Kind() != '"' {
		return ""
	}
	return value.String()
}

// A player writes one answer.
type player struct {
	stats *replay
	w     io.Writer
	flush func() error
	sent  int64
}

// play writes the whole answer, a piece at each tick.
func (p *player) play(answer *canned, tick <-chan time.Time) {
	for i := range answer.last() + 1 {
		<-tick
		if !p.write(answer.at(i)) {
			return
		}
	}
}

// write sends a piece at once and reports whether the client is still there.
func (p *player) write(piece []byte) bool {
	if len(piece) == 0 {
		return true
	}
	n, err := p.w.Write(piece)
	if err == nil {
		err = p.flush()
	}
	p.sent += int64(n)
	s := &p.stats.stats
	s.total.Add(int64(n))
	for most := s.most.Load(); p.sent > most && !s.most.CompareAndSwap(most, p.sent); {
		most = s.most.Load()
	}
	return err == nil
}

// hold writes the beginning of an answer, a delta at every tick, and its end
// when the streams are released.
func (p *player) hold(req *http.Request, answer *canned) {
	tick := time.NewTicker(holdTick)
	defer tick.Stop()
	ok := p.write(answer.head) && p.write(answer.piece)
	for range holdTicks {
		if !ok {
			return
		}
		select {
		case <-tick.C:
			ok = p.write(answer.piece)
		case <-p.stats.release:
			p.write(answer.tail)
			return
		case <-req.Context().Done():
			return
		}
	}
}
