package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// defaultTenant owns all responses of a gateway without keys.
const defaultTenant = "default"

// A Key lets its holder in, as a tenant, to some models, within limits.
type Key struct {
	// Name is what logs call the key. It is required, unique in a keyring, and
	// what its limits are counted under, also across generations.
	Name string
	// Tenant owns the responses that are made with the key. Keys of one tenant
	// share them, so that a key can be replaced by another. "" means the name:
	// keys share nothing unless it is said.
	Tenant string
	// Secret is the key itself, SHA256 the hash of it: one of the two is given.
	Secret string
	SHA256 [sha256.Size]byte
	// Models are the models that the key may use: names, or patterns that end in
	// one "*". None means all.
	Models []string
	// Limits are how much it may use. The zero value is no limit.
	Limits Limits
	// Capture writes the bodies of its requests and their answers to the log, at debug
	// level, each up to 64 KiB and without what looks like a credential.
	Capture bool
}

// allows reports whether the key may use the model.
func (k *Key) allows(model string) bool {
	return len(k.Models) == 0 || slices.ContainsFunc(k.Models, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return pattern == model || open && strings.HasPrefix(model, prefix)
	})
}

// A Keyring finds keys by what clients present. It is immutable and safe for
// concurrent use, and it holds hashes only. However many keys there are, the
// garbage collector has little to look at: they lie in one piece.
type Keyring struct {
	all   []Key
	index map[[sha256.Size]byte]int // in all
}

// NewKeyring returns a keyring of the keys. The error names every key that is
// not sound; no keys at all is one too, because such a keyring lets nobody in.
func NewKeyring(keys []Key) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("a keyring without keys lets nobody in")
	}
	ring := &Keyring{all: make([]Key, 0, len(keys)), index: make(map[[sha256.Size]byte]int, len(keys))}
	names := make(map[string]bool, len(keys))
	var errs []error
	for i := range keys {
		k := keys[i] // a copy, which does not keep the secret
		err := k.prepare()
		at, taken := ring.index[k.SHA256]
		switch {
		case err != nil:
		case names[k.Name]:
			err = errors.New("there are two of this name")
		case taken:
			err = fmt.Errorf("is the same key as %q", ring.all[at].Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("key %d (%q): %w", i, k.Name, err))
			continue
		}
		names[k.Name], ring.index[k.SHA256] = true, len(ring.all)
		ring.all = append(ring.all, k)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return ring, nil
}

// prepare checks the key, and replaces the secret by its hash.
func (k *Key) prepare() error {
	if err := k.normalize(); err != nil {
		return err
	}
	return k.hash()
}

// normalize checks all but the secret, and fills in the tenant.
func (k *Key) normalize() error {
	if k.Name == "" {
		return errors.New("it has no name")
	}
	if k.Tenant == "" {
		k.Tenant = k.Name
	}
	for _, p := range k.Models {
		if p == "" || strings.Contains(strings.TrimSuffix(p, "*"), "*") {
			return fmt.Errorf("model %q: a pattern has one * and ends in it", p)
		}
	}
	if k.Models = slices.Clone(k.Models); slices.Contains(k.Models, "*") {
		k.Models = nil // which says the same, and is nothing to keep
	}
	if l := k.Limits; l.RequestsPerMinute < 0 || l.TokensPerMinute < 0 || l.Concurrent < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

// hash replaces the secret by its hash. What no client can present is an error:
// it is a value that was read wrongly, such as with the newline at its end.
func (k *Key) hash() error {
	given := k.SHA256 != [sha256.Size]byte{}
	switch {
	case given == (k.Secret != ""):
		return errors.New("it needs a secret or the SHA-256 of one, not both")
	case k.SHA256 == sha256.Sum256(nil):
		return errors.New("its SHA-256 is that of nothing, which everybody has")
	case strings.ContainsFunc(k.Secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("its secret has spaces or characters that no header can carry")
	case !given:
		k.SHA256 = sha256.Sum256([]byte(k.Secret))
	}
	k.Secret = ""
	return nil
}

// nobody is what a presented key is compared with if there is none like it.
var nobody Key

// find returns the key with the presented secret, nil if there is none. It takes
// the same steps for every secret, also for none: what is looked up is a hash, so
// how far the lookup gets says nothing about any key, and a secret that is not
// found is compared all the same.
func (r *Keyring) find(secret string) *Key {
	hash := sha256.Sum256([]byte(secret))
	key := &nobody
	at, found := r.index[hash]
	if found {
		key = &r.all[at]
	}
	if subtle.ConstantTimeCompare(key.SHA256[:], hash[:]) != 1 || !found {
		return nil
	}
	return key
}

// presented returns the key that the client sent, "" if it sent none. The first
// of the headers that is there decides; one that is there twice is as good as
// none, because whoever is in front of us may have read the other one.
func presented(h http.Header) string {
	for _, name := range []string{"Authorization", "Api-Key", "X-Api-Key"} {
		switch values := h[name]; {
		case len(values) == 0:
			continue
		case len(values) > 1:
			return ""
		case name != "Authorization":
			return values[0]
		default:
			scheme, key, _ := strings.Cut(values[0], " ")
			if !strings.EqualFold(scheme, "Bearer") {
				return ""
			}
			return strings.TrimSpace(key)
		}
	}
	return ""
}

// authenticate finds the client's key. There is one answer to all who have none:
// it must not tell a key that never was from one that is almost right.
func (x *exchange) authenticate() (err error) {
	switch {
	case x.gen.Authenticate != nil:
		x.key, err = x.gen.Authenticate.ask(x.r)
	case x.gen.Keys != nil:
		if x.key = x.gen.Keys.find(presented(x.r.Header)); x.key == nil {
			err = errInvalidKey
		}
	}
	if err == nil && x.key != nil {
		x.startCapture()
	}
	return err
}

// owner is whose responses these are.
func (x *exchange) owner() string {
	if x.key == nil {
		return defaultTenant
	}
	return x.key.Tenant
}

// router returns the generation's router as far as the client's key reaches.
func (x *exchange) router() Router { return x.reach(x.gen.Router) }

// reach returns r as far as the client's key reaches.
func (x *exchange) reach(r Router) Router {
	if x.key == nil {
		return r
	}
	return keyRouter{r, x.key}
}

// A keyRouter is a router without the models that a key may not use: they are
// neither listed nor found. The refusal is made where the router makes its own, so
// that nothing else about the answer differs from one for a model that there is
// not.
type keyRouter struct {
	Router
	key *Key
}

func (k keyRouter) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	if m := t.Request.Model; m != "" && !k.key.allows(m) {
		return nil, noModel(m)
	}
	return k.Router.Open(ctx, t)
}

// noModel is what the router says of a model that there is not.
func noModel(name string) error {
	return responses.InvalidParam(responses.CodeModelNotFound, "model", "There is no model %.100q; GET /v1/models lists those there are.", name)
}

func (k keyRouter) Models(ctx context.Context) ([]upstream.Model, error) {
	models, err := k.Router.Models(ctx)
	allowed := make([]upstream.Model, 0, len(models)) // the router's own may be shared
	for _, m := range models {
		if k.key.allows(m.ID) {
			allowed = append(allowed, m)
		}
	}
	return allowed, err
}
