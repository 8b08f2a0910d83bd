package server_test

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// packZstd packs what r yields in one frame of unknown size, as clients that
// stream do.
func packZstd(t *testing.T, r io.Reader, opts ...zstd.EOption) string {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, append(opts, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func packGzip(t *testing.T, r io.Reader) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// zeros yields n zeros, which pack best.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// errorOf reads the code and the message of an error.
func errorOf(t *testing.T, body string) responses.ErrorBody {
	t.Helper()
	var got struct {
		Error responses.ErrorBody `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return got.Error
}

// TestPackedBodies: what reaches the upstream is the same, however it came.
func TestPackedBodies(t *testing.T) {
	t.Parallel()
	const body = `{"model":"packed","input":"hi"}`
	whole, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	half := len(body) / 2
	for name, test := range map[string]struct {
		encoding []string // header values
		body     string
		logged   string
	}{
		"plain":                 {[]string{"identity"}, body, ""},
		"zstd, streamed":        {[]string{"zstd"}, packZstd(t, strings.NewReader(body)), "zstd"},
		"zstd, whole":           {[]string{"zstd"}, string(whole.EncodeAll([]byte(body), nil)), "zstd"},
		"zstd, two frames":      {[]string{"zstd"}, packZstd(t, strings.NewReader(body[:half])) + packZstd(t, strings.NewReader(body[half:])), "zstd"},
		"gzip":                  {[]string{"gzip"}, packGzip(t, strings.NewReader(body)), "gzip"},
		"gzip, two members":     {[]string{"gzip"}, packGzip(t, strings.NewReader(body[:half])) + packGzip(t, strings.NewReader(body[half:])), "gzip"},
		"gzip by its old name":  {[]string{"x-gzip"}, packGzip(t, strings.NewReader(body)), "gzip"},
		"upper case":            {[]string{" ZSTD "}, packZstd(t, strings.NewReader(body)), "zstd"},
		"identity beside it":    {[]string{"identity", "zstd,"}, packZstd(t, strings.NewReader(body)), "zstd"},
		"window above the size": {[]string{"zstd"}, packZstd(t, strings.NewReader(body), zstd.WithWindowSize(8<<20)), "zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var model string
			g := newGateway(t, func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
				model = turn.Request.Model
				return says("x")(ctx, turn)
			}, &server.Options{MaxBodyBytes: 2000})
			resp, got := g.send(t, test.body, http.Header{"Content-Encoding": test.encoding})
			if resp.StatusCode != http.StatusOK || model != "packed" {
				t.Errorf("%d, model %q: %s", resp.StatusCode, model, got)
			}
			g.Close()
			var line struct {
				Encoding string `json:"encoding"`
			}
			if err := json.Unmarshal([]byte(g.logs.String()), &line); err != nil || line.Encoding != test.logged {
				t.Errorf("%v: the log says %s", err, g.logs)
			}
		})
	}
}

// send posts a body with a header that may repeat.
func (g *gateway) send(t *testing.T, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/responses", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := g.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// TestPackedBodiesRefused: each refusal says what is wrong, and no body, however
// broken, leaves a decoder behind that spoils the next one.
func TestPackedBodiesRefused(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","input":"a body that is long enough to be cut in the middle, and has some text to pack"}`
	zst, gz := packZstd(t, strings.NewReader(body)), packGzip(t, strings.NewReader(body))
	flipped := []byte(gz)
	flipped[len(gz)-6] ^= 0xff // in the checksum
	// A frame header: magic, descriptor, then window or content size.
	const magic = "\x28\xb5\x2f\xfd"
	for name, test := range map[string]struct {
		encoding, body string
		status         int
		code           responses.Code
		says           string
	}{
		"unknown":                {"br", body, 415, responses.CodeMediaType, `zstd, gzip; not with "br"`},
		"deflate":                {"deflate", body, 415, responses.CodeMediaType, "zstd, gzip"},
		"stacked":                {"gzip, zstd", body, 415, responses.CodeMediaType, "zstd, gzip"},
		"stacked on itself":      {"zstd, zstd", body, 415, responses.CodeMediaType, "zstd, gzip"},
		"zstd, not packed":       {"zstd", body, 400, responses.CodeInvalidRequest, "not valid zstd"},
		"gzip, not packed":       {"gzip", body, 400, responses.CodeInvalidRequest, "not valid gzip"},
		"zstd, cut":              {"zstd", zst[:len(zst)-20], 400, responses.CodeInvalidRequest, "ends before its zstd stream"},
		"zstd, checksum cut":     {"zstd", zst[:len(zst)-1], 400, responses.CodeInvalidRequest, "ends before its zstd stream"},
		"zstd, magic cut":        {"zstd", zst[:3], 400, responses.CodeInvalidRequest, "ends before its zstd stream"},
		"zstd, more behind":      {"zstd", zst + "more", 400, responses.CodeInvalidRequest, "not valid zstd"},
		"gzip, cut":              {"gzip", gz[:len(gz)-20], 400, responses.CodeInvalidRequest, "ends before its gzip stream"},
		"gzip, empty":            {"gzip", "", 400, responses.CodeInvalidRequest, "ends before its gzip stream"},
		"gzip, checksum":         {"gzip", string(flipped), 400, responses.CodeInvalidRequest, "not valid gzip"},
		"gzip, more behind":      {"gzip", gz + "more behind it", 400, responses.CodeInvalidRequest, "not valid gzip"},
		"zstd, empty":            {"zstd", "", 400, responses.CodeInvalidJSON, ""},
		"zstd, dictionary":       {"zstd", magic + "\x01\x50\x07\x01\x00\x00", 400, responses.CodeInvalidRequest, "not valid zstd"},
		"zstd, too large":        {"zstd", packZstd(t, zeros(2001)), 413, responses.CodeTooLarge, "larger than 2000 bytes"},
		"zstd, large and broken": {"zstd", packZstd(t, zeros(1<<20))[:20], 413, responses.CodeTooLarge, "larger than 2000 bytes"},
		"gzip, too large":        {"gzip", packGzip(t, zeros(2001)), 413, responses.CodeTooLarge, "larger than 2000 bytes"},
		"packed too large":       {"zstd", strings.Repeat("x", 2001), 413, responses.CodeTooLarge, "larger than 2000 bytes"},
		"zstd, says 2 GiB":       {"zstd", magic + "\xa0\x00\x00\x00\x80\x01\x00\x00", 413, responses.CodeTooLarge, "larger than 2000 bytes"},
		"zstd, window 1 GiB":     {"zstd", magic + "\x00\xa0\x01\x00\x00", 413, responses.CodeTooLarge, "window of 1073741824 bytes; pack it with one of at most 8388608"},
		"zstd, second window":    {"zstd", zst + magic + "\x00\xa0\x01\x00\x00", 400, responses.CodeInvalidRequest, "not valid zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, says("x"), &server.Options{MaxBodyBytes: 2000})
			for range 5 { // once more than there are decoders
				resp, got := g.do(t, "POST", "/v1/responses", test.body, "Content-Encoding", test.encoding)
				e := errorOf(t, got)
				if resp.StatusCode != test.status || responses.Code(e.Code) != test.code || !strings.Contains(e.Message, test.says) {
					t.Fatalf("%d: %s", resp.StatusCode, got)
				}
				if accept := resp.Header.Get("Accept-Encoding"); (accept == "zstd, gzip") != (test.status == 415) {
					t.Errorf("%d with Accept-Encoding %q", test.status, accept)
				}
			}
			for encoding, good := range map[string]string{"zstd": zst, "gzip": gz} {
				if resp, got := g.do(t, "POST", "/v1/responses", good, "Content-Encoding", encoding); resp.StatusCode != http.StatusOK {
					t.Errorf("%s afterwards: %d: %s", encoding, resp.StatusCode, got)
				}
			}
		})
	}
}

// TestBombs: a small body that unpacks to a huge one is refused when it has
// reached the limit, with memory in proportion to the limit.
//
// It is not parallel, because it measures what the process allocates.
func TestBombs(t *testing.T) {
	const limit = 4 << 20
	// Packed once and repeated: frames, and members, that follow each other are
	// one body. The first one alone is within the limit.
	const piece = 2 << 20
	for name, bomb := range map[string]struct {
		encoding, body string
		size           int
	}{
		"zstd":            {"zstd", strings.Repeat(packZstd(t, zeros(piece)), 10<<30/piece), 10 << 30},
		"zstd, one frame": {"zstd", frameOfZeros(10 << 30), 10 << 30},
		"gzip":            {"gzip", strings.Repeat(packGzip(t, zeros(piece)), 2<<30/piece), 2 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			if len(bomb.body) > limit {
				t.Fatalf("%d bytes are too large before they are unpacked", len(bomb.body))
			}
			g := newGateway(t, says("x"), &server.Options{MaxBodyBytes: limit})
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, got := g.do(t, "POST", "/v1/responses", bomb.body, "Content-Encoding", bomb.encoding)
			runtime.ReadMemStats(&after)
			if resp.StatusCode != http.StatusRequestEntityTooLarge || errorOf(t, got).Code != responses.CodeTooLarge {
				t.Errorf("%d: %s", resp.StatusCode, got)
			}
			// All that was allocated, freed or not: the packed body and the content up
			// to the limit, which the race detector makes io.ReadAll copy twice more,
			// and the window of 8 MiB.
			const most = 12*limit + 2*8<<20
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes for %d GiB took %d MiB", len(bomb.body), bomb.size>>30, allocated>>20)
			if allocated > most {
				t.Errorf("%d bytes of memory to refuse %d, want at most %d", allocated, len(bomb.body), most)
			}
		})
	}
}

// frameOfZeros is one zstd frame with n zeros, the densest that the format can
// express: blocks of 128 KiB, each of one byte that is repeated.
func frameOfZeros(n int) string {
	const block = 128 << 10
	header := uint32(block)<<3 | 1<<1 // not the last, type RLE
	rle := string([]byte{byte(header), byte(header >> 8), byte(header >> 16), 0})
	// No content size, no checksum, a window of 8 MiB.
	return "\x28\xb5\x2f\xfd\x00\x68" + strings.Repeat(rle, n/block-1) + "\x03\x00\x10\x00"
}
