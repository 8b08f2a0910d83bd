package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"

	"github.com/antiphon-dev/antiphon/responses"
)

// An Account is one of the credentials of an upstream that remembers. Its name
// tells it from the others, also after the configuration has changed, and nothing
// of the credential.
type Account struct {
	Name string
	Auth Auth
}

// NewAccount returns the account of a key.
func NewAccount(key string, auth Auth) Account {
	sum := sha256.Sum256([]byte("antiphon account\x00" + key))
	return Account{Name: hex.EncodeToString(sum[:8]), Auth: auth}
}

// errNoAccount: the account that remembers something is not configured any more.
var errNoAccount = responses.InvalidParam(responses.CodeNotFound, "", "What this request refers to belongs to an account that the gateway no longer has.")

// account returns the account with the name, or one of them if there is no name.
func (e *Endpoint) account(name string) (Account, error) {
	if name == "" {
		return e.Accounts[rand.IntN(len(e.Accounts))], nil
	}
	for _, a := range e.Accounts {
		if a.Name == name {
			return a, nil
		}
	}
	return Account{}, errNoAccount
}
