package antiphon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// TestLongNames: however long a name is that a client makes up, of a model or of a
// member, neither the log nor the answer's headers grow with it, and an error quotes
// no more than it takes to know which (R35).
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	_, base := startModel(t, fakeupstream.Chat|fakeupstream.Responses)
	for mode, opts := range map[string]antiphon.Options{"transparent": {}, "strict": strict} {
		for name, body := range map[string]string{
			"model":  fmt.Sprintf(`{"model":%q,"input":"x","messages":[{"role":"user","content":"x"}]}`, long),
			"member": fmt.Sprintf(`{"model":"m",%q:1,"input":"x","messages":[{"role":"user","content":"x"}]}`, long),
			"type":   fmt.Sprintf(`{"model":"m","input":[{"type":%q}],"tools":[{"type":%q}],"messages":[{"role":"user","content":"x"}]}`, long, long),
		} {
			for _, path := range []string{"/v1/responses", "/v1/responses/input_tokens", "/v1/chat/completions", "/v1/embeddings", "/v1/things", "/v1/conversations"} {
				t.Run(mode+" "+name+" "+path, func(t *testing.T) {
					t.Parallel()
					g := startOver(t, base, protocols[1].driver, opts)
					body := body
					if !strings.Contains(path, "chat") {
						body = strings.Replace(body, `"messages"`, `"x"`, 1)
					}
					resp, answer := g.send(t, "POST", path, body)
					header := 0
					for name, values := range resp.Header {
						header += len(name) + len(strings.Join(values, ""))
					}
					g.Server.Close() // waits for the log
					if log := g.logs.String(); len(log) > 4<<10 || header > 4<<10 || resp.StatusCode >= 400 && resp.Header.Get("Antiphon-Upstream") == "" && len(answer) > 4<<10 {
						t.Errorf("%d: %d bytes of log, %d of headers, %d of body: %.300s", resp.StatusCode, len(log), header, len(answer), log)
					}
				})
			}
		}
	}
}
