package fakeupstream

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

var (
	errStruck = errors.New("fakeupstream: the fault has struck")
	errGone   = errors.New("fakeupstream: the client has gone")
	errClosed = errors.New("fakeupstream: the server is closing")
)

// A Writer writes the body of one answer and applies its fault. It belongs to
// the goroutine that answers.
type Writer struct {
	rw      http.ResponseWriter
	rc      *http.ResponseController
	x       *Exchange
	gone    <-chan struct{} // the request's context
	closing <-chan struct{}
	timer   *time.Timer // made by the first Sleep

	fault  Fault
	left   int  // body bytes until the fault strikes
	struck bool // the fault has happened: nothing more is sent
	flush  bool // after every write
}

func newWriter(rw http.ResponseWriter, x *Exchange, gone, closing <-chan struct{}) *Writer {
	return &Writer{rw: rw, rc: http.NewResponseController(rw), x: x, gone: gone, closing: closing}
}

// Write sends p and flushes it. It fails when the fault has struck, the client
// has gone or the server is closing, and blocks while the client does not read
// or a [Stall] lasts.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.interrupted(); err != nil {
		return 0, err
	}
	strikes := w.fault.Kind != None && len(p) >= w.left
	if strikes {
		p = p[:w.left]
	}
	n, err := w.put(p)
	w.left -= n
	if err == nil && strikes {
		err = w.strike()
	}
	return n, err
}

// Arm replaces the answer's fault. The new one counts its bytes from here; the
// chunk size stays.
func (w *Writer) Arm(kind Kind, after int) {
	w.fault.Kind, w.fault.After, w.left = kind, after, after
}

// Sleep waits for d, which may be zero, and fails as Write does.
func (w *Writer) Sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.timer.C:
		return nil
	case <-w.gone:
		return errGone
	case <-w.closing:
		return errClosed
	}
}

// send answers with r. A nil error means that the body ended well.
func (w *Writer) send(r Reply) error {
	if err := w.Sleep(r.Delay); err != nil {
		return err
	}
	w.fault, w.left = r.Fault, r.Fault.After
	if w.fault.Kind == CutFirst || w.fault.Kind == StallFirst {
		return w.strike()
	}
	w.flush = r.Stream != nil || r.Fault != Fault{}
	if err := w.sendHeader(r); err != nil {
		return err
	}
	err := w.sendBody(r)
	if err == nil {
		// Also when Stream took no notice of a failed write.
		err = w.interrupted()
	}
	if err == nil && w.fault.Kind != None && w.left == 0 {
		// Armed after the last byte, or on an empty body.
		err = w.strike()
	}
	if w.struck && w.fault.Kind == CleanEOF {
		return nil
	}
	return err
}

func (w *Writer) sendHeader(r Reply) error {
	h := w.rw.Header()
	for name, values := range r.Header {
		h[name] = values
	}
	contentType := r.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	h.Set("Content-Type", contentType)
	if contentType != eventStream && r.declaresLength() {
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	if r.Status != 0 {
		w.rw.WriteHeader(r.Status)
	}
	if w.flush {
		return w.rc.Flush()
	}
	return nil
}

func (w *Writer) sendBody(r Reply) error {
	if r.Stream != nil {
		return r.Stream(w)
	}
	if len(r.Body) == 0 || !r.mayHaveBody() {
		return nil
	}
	_, err := w.Write(r.Body)
	return err
}

// put writes p in chunks and counts what the connection took.
func (w *Writer) put(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		piece := p[sent:]
		if w.fault.Chunk > 0 && len(piece) > w.fault.Chunk {
			piece = piece[:w.fault.Chunk]
		}
		n, err := w.rw.Write(piece)
		if err == nil && w.flush {
			err = w.rc.Flush()
		}
		if err != nil {
			return sent, err
		}
		sent += n
		w.x.written.Add(int64(n))
	}
	return sent, nil
}

// strike lets the fault happen as far as it can from here, and always fails.
func (w *Writer) strike() error {
	w.struck = true
	if w.fault.Kind == Stall || w.fault.Kind == StallFirst {
		close(w.x.stalled)
		select {
		case <-w.gone:
		case <-w.closing:
		}
	}
	return errStruck
}

func (w *Writer) interrupted() error {
	if w.struck {
		return errStruck
	}
	select {
	case <-w.gone:
		return errGone
	case <-w.closing:
		return errClosed
	default:
		return nil
	}
}
