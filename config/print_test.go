package config_test

import (
	"encoding/json/jsontext"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/config"
)

var update = flag.Bool("update", false, "rewrite the files that are made from others")

// golden compares got with a file, or writes it if asked to.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, path)), string(got)); diff != "" {
		t.Errorf("%s is not what the code says; run: go test ./config -update (-file +code):\n%s", path, diff)
	}
}

// TestPrint: everything that applies is written out, and no secret.
func TestPrint(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"full", "minimal"} {
		c, err := parse(read(t, "testdata/"+name+".good.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name+".printed", got)
		for _, secret := range []string{"sk-openai", "sk-file", "k-2", "az-1", "team-a-0123456789", "org-acme", "0123456789abcdef", "AAAA"} {
			if strings.Contains(string(got), secret) {
				t.Errorf("%s shows %s", name, secret)
			}
		}
	}
}

// TestPrintIsRead: what is printed of a configuration without secrets is that
// configuration.
func TestPrintIsRead(t *testing.T) {
	t.Parallel()
	want, err := parse(read(t, "testdata/full.good.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want.Listen, want.Auth.Keys, want.SealKeys = config.DefaultListen, nil, nil
	want.Admin = config.Admin{Listen: "127.0.0.1:4101", PProf: true}
	for name, u := range want.Upstreams {
		plain := config.Upstream{Protocol: u.Protocol, URL: u.URL, OnMalformed: u.OnMalformed, Command: u.Command, Logins: u.Logins, Degrade: u.Degrade}
		if u.Protocol != config.ProtocolCodex {
			plain.Auth = config.AuthNone
		}
		want.Upstreams[name] = plain
	}
	want.Tools.MCP[0].Env, want.Tools.MCP[1].Headers, want.Tools.HTTP[1].Headers = nil, nil, nil
	want.Models["${HOME}"] = alone("local", "a ${HOME} of: its own")
	m := alone("local", "${")
	m.Defaults = map[string]jsontext.Value{"prompt": jsontext.Value(`{"text":"a ${HOME}\n # b","n":[1e3,12345678901234567890123,null,"null","yes"]}`)}
	want.Models["yes"] = m
	data, err := want.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s\n%s", diff, data)
	}
}

// TestPrintOfPrograms: what a program left zero is printed as what it means.
func TestPrintOfPrograms(t *testing.T) {
	t.Parallel()
	c := config.Config{
		Auth:      config.Auth{Keys: []config.Key{{Name: "a", Key: "secret-0123456789"}}},
		Upstreams: map[string]config.Upstream{"u": {URL: "http://127.0.0.1", APIKey: "k"}},
		Models:    map[string]config.Model{"m": {Upstream: "u"}},
	}
	data, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"listen: 127.0.0.1:4100", "tenant: a", "auth: bearer", "on_malformed: fail", "weight: 1", "total: 1h\n", "idle: 5m\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("there is no %q in:\n%s", want, data)
		}
	}
	if c.Listen != "" || c.Auth.Keys[0].Tenant != "" || len(c.Models["m"].Targets) > 0 {
		t.Errorf("printing changed the configuration: %+v", c)
	}
}
