//go:build unix

package conformance_test

import (
	"context"
	"crypto/rand"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/internal/redistest"
)

// planted is a gateway that is well, and a way to make it ill. fault returns when
// what it set off has ended.
type planted struct {
	gateway *operated
	health  func(t *testing.T)
	fault   func(t *testing.T)
}

// faults are those of the table in docs/operating.md, by their names there.
var faults = map[string]func(t *testing.T, bin string) *planted{
	"dead upstream":             plantDeadUpstream,
	"slow upstream":             plantSlowUpstream,
	"wrong key":                 plantWrongKey,
	"exhausted limit":           plantExhaustedLimit,
	"full disk of PostgreSQL":   plantFullDisk,
	"Redis down":                plantRedisDown,
	"bad configuration":         plantBadConfiguration,
	"slow reader":               plantSlowReader,
	"grammar-breaking upstream": plantBrokenGrammar,
	"leaking tool":              plantLeakingTool,
}

// A moody upstream answers as a small model until it is told to answer otherwise.
type moody struct {
	url    string
	server *httptest.Server
	mood   atomic.Pointer[func(x *fakeupstream.Exchange) fakeupstream.Reply]
}

func newMoody(t *testing.T, speaks fakeupstream.Protocol) *moody {
	t.Helper()
	m := &moody{}
	model := fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: speaks})
	fake := fakeupstream.NewServer(func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if mood := m.mood.Load(); mood != nil {
			return (*mood)(x)
		}
		return model.Answer(x)
	})
	m.server = httptest.NewServer(fake)
	t.Cleanup(m.server.Close)
	t.Cleanup(fake.Close)
	m.url = m.server.URL + "/v1"
	return m
}

func (m *moody) set(mood func(x *fakeupstream.Exchange) fakeupstream.Reply) { m.mood.Store(&mood) }

// overModel is a gateway over the upstream, and what is healthy there: an answer in
// JSON and one as a stream.
func overModel(t *testing.T, bin, protocol string, m *moody, config string) *planted {
	t.Helper()
	o := operate(t, bin, fmt.Sprintf("upstreams: { local: { protocol: %s, url: %q } }\n%s", protocol, m.url, config))
	return &planted{gateway: o, health: func(t *testing.T) {
		o.expect(t, 200, "completed", `{"model":"tiny","input":"hello"}`)
		o.expect(t, 200, "response.completed", `{"model":"tiny","input":"hello","stream":true}`)
	}}
}

func plantDeadUpstream(t *testing.T, bin string) *planted {
	m := newMoody(t, fakeupstream.Chat)
	p := overModel(t, bin, "chat", m, "")
	p.fault = func(t *testing.T) {
		m.server.CloseClientConnections()
		m.server.Close()
		for range 6 {
			p.gateway.expect(t, 502, "could not be reached", `{"model":"tiny","input":"hello"}`)
		}
	}
	return p
}

func plantSlowUpstream(t *testing.T, bin string) *planted {
	m := newMoody(t, fakeupstream.Chat)
	p := overModel(t, bin, "chat", m, "timeouts: { first_event: 3s }")
	p.fault = func(t *testing.T) {
		model := fakeupstream.NewModel(nil)
		m.set(func(x *fakeupstream.Exchange) fakeupstream.Reply {
			reply := model.Answer(x)
			reply.Delay = 1500 * time.Millisecond
			return reply
		})
		p.gateway.expect(t, 200, "completed", `{"model":"tiny","input":"hello"}`)
		p.gateway.expect(t, 504, "upstream_timeout", `{"model":"tiny","input":"[[stall-first]] hello"}`)
	}
	return p
}

func plantWrongKey(t *testing.T, bin string) *planted {
	m := newMoody(t, fakeupstream.Chat)
	p := overModel(t, bin, "chat", m, "")
	p.fault = func(t *testing.T) {
		m.set(func(*fakeupstream.Exchange) fakeupstream.Reply {
			return fakeupstream.JSON(http.StatusUnauthorized, `{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}`)
		})
		p.gateway.expect(t, 502, "refused the gateway's request", `{"model":"tiny","input":"hello"}`)
	}
	return p
}

func plantExhaustedLimit(t *testing.T, bin string) *planted {
	m := newMoody(t, fakeupstream.Chat)
	const poor, rich = "poor-key-0123456789", "rich-key-0123456789"
	p := overModel(t, bin, "chat", m, fmt.Sprintf(`
auth:
  keys:
    - { name: rich, key: %s, tenant: a }
    - { name: poor, key: %s, tenant: b, limits: { requests_per_minute: 1 } }
`, rich, poor))
	p.health = func(t *testing.T) {
		for _, key := range []string{rich, poor} {
			p.gateway.expect(t, 200, "completed", `{"model":"tiny","input":"hello"}`, "Authorization", "Bearer "+key)
		}
	}
	p.fault = func(t *testing.T) {
		p.gateway.expect(t, 429, "slow down", `{"model":"tiny","input":"hello"}`, "Authorization", "Bearer "+poor)
	}
	return p
}

// remember is a response and another that goes on from it.
func (p *planted) remember(t *testing.T) {
	_, answer := p.gateway.ask(t, "/v1/responses", `{"model":"tiny","input":"hello"}`)
	var first struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(answer), &first); err != nil || first.ID == "" {
		t.Fatal(answer, err)
	}
	p.gateway.expect(t, 200, "completed", fmt.Sprintf(`{"model":"tiny","input":"hello again","previous_response_id":%q}`, first.ID))
}

// plantFullDisk fills the file system that a PostgreSQL has to itself.
func plantFullDisk(t *testing.T, bin string) *planted {
	disk := pgtest.SmallDisk(t, 160<<20)
	server := pgtest.StartIn(t, disk.Dir)
	p := overModel(t, bin, "chat", newMoody(t, fakeupstream.Chat), fmt.Sprintf("state: { store: %q }", server.URL()))
	p.health = p.remember
	p.fault = func(t *testing.T) {
		disk.Fill()
		defer disk.Empty()
		// More than fits into pages that are there already, however it is packed.
		noise := make([]byte, 300<<10)
		rand.Read(noise)
		p.gateway.expect(t, 503, "store did not take it", fmt.Sprintf(`{"model":"tiny","input":[{"role":"user","content":"%x"},{"role":"user","content":"hello"}]}`, noise))
	}
	return p
}

func plantRedisDown(t *testing.T, bin string) *planted {
	server := redistest.Start(t)
	p := overModel(t, bin, "chat", newMoody(t, fakeupstream.Chat), fmt.Sprintf("state: { store: %q }", "redis://"+server.Addr))
	p.health = p.remember
	p.fault = func(t *testing.T) {
		server.Kill()
		p.gateway.expect(t, 503, "store did not take it", `{"model":"tiny","input":"hello"}`) // Redis had just been there
		p.gateway.expect(t, 503, "", `{"model":"tiny","input":"hello"}`)
	}
	return p
}

func plantBadConfiguration(t *testing.T, bin string) *planted {
	p := overModel(t, bin, "chat", newMoody(t, fakeupstream.Chat), "")
	p.fault = func(t *testing.T) {
		p.gateway.write(t, "upstreams: { local: { protocl: chat } }\n")
		resp, err := http.Post(p.gateway.admin+"/admin/reload", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("the reload has status %d", resp.StatusCode)
		}
		p.health(t) // the old one goes on
	}
	return p
}

// plantSlowReader opens a stream and does not read it: the gateway gives up after
// half a minute.
func plantSlowReader(t *testing.T, bin string) *planted {
	m := newMoody(t, fakeupstream.Chat)
	p := overModel(t, bin, "chat", m, "")
	p.fault = func(t *testing.T) {
		m.set(func(*fakeupstream.Exchange) fakeupstream.Reply {
			text := strings.Repeat("and so on ", 400)
			frame := fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q}}]}\n\n", text)
			return fakeupstream.Reply{ContentType: "text/event-stream", Stream: func(w *fakeupstream.Writer) error {
				for { // until the gateway leaves
					if _, err := io.WriteString(w, frame); err != nil {
						return err
					}
				}
			}}
		})
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.gateway.api, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		const body = `{"model":"tiny","input":"hello","stream":true}`
		fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		p.gateway.await(t, "slow_reader")
	}
	return p
}

// await waits until a request has ended of the cause.
func (o *operated) await(t *testing.T, cause string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for {
		for _, r := range o.scrape(t) {
			if r.sample.Name == "antiphon_requests_total" && r.sample.Labels["cause"] == cause {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no request has ended with the cause %s", cause)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// brokenStream goes on with an item that was done.
const brokenStream = `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"tiny","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":2,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hello","annotations":[]}]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" again"}

event: response.completed
data: {"type":"response.completed","sequence_number":4,"response":{"id":"resp_1","object":"response","status":"completed","model":"tiny","output":[]}}

`

func plantBrokenGrammar(t *testing.T, bin string) *planted {
	m := newMoody(t, fakeupstream.Responses)
	p := overModel(t, bin, "responses", m, "")
	healthy := p.health
	p.health = func(t *testing.T) {
		healthy(t)
		p.gateway.expect(t, 200, "response.completed", `{"model":"tiny","input":"hello","stream":true,"store":false}`)
	}
	p.fault = func(t *testing.T) {
		m.set(func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.SSE(brokenStream) })
		p.gateway.expect(t, 200, "response.completed", `{"model":"tiny","input":"hello","stream":true,"store":false}`) // relayed as it came
		p.gateway.expect(t, 502, "", `{"model":"tiny","input":"hello"}`)
	}
	return p
}

// plantLeakingTool has a tool that returns without end and one that never returns.
func plantLeakingTool(t *testing.T, bin string) *planted {
	var leaks atomic.Bool
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !leaks.Load():
			io.WriteString(w, "fine")
		case r.URL.Path == "/never":
			<-r.Context().Done()
		default:
			io.WriteString(w, strings.Repeat("x", 64<<10))
		}
	}))
	t.Cleanup(tool.Close)
	p := overModel(t, bin, "chat", newMoody(t, fakeupstream.Chat), fmt.Sprintf(`
tools:
  limits: { call_time: 1s, output_bytes: 16384 }
  http:
    - { name: large, url: "%[1]s/large", approval: never }
    - { name: never, url: "%[1]s/never", approval: never }
`, tool.URL))
	call := func(t *testing.T) {
		for _, name := range []string{"large", "never"} {
			p.gateway.expect(t, 200, "completed", fmt.Sprintf(`{"model":"tiny","input":"[[call %[1]s {}]] go","tools":[{"type":"function","name":%[1]q}]}`, name))
		}
	}
	p.health = call
	p.fault = func(t *testing.T) {
		leaks.Store(true)
		call(t)
	}
	return p
}
