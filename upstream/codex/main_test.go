package codex

import (
	"bufio"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asAppServer makes the test binary be an app-server. Its value says how.
const asAppServer = "CODEX_TEST_APP_SERVER"

func TestMain(m *testing.M) {
	if how, ok := os.LookupEnv(asAppServer); ok {
		standIn(how)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// printedCatalog is what the stand-in prints as its catalog.
const printedCatalog = `{"models":[{"slug":"gpt-a","visibility":"list","context_window":1000,"support_verbosity":true,"tool_mode":"code_mode_only","default_verbosity":"low"},
	{"slug":"gpt-hidden","visibility":"hide","context_window":5}]}`

// rpc is a line of the stand-in.
type rpc struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`
}

// standIn is a small app-server. The last text of the injected input says what it
// does: hello, stall, die, noise, long, half, ask, slow.
func standIn(how string) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "debug":
		fmt.Println(printedCatalog)
		return
	case how == "gateway":
		h, err := makeHome(os.Args[1], credential{key: "sk-secret"}, nil)
		if err != nil {
			panic(err)
		}
		fmt.Println(h.dir)
		time.Sleep(time.Hour)
	case how == "broken":
		fmt.Fprintln(os.Stderr, "cannot run today")
		os.Exit(7)
	case how == "mute":
		time.Sleep(time.Hour)
	}
	s := &server{texts: map[string]string{}, memory: 100 << 20, deaf: how == "deaf to checks"}
	switch how {
	case "fat":
		s.memory = 1 << 30
	case "bursting":
		s.memory = 4 << 30
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var m rpc
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			panic(err)
		}
		s.take(m)
	}
}

type server struct {
	mu      sync.Mutex
	threads int
	texts   map[string]string
	memory  int64
	deaf    bool
}

func (s *server) say(m rpc) {
	b, err := json.Marshal(&m)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf("%s\n", b)
}

func (s *server) note(method, thread, members string) {
	s.say(rpc{Method: method, Params: jsontext.Value(fmt.Sprintf(`{"threadId":%q%s}`, thread, members))})
}

func (s *server) take(m rpc) {
	var p struct {
		ThreadID string           `json:"threadId"`
		Items    []jsontext.Value `json:"items"`
	}
	if len(m.Params) > 0 {
		if err := json.Unmarshal(m.Params, &p); err != nil {
			panic(err)
		}
	}
	result := "{}"
	switch m.Method {
	case "thread/start":
		s.threads++
		result = fmt.Sprintf(`{"thread":{"id":"t%d"}}`, s.threads)
	case "thread/inject_items":
		s.texts[p.ThreadID] = string(p.Items[len(p.Items)-1])
	case "server/diagnostics":
		if s.deaf {
			return
		}
		result = fmt.Sprintf(`{"gauges":[],"process":{"id":%d,"residentMemoryBytes":%d}}`, os.Getpid(), s.memory)
	case "turn/start":
		if strings.Contains(s.texts[p.ThreadID], "turned away") {
			s.say(rpc{ID: m.ID, Error: jsontext.Value(`{"code":-32600,"message":"not like this"}`)})
			return
		}
		s.say(rpc{ID: m.ID, Result: jsontext.Value(`{"turn":{"id":"u"}}`)})
		go s.turn(p.ThreadID, s.texts[p.ThreadID])
		return
	case "thread/delete":
		delete(s.texts, p.ThreadID)
	case "initialized", "":
		return
	}
	s.say(rpc{ID: m.ID, Result: jsontext.Value(result)})
}

// turn plays a turn.
func (s *server) turn(thread, text string) {
	s.note("turn/started", thread, `,"turn":{"id":"u"}`)
	s.note("item/started", thread, `,"turnId":"u","item":{"type":"agentMessage","id":"msg_1"}`)
	s.note("item/agentMessage/delta", thread, fmt.Sprintf(`,"turnId":"u","itemId":"msg_1","delta":"pid %d "`, os.Getpid()))
	said := fmt.Sprintf("pid %d ", os.Getpid())
	switch {
	case strings.Contains(text, "stall"):
		return
	case strings.Contains(text, "die"):
		os.Exit(9)
	case strings.Contains(text, "half"):
		s.mu.Lock()
		fmt.Printf(`{"method":"item/agentMessage/delta","par`)
		os.Exit(0)
	case strings.Contains(text, "noise"):
		s.mu.Lock()
		fmt.Print("\x00\xff binary\n")
		s.mu.Unlock()
	case strings.Contains(text, "odd"):
		s.say(rpc{Method: "item/started", Params: jsontext.Value(`{"threadId":7}`)})
	case strings.Contains(text, "flood"):
		for range 20 {
			s.note("item/agentMessage/delta", thread, fmt.Sprintf(`,"turnId":"u","itemId":"msg_1","delta":%q`, strings.Repeat("f", 1<<20)))
		}
	case strings.Contains(text, "long"):
		long := strings.Repeat("l", 10<<20)
		s.note("item/agentMessage/delta", thread, fmt.Sprintf(`,"turnId":"u","itemId":"msg_1","delta":%q`, long))
		said += long
	case strings.Contains(text, "ask"):
		s.say(rpc{ID: jsontext.Value(`"q1"`), Method: "item/commandExecution/requestApproval", Params: jsontext.Value(fmt.Sprintf(`{"threadId":%q}`, thread))})
		s.say(rpc{ID: jsontext.Value(`5`), Method: "who/knows"})
	case strings.Contains(text, "slow"):
		time.Sleep(300 * time.Millisecond)
	}
	s.note("rawResponseItem/completed", thread, fmt.Sprintf(`,"turnId":"u","item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":%q}]}`, said))
	s.note("rawResponse/completed", thread, `,"turnId":"u","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}`)
}
