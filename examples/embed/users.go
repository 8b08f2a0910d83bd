package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon"
)

// users stands for what a program knows of its users already. Its tokens are the
// name and a signature of it.
type users struct {
	secret  []byte
	tenants map[string]string // of each user
}

func (u *users) token(name string) string {
	mac := hmac.New(sha256.New, u.secret)
	mac.Write([]byte(name))
	return name + "." + hex.EncodeToString(mac.Sum(nil))
}

var errNoUser = errors.New("the token is not one of ours")

// authenticate says who sent the request. Why it refuses is for the log: the
// client learns only that it did.
func (u *users) authenticate(r *http.Request) (*antiphon.Caller, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	name, _, _ := strings.Cut(token, ".")
	tenant, known := u.tenants[name]
	if !hmac.Equal([]byte(token), []byte(u.token(name))) || !known {
		return nil, errNoUser
	}
	return &antiphon.Caller{
		Name:   name,
		Tenant: tenant,
		Limits: antiphon.KeyLimits{RequestsPerMinute: 600, Concurrent: 2},
	}, nil
}

// members are the users of a team.
func (u *users) members(team string) []string {
	var names []string
	for name, tenant := range u.tenants {
		if tenant == team {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
