package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
)

// The content codings that a body may have. Codex packs its bodies with zstd when
// it is signed in with an account.
const (
	codingZstd      = "zstd"
	codingGzip      = "gzip"
	acceptedCodings = "zstd, gzip"
)

const (
	// maxWindow is how far back a zstd body may refer. RFC 9659 allows no more in
	// HTTP, and a decoder holds as much memory as the frame asks for.
	maxWindow = 8 << 20
	// maxUnpackers is how many bodies are unpacked at the same time. A small body
	// can unpack to the largest one allowed, so this, and not the number of
	// clients, bounds the memory that such bodies take before they are refused.
	// Four unpack tens of thousands of ordinary bodies a second.
	maxUnpackers = 4
)

// readBody reads the request's body and unpacks it if it is packed. Neither form
// of it may be larger than the limit.
func (s *Server) readBody(x *exchange) ([]byte, error) {
	coding, err := contentCoding(x.r.Header)
	if err != nil {
		x.Header().Set("Accept-Encoding", acceptedCodings) // RFC 9110, 12.5.3
		return nil, err
	}
	x.coding = coding
	body, err := readAll(http.MaxBytesReader(x.ResponseWriter, x.r.Body, int64(s.opts.MaxBodyBytes)), x.r.ContentLength)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(s.opts.MaxBodyBytes)
	}
	if err != nil {
		return nil, engine.ErrClientGone
	}
	if coding != "" {
		body, err = s.unpackers.unpack(x.r.Context(), coding, body, s.opts.MaxBodyBytes)
	}
	x.received = int64(len(body))
	x.capture.add(ofRequest, body)
	return body, err
}

// maxAnnounced is how much room a body gets because it says that it is so long. A
// client that only says so must not cost us the memory.
const maxAnnounced = 256 << 10

// readAll reads r, which says that it has so many bytes, -1 if it does not say.
func readAll(r io.Reader, announced int64) ([]byte, error) {
	var b bytes.Buffer
	err := readInto(&b, r, announced)
	return b.Bytes(), err
}

// readInto is readAll with a buffer that there is already.
func readInto(b *bytes.Buffer, r io.Reader, announced int64) error {
	b.Grow(int(min(max(announced, 0), maxAnnounced)) + bytes.MinRead) // ReadFrom wants room to see the end
	_, err := b.ReadFrom(r)
	return err
}

// contentCoding returns the one coding of the body, "" if it has none. Several
// are refused: no client stacks them, and each layer multiplies what a small body
// can grow to.
func contentCoding(h http.Header) (string, error) {
	said := strings.Join(h.Values("Content-Encoding"), ",")
	coding := ""
	for word := range strings.SplitSeq(said, ",") {
		word = strings.ToLower(strings.TrimSpace(word))
		switch {
		case word == "" || word == "identity":
			continue
		case word == "x-gzip": // its other name: RFC 9110, 8.4.1.3
			word = codingGzip
		}
		if coding != "" || (word != codingZstd && word != codingGzip) {
			return "", responses.InvalidParam(responses.CodeMediaType, "",
				"Send the body plain, or with one Content-Encoding of %s; not with %.60q.", acceptedCodings, said)
		}
		coding = word
	}
	return coding, nil
}

func tooLarge(limit int) error {
	return responses.InvalidParam(responses.CodeTooLarge, "", "The request body is larger than %d bytes.", limit)
}

// unpackers are the decoders that are free. Who takes one puts it back, and does
// not wait for the network in between.
type unpackers chan *unpacker

func newUnpackers() unpackers {
	u := make(unpackers, maxUnpackers)
	for range maxUnpackers {
		u <- new(unpacker)
	}
	return u
}

// unpack returns the content of packed, which may have limit bytes. It waits for
// a decoder as long as ctx lasts.
func (u unpackers) unpack(ctx context.Context, coding string, packed []byte, limit int) ([]byte, error) {
	select {
	case d := <-u:
		defer func() { u <- d }()
		return d.unpack(coding, packed, limit)
	case <-ctx.Done():
		return nil, engine.ErrClientGone
	}
}

// An unpacker unpacks one body at a time. Its decoders are made when they are
// first needed, and keep their buffers. The zero value is usable.
type unpacker struct {
	packed bytes.Reader
	zstd   *zstd.Decoder
	gzip   *gzip.Reader
}

func (u *unpacker) unpack(coding string, packed []byte, limit int) ([]byte, error) {
	u.packed.Reset(packed)
	defer u.packed.Reset(nil) // so that an idle decoder does not keep the body
	var (
		r   io.Reader
		err error
	)
	if coding == codingZstd {
		if err := checkFrame(packed, limit); err != nil {
			return nil, err
		}
		r, err = u.zstdReader()
	} else {
		r, err = u.gzipReader()
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
	}
	// What is too large is so whether or not it is also broken.
	if len(body) > limit {
		return nil, tooLarge(limit)
	}
	if err != nil {
		return nil, brokenBody(coding, err)
	}
	return body, nil
}

// checkFrame refuses by its first header a zstd body that says that it is too
// large or needs too much memory. The decoder holds every frame to the same
// window, but cannot say why it refuses one.
func checkFrame(packed []byte, limit int) error {
	var h zstd.Header
	if h.Decode(packed) != nil {
		return nil // the decoder knows better what is wrong
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return tooLarge(limit)
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if window > maxWindow {
		return responses.InvalidParam(responses.CodeTooLarge, "",
			"The zstd body needs a window of %d bytes; pack it with one of at most %d.", window, maxWindow)
	}
	return nil
}

func (u *unpacker) zstdReader() (io.Reader, error) {
	if u.zstd != nil {
		return u.zstd, u.zstd.Reset(&u.packed)
	}
	// One at a time means that the decoder starts no goroutine: there is nothing
	// to close. For a reader, the maximum is that of the window.
	d, err := zstd.NewReader(&u.packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxWindow))
	u.zstd = d
	return d, err
}

func (u *unpacker) gzipReader() (io.Reader, error) {
	if u.gzip == nil {
		u.gzip = new(gzip.Reader)
	}
	return u.gzip, u.gzip.Reset(&u.packed)
}

// brokenBody is the answer to a body that is not what its header says.
func brokenBody(coding string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return responses.InvalidParam(responses.CodeInvalidRequest, "", "The body ends before its %s stream does.", coding).WithCause(err)
	}
	return responses.InvalidParam(responses.CodeInvalidRequest, "", "The body is not valid %s, although its Content-Encoding says so.", coding).WithCause(err)
}
