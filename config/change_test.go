package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/config"
)

// TestChanges: a reload can say what is new, by the paths that problems have too,
// and never with a secret (R36).
func TestChanges(t *testing.T) {
	t.Parallel()
	old, err := parse([]byte(`
upstreams:
  a: { url: "http://a.test", api_key: "${OPENAI_API_KEY}" }
  b: { url: "http://b.test" }
models: { m: a, "x:1": { upstream: a, defaults: { temperature: 1 } } }
timeouts: { drain: 60s }
`))
	if err != nil {
		t.Fatal(err)
	}
	next, err := parse([]byte(`
admin: { listen: "127.0.0.1:1", key: "${TEAM_A_KEY}" }
auth: { keys: [{ name: k, key: "${TEAM_A_KEY}" }] }
upstreams:
  a: { url: "http://a.test", api_key: "${AZURE_KEY}", auth: bearer }
  c: { url: "http://c.test" }
models: { m: { upstream: a, model: big }, "x:1": { upstream: a, defaults: { temperature: 2 } } }
timeouts: { drain: 5s, idle: 5m }
`))
	if err != nil {
		t.Fatal(err)
	}
	got := config.Changes(old, next)
	want := []config.Change{
		{Path: "admin.listen", Restart: true, To: "127.0.0.1:1"},
		{Path: "admin.key", Restart: true},
		{Path: "auth.keys"},
		{Path: "upstreams.a.api_key"},
		{Path: "upstreams.b"},
		{Path: "upstreams.c"},
		{Path: "models.m.targets"},
		{Path: `models["x:1"].defaults`},
		{Path: "timeouts.drain", Restart: true, From: "1m", To: "5s"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	const problems = `f: admin.listen: cannot change from nothing to 127.0.0.1:1 while the gateway runs; restart it, or take the change back
f: admin.key: cannot change while the gateway runs; restart it, or take the change back
f: timeouts.drain: cannot change from 1m to 5s while the gateway runs; restart it, or take the change back`
	if err := config.NeedsRestart("f", got); err == nil || err.Error() != problems {
		t.Errorf("needs a restart: %v", err)
	}
	if again := config.Changes(next, next); again != nil || config.NeedsRestart("f", again) != nil {
		t.Errorf("nothing changed, but %v", again)
	}
}
