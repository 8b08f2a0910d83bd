package standard_test

import (
	"encoding/json/v2"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// A keeper plays an upstream that remembers: what was made with a key can be
// reached with that key.
type keeper struct {
	mu    sync.Mutex
	name  string
	made  int
	owner map[string]string // of ids, the key
}

func (k *keeper) answer(x *fakeupstream.Exchange) fakeupstream.Reply {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := strings.TrimPrefix(x.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(strings.TrimPrefix(x.Path, "/v1/"), "/")
	if x.Path == "/v1/models" {
		return fakeupstream.JSON(200, `{"object":"list","data":[{"id":"tiny"}]}`)
	}
	if len(parts) > 1 && k.owner[parts[1]] != key {
		return fakeupstream.JSON(404, fmt.Sprintf(`{"error":{"message":"%s does not know %s"}}`, k.name, parts[1]))
	}
	switch {
	case x.Method == http.MethodPost && x.Path == "/v1/responses":
		return k.create(x, key)
	case x.Method == http.MethodPost && x.Path == "/v1/conversations":
		return fakeupstream.JSON(200, fmt.Sprintf(`{"id":%q,"object":"conversation"}`, k.mint("conv", key)))
	case x.Method == http.MethodDelete:
		delete(k.owner, parts[1])
		return fakeupstream.JSON(200, fmt.Sprintf(`{"id":%q,"deleted":true}`, parts[1]))
	case len(parts) == 4 && x.Method == http.MethodGet: // an item, by the id that it was put there with
		return fakeupstream.JSON(200, fmt.Sprintf(`{"id":%q,"type":"function_call_output","output":[{"id":%q}]}`, parts[3], parts[3]))
	case len(parts) > 2 && parts[2] != "cancel":
		if _, id, ok := strings.Cut(string(x.Body), `"id":"`); ok { // items keep the ids that they come with
			id, _, _ = strings.Cut(id, `"`)
			return fakeupstream.JSON(200, fmt.Sprintf(`{"object":"list","data":[{"id":%q}]}`, id))
		}
		return fakeupstream.JSON(200, fmt.Sprintf(`{"object":"list","path":%q,"query":%q,"data":[{"id":%q}]}`, x.Path, x.Query, k.mint("msg", key)))
	}
	return fakeupstream.JSON(200, fmt.Sprintf(`{"id":%q,"object":"response","status":"completed","model":"tiny","at":%q,"did":"%s %s"}`, parts[1], k.name, x.Method, x.Path))
}

// mint makes an id.
func (k *keeper) mint(prefix, key string) string {
	k.made++
	id := fmt.Sprintf("%s_%s%d", prefix, k.name, k.made)
	k.owner[id] = key
	return id
}

func (k *keeper) create(x *fakeupstream.Exchange, key string) fakeupstream.Reply {
	var req struct {
		Stream     bool   `json:"stream"`
		Background bool   `json:"background"`
		Previous   string `json:"previous_response_id"`
		Model      string `json:"model"`
	}
	if err := json.Unmarshal(x.Body, &req); err != nil {
		return fakeupstream.JSON(400, `{}`)
	}
	if req.Previous != "" && k.owner[req.Previous] != key {
		return fakeupstream.JSON(400, fmt.Sprintf(`{"error":{"code":"previous_response_not_found","message":"%s does not know it"}}`, k.name))
	}
	id, item := k.mint("resp", key), k.mint("msg", key)
	status := "completed"
	if req.Background {
		status = "queued"
	}
	object := fmt.Sprintf(`{"id":%q,"object":"response","status":%q,"model":%q,"at":%q,"output":[{"type":"message","id":%q}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, id, status, req.Model, k.name, item)
	if !req.Stream {
		return fakeupstream.JSON(200, object)
	}
	return fakeupstream.SSE(fmt.Sprintf("data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":%q,\"model\":%q}}\n\n"+
		"data: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"id\":%q,\"type\":\"message\"}}\n\n"+
		"data: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":%s}\n\n", id, req.Model, item, object))
}

// keeperFile has two upstreams that remember, one of them with two accounts, and
// one for which the gateway does.
const keeperFile = `
auth:
  keys:
    - { name: ada, key: "ada-key-0123456789ab", tenant: team-a }
    - { name: ada-2, key: "ada-two-0123456789ab", tenant: team-a }
    - { name: bob, key: "bob-key-0123456789ab", tenant: team-b }
upstreams:
  one: { protocol: responses, url: %q, api_keys: [key-one-a, key-one-b], state: upstream }
  two: { protocol: responses, url: %q, api_key: key-two, state: upstream }
  own: { protocol: chat, url: %q }
models:
  fast: { targets: [{ upstream: one, model: tiny }, { upstream: two, model: tiny }] }
  solo: { upstream: one, model: tiny }
  mine: { upstream: own, model: tiny }
  "*":  { upstream: two }
`

// keeperRig is a gateway over upstreams that remember.
type keeperRig struct {
	t       *testing.T
	gateway *antiphon.Gateway
	config  *config.Config
	fakes   []*fakeupstream.Server
	down    atomic.Bool // the first upstream is
}

func startKeepers(t *testing.T) *keeperRig {
	t.Helper()
	r := &keeperRig{t: t}
	var addresses []any
	for _, name := range []string{"one", "two"} {
		k := &keeper{name: name, owner: map[string]string{}}
		address, fake := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
			if name == "one" && r.down.Load() {
				return fakeupstream.JSON(503, downBody)
			}
			return k.answer(x)
		})
		r.fakes = append(r.fakes, fake)
		addresses = append(addresses, address)
	}
	own, _ := playModel(t, fakeupstream.Chat)
	c, err := config.Parse(fmt.Appendf(nil, keeperFile, append(addresses, own)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.config = c
	r.restart()
	return r
}

// restart makes a new gateway over the same upstreams.
func (r *keeperRig) restart() {
	g, err := standard.New(r.t.Context(), r.config, &standard.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = g.Close() })
	r.gateway = g
}

// call sends a request; what differs between any two answers is taken out of the
// headers.
func (r *keeperRig) call(key, method, path, body string) (int, http.Header, string) {
	req := httptest.NewRequestWithContext(r.t.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	r.gateway.Handler().ServeHTTP(w, req)
	w.Header().Del("X-Request-Id")
	return w.Code, w.Header(), w.Body.String()
}

// calls counts what the upstreams have got.
func (r *keeperRig) calls() (n int) {
	for _, f := range r.fakes {
		n += len(f.Requests())
	}
	return n
}

type keptObject struct {
	ID     string `json:"id"`
	At     string `json:"at"`
	Model  string `json:"model"`
	Status string `json:"status"`
	Did    string `json:"did"`
	Output []struct {
		ID string `json:"id"`
	} `json:"output"`
	Data []struct {
		ID string `json:"id"`
	} `json:"data"`
}

// must sends a request that must succeed, streamed or not.
func (r *keeperRig) must(key, method, path, body string) (o keptObject) {
	r.t.Helper()
	status, _, answer := r.call(key, method, path, body)
	if status != http.StatusOK {
		r.t.Fatalf("%s %s %s: %d %s", method, path, body, status, answer)
	}
	if _, last, ok := strings.Cut(answer, `"type":"response.completed","sequence_number":2,"response":`); ok {
		answer = strings.TrimSuffix(last, "}\n\n")
	}
	if err := json.Unmarshal([]byte(answer), &o); err != nil {
		r.t.Fatalf("%v: %s", err, answer)
	}
	return o
}

const (
	ada    = "ada-key-0123456789ab"
	adaTwo = "ada-two-0123456789ab"
	bob    = "bob-key-0123456789ab"
)

// TestUpstreamState: chains, conversations and calls go to the upstream and the
// account that remember them, for every key of the tenant, and the client's name
// of the model stands in every answer (R32, R40).
func TestUpstreamState(t *testing.T) {
	t.Parallel()
	r := startKeepers(t)
	accounts := map[string]bool{}
	for i := range 40 {
		stream := i%2 == 0
		first := r.must(ada, "POST", "/v1/responses", fmt.Sprintf(`{"model":"fast","input":"x","stream":%t}`, stream))
		if first.Model != "fast" || first.ID == "" {
			t.Fatalf("made %+v", first)
		}
		next := r.must(adaTwo, "POST", "/v1/responses", fmt.Sprintf(`{"model":"fast","previous_response_id":%q,"input":[{"type":"item_reference","id":%q}]}`, first.ID, first.Output[0].ID))
		if next.At != first.At {
			t.Fatalf("made at %s, gone on from at %s", first.At, next.At)
		}
		got := r.must(ada, "GET", "/v1/responses/"+first.ID, "")
		if got.At != first.At || got.Model != "fast" {
			t.Errorf("got %+v", got)
		}
		fake := r.fakes[0]
		if first.At == "two" {
			fake = r.fakes[1]
		}
		sent := fake.Requests()
		accounts[sent[len(sent)-1].Header.Get("Authorization")] = true
	}
	if len(accounts) != 3 {
		t.Errorf("used the accounts %v", accounts)
	}
	first := r.must(ada, "POST", "/responses", `{"model":"solo","input":"x","background":true}`)
	if first.Status != "queued" {
		t.Errorf("in the background: %+v", first)
	}
	if got := r.must(ada, "POST", "/v1/responses/"+first.ID+"/cancel", ""); got.Did != "POST /v1/responses/"+first.ID+"/cancel" || got.Model != "solo" {
		t.Errorf("cancelled %+v", got)
	}
	status, _, items := r.call(ada, "GET", "/responses/"+first.ID+"/input_items?limit=2&after=a%2Fb", "")
	if want := fmt.Sprintf(`"path":"/v1/responses/%s/input_items","query":"limit=2&after=a%%2Fb"`, first.ID); status != 200 || !strings.Contains(items, want) {
		t.Errorf("input items: %d %s", status, items)
	}
	conv := r.must(ada, "POST", "/v1/conversations", `{"metadata":{"a":"b"}}`)
	if !strings.HasPrefix(conv.ID, "conv_two") {
		t.Errorf("a conversation was made elsewhere than at the upstream of the model *: %+v", conv)
	}
	in := r.must(ada, "POST", "/v1/responses", fmt.Sprintf(`{"model":"fast","input":"x","conversation":{"id":%q}}`, conv.ID))
	if in.At != "two" {
		t.Errorf("a response in the conversation was made at %s", in.At)
	}
	list := r.must(ada, "POST", "/v1/conversations/"+conv.ID+"/items", `{"items":[{"role":"user","content":"x"}]}`)
	r.must(ada, "GET", "/v1/conversations/"+conv.ID+"/items/"+list.Data[0].ID, "")
	r.must(ada, "DELETE", "/v1/conversations/"+conv.ID, "")
	r.must(ada, "DELETE", "/v1/responses/"+first.ID, "")
	before := r.calls()
	if status, _, _ := r.call(ada, "GET", "/v1/responses/"+first.ID, ""); status != 404 || r.calls() != before {
		t.Errorf("a deleted response: %d", status)
	}
}

// TestUpstreamStateStaysAtHome: for a model that the upstream of an id does not
// serve the id is unknown, and what the gateway remembers is not an upstream's.
func TestUpstreamStateStaysAtHome(t *testing.T) {
	t.Parallel()
	r := startKeepers(t)
	two := r.must(ada, "POST", "/v1/responses", `{"model":"any","input":"x"}`) // at two, by the pattern
	own := r.must(ada, "POST", "/v1/responses", `{"model":"mine","input":"x"}`)
	before := r.calls()
	for name, test := range map[string]struct {
		body   string
		status int
	}{
		"another upstream's model":    {fmt.Sprintf(`{"model":"solo","input":"x","previous_response_id":%q}`, two.ID), 404},
		"a model of the gateway's":    {fmt.Sprintf(`{"model":"mine","input":"x","previous_response_id":%q}`, two.ID), 400},
		"the gateway's id, elsewhere": {fmt.Sprintf(`{"model":"solo","input":"x","previous_response_id":%q}`, own.ID), 404},
	} {
		if status, _, body := r.call(ada, "POST", "/v1/responses", test.body); status != test.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if r.calls() != before {
		t.Error("an upstream was asked")
	}
	if got := r.must(ada, "GET", "/v1/responses/"+own.ID, ""); got.ID != own.ID {
		t.Errorf("the gateway's own: %+v", got)
	}
}

// paths are all ways to refer to an id.
func keptPaths(id string) []struct{ method, path, body string } {
	return []struct{ method, path, body string }{
		{"GET", "/v1/responses/" + id, ""},
		{"GET", "/responses/" + id + "?include=reasoning.encrypted_content", ""},
		{"DELETE", "/v1/responses/" + id, ""},
		{"POST", "/v1/responses/" + id + "/cancel", ""},
		{"GET", "/v1/responses/" + id + "/input_items", ""},
		{"POST", "/v1/responses", fmt.Sprintf(`{"model":"solo","input":"x","previous_response_id":%q}`, id)},
		{"POST", "/v1/responses", fmt.Sprintf(`{"model":"solo","input":"x","stream":true,"previous_response_id":%q}`, id)},
		{"POST", "/v1/responses", fmt.Sprintf(`{"model":"solo","input":"x","store":false,"previous_response_id":%q}`, id)},
		{"POST", "/v1/responses", fmt.Sprintf(`{"model":"solo","input":"x","conversation":%q}`, id)},
		{"POST", "/v1/responses", fmt.Sprintf(`{"model":"solo","input":[{"type":"item_reference","id":%q}]}`, id)},
		{"POST", "/v1/responses", fmt.Sprintf(`{"model":"solo","input":[{"type":"reasoning","id":%q,"summary":[]}]}`, id)},
		{"POST", "/v1/responses/input_tokens", fmt.Sprintf(`{"model":"solo","input":"x","previous_response_id":%q}`, id)},
		{"POST", "/v1/conversations", fmt.Sprintf(`{"items":[{"type":"item_reference","id":%q}]}`, id)},
		{"GET", "/v1/conversations/" + id, ""},
		{"POST", "/v1/conversations/" + id, `{"metadata":{}}`},
		{"DELETE", "/v1/conversations/" + id, ""},
		{"GET", "/v1/conversations/" + id + "/items", ""},
		{"POST", "/v1/conversations/" + id + "/items", `{"items":[{"type":"message","role":"user","content":"x"}]}`},
		{"GET", "/v1/conversations/" + id + "/items/" + id, ""},
		{"DELETE", "/v1/conversations/" + id + "/items/" + id, ""},
	}
}

// TestUpstreamStateIsTheOwners: two tenants share an upstream and its account. The
// ids of the other are, on every path, in status, headers and body, what ids are
// that never were, and no upstream hears of them; the same after a restart (R40).
func TestUpstreamStateIsTheOwners(t *testing.T) {
	t.Parallel()
	r := startKeepers(t)
	made := r.must(ada, "POST", "/v1/responses", `{"model":"solo","input":"x"}`)
	conv := r.must(ada, "POST", "/v1/conversations", "")
	ids := map[string]string{"response": made.ID, "item": made.Output[0].ID, "conversation": conv.ID}
	check := func(when, key string) {
		t.Helper()
		before := r.calls()
		for kind, id := range ids {
			// One that never was, of the same form and length.
			never := id[:strings.Index(id, "_")+1] + strings.Repeat("z", len(id)-strings.Index(id, "_")-1)
			unknown := keptPaths(never)
			for i, p := range keptPaths(id) {
				status, header, body := r.call(key, p.method, p.path, p.body)
				wantStatus, wantHeader, wantBody := r.call(key, unknown[i].method, unknown[i].path, unknown[i].body)
				if status != http.StatusNotFound {
					t.Errorf("%s, %s: %s %s %s: %d %s", when, kind, p.method, p.path, p.body, status, body)
				}
				// A message may say what was asked for.
				body = strings.ReplaceAll(body, id, never)
				if status != wantStatus || body != wantBody || cmp.Diff(wantHeader, header) != "" {
					t.Errorf("%s, %s: %s %s differs from one that never was: %d %s, %s", when, kind, p.method, p.path, wantStatus, wantBody, cmp.Diff(wantHeader, header))
				}
			}
		}
		if r.calls() != before {
			t.Errorf("%s: an upstream was asked", when)
		}
	}
	check("another tenant", bob)
	r.must(ada, "GET", "/v1/responses/"+made.ID, "")
	r.restart()
	check("after a restart", ada)
}

// TestUpstreamStateIsNotLaundered: a client that sends an item under the id of
// somebody else's, and gets it back from an upstream that keeps it so, has not
// gained that id (R40).
func TestUpstreamStateIsNotLaundered(t *testing.T) {
	t.Parallel()
	r := startKeepers(t)
	made := r.must(ada, "POST", "/v1/responses", `{"model":"any","input":"x"}`)
	foreign := made.Output[0].ID
	conv := r.must(bob, "POST", "/v1/conversations", "")
	in := r.must(bob, "POST", "/v1/conversations/"+conv.ID+"/items", fmt.Sprintf(`{"items":[{"type":"message","id":%q,"role":"user","content":"x"}]}`, foreign))
	if in.Data[0].ID != foreign {
		t.Fatalf("the upstream made another id: %+v", in)
	}
	r.must(bob, "GET", "/v1/conversations/"+conv.ID+"/items/"+foreign, "")
	before := r.calls()
	for _, p := range keptPaths(foreign) {
		if p.method == "POST" {
			p.body = strings.ReplaceAll(p.body, "solo", "any")
		}
		if status, _, body := r.call(bob, p.method, p.path, p.body); status != http.StatusNotFound {
			t.Errorf("%s %s %s: %d %s", p.method, p.path, p.body, status, body)
		}
	}
	if r.calls() != before {
		t.Error("an upstream was asked")
	}
}

// TestUpstreamStateSurvivesReloads: ids stay known across reloads, until the
// upstream or the account is gone; then they are unknown (R36, R40).
func TestUpstreamStateSurvivesReloads(t *testing.T) {
	t.Parallel()
	r := startKeepers(t)
	made := r.must(ada, "POST", "/v1/responses", `{"model":"solo","input":"x"}`)
	reload := func(change func(one *config.Upstream)) {
		t.Helper()
		c := *r.config
		one := c.Upstreams["one"]
		change(&one)
		c.Upstreams = map[string]config.Upstream{"one": one, "two": c.Upstreams["two"], "own": c.Upstreams["own"]}
		if err := standard.Reload(t.Context(), r.gateway, &c, &standard.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
	}
	reload(func(one *config.Upstream) { one.APIKeys = slices.Concat([]config.Secret{"key-new"}, one.APIKeys) })
	r.must(ada, "GET", "/v1/responses/"+made.ID, "")
	reload(func(one *config.Upstream) { one.APIKeys = []config.Secret{"key-new", "key-newer"} })
	before := r.calls()
	if status, _, body := r.call(ada, "GET", "/v1/responses/"+made.ID, ""); status != 404 || r.calls() != before {
		t.Errorf("an account that is gone: %d %s", status, body)
	}
	if status, _, body := r.call(ada, "POST", "/v1/responses", fmt.Sprintf(`{"model":"solo","input":"x","previous_response_id":%q}`, made.ID)); status != 404 || r.calls() != before {
		t.Errorf("an account that is gone: %d %s", status, body)
	}
}

// TestUpstreamStateDoesNotFailOver: what one upstream remembers no other is asked
// for, also when it fails; what is new may move (R32, R40).
func TestUpstreamStateDoesNotFailOver(t *testing.T) {
	t.Parallel()
	r := startKeepers(t)
	var made keptObject
	for made.At != "one" {
		made = r.must(ada, "POST", "/v1/responses", `{"model":"fast","input":"x"}`)
	}
	r.down.Store(true)
	before := len(r.fakes[1].Requests())
	status, _, body := r.call(ada, "POST", "/v1/responses", fmt.Sprintf(`{"model":"fast","input":"x","previous_response_id":%q}`, made.ID))
	if status != 503 || body != downBody || len(r.fakes[1].Requests()) != before {
		t.Errorf("a chain got %d %s", status, body)
	}
	if status, _, body := r.call(ada, "GET", "/v1/responses/"+made.ID, ""); status != 503 || body != downBody {
		t.Errorf("a call got %d %s", status, body)
	}
	for range 10 {
		if made := r.must(ada, "POST", "/v1/responses", `{"model":"fast","input":"x"}`); made.At != "two" {
			t.Errorf("a new response was made at %s", made.At)
		}
	}
}

const downBody = `{"error":{"message":"down"}}`
