package standard

import (
	"cmp"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/upstream"
)

// DiscoverOptions configures [Discover]. The zero value looks where model servers
// usually are.
type DiscoverOptions struct {
	// Places are local servers to look for. Nil means [Places].
	Places []Place
	// Keys are variables of the environment to look at. Nil means [Keys].
	Keys []Key
	// Listen is the gateway's own address, which is not an upstream.
	Listen string
	// Time bounds the search. Zero means 1 s.
	Time time.Duration
	// Client sends requests. Nil means the one of package upstream.
	Client *http.Client
	// LookupEnv reads the environment. Nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)
}

// A Place is where a model server may be.
type Place struct {
	Name   string // of the upstream
	Engine string // the server that usually is there
	URL    string
}

// Places returns where local model servers listen if nobody tells them otherwise.
func Places() []Place {
	return []Place{
		{Name: "ollama", Engine: ollama, URL: "http://127.0.0.1:11434"},
		{Name: "vllm", Engine: vllm, URL: "http://127.0.0.1:8000"},
		{Name: "llamacpp", Engine: llamacpp, URL: "http://127.0.0.1:8080"},
		{Name: "lmstudio", Engine: "LM Studio", URL: "http://127.0.0.1:1234"},
	}
}

// A Key is a variable of the environment that holds the credential for a
// provider.
type Key struct {
	Variable string
	Name     string // of the upstream
	// URL and Protocol are the provider's; no protocol means that this build does
	// not speak it.
	URL      string
	Protocol config.Protocol
	// BaseVariable, if set in the environment, says that the key is for another
	// address.
	BaseVariable string
}

// Keys returns the variables that the providers' own clients use.
func Keys() []Key {
	return []Key{
		{Variable: "OPENAI_API_KEY", Name: "openai", URL: "https://api.openai.com/v1", Protocol: config.ProtocolResponses, BaseVariable: "OPENAI_BASE_URL"},
		{Variable: "ANTHROPIC_API_KEY", Name: "anthropic"},
	}
}

// A Discovery is what [Discover] found.
type Discovery struct {
	// Config is the default configuration with the upstreams that were found. A
	// client's credential is passed on to those that there is no key for.
	Config *config.Config
	// Looks say where was looked and what was there, in the order of the options.
	Looks []Look
}

// A Look is one place that was looked at.
type Look struct {
	Where  string
	Found  bool
	Result string // what was there, or why it is not used
	// Notable says that something is there that could be used, and is not.
	Notable bool
}

// Discover looks for upstreams: model servers on this machine, and keys in the
// environment. Finding none is not an error.
func Discover(ctx context.Context, opts *DiscoverOptions) *Discovery {
	d := discoverer{}
	if opts != nil {
		d.DiscoverOptions = *opts
	}
	if d.Places == nil {
		d.Places = Places()
	}
	if d.Keys == nil {
		d.Keys = Keys()
	}
	if d.LookupEnv == nil {
		d.LookupEnv = os.LookupEnv
	}
	d.Client = cmp.Or(d.Client, probeClient)
	found := &Discovery{Config: config.Default()}
	found.Config.Upstreams = map[string]config.Upstream{}
	found.Looks = d.lookAround(ctx, found.Config.Upstreams)
	for _, k := range d.Keys {
		found.Looks = append(found.Looks, d.lookUp(k, found.Config.Upstreams))
	}
	return found
}

type discoverer struct{ DiscoverOptions }

// lookAround looks at all places at the same time and adds what it finds.
func (d *discoverer) lookAround(ctx context.Context, upstreams map[string]config.Upstream) []Look {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Time, time.Second))
	defer cancel()
	looks, names := make([]Look, len(d.Places)), make([]string, len(d.Places))
	var wg sync.WaitGroup
	for i, place := range d.Places {
		wg.Go(func() { looks[i], names[i] = d.look(ctx, place) })
	}
	wg.Wait()
	for i, place := range d.Places {
		if looks[i].Found {
			upstreams[names[i]] = config.Upstream{URL: place.URL, Auth: config.AuthClient}
		}
	}
	return looks
}

// look finds out whether a model server is at a place, and its name. Anything may
// listen on these ports, so only a list of models counts.
func (d *discoverer) look(ctx context.Context, place Place) (look Look, name string) {
	look.Where = fmt.Sprintf("%s at %s", place.Engine, place.URL)
	base, err := config.Upstream{URL: place.URL}.Base()
	if err != nil {
		look.Result = err.Error()
		return look, ""
	}
	if base.Host == d.Listen {
		look.Result = "that is this gateway's own address"
		return look, ""
	}
	p := prober{endpoint: upstream.Endpoint{Base: base}, client: d.Client}
	status, body, err := p.do(ctx, http.MethodGet, base.JoinPath("models"), nil)
	var list modelList
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		look.Result = "nothing listens there"
	case err != nil:
		look.Result = "no answer"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		look.Result, look.Notable = fmt.Sprintf("it asks for a key: use --upstream %s --key-env NAME", place.URL), true
	case status != http.StatusOK || json.Unmarshal(body, &list) != nil || list.Object != "list":
		look.Result = "something listens there, but it lists no models"
	case len(list.Data) == 0:
		look.Result = "it has no model yet"
		look.Found = true
	default:
		look.Result = fmt.Sprintf("models: %d", len(list.Data))
		look.Found = true
	}
	return look, place.nameFor(list, base.Port())
}

// modelList is the part of a list of models that tells whether it is one, and
// whose.
type modelList struct {
	Object string `json:"object"`
	Data   []struct {
		OwnedBy string `json:"owned_by"`
	} `json:"data"`
}

// nameFor returns the name of the server that gave the list: the place's, unless
// the list shows that another server is there.
func (p Place) nameFor(list modelList, port string) string {
	var is string
	for _, m := range list.Data {
		is = cmp.Or(is, engines[m.OwnedBy])
	}
	marksItsModels := p.Engine == vllm || p.Engine == llamacpp
	if is == p.Engine || is == "" && !marksItsModels {
		return p.Name
	}
	return "local-" + port
}

// lookUp looks for a key in the environment and adds its provider.
func (d *discoverer) lookUp(k Key, upstreams map[string]config.Upstream) Look {
	look := Look{Where: k.Variable}
	key, _ := d.LookupEnv(k.Variable)
	base, _ := d.LookupEnv(k.BaseVariable)
	switch {
	case key == "":
		look.Result = "not set"
	case k.Protocol == "":
		look.Result, look.Notable = "set, but the provider's protocol is not in this build", true
	case base == "":
		look.Result, look.Found = "set", true
		upstreams[k.Name] = config.Upstream{Protocol: k.Protocol, URL: k.URL, APIKey: config.Secret(key)}
	case d.isOwn(base):
		look.Result, look.Notable = fmt.Sprintf("not used: %s is this gateway's own address", k.BaseVariable), true
	default:
		// The key belongs to whoever is at that address, so it goes nowhere else.
		look.Result, look.Found = fmt.Sprintf("set, for the address in %s", k.BaseVariable), true
		upstreams[k.Name] = config.Upstream{URL: base, APIKey: config.Secret(key)}
	}
	return look
}

func (d *discoverer) isOwn(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Host == d.Listen
}
