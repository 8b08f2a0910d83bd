package main

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestWholeResponse(t *testing.T) {
	t.Parallel()
	answer := renderResponse(script{playWhole, 1_500})
	if n := len(answer.body); n < 1_400 || n > 1_500 || answer.units != 1 || answer.contentType != "application/json" {
		t.Errorf("got %d bytes of %s and %d units, want about 1500 of JSON and one", n, answer.contentType, answer.units)
	}
	var r struct {
		Status string `json:"status"`
		Output []any  `json:"output"`
	}
	if err := json.Unmarshal(answer.body, &r); err != nil || r.Status != "completed" || len(r.Output) != 1 {
		t.Errorf("got status %q and %d items, %v; want completed and one", r.Status, len(r.Output), err)
	}
	again := jsontext.Value(bytes.Clone(answer.body))
	if err := again.Compact(); err != nil || bytes.Equal(again, answer.body) {
		t.Errorf("an answer that was encoded on its way would be taken for a relayed one (%v)", err)
	}
}

// TestStreamedResponse: the events are numbered and end well, and are written
// whole, in the pieces that the script names.
func TestStreamedResponse(t *testing.T) {
	t.Parallel()
	burst, token := renderResponse(script{playBurst, 300}), renderResponse(script{playToken, 300})
	for _, answer := range []*cannedResponse{burst, token} {
		if !bytes.Equal(bytes.Join(answer.pieces, nil), answer.body) {
			t.Error("the pieces are not the body")
		}
		var seen tally
		seen.Write(answer.body)
		if seen.deltas != 300 || seen.frames != answer.units || seen.last != "response.completed" {
			t.Errorf("got %d deltas and %d events, at last %q; want 300 of %d and completed", seen.deltas, seen.frames, seen.last, answer.units)
		}
	}
	if len(token.pieces) != token.units {
		t.Errorf("tokens: %d writes for %d events", len(token.pieces), token.units)
	}
	for i, piece := range burst.pieces {
		if len(piece) > burstBytes || !bytes.HasSuffix(piece, []byte("\n\n")) {
			t.Errorf("burst %d has %d bytes and ends in %q", i, len(piece), piece[len(piece)-2:])
		}
	}
	for i, event := range responseEvents(2) {
		_, data, _ := strings.Cut(event, "data: ")
		var ev struct {
			Type   string `json:"type"`
			Number int    `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(data), &ev); err != nil || ev.Number != i || !strings.HasPrefix(event, "event: "+ev.Type+"\n") {
			t.Errorf("event %d: got %+v of %q, %v", i, ev, event, err)
		}
	}
}

// TestReplayResponds: replay answers what a request asks for, whatever its size.
func TestReplayResponds(t *testing.T) {
	t.Parallel()
	h, err := newReplay(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, load := range relayLoads {
		request := responseRequest(load.play, load.request)
		if n := len(request); n < load.request-len(cannedToken) || n > load.request {
			t.Errorf("%s: the request has %d bytes", load.name, n)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", bytes.NewReader(request)))
		if want := renderResponse(load.play); w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), want.body) {
			t.Errorf("%s: got %d and %d bytes, want %d", load.name, w.Code, w.Body.Len(), len(want.body))
		}
	}
	for name, body := range map[string]string{
		"not an object":       `[]`,
		"another member":      `{"input":"whole-10"}`,
		"another kind":        `{"model":1}`,
		"nothing":             ``,
		"script of chat only": `{"model":"hold-1"}`,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(body)))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: got status %d, want 404", name, w.Code)
		}
	}
}

func TestSameBytes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, got, want string
		fails           string // "" if they are the same
	}{
		{"same", "answer", "answer", ""},
		{"both empty", "", "", ""},
		{"other byte", "anSwer", "answer", "from byte 2 on"},
		{"too short", "answ", "answer", "2 bytes before its end"},
		{"too long", "answers", "answer", "from byte 6 on"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := sameBytes(iotest.OneByteReader(strings.NewReader(tt.got)), []byte(tt.want), make([]byte, 4))
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("got %v, want %q", err, tt.fails)
			}
		})
	}
}

// TestRelaySmoke runs a tiny race of every load against the programs as they are
// built, so every answer is compared with the upstream's.
func TestRelaySmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the gateway and runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := newRig(ctx, true, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, load := range relayLoads {
		runners, err := relayRace(ctx, r, &load, time.Millisecond, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range runners {
			if len(to.rates) != 2 || to.rates[0] <= 0 || to.units < 2*relayConnections {
				t.Errorf("%s, %s: got rates %v of %d, want two rounds", load.name, to.name, to.rates, to.units)
			}
		}
	}
	if len(r.running) != 0 {
		t.Errorf("%d processes are still running", len(r.running))
	}
}
