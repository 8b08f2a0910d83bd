package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/upstream"
)

// start serves the program on a free port and returns its address. The program
// ends with the test, and must end well.
func start(t *testing.T, u *users) string {
	t.Helper()
	tools, err := tool.Functions(u.roster())
	if err != nil {
		t.Fatal(err)
	}
	gw, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"shout": shout{}}, Authenticate: u.authenticate, Log: memstore.NewWindow(nil),
		Tools: []tool.Executor{tools},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, newMux(gw)) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := gw.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func TestProgram(t *testing.T) {
	t.Parallel()
	u := newUsers()
	base := start(t, u)
	forged := newUsers().token("ada")
	for name, test := range map[string]struct {
		token, body string
		status      int
		want        string
	}{
		"streams":       {u.token("ada"), `{"model":"m","input":"good morning","stream":true}`, 200, `"text":"GOOD MORNING"`},
		"answers":       {u.token("bob"), `{"model":"m","input":"hi"}`, 200, `"text":"HI"`},
		"calls":         {u.token("ada"), `{"model":"m","input":"hi","tools":[{"type":"function","name":"f"}]}`, 200, `"type":"function_call"`},
		"runs":          {u.token("ada"), `{"model":"m","input":"team-a","tools":[{"type":"function","name":"roster"}]}`, 200, `"text":"ADA"`},
		"tells why not": {u.token("bob"), `{"model":"m","input":"team-a","tools":[{"type":"function","name":"roster"}]}`, 200, "ERROR: ONLY TEAM-A ITSELF MAY ASK"},
		"cannot do":     {u.token("ada"), `{"model":"m","input":"hi","tools":[{"type":"web_search"}]}`, 400, `"param":"tools[0]"`},
		"no token":      {"", `{"model":"m","input":"hi"}`, 401, "invalid_api_key"},
		"forged":        {forged, `{"model":"m","input":"hi"}`, 401, "invalid_api_key"},
		"unknown user":  {u.token("eve"), `{"model":"m","input":"hi"}`, 401, "invalid_api_key"},
		"name and rest": {u.token("ada") + ".x", `{"model":"m","input":"hi"}`, 401, "invalid_api_key"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/ai/v1/responses", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+test.token)
			if status, body := do(t, req); status != test.status || !strings.Contains(body, test.want) {
				t.Errorf("%d: %s, want %d with %s", status, body, test.status, test.want)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := do(t, req); status != 200 || !strings.Contains(body, "own page") {
		t.Errorf("the program's own page: %d %s", status, body)
	}
}

func do(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
