package redisstore

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// DefaultPrefix is what keys begin with if the URL does not say.
const DefaultPrefix = "antiphon:"

// parameters are those that a URL may have.
var parameters = []string{"addr", "client_name", "cluster", "db", "dial_timeout", "master_set", "prefix", "skip_verify", "write_timeout"}

// parseURL reads a URL as [Open] describes it. Errors do not repeat it: it may
// hold a password.
func parseURL(text string) (opt rueidis.ClientOption, prefix string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return opt, "", errors.New("redisstore: the store's address is not a URL; write redis://host:6379/0")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return opt, "", errors.New("redisstore: the parameters of the store's URL are malformed")
	}
	for name := range query {
		if !slices.Contains(parameters, name) {
			return opt, "", fmt.Errorf("redisstore: the store's URL has no parameter %q; there are %s", name, strings.Join(parameters, ", "))
		}
	}
	prefix = DefaultPrefix
	if query.Has("prefix") {
		prefix = query.Get("prefix")
	}
	if strings.ContainsAny(prefix, "{}") {
		return opt, "", fmt.Errorf("redisstore: prefix %q has braces, which say where in a cluster a key is; choose another", prefix)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if opt, err = rueidis.ParseURL(u.String()); err != nil {
		return opt, "", fmt.Errorf("redisstore: the store's URL: %w", err)
	}
	if query.Has("cluster") {
		cluster, err := strconv.ParseBool(query.Get("cluster"))
		if err != nil {
			return opt, "", fmt.Errorf("redisstore: cluster=%q in the store's URL is neither true nor false", query.Get("cluster"))
		}
		opt.ForceSingleClient = !cluster
	}
	if opt.ConnWriteTimeout == 0 {
		opt.ConnWriteTimeout = 5 * time.Second
	}
	opt.DisableCache = true // nothing is read twice
	opt.RetryDelay = retryDelay
	return opt, prefix, nil
}

// retryDelay lets a read be tried three times, since a connection may have been
// cut that nobody used. Writes are repeated by who knows that they may be.
func retryDelay(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts >= 3 {
		return -1
	}
	return time.Duration(attempts) * 20 * time.Millisecond
}
