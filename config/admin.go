package config

import "cmp"

// Admin is a second address, for those who look after the gateway.
type Admin struct {
	// Listen is the address, host:port. Left out, there is none. Beyond loopback
	// there must be a key.
	Listen string `yaml:"listen" reload:"no"`
	// Key is the credential that a request must send as Authorization: Bearer, of at
	// least 16 characters; only GET /healthz and /readyz do without. Left out, whoever
	// reaches the address may use it.
	Key Secret `yaml:"key" reload:"no"`
	// PProf is true to serve Go's profiles below /debug/pprof/.
	PProf bool `yaml:"pprof" reload:"no"`
}

func (a Admin) check(p *problems, listen string) {
	if a.Listen == "" {
		if a != (Admin{}) {
			p.addf("admin.listen", "is missing; write host:port, such as 127.0.0.1:4101, or remove admin")
		}
		return
	}
	host, port, ok := checkAddress(p, "admin.listen", a.Listen, "127.0.0.1:4101")
	switch {
	case !ok:
	case a.Listen == cmp.Or(listen, DefaultListen) && port != "0":
		p.addf("admin.listen", "is the address of the API (listen); use another port")
	case a.Key == "" && !isLoopback(host):
		p.addf("admin.listen", "%s can be reached from other machines, and without a key whoever reaches it may reload and look inside; "+
			"add admin.key, or listen on loopback only", a.Listen)
	}
	switch {
	case a.Key == "":
	case len(a.Key) < minKeyLength:
		p.addf("admin.key", "has fewer than %d characters and can be guessed; make one with: openssl rand -hex 24", minKeyLength)
	case !isToken(a.Key.Reveal()):
		p.addf("admin.key", "has characters that cannot be sent; use letters, digits and punctuation without spaces")
	}
}
