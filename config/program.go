package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// appServer is the argument that makes Codex a server.
const appServer = "app-server"

// checkProgram checks an upstream that is a program.
func (u Upstream) checkProgram(p *problems, path string) {
	at := join(path, "command")
	switch {
	case len(u.Command) == 0:
		p.addf(at, `is missing; write the program and its arguments, such as ["codex", "app-server"]`)
	case slices.Index(u.Command, appServer) < 1:
		p.addf(at, `does not start the app-server; write ["codex", "app-server"], and what it is to be told behind that`)
	}
	for _, has := range []struct {
		key  string
		said bool
	}{{"url", u.URL != ""}, {"auth", u.Auth != ""}, {"headers", len(u.Headers) > 0}} {
		if has.said {
			p.addf(join(path, has.key), "is for servers, and codex is a program; remove it")
		}
	}
	for i, dir := range u.Logins {
		if dir == "" {
			p.addf(fmt.Sprintf("%s[%d]", join(path, "logins"), i), "is empty; write a directory with an auth.json, or remove it")
		} else if slices.Index(u.Logins, dir) < i {
			p.addf(fmt.Sprintf("%s[%d]", join(path, "logins"), i), "is there twice; remove one")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		at := join(join(path, "env"), name)
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			p.addf(at, "is not a name for a variable")
		case name == "CODEX_HOME" || name == "HOME":
			p.addf(at, "is set by the gateway; name the directory of a login in logins")
		case strings.ContainsRune(u.Env[name].Reveal(), 0):
			p.addf(at, "has a zero byte, which no environment can hold")
		}
	}
}

// checkNoProgram reports what only a program has, and whether the upstream can be a
// server all the same.
func (u Upstream) checkNoProgram(p *problems, path string) (server bool) {
	for _, has := range []struct {
		key  string
		said bool
	}{{"command", len(u.Command) > 0}, {"logins", len(u.Logins) > 0}, {"env", len(u.Env) > 0}, {"degrade", u.Degrade}} {
		if has.said {
			p.addf(join(path, has.key), "is for protocol: codex; write that, or remove it")
		}
	}
	return len(u.Command) == 0 || u.URL != ""
}
