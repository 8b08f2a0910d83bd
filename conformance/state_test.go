//go:build unix

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/internal/redistest"
)

var (
	stateConversations = flag.Int("state-conversations", 8, "how many conversations TestStateTwoGateways has at once")
	stateTurns         = flag.Int("state-turns", 12, "how many turns each of them has")
)

// TestStateTwoGateways: two gateways on one store are one. Each turn of each
// conversation goes to either of them, and the upstream gets the complete history
// in order every time (R40).
func TestStateTwoGateways(t *testing.T) {
	t.Parallel()
	antiphon := buildCommands(t) + "/antiphon"
	for name, store := range map[string]func(t *testing.T) string{
		"PostgreSQL": func(t *testing.T) string { return pgtest.URL(t) },
		"Redis":      func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr + "/0" },
	} {
		t.Run(name, func(t *testing.T) { // one after the other: each has the machine
			twoGateways(t, antiphon, store(t))
		})
	}
}

func twoGateways(t *testing.T, antiphon, store string) {
	model := newHistorian(t)
	config := filepath.Join(t.TempDir(), "gateway.yaml")
	file := fmt.Sprintf("upstreams:\n  historian: { protocol: chat, url: %q }\nmodels: { m: historian }\nstate: { store: %q }\n", model.url, store)
	if err := os.WriteFile(config, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var gateways []string
	for range 2 {
		gateways = append(gateways, startServer(t, "/readyz", antiphon, "serve", "--config", config))
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *stateConversations}}
	defer client.CloseIdleConnections()
	var talks sync.WaitGroup
	var busy atomic.Int64
	began := time.Now()
	for i := range *stateConversations {
		talks.Go(func() {
			previous := ""
			for turn := range *stateTurns {
				input := fmt.Sprintf("%d/%d", i, turn)
				id, err := sayTurn(t.Context(), client, gateways[rand.IntN(len(gateways))], input, previous, turn%2 == 0)
				for errors.Is(err, errBusy) { // as every SDK does
					busy.Add(1)
					time.Sleep(time.Second)
					id, err = sayTurn(t.Context(), client, gateways[rand.IntN(len(gateways))], input, previous, turn%2 == 0)
				}
				if err != nil {
					t.Errorf("conversation %d, turn %d: %v", i, turn, err)
					return
				}
				previous = id
			}
		})
	}
	talks.Wait()
	want := int64(*stateConversations * *stateTurns)
	t.Logf("%d conversations of %d turns in %s: %d answered, %d with a wrong history, %d sent again after a 503",
		*stateConversations, *stateTurns, time.Since(began).Round(time.Second/10), model.right.Load(), model.wrong.Load(), busy.Load())
	if model.wrong.Load() != 0 || model.right.Load() < want {
		t.Errorf("%d right, want %d; the first wrong one: %v", model.right.Load(), want, model.example.Load())
	}
}

// errBusy: the gateway says that the request can be sent again.
var errBusy = errors.New("busy")

// sayTurn says something and returns the id of the response.
func sayTurn(ctx context.Context, client *http.Client, base, input, previous string, stream bool) (string, error) {
	request := map[string]any{"model": "m", "input": input, "stream": stream}
	if previous != "" {
		request["previous_response_id"] = previous
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/responses", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode == http.StatusServiceUnavailable || strings.Contains(string(answer), `"code":"server_is_overloaded"`) {
		return "", errBusy
	}
	if resp.StatusCode != http.StatusOK || stream && !strings.Contains(string(answer), "event: response.completed\n") || !strings.Contains(string(answer), "re: "+input) {
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	_, id, _ := strings.Cut(string(answer), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id, nil
}

// A historian is a chat model that knows what it must have been told: in turn n of
// a conversation, all turns before it.
type historian struct {
	url          string
	right, wrong atomic.Int64
	example      atomic.Value
}

func newHistorian(t *testing.T) *historian {
	h := new(historian)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL + "/v1"
	return h
}

func (h *historian) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.UnmarshalRead(r.Body, &request); err != nil || len(request.Messages) == 0 {
		http.Error(w, "{}", http.StatusNotFound) // what a gateway asks at its start
		return
	}
	last := request.Messages[len(request.Messages)-1].Content
	var conversation, turn int
	_, err := fmt.Sscanf(last, "%d/%d", &conversation, &turn)
	correct := err == nil && len(request.Messages) == 2*turn+1
	for i, m := range request.Messages {
		role, content := "user", fmt.Sprintf("%d/%d", conversation, i/2)
		if i%2 == 1 {
			role, content = "assistant", "re: "+content
		}
		correct = correct && m.Role == role && m.Content == content
	}
	if !correct {
		h.wrong.Add(1)
		h.example.CompareAndSwap(nil, fmt.Sprint(request.Messages))
		http.Error(w, `{"error":{"message":"this is not the history"}}`, http.StatusBadRequest)
		return
	}
	h.right.Add(1)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"re: %s\"}}]}\n\n", last)
	fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}
