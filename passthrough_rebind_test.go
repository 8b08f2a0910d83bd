package antiphon_test

import (
	"net/http"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// TestPagesDoNotReadByAnotherName: without keys, a page of the web whose name was
// given the address of this machine does not read what the upstream has, though its
// browser takes the gateway for the page's own site and sends no Origin (R30, R35).
func TestPagesDoNotReadByAnotherName(t *testing.T) {
	t.Parallel()
	fake, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(200, `{}`) })
	open := startPassing(t, antiphon.Options{}, base)
	named := startPassing(t, antiphon.Options{Origins: []string{"https://gateway.example"}}, base)
	asked := startPassing(t, antiphon.Options{Authenticate: func(*http.Request) (*antiphon.Caller, error) {
		return &antiphon.Caller{Name: "ada"}, nil
	}}, base)
	for name, test := range map[string]struct {
		g      *testGateway
		host   string
		passes bool
	}{
		"an address":                         {open, "", true},
		"another address":                    {open, "[::1]:8080", true},
		"a name of this machine":             {open, "localhost:8080", true},
		"a name below it":                    {open, "antiphon.localhost", true},
		"a name of the network":              {open, "gateway:8080", true},
		"that of containers":                 {open, "host.docker.internal:8080", true},
		"any name":                           {open, "evil.example", false},
		"any name and port":                  {open, "evil.example:8080", false},
		"any name, with a dot":               {open, "evil.example.:8080", false},
		"one that looks like an address":     {open, "127.0.0.1.evil.example", false},
		"the name that pages are allowed":    {named, "gateway.example", true},
		"another than pages are allowed":     {named, "evil.example", false},
		"whoever was authenticated, by name": {asked, "gateway.example", true},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			before := len(fake.Requests())
			req, err := http.NewRequestWithContext(t.Context(), method, test.g.URL+"/v1/files", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = test.host
			resp, err := test.g.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			status := map[bool]int{true: 200, false: 403}[test.passes]
			if passed := len(fake.Requests()) > before; passed != test.passes || resp.StatusCode != status {
				t.Errorf("%s: %s: %d, passed %t", name, method, resp.StatusCode, passed)
			}
		}
	}
}
