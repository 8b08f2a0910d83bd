package antiphon_test

import (
	"bytes"
	"encoding/json/v2"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/openapitest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// TestSpineGoldens sends every golden of every driver through the whole gateway,
// streamed and not (R12, R61). The stream obeys the grammar, its fold is the JSON
// answer (for failures: same code and message), and everything that leaves
// validates against the Open Responses document. Nothing of our own making is
// sent that the client did not ask for (R18).
func TestSpineGoldens(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	for _, p := range protocols {
		goldens, err := upstreamtest.Load(p.goldens)
		if err != nil {
			t.Fatal(err)
		}
		for _, golden := range goldens {
			t.Run(p.name+"/"+golden.Name, func(t *testing.T) {
				t.Parallel()
				answer := askGolden(t, checker, p.driver, golden, antiphon.Options{})
				if answer == nil {
					return
				}
				for _, data := range answer.raw {
					if bytes.Contains(data, []byte(`"type":"antiphon:`)) {
						t.Errorf("an extension that nobody asked for: %s", data)
					}
				}
				compareAnswers(t, checker, answer.status, answer.whole, answer.events)
			})
		}
	}
}

// A goldenAnswer is what a gateway makes of a golden for both kinds of client.
type goldenAnswer struct {
	status int
	whole  []byte // the JSON answer
	events []responses.Event
	raw    [][]byte // the same as they were sent
}

// askGolden asks a gateway with the options, over the golden as its upstream, for a
// JSON answer and for a stream, whose events are checked one by one. It returns nil
// if the stream was refused; then so was the other, in the same words.
func askGolden(t *testing.T, checker *openapitest.Checker, driver func(e upstream.Endpoint) upstream.Driver, golden *upstreamtest.Golden, opts antiphon.Options) *goldenAnswer {
	t.Helper()
	web := httptest.NewServer(golden)
	t.Cleanup(web.Close)
	clock := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	opts.Now = func() time.Time { return clock }
	g := startOver(t, web.URL, driver, opts)

	var a goldenAnswer
	a.status, a.whole = g.postJSON(t, withStream(t, golden.Request, false))
	resp := g.post(t.Context(), t, withStream(t, golden.Request, true))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, "the refusals of both kinds of client", a.whole, body)
		return nil
	}
	a.events, a.raw = readStream(t, resp.Body)
	for _, data := range a.raw {
		if err := checker.CheckEvent(data); err != nil {
			t.Errorf("%s\n%v", data, err)
		}
	}
	return &a
}

// compareAnswers checks the JSON answer against the fold of the stream.
func compareAnswers(t *testing.T, checker *openapitest.Checker, status int, whole []byte, events []responses.Event) {
	t.Helper()
	var fold responses.Fold
	for i := range events {
		fold.Add(&events[i])
	}
	folded, err := fold.Response()
	if err != nil {
		t.Fatal(err)
	}
	if folded.Status == responses.StatusFailed {
		var failure struct {
			Error *responses.ErrorBody `json:"error"`
		}
		if err := json.Unmarshal(whole, &failure); err != nil {
			t.Fatal(err)
		}
		if status != folded.Error.Code.Status() {
			t.Errorf("the status is %d, want that of %s", status, folded.Error.Code)
		}
		if diff := cmp.Diff(folded.Error, failure.Error); diff != "" {
			t.Errorf("errors of stream and JSON differ (-stream +JSON):\n%s", diff)
		}
		return
	}
	if status != http.StatusOK {
		t.Fatalf("the status is %d: %s", status, whole)
	}
	if err := checker.CheckResponse(whole); err != nil {
		t.Errorf("%s\n%v", whole, err)
	}
	b, err := folded.Encode()
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "the fold of the stream and the JSON answer", b, whole)
}

// sameJSON compares two documents as values, with minted ids made stable.
func sameJSON(t *testing.T, what string, a, b []byte) {
	t.Helper()
	var av, bv any
	if err := json.Unmarshal([]byte(stableIDs(a)), &av); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if err := json.Unmarshal([]byte(stableIDs(b)), &bv); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if diff := cmp.Diff(av, bv); diff != "" {
		t.Errorf("%s differ (-first +second):\n%s", what, diff)
	}
}
